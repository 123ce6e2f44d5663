#include "palmist/grasp/core/grasp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "palmist/base/file.h"
#include "palmist/grasp/core/test/random_rotation.h"

namespace palmist::grasp {
namespace {

using testing::HasSubstr;

/// Returns grasps whose numbers float32 holds exactly, but for their rotations.
GraspGroup SomeGrasps(int count) {
  Rng rng(1);
  GraspGroup grasps(count);
  for (int i = 0; i < count; ++i) {
    grasps[i].score = 0.5 * i;
    grasps[i].width_m = 0.0625 * i;
    grasps[i].height_m = 0.03125;
    grasps[i].depth_m = -0.25;
    grasps[i].R_CG = RandomRotation(rng);
    grasps[i].p_CG = Vector3d(i, -i, 0.5);
    grasps[i].object_id = 3 * i - 1;
  }
  return grasps;
}

/// Returns the message for a group of three grasps of which one number is another.
std::string ErrorWith(int row, int column, double value) {
  NpyArray array = ToArray(SomeGrasps(3));
  auto values = std::vector<double>(array.As<double>().begin(), array.As<double>().end());
  values[row * kGraspColumns + column] = value;
  const auto grasps = GraspGroupFromArray(MakeNpyArray<double>({3, kGraspColumns}, values));
  return grasps.ok() ? "" : grasps.error().what();
}

void ExpectEqual(const Grasp& a, const Grasp& b) {
  EXPECT_EQ(a.score, b.score);
  EXPECT_EQ(a.width_m, b.width_m);
  EXPECT_EQ(a.height_m, b.height_m);
  EXPECT_EQ(a.depth_m, b.depth_m);
  EXPECT_EQ(a.R_CG, b.R_CG);
  EXPECT_EQ(a.p_CG, b.p_CG);
  EXPECT_EQ(a.object_id, b.object_id);
}

TEST(GraspGroupTest, ArraysRoundTrip) {
  const GraspGroup grasps = SomeGrasps(5);
  const NpyArray array = ToArray(grasps);
  EXPECT_EQ(array.shape, (std::vector<std::int64_t>{5, 17}));
  const GraspGroup again = GraspGroupFromArray(array).value();
  ASSERT_EQ(again.size(), 5U);
  for (int i = 0; i < 5; ++i) ExpectEqual(again[i], grasps[i]);
}

TEST(GraspGroupTest, TheLayoutIsThatOfTheDataSet) {
  Grasp grasp;
  grasp.score = 1;
  grasp.width_m = 2;
  grasp.height_m = 3;
  grasp.depth_m = 4;
  grasp.R_CG << 0, -1, 0, 1, 0, 0, 0, 0, 1;
  grasp.p_CG = Vector3d(5, 6, 7);
  grasp.object_id = 8;
  const NpyArray array = ToArray(GraspGroup{grasp});
  EXPECT_THAT(array.As<double>(),
              testing::ElementsAre(1, 2, 3, 4, 0, -1, 0, 1, 0, 0, 0, 0, 1, 5, 6, 7, 8));
  EXPECT_EQ(grasp.approach(), Vector3d(0, 1, 0));
  EXPECT_EQ(grasp.opening(), Vector3d(-1, 0, 0));
}

TEST(GraspGroupTest, TakesFloat32) {
  const GraspGroup grasps = SomeGrasps(3);
  const NpyArray array = ToArray(grasps);
  const std::vector<float> values(array.As<double>().begin(), array.As<double>().end());
  const GraspGroup read = GraspGroupFromArray(MakeNpyArray<float>({3, 17}, values)).value();
  ASSERT_EQ(read.size(), 3U);
  EXPECT_EQ(read[2].width_m, 0.125);
  EXPECT_EQ(read[2].object_id, 5);
  EXPECT_LT((read[2].R_CG - grasps[2].R_CG).norm(), 1e-6);
}

TEST(GraspGroupTest, NoGraspsAreAGroup) {
  EXPECT_TRUE(GraspGroupFromArray({NpyType::kFloat64, {0, 17}, {}}).value().empty());
  EXPECT_TRUE(GraspGroupFromArray({NpyType::kFloat64, {0}, {}}).value().empty());
  EXPECT_EQ(ToArray(GraspGroup{}).shape, (std::vector<std::int64_t>{0, 17}));
}

TEST(GraspGroupTest, RefusesOtherShapesAndTypes) {
  const std::vector<double> values(34);
  EXPECT_THAT(GraspGroupFromArray(MakeNpyArray<double>({34}, values)).error().what(),
              HasSubstr("shape (N, 17), got (34,)"));
  EXPECT_THAT(GraspGroupFromArray(MakeNpyArray<double>({17, 2}, values)).error().what(),
              HasSubstr("got (17, 2)"));
  EXPECT_THAT(GraspGroupFromArray(MakeNpyArray<double>({1, 2, 17}, values)).error().what(),
              HasSubstr("got (1, 2, 17)"));
  EXPECT_THAT(
      GraspGroupFromArray(MakeNpyArray<double>({}, std::span(values).first(1))).error().what(),
      HasSubstr("got ()"));
  EXPECT_THAT(
      GraspGroupFromArray(MakeNpyArray<std::int32_t>({1, 17}, std::vector<int>(17))).error().what(),
      HasSubstr("got <i4"));
}

TEST(GraspGroupTest, NamesRowAndColumnOfABadNumber) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(ErrorWith(0, 0, 5), "");
  EXPECT_THAT(ErrorWith(1, 1, std::nan("")), HasSubstr("[1].width: expected a finite number"));
  EXPECT_THAT(ErrorWith(2, 8, -infinity), HasSubstr("[2].r22: expected a finite number"));
  EXPECT_THAT(ErrorWith(2, 14, infinity), HasSubstr("[2].t_y: expected a finite number"));
  EXPECT_THAT(ErrorWith(0, 16, 1.5), HasSubstr("[0].object_id: expected a whole number"));
  EXPECT_THAT(ErrorWith(0, 16, 1e300), HasSubstr("[0].object_id: expected a whole number"));
  EXPECT_THAT(ErrorWith(1, 4, 2), HasSubstr("[1].r11 to r33: expected a rotation"));
}

TEST(GraspGroupTest, RefusesRotationsOutsideOfTheTolerance) {
  GraspGroup grasps(1);
  grasps[0].R_CG(0, 0) = 1 + 0.4 * kRotationTolerance;
  EXPECT_TRUE(GraspGroupFromArray(ToArray(grasps)).ok());
  grasps[0].R_CG(0, 0) = 1 + 0.6 * kRotationTolerance;
  EXPECT_FALSE(GraspGroupFromArray(ToArray(grasps)).ok());
  grasps[0].R_CG = -Matrix3d::Identity();
  EXPECT_FALSE(GraspGroupFromArray(ToArray(grasps)).ok());
}

TEST(GraspGroupTest, FilesRoundTripAndErrorsNameThem) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "palmist_grasp_test";
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "grasps.npy").string();
  const GraspGroup grasps = SomeGrasps(4);
  ASSERT_TRUE(WriteGraspGroup(path, grasps).ok());
  const GraspGroup again = ReadGraspGroup(path).value();
  ASSERT_EQ(again.size(), 4U);
  ExpectEqual(again[3], grasps[3]);

  EXPECT_THAT(ReadGraspGroup(path + "x").error().what(), HasSubstr("grasps.npyx"));
  ASSERT_TRUE(WriteFileAtomic(path, "no array").ok());
  EXPECT_THAT(ReadGraspGroup(path).error().what(), HasSubstr("grasps.npy: bad .npy file"));
  GraspGroup bad = grasps;
  bad[2].score = std::nan("");
  ASSERT_TRUE(WriteGraspGroup(path, bad).ok());
  EXPECT_THAT(ReadGraspGroup(path).error().what(), HasSubstr("grasps.npy[2].score"));
  EXPECT_FALSE(WriteGraspGroup((folder / "missing" / "grasps.npy").string(), grasps).ok());
  std::filesystem::remove_all(folder);
}

