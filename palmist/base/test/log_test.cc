#include "palmist/base/log.h"

#include <gtest/gtest.h>

namespace palmist {
namespace {

class LogTest : public ::testing::Test {
 protected:
  LogTest() { SetLogColor(ColorMode::kNever); }
  ~LogTest() override {
    SetLogLevel(LogLevel::kInfo);
    SetLogColor(ColorMode::kAuto);
  }
};

TEST_F(LogTest, WritesToStderrOnly) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  LogInfo("{} stages", 4);
  LogError("bad");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "info: 4 stages\nerror: bad\n");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
}

TEST_F(LogTest, DropsWhatIsBelowTheLevel) {
  SetLogLevel(LogLevel::kWarning);
  ::testing::internal::CaptureStderr();
  LogDebug("a");
  LogInfo("b");
  LogWarning("c");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "warning: c\n");
  SetLogLevel(LogLevel::kOff);
  ::testing::internal::CaptureStderr();
  LogError("d");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST_F(LogTest, EscapesControlCharacters) {
  ::testing::internal::CaptureStderr();
  LogInfo("{}", "\x1b[2J{}");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "info: \\x1b[2J{}\n");
}

TEST_F(LogTest, ColorCanBeForced) {
  SetLogColor(ColorMode::kAlways);
  ::testing::internal::CaptureStderr();
  LogInfo("x");
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("\x1b["), std::string::npos);
}

TEST_F(LogTest, ParsesLevels) {
  EXPECT_EQ(*ParseLogLevel("debug"), LogLevel::kDebug);
  EXPECT_EQ(*ParseLogLevel("info"), LogLevel::kInfo);
  EXPECT_EQ(*ParseLogLevel("warning"), LogLevel::kWarning);
  EXPECT_EQ(*ParseLogLevel("error"), LogLevel::kError);
  EXPECT_EQ(*ParseLogLevel("off"), LogLevel::kOff);
  const auto bad = ParseLogLevel("loud");
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().kind(), ErrorKind::kUsage);
  EXPECT_NE(bad.error().message().find("\"loud\""), std::string::npos);
}

}  // namespace
}  // namespace palmist
