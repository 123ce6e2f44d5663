#include "palmist/grasp/label/assign.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "palmist/grasp/core/anchors.h"
#include "palmist/grasp/core/mesh_shapes.h"

namespace palmist::grasp {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

/// RealSense's of GraspNet-1Billion.
constexpr Intrinsics kCamera = {927.17, 927.37, 651.32, 349.62, 1280, 720};

/// A grasp with the rotation of an anchor, seen at the pixel (u, v).
Grasp GraspAt(int anchor, double u, double v) {
  Grasp grasp;
  grasp.R_CG = AnchorRotations()[anchor];
  grasp.p_CG = 0.5 * Vector3d((u - kCamera.cx) / kCamera.fx, (v - kCamera.cy) / kCamera.fy, 1);
  return grasp;
}

std::int32_t Number(int anchor, int row, int column) { return (anchor * 72 + row) * 96 + column; }

TEST(AssignAnchors, TakesTheCellOfThePixelAndTheAnchor) {
  const std::vector<Grasp> grasps = {
      GraspAt(9, 0, 0), GraspAt(3, 1279.4, 719.4), GraspAt(200, 27, 19.4), GraspAt(200, 27, 19.6)};
  EXPECT_THAT(
      AssignAnchors(grasps, kCamera),
      ElementsAre(Number(3, 71, 95), Number(9, 0, 0), Number(200, 1, 2), Number(200, 2, 2)));
}

TEST(AssignAnchors, CountsOneCellAndAnchorOnce) {
  EXPECT_THAT(
      AssignAnchors(std::vector<Grasp>{GraspAt(7, 100, 100), GraspAt(7, 100.2, 100)}, kCamera),
      ElementsAre(Number(7, 10, 7)));
}

TEST(AssignAnchors, KnowsTheGrippersHalfTurn) {
  Grasp grasp = GraspAt(8, 640, 360);
  grasp.R_CG = grasp.R_CG * Vector3d(1, -1, -1).asDiagonal();
  EXPECT_THAT(AssignAnchors(std::vector<Grasp>{grasp}, kCamera), ElementsAre(Number(8, 36, 48)));
  AssignOptions options;
  options.is_symmetric = false;
  EXPECT_THAT(AssignAnchors(std::vector<Grasp>{grasp}, kCamera, options),
              Not(Contains(Number(8, 36, 48))));
}

TEST(AssignAnchors, LeavesOutWhatTheImageDoesNotShow) {
  std::vector<Grasp> grasps = {GraspAt(0, -0.6, 10), GraspAt(0, 10, 719.6)};
  grasps.push_back(GraspAt(0, 640, 360));
  grasps.back().p_CG *= -1;
  grasps.push_back(GraspAt(0, 640, 360));
  grasps.back().p_CG.x() = std::numeric_limits<double>::quiet_NaN();
  // Towards the camera.
  grasps.push_back(GraspAt(0, 640, 360));
  grasps.back().R_CG = Eigen::AngleAxisd(std::numbers::pi, Vector3d::UnitY()) * grasps.back().R_CG;
  EXPECT_THAT(AssignAnchors(grasps, kCamera), IsEmpty());
}

TEST(AssignAnchors, RefusesBadSizes) {
  EXPECT_THROW(AssignAnchors({}, kCamera, {.rows = 0}), Error);
  EXPECT_THROW(AssignAnchors({}, kCamera, {.columns = 100000}), Error);
  EXPECT_THROW(AssignAnchors({}, Intrinsics{}), Error);
}

TEST(OracleGrasps, AreThoseOfTheObjectInTheCamera) {
  LabelOptions options;
  options.spacing_m = 0.02;
  options.views = 30;
  const ObjectLabels labels = LabelObject(BoxMesh(Vector3d(0.04, 0.06, 0.05)), options).value();
  const Isometry3d X_CO = Eigen::Translation3d(0.1, -0.05, 0.6) *
                          Eigen::AngleAxisd(0.7, Vector3d(1, 2, 3).normalized());
  const GraspGroup grasps = OracleGrasps(labels, X_CO, 17);
  ASSERT_GT(grasps.size(), 100U);
  const auto is_better = [](const Grasp& a, const Grasp& b) { return a.score > b.score; };
  EXPECT_TRUE(std::is_sorted(grasps.begin(), grasps.end(), is_better));
  for (const Grasp& grasp : grasps) {
    EXPECT_EQ(grasp.object_id, 17);
    EXPECT_GE(grasp.score, 0.1 - 1e-12);
    EXPECT_TRUE(CheckRotation(grasp.R_CG, "grasp", 1e-9).ok());
    const Vector3d p_O = X_CO.inverse() * grasp.p_CG;
    EXPECT_NEAR((p_O.cwiseAbs() - Vector3d(0.02, 0.03, 0.025)).maxCoeff(), 0, 1e-6);
  }
  const GraspGroup best = OracleGrasps(labels, X_CO, 17, 0.3);
  ASSERT_FALSE(best.empty());
  EXPECT_LT(best.size(), grasps.size());
  EXPECT_GE(best.back().score, 0.8 - 1e-12);
  EXPECT_EQ(best.back().p_CG, grasps[best.size() - 1].p_CG);
}

}  // namespace
}  // namespace palmist::grasp
