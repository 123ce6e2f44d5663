#include "palmist/base/version.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace palmist {
namespace {

TEST(Version, IsSemantic) {
  EXPECT_THAT(Version(), ::testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
}

TEST(Version, BuildOptionsNameTheCompiler) {
  EXPECT_THAT(BuildOptions(),
              ::testing::AnyOf(::testing::HasSubstr("GNU"), ::testing::HasSubstr("Clang")));
}

}  // namespace
}  // namespace palmist
