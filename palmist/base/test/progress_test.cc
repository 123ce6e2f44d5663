#include "palmist/base/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "palmist/base/log.h"

namespace palmist {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ProgressOptions Eager() {
  ProgressOptions options;
  options.is_terminal = true;
  options.delay_s = 0.0;
  options.period_s = 0.0;
  return options;
}

template <typename Work>
std::string CaptureStderr(const Work& work) {
  ::testing::internal::CaptureStderr();
  work();
  return ::testing::internal::GetCapturedStderr();
}

TEST(Progress, DrawsAndErases) {
  const std::string text = CaptureStderr([] {
    Progress progress("searching", 4, Eager());
    progress.Advance();
    progress.Update(3, "best 1.2 s");
  });
  EXPECT_THAT(text, HasSubstr("searching 25%  1 of 4"));
  EXPECT_THAT(text, HasSubstr("best 1.2 s"));
  EXPECT_TRUE(text.ends_with("\r\x1b[K"));
  EXPECT_THAT(text, Not(HasSubstr("\n")));
}

TEST(Progress, SilentWhereNoTerminal) {
  EXPECT_EQ(CaptureStderr([] {
              ProgressOptions options = Eager();
              options.is_terminal.reset();
              Progress("searching", 4, options).Advance();
            }),
            "");
}

TEST(Progress, SilentForShortWork) {
  EXPECT_EQ(CaptureStderr([] {
              ProgressOptions options = Eager();
              options.delay_s = 1000.0;
              Progress("searching", 4, options).Advance();
            }),
            "");
}

TEST(Progress, SilentWhenSwitchedOff) {
  SetProgressEnabled(false);
  EXPECT_EQ(CaptureStderr([] { Progress("searching", 4, Eager()).Advance(); }), "");
  SetProgressEnabled(true);
}

TEST(Progress, LogErasesTheLineFirst) {
  SetLogColor(ColorMode::kNever);
  const std::string text = CaptureStderr([] {
    Progress progress("searching", 4, Eager());
    progress.Advance();
    LogInfo("found");
  });
  EXPECT_THAT(text, HasSubstr("\r\x1b[Kinfo: found\n"));
}

TEST(Progress, CountsFromManyThreads) {
  const std::string text = CaptureStderr([] {
    Progress progress("searching", 4000, Eager());
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int step = 0; step < 999; ++step) progress.Advance();
      });
    }
    for (std::thread& thread : threads) thread.join();
    progress.Advance(4);
  });
  EXPECT_THAT(text, HasSubstr("100%  4000 of 4000"));
}

TEST(RenderProgress, ShowsRemainingTime) {
  EXPECT_EQ(internal::RenderProgress("a", 1, 4, 2.0, "", 80), "a 25%  1 of 4, 6 s left");
  EXPECT_EQ(internal::RenderProgress("a", 0, 4, 2.0, "", 80), "a 0%  0 of 4");
  EXPECT_EQ(internal::RenderProgress("a", 7, 0, 2.0, "n", 80), "a 7 done, 2 s  n");
}

TEST(RenderProgress, FitsTheWidthAndHoldsNoControlCharacters) {
  EXPECT_EQ(internal::RenderProgress("ééééé", 1, 4, 2.0, "", 4), "ééé");
  EXPECT_THAT(internal::RenderProgress("a", 1, 4, 2.0, "\x1b[2J\nx", 80), HasSubstr("\\x1b[2J x"));
}

}  // namespace
}  // namespace palmist
