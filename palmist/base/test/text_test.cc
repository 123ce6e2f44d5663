#include "palmist/base/text.h"

#include <gtest/gtest.h>

namespace palmist {
namespace {

TEST(IsValidUtf8, AcceptsEveryLength) {
  EXPECT_TRUE(IsValidUtf8(""));
  EXPECT_TRUE(IsValidUtf8("ascii"));
  EXPECT_TRUE(IsValidUtf8("é€😀"));
  EXPECT_TRUE(IsValidUtf8("\xed\x9f\xbf"));      // U+D7FF, before the surrogates.
  EXPECT_TRUE(IsValidUtf8("\xee\x80\x80"));      // U+E000, after them.
  EXPECT_TRUE(IsValidUtf8("\xf4\x8f\xbf\xbf"));  // U+10FFFF, the last.
}

TEST(IsValidUtf8, RefusesMalformedBytes) {
  EXPECT_FALSE(IsValidUtf8("\x80"));              // A continuation first.
  EXPECT_FALSE(IsValidUtf8("\xc0\xaf"));          // Overlong.
  EXPECT_FALSE(IsValidUtf8("\xe0\x80\xaf"));      // Overlong.
  EXPECT_FALSE(IsValidUtf8("\xf0\x80\x80\xaf"));  // Overlong.
  EXPECT_FALSE(IsValidUtf8("\xed\xa0\x80"));      // A surrogate.
  EXPECT_FALSE(IsValidUtf8("\xf4\x90\x80\x80"));  // Above U+10FFFF.
  EXPECT_FALSE(IsValidUtf8("\xc3"));              // Cut off.
  EXPECT_FALSE(IsValidUtf8("\xe2\x82"));          // Cut off.
  EXPECT_FALSE(IsValidUtf8("\xe2\x82x"));
  EXPECT_FALSE(IsValidUtf8("\xff"));
}

TEST(AsciiLower, LeavesOtherBytes) { EXPECT_EQ(AsciiLower("AzÉ[@"), "azÉ[@"); }

TEST(Printable, EscapesControlsAndBadBytes) {
  EXPECT_EQ(Printable("a\tb\nc é"), "a\tb\nc é");
  EXPECT_EQ(Printable("\x1b[31m\x7f\xff"), "\\x1b[31m\\x7f\\xff");
  EXPECT_EQ(Printable("\xc2\x9b"), "\\xc2\\x9b");  // The one-character escape sequence.
}

TEST(Quote, IsOneShortLine) {
  EXPECT_EQ(Quote("a\nb"), "\"a\\x0ab\"");
  EXPECT_EQ(Quote("abcdef", 3), "\"abc…\"");
  EXPECT_EQ(Quote("abc", 3), "\"abc\"");
}

}  // namespace
}  // namespace palmist
