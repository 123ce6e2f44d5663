#include "palmist/base/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <clocale>
#include <limits>
#include <string>

namespace palmist {
namespace {

using ::testing::HasSubstr;

// What every parser refuses.
const std::vector<std::string> kBad = {"",         " ",     "-1",   "+1",  "nan", "inf",  "NaN",
                                       "Infinity", "1e999", "0x10", "1,5", "1 2", "k",    "1q",
                                       "--1",      "1..2",  "1e",   "e5",  "1kk", "1\x1b"};

TEST(ParseBytes, AcceptsTheUsualForms) {
  EXPECT_EQ(*ParseBytes("4096"), 4096);
  EXPECT_EQ(*ParseBytes("64Ki"), 64 << 10);
  EXPECT_EQ(*ParseBytes("80GiB"), 80 * kGiB);
  EXPECT_EQ(*ParseBytes("2.5e9"), 2'500'000'000);
  EXPECT_EQ(*ParseBytes("24 GB"), 24'000'000'000);
  EXPECT_EQ(*ParseBytes(" 1k "), 1000);
  EXPECT_EQ(*ParseBytes("1KB"), 1000);
  EXPECT_EQ(*ParseBytes("1KiB"), 1024);
  EXPECT_EQ(*ParseBytes("1.5mib"), 3 << 19);
  EXPECT_EQ(*ParseBytes("2T"), 2'000'000'000'000);
  EXPECT_EQ(*ParseBytes("1PiB"), std::int64_t{1} << 50);
  EXPECT_EQ(*ParseBytes("7B"), 7);
  EXPECT_EQ(*ParseBytes("0"), 0);
  EXPECT_EQ(*ParseBytes(".5k"), 500);
  EXPECT_EQ(*ParseBytes("0.1KiB"), 102);
}

TEST(ParseBytes, IsExactUpToTheEnd) {
  EXPECT_EQ(*ParseBytes("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(*ParseBytes("9007199254740993"), 9007199254740993);
  EXPECT_FALSE(ParseBytes("9223372036854775808").ok());
  EXPECT_FALSE(ParseBytes("8192PiB").ok());
  EXPECT_TRUE(ParseBytes("8191PiB").ok());
}

TEST(ParseBytes, RefusesTheRestAndNamesTheForms) {
  for (const std::string& text : kBad) {
    const auto result = ParseBytes(text);
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_EQ(result.error().kind(), ErrorKind::kInput);
    EXPECT_THAT(result.error().message(), HasSubstr("64Ki"));
  }
  EXPECT_THAT(ParseBytes("1 parsec").error().message(), HasSubstr("got \"1 parsec\""));
  EXPECT_FALSE(ParseBytes("1i").ok());
  EXPECT_FALSE(ParseBytes("1iB").ok());
}

TEST(ParseCount, CountsByThousands) {
  EXPECT_EQ(*ParseCount("64"), 64);
  EXPECT_EQ(*ParseCount("300e9"), 300'000'000'000);
  EXPECT_EQ(*ParseCount("1.5k"), 1500);
  EXPECT_EQ(*ParseCount("7B"), 7'000'000'000);
  EXPECT_EQ(*ParseCount("7G"), 7'000'000'000);
  EXPECT_EQ(*ParseCount("1.1T"), 1'100'000'000'000);
  EXPECT_EQ(*ParseCount("2Ki"), 2048);
}

TEST(ParseCount, MustBeWhole) {
  EXPECT_FALSE(ParseCount("2.5").ok());
  EXPECT_FALSE(ParseCount("1.0001k").ok());
  EXPECT_EQ(*ParseCount("2.0"), 2);
  for (const std::string& text : kBad) EXPECT_FALSE(ParseCount(text).ok()) << text;
}

TEST(ParseSequenceLength, CountsBy1024) {
  EXPECT_EQ(*ParseSequenceLength("2048"), 2048);
  EXPECT_EQ(*ParseSequenceLength("2k"), 2048);
  EXPECT_EQ(*ParseSequenceLength("2Ki"), 2048);
  EXPECT_EQ(*ParseSequenceLength("128K"), 131072);
  EXPECT_EQ(*ParseSequenceLength("1M"), 1048576);
  EXPECT_EQ(*ParseSequenceLength("1.5k"), 1536);
  EXPECT_FALSE(ParseSequenceLength("1.0001k").ok());
  EXPECT_FALSE(ParseSequenceLength("1G").ok());
  for (const std::string& text : kBad) EXPECT_FALSE(ParseSequenceLength(text).ok()) << text;
}

TEST(ParseSeconds, KnowsTheUnits) {
  EXPECT_DOUBLE_EQ(*ParseSeconds("150"), 150.0);
  EXPECT_DOUBLE_EQ(*ParseSeconds("90s"), 90.0);
  EXPECT_DOUBLE_EQ(*ParseSeconds("250 ms"), 0.25);
  EXPECT_DOUBLE_EQ(*ParseSeconds("20us"), 2e-5);
  EXPECT_DOUBLE_EQ(*ParseSeconds("5min"), 300.0);
  EXPECT_DOUBLE_EQ(*ParseSeconds("5m"), 300.0);
  EXPECT_DOUBLE_EQ(*ParseSeconds("1.5h"), 5400.0);
  EXPECT_DOUBLE_EQ(*ParseSeconds("30d"), 2592000.0);
  EXPECT_DOUBLE_EQ(*ParseSeconds("1w"), 604800.0);
  EXPECT_FALSE(ParseSeconds("1e308d").ok());
  for (const std::string& text : kBad) EXPECT_FALSE(ParseSeconds(text).ok()) << text;
}

TEST(ParseBytesPerSecond, TellsBitsFromBytes) {
  EXPECT_DOUBLE_EQ(*ParseBytesPerSecond("300GB/s"), 300e9);
  EXPECT_DOUBLE_EQ(*ParseBytesPerSecond("25 GiB/s"), 25.0 * 0x1p30);
  EXPECT_DOUBLE_EQ(*ParseBytesPerSecond("200Gb/s"), 25e9);
  EXPECT_DOUBLE_EQ(*ParseBytesPerSecond("200Gbps"), 25e9);
  EXPECT_DOUBLE_EQ(*ParseBytesPerSecond("5B/s"), 5.0);
  EXPECT_DOUBLE_EQ(*ParseBytesPerSecond("1e9"), 1e9);
  EXPECT_FALSE(ParseBytesPerSecond("300GB").ok());
  EXPECT_FALSE(ParseBytesPerSecond("300G/s").ok());
  EXPECT_FALSE(ParseBytesPerSecond("300GB/h").ok());
  for (const std::string& text : kBad) EXPECT_FALSE(ParseBytesPerSecond(text).ok()) << text;
}

TEST(ParseNumber, TakesNoUnit) {
  EXPECT_DOUBLE_EQ(*ParseNumber("0.9"), 0.9);
  EXPECT_DOUBLE_EQ(*ParseNumber("2.5e9"), 2.5e9);
  EXPECT_FALSE(ParseNumber("1k").ok());
  for (const std::string& text : kBad) EXPECT_FALSE(ParseNumber(text).ok()) << text;
}

TEST(Units, LocaleDoesNotMatter) {
  // Without such a locale on the machine the call changes nothing, and the test holds as well.
  std::setlocale(LC_ALL, "de_DE.UTF-8");
  EXPECT_DOUBLE_EQ(*ParseNumber("1.5"), 1.5);
  EXPECT_EQ(FormatCount(1.5e9), "1.5 B");
  std::setlocale(LC_ALL, "C");
}

TEST(FormatBytes, PicksTheUnit) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(512), "512 B");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(18.3 * 0x1p30), "18.3 GiB");
  EXPECT_EQ(FormatBytes(1023.6 * 0x1p20), "1 GiB");
  EXPECT_EQ(FormatBytes(1000 * 0x1p20), "1000 MiB");
  EXPECT_EQ(FormatBytes(-2048), "-2 KiB");
  EXPECT_EQ(FormatBytes(5000 * 0x1p50), "5000 PiB");
}

TEST(FormatSeconds, PicksTheUnit) {
  EXPECT_EQ(FormatSeconds(0.0), "0 s");
  EXPECT_EQ(FormatSeconds(1.24), "1.24 s");
  EXPECT_EQ(FormatSeconds(0.038), "38 ms");
  EXPECT_EQ(FormatSeconds(12.3e-6), "12.3 us");
  EXPECT_EQ(FormatSeconds(0.9999), "1 s");
  EXPECT_EQ(FormatSeconds(90.0), "1.5 min");
  EXPECT_EQ(FormatSeconds(3.1 * 3600.0), "3.1 h");
  EXPECT_EQ(FormatSeconds(30.0 * 86400.0), "30 d");
  EXPECT_EQ(FormatSeconds(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(FormatSeconds(std::numeric_limits<double>::quiet_NaN()), "nan");
}

TEST(FormatCount, PicksTheUnit) {
  EXPECT_EQ(FormatCount(512), "512");
  EXPECT_EQ(FormatCount(12345), "12.3 k");
  EXPECT_EQ(FormatCount(1557611200), "1.56 B");
  EXPECT_EQ(FormatCount(999999), "1 M");
  EXPECT_EQ(FormatCount(2e12), "2 T");
}

TEST(FormatOthers, PrintUnits) {
  EXPECT_EQ(FormatBytesPerSecond(300e9), "300 GB/s");
  EXPECT_EQ(FormatPercent(0.123), "12.3%");
  EXPECT_EQ(FormatPercent(1.0), "100%");
  EXPECT_EQ(FormatPercent(-0.05), "-5%");
}

TEST(Checked, NoticesOverflow) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(*CheckedAdd(kMax - 1, 1), kMax);
  EXPECT_FALSE(CheckedAdd(kMax, 1).ok());
  EXPECT_EQ(*CheckedMul(1 << 20, 1 << 20), std::int64_t{1} << 40);
  EXPECT_FALSE(CheckedMul(kMax, 2).ok());
  EXPECT_FALSE(CheckedMul(kMax, -2).ok());
}

}  // namespace
}  // namespace palmist
