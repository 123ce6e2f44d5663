#include "palmist/base/hash.h"

#include <gtest/gtest.h>

namespace palmist {
namespace {

std::uint64_t HashOf(std::string_view bytes) {
  Fnv1a hash;
  hash.Add(bytes);
  return hash.value();
}

TEST(Fnv1aTest, GivesTheTestVectorsOfTheDraft) {
  EXPECT_EQ(HashOf(""), 0xcbf29ce484222325U);
  EXPECT_EQ(HashOf("a"), 0xaf63dc4c8601ec8cU);
  EXPECT_EQ(HashOf("foobar"), 0x85944171f73967e8U);
}

TEST(Fnv1aTest, PartsAddUpAndBytesAboveAsciiCount) {
  Fnv1a parts;
  parts.Add("foo");
  parts.Add("bar");
  EXPECT_EQ(parts.value(), HashOf("foobar"));
  EXPECT_NE(HashOf("\xff"), HashOf("\x7f"));
}

}  // namespace
}  // namespace palmist
