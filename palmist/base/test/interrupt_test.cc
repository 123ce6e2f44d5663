#include "palmist/base/interrupt.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

namespace palmist {
namespace {

// Each check runs in a child process, so that the flag of one does not reach the next.
[[noreturn]] void Raise(int first, int second) {
  InstallInterruptHandler();
  if (InterruptRequested() || InterruptSignal() != 0) std::_Exit(1);
  std::raise(first);
  if (!InterruptRequested() || InterruptSignal() != first) std::_Exit(2);
  if (second != 0) std::raise(second);
  std::_Exit(0);
}

[[noreturn]] void RaiseIgnored() {
  std::signal(SIGINT, SIG_IGN);
  InstallInterruptHandler();
  std::raise(SIGINT);
  std::_Exit(InterruptRequested() ? 1 : 0);
}

TEST(InterruptDeathTest, FirstSignalSetsTheFlag) {
  EXPECT_EXIT(Raise(SIGINT, 0), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(Raise(SIGTERM, 0), ::testing::ExitedWithCode(0), "");
}

TEST(InterruptDeathTest, SecondSignalEndsTheProcess) {
  EXPECT_EXIT(Raise(SIGINT, SIGINT), ::testing::ExitedWithCode(130), "");
  EXPECT_EXIT(Raise(SIGTERM, SIGTERM), ::testing::ExitedWithCode(143), "");
}

TEST(InterruptDeathTest, IgnoredSignalStaysIgnored) {
  EXPECT_EXIT(RaiseIgnored(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace palmist
