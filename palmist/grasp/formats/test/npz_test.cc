#include "palmist/grasp/formats/npz.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "palmist/grasp/formats/inflate.h"
#include "palmist/grasp/formats/parse_file.h"
#include "test_files.h"

namespace palmist::grasp {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Deflated() { return ReadFile(TestData("files/deflated.npz")).value(); }

TEST(Npz, ReadsNumpysFiles) {
  for (const char* name : {"files/stored.npz", "files/deflated.npz"}) {
    const auto arrays = ReadNpz(TestData(name));
    ASSERT_TRUE(arrays.ok()) << Message(arrays);
    ASSERT_EQ(arrays->size(), 2U);
    EXPECT_THAT(arrays->at("points").shape, ElementsAre(2, 3));
    EXPECT_THAT(arrays->at("points").As<double>(), ElementsAre(0, 0.125, 0.25, 0.375, 0.5, 0.625));
    EXPECT_THAT(arrays->at("collision").As<bool>(), ElementsAre(true, false, true));
  }
}

TEST(Npz, SurvivesWritingAndReading) {
  std::vector<float> values(100'000);
  std::iota(values.begin(), values.end(), 0.0F);
  const NpzArrays arrays = {{"a", MakeNpyArray<float>({100, 1000}, values)},
                            {"b", MakeNpyArray<std::int32_t>({0}, {})}};
  const Folder folder;
  ASSERT_TRUE(WriteNpz(folder.File("a.npz"), arrays).ok());
  const auto again = ReadNpz(folder.File("a.npz"));
  ASSERT_TRUE(again.ok()) << Message(again);
  ASSERT_EQ(again->size(), 2U);
  EXPECT_EQ(again->at("a").shape, arrays.at("a").shape);
  EXPECT_EQ(again->at("a").data, arrays.at("a").data);
  EXPECT_EQ(again->at("b").type, NpyType::kInt32);
  const std::string bytes = ReadFile(folder.File("a.npz")).value();
  EXPECT_LT(bytes.size(), values.size() * sizeof(float) / 2);
  ASSERT_TRUE(WriteNpz(folder.File("b.npz"), arrays).ok());
  EXPECT_EQ(ReadFile(folder.File("b.npz")).value(), bytes);
}

TEST(Npz, AnEmptyArchiveHoldsNothing) {
  const Folder folder;
  ASSERT_TRUE(WriteNpz(folder.File("a.npz"), {}).ok());
  EXPECT_TRUE(ReadNpz(folder.File("a.npz")).value().empty());
}

TEST(Npz, EveryTruncationIsAnError) {
  const std::string bytes = Deflated();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(ParseNpz(bytes.substr(0, size)).ok()) << size;
  }
}

TEST(Npz, DamagedDataFailsItsChecksum) {
  std::string stored = ReadFile(TestData("files/stored.npz")).value();
  const double value = 0.125;
  const auto* begin = reinterpret_cast<const char*>(&value);
  const auto place = std::search(stored.begin(), stored.end(), begin, begin + sizeof(value));
  ASSERT_NE(place, stored.end());
  *place ^= 1;
  EXPECT_THAT(Message(ParseNpz(stored)), AllOf(HasSubstr("points.npy"), HasSubstr("CRC-32")));
}

/// Returns where the directory's entry of the first member begins.
std::size_t FirstEntry(const std::string& bytes) {
  const std::size_t entry = bytes.find(std::string("PK\1\2"));
  EXPECT_NE(entry, std::string::npos);
  return entry;
}

template <typename T>
void Put(std::string& bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(value));
}

TEST(Npz, RefusesBombs) {
  std::string bytes = Deflated();
  Put<std::uint32_t>(bytes, FirstEntry(bytes) + 24, 0x70000000);
  EXPECT_THAT(Message(ParseNpz(bytes)), HasSubstr("compressed bytes cannot hold"));
  EXPECT_THAT(Message(ParseNpz(bytes, 1000)), HasSubstr("hold more than 1000 B"));
  // One byte fewer than is in there.
  bytes = Deflated();
  const std::size_t entry = FirstEntry(bytes);
  Put<std::uint32_t>(bytes, entry + 24, LoadAs<std::uint32_t>(bytes.data() + entry + 24) - 1);
  EXPECT_THAT(Message(ParseNpz(bytes)),
              AllOf(HasSubstr("points.npy"), HasSubstr("its .npy header makes 176 bytes")));
}

/// Returns an archive of one deflated member; `deflated` is its data, for which a checksum of 0 and
/// `plain_bytes` are claimed.
std::string Archive(const std::string& deflated, std::size_t plain_bytes) {
  const std::string name = "a.npy";
  std::string common;
  AppendBytes(common, std::uint16_t{20});
  AppendBytes(common, std::uint16_t{0});
  AppendBytes(common, std::uint16_t{8});
  common.append(8, '\0');
  AppendBytes(common, static_cast<std::uint32_t>(deflated.size()));
  AppendBytes(common, static_cast<std::uint32_t>(plain_bytes));
  AppendBytes(common, static_cast<std::uint16_t>(name.size()));
  AppendBytes(common, std::uint16_t{0});
  const std::string file = "PK\3\4" + common + name + deflated;
  const std::string directory =
      std::string("PK\1\2\x14\0", 6) + common + std::string(14, '\0') + name;
  std::string end = std::string("PK\5\6\0\0\0\0\1\0\1\0", 12);
  AppendBytes(end, static_cast<std::uint32_t>(directory.size()));
  AppendBytes(end, static_cast<std::uint32_t>(file.size()));
  return file + directory + end + std::string(2, '\0');
}

