#include "palmist/grasp/formats/sdf_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "palmist/base/npy.h"
#include "test_files.h"
#include "tests/support/grasp_golden.h"

namespace palmist::grasp {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kGrid =
    "2 3 2\n-0.1 0.2 +0.3\n0.01\n0 1 2 3 4 5\n6\t7 8\r\n9 10 -11e-1\n";

std::string Replaced(const std::string& from, const std::string& to) {
  std::string text(kGrid);
  return text.replace(text.find(from), from.size(), to);
}

TEST(SdfText, XRunsFastestInTheFile) {
  const auto grid = ParseSdfText(kGrid);
  ASSERT_TRUE(grid.ok()) << Message(grid);
  EXPECT_EQ(grid->dims, (std::array{2, 3, 2}));
  EXPECT_EQ(grid->origin_m, Vector3d(-0.1, 0.2, 0.3));
  EXPECT_EQ(grid->resolution_m, 0.01);
  EXPECT_EQ(grid->at(1, 0, 0), 1.0F);
  EXPECT_EQ(grid->at(0, 1, 0), 2.0F);
  EXPECT_EQ(grid->at(0, 0, 1), 6.0F);
  EXPECT_EQ(grid->at(1, 2, 1), -1.1F);
}

TEST(SdfText, RefusesHeadersThatLie) {
  EXPECT_THAT(Message(ParseSdfText("")), HasSubstr("three sizes, as integers, got the end"));
  EXPECT_THAT(Message(ParseSdfText(Replaced("2 3 2", "2 3 1"))), HasSubstr("sizes of 2 to"));
  EXPECT_THAT(Message(ParseSdfText(Replaced("2 3 2", "2 -3 2"))), HasSubstr("sizes of 2 to"));
  EXPECT_THAT(Message(ParseSdfText(Replaced("2 3 2", "2.5 3 2"))), HasSubstr("\"2.5\" in line 1"));
  EXPECT_THAT(Message(ParseSdfText(Replaced("2 3 2", "2 4 2"))),
              HasSubstr("expected 16 distances, got the end of the file"));
  EXPECT_THAT(Message(ParseSdfText(Replaced("2 3 2", "2 2 2"))),
              HasSubstr("expected the end after 8 distances, got \"8\" in line 5"));
  EXPECT_THAT(Message(ParseSdfText(Replaced("2 3 2", "100000 100000 100000"))),
              HasSubstr("do not fit into"));
  EXPECT_THAT(Message(ParseSdfText(Replaced("0.01", "0"))), HasSubstr("resolution above 0"));
  EXPECT_THAT(Message(ParseSdfText(Replaced("0.01", "inf"))), HasSubstr("the resolution"));
  EXPECT_THAT(Message(ParseSdfText(Replaced(" 4 ", " nan "))), HasSubstr("\"nan\" in line 4"));
  EXPECT_THAT(Message(ParseSdfText(Replaced(" 4 ", " 4x "))), HasSubstr("\"4x\" in line 4"));
  EXPECT_THAT(Message(ReadSdfText("/nowhere/a.sdf")), HasSubstr("/nowhere/a.sdf"));
}

RC_GTEST_PROP(SdfText, NineDigitsKeepEveryFloat, ()) {
  SignedDistanceGrid grid;
  grid.dims = {2, 4, 3};
  grid.origin_m = {0.1, -0.2, 1.0 / 3};
  grid.resolution_m = 0.003;
  for (int i = 0; i < 24; ++i) {
    grid.values_m.push_back(static_cast<float>(*rc::gen::arbitrary<int>()) * 1.1e-9F);
  }
  const SignedDistanceGrid again = ParseSdfText(FormatSdfText(grid)).value();
  RC_ASSERT(again.dims == grid.dims);
  RC_ASSERT(again.origin_m == grid.origin_m);
  RC_ASSERT(again.resolution_m == grid.resolution_m);
  RC_ASSERT(again.values_m == grid.values_m);
}

TEST(SdfText, WritesAsManyDigitsAsAsked) {
  SignedDistanceGrid grid{{2, 2, 2}, Vector3d::Zero(), 1, std::vector<float>(8, 0.123456789F)};
  EXPECT_THAT(FormatSdfText(grid, 6), HasSubstr("\n0.123457\n"));
  EXPECT_THAT(FormatSdfText(grid, 3), HasSubstr("\n0.123\n"));
  const Folder folder;
  ASSERT_TRUE(WriteSdfText(folder.File("a.sdf"), grid, 6).ok());
  EXPECT_EQ(ReadSdfText(folder.File("a.sdf")).value().at(1, 1, 1), 0.123457F);
}

TEST(SdfText, ReadsTheSample) {
  const std::string golden = test::GraspGolden();
  const auto grid = ReadSdfText(golden + "/samples/object_02.sdf");
  ASSERT_TRUE(grid.ok()) << Message(grid);
  const NpyArray array = ParseNpy(ReadFile(golden + "/objects/sdf_02.npy").value()).value();
  const auto expected = array.As<float>();
  ASSERT_EQ(array.shape, (std::vector<std::int64_t>{40, 40, 40}));
  ASSERT_EQ(grid->dims, (std::array{40, 40, 4}));
  // The sample holds four layers of z, from this one.
  constexpr int kFirstLayer = 14;
  for (int x = 0; x < 40; ++x) {
    for (int y = 0; y < 40; ++y) {
      for (int z = 0; z < 4; ++z) {
        ASSERT_EQ(grid->at(x, y, z),
                  expected[static_cast<std::size_t>((x * 40 + y) * 40 + kFirstLayer + z)])
            << x << " " << y << " " << z;
      }
    }
  }
}

}  // namespace
}  // namespace palmist::grasp
