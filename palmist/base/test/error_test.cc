#include "palmist/base/error.h"

#include <gtest/gtest.h>

#include <string>

#include "palmist/base/result.h"

namespace palmist {
namespace {

TEST(Error, ExitCodesFollowTheContract) {
  EXPECT_EQ(ExitCode(ErrorKind::kUsage), 2);
  EXPECT_EQ(ExitCode(ErrorKind::kInput), 2);
  EXPECT_EQ(ExitCode(ErrorKind::kInfeasible), 3);
  EXPECT_EQ(ExitCode(ErrorKind::kRuntime), 4);
  EXPECT_EQ(ExitCode(ErrorKind::kUnavailable), 5);
  EXPECT_EQ(ExitCode(ErrorKind::kInterrupted), 130);
  EXPECT_EQ(ExitCode(ErrorKind::kInternal), 70);
}

TEST(Error, NamesEachKind) {
  EXPECT_STREQ(ToString(ErrorKind::kUsage), "usage");
  EXPECT_STREQ(ToString(ErrorKind::kInput), "input");
  EXPECT_STREQ(ToString(ErrorKind::kInfeasible), "infeasible");
  EXPECT_STREQ(ToString(ErrorKind::kRuntime), "runtime");
  EXPECT_STREQ(ToString(ErrorKind::kUnavailable), "unavailable");
  EXPECT_STREQ(ToString(ErrorKind::kInterrupted), "interrupted");
  EXPECT_STREQ(ToString(ErrorKind::kInternal), "internal");
}

TEST(Error, WhatLeavesOutWhatIsEmpty) {
  EXPECT_STREQ(InputError("", "expected 1").what(), "expected 1");
  EXPECT_STREQ(InputError("a.b", "expected 1").what(), "a.b: expected 1");
  EXPECT_STREQ(InputError("a.b", "expected 1", "use 1").what(), "a.b: expected 1 (use 1)");
}

TEST(Error, FieldPrefixJoinsPaths) {
  EXPECT_EQ(InputError("b", "m").WithFieldPrefix("a").field(), "a.b");
  EXPECT_EQ(InputError("[2].b", "m").WithFieldPrefix("a").field(), "a[2].b");
  EXPECT_EQ(InputError("", "m").WithFieldPrefix("a").field(), "a");
  EXPECT_EQ(InputError("b", "m").WithFieldPrefix("").field(), "b");
  EXPECT_STREQ(InputError("b", "m", "h").WithFieldPrefix("a").what(), "a.b: m (h)");
}

TEST(Error, AssertThrowsInternal) {
  EXPECT_NO_THROW(PALMIST_ASSERT(1 + 1 == 2));
  try {
    PALMIST_ASSERT(1 + 1 == 3);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInternal);
    EXPECT_NE(error.message().find("1 + 1 == 3"), std::string::npos);
  }
}

Result<int> Half(int x) {
  if (x % 2 != 0) return InputError("x", "expected an even number");
  return x / 2;
}

Result<int> Quarter(int x) {
  PALMIST_ASSIGN_OR_RETURN(const int half, Half(x));
  return Half(half);
}

Result<void> CheckQuarter(int x) {
  PALMIST_RETURN_IF_ERROR(Quarter(x));
  return {};
}

TEST(Result, CarriesValueOrError) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_FALSE(Quarter(6).ok());
  EXPECT_EQ(Quarter(6).error().field(), "x");
  EXPECT_THROW(Quarter(6).value(), Error);
  EXPECT_TRUE(CheckQuarter(8).ok());
  EXPECT_FALSE(CheckQuarter(7).ok());
  EXPECT_THROW(CheckQuarter(7).value(), Error);
  EXPECT_THROW((void)Quarter(12).error(), Error);
}

}  // namespace
}  // namespace palmist