TEST(Npz, InflatesNoMoreThanTheNpyHeaderSays) {
  const std::vector<double> values = {1, 2};
  const std::string npy = WriteNpy(MakeNpyArray<double>({2}, values));
  EXPECT_THAT(Message(ParseNpz(Archive(Deflate(npy), npy.size()))), HasSubstr("CRC-32"));
  // The checksum, which needs all of the data, is not reached.
  const std::string bomb = npy + std::string(10'000'000, '\0');
  EXPECT_THAT(Message(ParseNpz(Archive(Deflate(bomb), bomb.size()))),
              HasSubstr("its .npy header makes 144 bytes, the ZIP directory says 10000144"));
  EXPECT_THAT(Message(ParseNpz(Archive(Deflate(bomb), npy.size()))),
              HasSubstr("larger than it should be"));
  // Errors of the header itself stay ParseNpy's.
  const auto message = [&](const std::string& from, const std::string& to) {
    std::string bad = npy;
    bad.replace(bad.find(from), from.size(), to);
    return Message(ParseNpz(Archive(Deflate(bad), bad.size())));
  };
  EXPECT_THAT(message("'<f8'", "'<c8'"), HasSubstr("got \"<c8\""));
  EXPECT_THAT(message("(2,)", "(-2,"), HasSubstr("a size of at least 0"));
  EXPECT_THAT(Message(ParseNpz(Archive(Deflate(""), 0))), HasSubstr("the mark of the format"));
}

TEST(Npz, DeflatesInSteps) {
  std::string plain;
  std::uint32_t state = 1;
  for (int i = 0; i < 3'000'000; ++i) {
    state = state * 1664525 + 1013904223;
    plain += static_cast<char>(state >> 24);
  }
  plain += std::string(100'000, 'x');
  const std::string packed = Deflate(plain);
  EXPECT_EQ(Inflate(packed, Wrapping::kNone, plain.size()).value(), plain);
  for (const std::size_t step : {1000U, 65536U, 3'100'000U}) {
    EXPECT_EQ(Deflate(plain, step), packed) << step;
  }
}

TEST(Npz, SaysWhatIsWrong) {
  std::string bytes = Deflated();
  Put<std::uint16_t>(bytes, FirstEntry(bytes) + 10, 14);
  EXPECT_THAT(Message(ParseNpz(bytes)), HasSubstr("ZIP's method 14"));
  bytes = Deflated();
  Put<std::uint16_t>(bytes, FirstEntry(bytes) + 8, 1);
  EXPECT_THAT(Message(ParseNpz(bytes)), HasSubstr("is encrypted"));
  bytes = Deflated();
  bytes[FirstEntry(bytes) + 46 + std::string_view("points.np").size()] = 'x';
  EXPECT_THAT(Message(ParseNpz(bytes)), HasSubstr("points.npx: expected an .npy array"));
  EXPECT_THAT(Message(ReadNpz("/nowhere/a.npz")), HasSubstr("/nowhere/a.npz"));
}

TEST(Npz, ReadsZip64) {
  // The first member's sizes and offset move into an extra field, the directory's place into ZIP64
  // records.
  std::string bytes = Deflated();
  const std::size_t entry = FirstEntry(bytes);
  const std::size_t end = bytes.size() - 22;
  const std::size_t name_bytes = LoadAs<std::uint16_t>(bytes.data() + entry + 28);
  ASSERT_EQ(LoadAs<std::uint16_t>(bytes.data() + entry + 30), 0);
  std::string extra;
  AppendBytes(extra, std::uint16_t{1});
  AppendBytes(extra, std::uint16_t{24});
  for (const std::size_t offset : {24, 20, 42}) {
    AppendBytes(extra, std::uint64_t{LoadAs<std::uint32_t>(bytes.data() + entry + offset)});
    Put<std::uint32_t>(bytes, entry + offset, 0xffffffff);
  }
  Put<std::uint16_t>(bytes, entry + 30, static_cast<std::uint16_t>(extra.size()));
  std::string zip64;
  AppendBytes(zip64, std::uint32_t{0x06064b50});
  AppendBytes(zip64, std::uint64_t{44});
  zip64.append(12, '\0');
  AppendBytes(zip64, std::uint64_t{2});
  AppendBytes(zip64, std::uint64_t{2});
  AppendBytes(zip64, std::uint64_t{end - entry + extra.size()});
  AppendBytes(zip64, std::uint64_t{entry});
  AppendBytes(zip64, std::uint32_t{0x07064b50});
  AppendBytes(zip64, std::uint32_t{0});
  AppendBytes(zip64, std::uint64_t{end + extra.size()});
  AppendBytes(zip64, std::uint32_t{1});
  Put<std::uint32_t>(bytes, end + 12, 0xffffffff);
  Put<std::uint32_t>(bytes, end + 16, 0xffffffff);
  bytes.insert(end, zip64);
  bytes.insert(entry + 46 + name_bytes, extra);
  const auto arrays = ParseNpz(bytes);
  ASSERT_TRUE(arrays.ok()) << Message(arrays);
  EXPECT_THAT(arrays->at("points").As<double>(), ElementsAre(0, 0.125, 0.25, 0.375, 0.5, 0.625));
}

}  // namespace
}  // namespace palmist::grasp
