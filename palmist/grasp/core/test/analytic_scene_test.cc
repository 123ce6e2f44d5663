#include "palmist/grasp/core/analytic_scene.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace palmist::grasp {
namespace {

const Intrinsics kCamera{300, 300, 159.5, 119.5, 320, 240};

TEST(AnalyticSceneTest, RaysEnterSolidsWhereTheFormulaSays) {
  const Vector3d from(0, 0, 1), down(0, 0, -2);
  const auto entry = [&](ShapeKind kind, const Vector3d& size) {
    return RayEntry(Standing(kind, size, 0, 0), from, down);
  };
  // From a height of 1 at twice the unit's length.
  EXPECT_NEAR(entry(ShapeKind::kBox, {0.1, 0.1, 0.2}), 0.4, 1e-12);
  EXPECT_NEAR(entry(ShapeKind::kCylinder, {0.1, 0, 0.3}), 0.35, 1e-12);
  EXPECT_NEAR(entry(ShapeKind::kSphere, {0.2, 0, 0}), 0.4, 1e-12);
  // A sphere of radius 0.1 is met at sqrt(0.1² - 0.06²) = 0.08 from its middle.
  EXPECT_NEAR(
      RayEntry(Standing(ShapeKind::kSphere, {0.2, 0, 0}, 0.06, 0), from, down), 0.41, 1e-12);
  EXPECT_EQ(RayEntry(Standing(ShapeKind::kSphere, {0.2, 0, 0}, 0.11, 0), from, down),
            std::numeric_limits<double>::infinity());
  EXPECT_EQ(RayEntry(Standing(ShapeKind::kCylinder, {0.2, 0, 0.1}, 0.11, 0), from, down),
            std::numeric_limits<double>::infinity());
  EXPECT_EQ(RayEntry(Standing(ShapeKind::kBox, {0.2, 0.2, 0.1}, 0.11, 0), from, down),
            std::numeric_limits<double>::infinity());
}

TEST(AnalyticSceneTest, EveryPixelsPointLiesOnWhatItsLabelSays) {
  const AnalyticScene scene = {{Standing(ShapeKind::kBox, {0.1, 0.06, 0.08}, -0.1, 0, 0.5),
                                Standing(ShapeKind::kCylinder, {0.08, 0, 0.12}, 0.05, 0.05),
                                Standing(ShapeKind::kSphere, {0.09, 0, 0}, 0.12, -0.1)}};
  const Isometry3d X_WC = LookAt({0.1, -0.4, 0.4}, {0, 0, 0});
  const RenderedFrame frame = Render(scene, kCamera, X_WC);
  const PointCloud cloud = CloudFromDepth(frame.depth, kCamera);
  std::size_t next = 0;
  std::array<int, 4> seen = {};
  for (std::size_t pixel = 0; pixel < frame.labels.size(); ++pixel) {
    const int label = frame.labels[pixel];
    if (label < 0) {
      EXPECT_EQ(frame.depth.z_m[pixel], 0);
      continue;
    }
    ++seen[label];
    const Vector3d p_W = X_WC * cloud.points[next++];
    if (label == 0) {
      ASSERT_NEAR(p_W.z(), 0, 1e-6);
      continue;
    }
    const Solid& solid = scene.solids[label - 1];
    const Vector3d p_O = solid.X_WO.inverse() * p_W;
    const Vector3d excess = p_O.cwiseAbs() - solid.size_m / 2;
    const double across = std::hypot(p_O.x(), p_O.y()) - solid.size_m.x() / 2;
    const double distance = label == 1   ? excess.maxCoeff()
                            : label == 2 ? std::max(across, excess.z())
                                         : p_O.norm() - solid.size_m.x() / 2;
    ASSERT_NEAR(distance, 0, 1e-6) << label;
  }
  EXPECT_EQ(next, cloud.size());
  for (const int count : seen) EXPECT_GT(count, 100);
}

TEST(AnalyticSceneTest, TheTableIsAPlaneOfTheCamerasFrame) {
  const Isometry3d X_WC = LookAt({0.2, -0.3, 0.5}, {0, 0, 0});
  const Plane table = TablePlaneInCamera(X_WC);
  EXPECT_NEAR(table.SignedDistance(Vector3d::Zero()), 0.5, 1e-12);
  EXPECT_NEAR(table.SignedDistance(X_WC.inverse() * Vector3d(0.3, 0.1, 0)), 0, 1e-12);
  EXPECT_NEAR(table.SignedDistance(X_WC.inverse() * Vector3d(0.3, 0.1, 0.2)), 0.2, 1e-12);
}

TEST(AnalyticSceneTest, TheBuiltinTableFollowsItsSeed) {
  const AnalyticScene a = TableWithSolids(1), b = TableWithSolids(1), c = TableWithSolids(2);
  ASSERT_EQ(a.solids.size(), 24u);
  EXPECT_EQ(a.solids[7].size_m, b.solids[7].size_m);
  EXPECT_NE(a.solids[7].size_m, c.solids[7].size_m);
  const RenderedFrame frame = Render(a, kCamera, TableCamera());
  EXPECT_EQ(*std::max_element(frame.labels.begin(), frame.labels.end()), 24);
}

}  // namespace
}  // namespace palmist::grasp