TEST(RectGraspTest, ArraysRoundTrip) {
  const std::vector<RectGrasp> grasps = {{1, 2, 3, 4, 5, 6, 7}, {0.5, 0, 0, 0, 0, -1, -1}};
  const NpyArray array = ToArray(grasps);
  EXPECT_EQ(array.shape, (std::vector<std::int64_t>{2, 7}));
  const std::vector<RectGrasp> again = RectGraspsFromArray(array).value();
  ASSERT_EQ(again.size(), 2U);
  EXPECT_EQ(again[0].center_x, 1);
  EXPECT_EQ(again[0].center_y, 2);
  EXPECT_EQ(again[0].open_x, 3);
  EXPECT_EQ(again[0].open_y, 4);
  EXPECT_EQ(again[0].height, 5);
  EXPECT_EQ(again[0].score, 6);
  EXPECT_EQ(again[0].object_id, 7);
  EXPECT_EQ(again[1].object_id, -1);
}

TEST(RectGraspTest, RefusesOtherArrays) {
  EXPECT_TRUE(RectGraspsFromArray({NpyType::kFloat64, {0}, {}}).value().empty());
  const std::vector<double> values = {1, 2, 3, std::nan(""), 5, 6, 7};
  EXPECT_THAT(RectGraspsFromArray(MakeNpyArray<double>({1, 7}, values)).error().what(),
              HasSubstr("[0].open_y: expected a finite number"));
  EXPECT_FALSE(RectGraspsFromArray(MakeNpyArray<double>({7}, values)).ok());
}

}  // namespace
}  // namespace palmist::grasp
