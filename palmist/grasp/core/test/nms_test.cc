#include "palmist/grasp/core/nms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <string>

#include "palmist/grasp/core/test/random_rotation.h"
#include "tests/support/grasp_golden.h"

namespace palmist::grasp {
namespace {

using Rows = std::vector<std::size_t>;

/// Returns grasps in a cube of an edge of `size_m` about the origin, with few different scores.
GraspGroup RandomGrasps(Rng& rng, int count, double size_m) {
  GraspGroup grasps(count);
  for (Grasp& grasp : grasps) {
    grasp.score = static_cast<double>(rng.Integer(20));
    grasp.R_CG = RandomRotation(rng);
    for (double& value : grasp.p_CG) value = size_m * (rng.Uniform() - 0.5);
  }
  return grasps;
}

/// The rule as it is written, pair by pair.
Rows Reference(const GraspGroup& grasps, const NmsOptions& options) {
  Rows order(grasps.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return grasps[a].score > grasps[b].score;
  });
  const Matrix3d half_turn = Vector3d(1, -1, -1).asDiagonal();
  Rows kept;
  for (const std::size_t row : order) {
    const bool is_near = std::any_of(kept.begin(), kept.end(), [&](std::size_t other) {
      const Matrix3d& R = grasps[row].R_CG;
      double angle = RotationAngle(grasps[other].R_CG, R);
      if (options.is_symmetric)
        angle = std::min(angle, RotationAngle(grasps[other].R_CG, R * half_turn));
      return (grasps[other].p_CG - grasps[row].p_CG).norm() < options.distance_m &&
             angle < options.angle_rad;
    });
    if (!is_near) kept.push_back(row);
  }
  return kept;
}

TEST(NmsTest, KeepsTheRowsOfThePublicPackage) {
  int frames = 0;
  for (const int scene : {100, 101, 102}) {
    for (int frame = 0; frame < 4; ++frame) {
      const std::string folder =
          "scenes/scene_0" + std::to_string(scene) + "/frame_000" + std::to_string(frame) + "/";
      GraspGroup grasps = GraspGroupFromArray(test::ReadGraspGolden(folder + "grasps.npy")).value();
      for (Grasp& grasp : grasps) grasp.width_m = std::clamp(grasp.width_m, 0.0, 0.1);
      const NpyArray array = test::ReadGraspGolden(folder + "nms_rows.npy");
      const std::span<const std::int32_t> expected = array.As<std::int32_t>();
      EXPECT_EQ(NonMaximumSuppression(grasps), Rows(expected.begin(), expected.end())) << folder;
      ++frames;
    }
  }
  EXPECT_EQ(frames, 12);
}

TEST(NmsTest, IsTheRuleOnRandomGrasps) {
  Rng rng(1);
  for (const double size_m : {0.0, 0.05, 0.3, 1e3}) {
    for (const double distance_m : {0.01, 0.03, 0.5}) {
      for (const double angle_rad : {0.5, 1.5, std::numbers::pi, 4.0}) {
        for (const bool is_symmetric : {false, true}) {
          const GraspGroup grasps = RandomGrasps(rng, 200, size_m);
          const NmsOptions options{distance_m, angle_rad, is_symmetric};
          EXPECT_EQ(NonMaximumSuppression(grasps, options), Reference(grasps, options))
              << size_m << ' ' << distance_m << ' ' << angle_rad << ' ' << is_symmetric;
        }
      }
    }
  }
}

TEST(NmsTest, BothLimitsAreStrict) {
  GraspGroup grasps(2);
  grasps[1].p_CG.x() = 0.03125;
  EXPECT_EQ(NonMaximumSuppression(grasps, {.distance_m = 0.03125}), (Rows{0, 1}));
  EXPECT_EQ(NonMaximumSuppression(grasps, {.distance_m = 0.03126}), (Rows{0}));
  grasps[1].p_CG.x() = 0;
  grasps[1].R_CG = Eigen::AngleAxisd(0.5, Vector3d::UnitY()).toRotationMatrix();
  EXPECT_EQ(NonMaximumSuppression(grasps, {.angle_rad = 0.5 - 1e-9}), (Rows{0, 1}));
  EXPECT_EQ(NonMaximumSuppression(grasps, {.angle_rad = 0.5 + 1e-9}), (Rows{0}));
}

TEST(NmsTest, OfEqualScoresTheLowerRowStays) {
  GraspGroup grasps(5);
  EXPECT_EQ(NonMaximumSuppression(grasps), (Rows{0}));
  grasps[3].score = 1;
  EXPECT_EQ(NonMaximumSuppression(grasps), (Rows{3}));
  EXPECT_EQ(NonMaximumSuppression(grasps, {.distance_m = 0}), (Rows{3, 0, 1, 2, 4}));
  EXPECT_EQ(NonMaximumSuppression(grasps, {.angle_rad = 0}), (Rows{3, 0, 1, 2, 4}));
}

TEST(NmsTest, KnowsThatFingersAreAlike) {
  GraspGroup grasps(2);
  grasps[1].R_CG = Vector3d(1, -1, -1).asDiagonal();
  EXPECT_EQ(NonMaximumSuppression(grasps), (Rows{0, 1}));
  EXPECT_EQ(NonMaximumSuppression(grasps, {.is_symmetric = true}), (Rows{0}));
}

TEST(NmsTest, TakesNoGraspsAndPlacesFarAway) {
  EXPECT_TRUE(NonMaximumSuppression({}).empty());
  GraspGroup grasps(4);
  grasps[0].p_CG.x() = 1e300;
  grasps[1].p_CG.x() = -1e300;
  grasps[2].p_CG.x() = 1e300;
  EXPECT_EQ(NonMaximumSuppression(grasps), (Rows{0, 1, 3}));
}

}  // namespace
}  // namespace palmist::grasp
