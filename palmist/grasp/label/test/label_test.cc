#include "palmist/grasp/label/label.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <numbers>
#include <vector>

#include "palmist/base/interrupt.h"
#include "palmist/grasp/contact/signed_distance.h"
#include "palmist/grasp/core/anchors.h"
#include "palmist/grasp/core/mesh_shapes.h"
#include "palmist/grasp/label/content_key.h"

namespace palmist::grasp {
namespace {

using ::testing::HasSubstr;

constexpr double kMm = 1e-3;

/// Few enough candidates for a test.
LabelOptions Coarse() {
  LabelOptions options;
  options.spacing_m = 0.015;
  options.views = 40;
  return options;
}

TEST(SphereViews, ContinueTheViewsOfTheHalfSphere) {
  const std::vector<Vector3d> sphere = SphereViews(300);
  const std::vector<Vector3d> half = Views(150);
  ASSERT_EQ(sphere.size(), 300U);
  EXPECT_TRUE(std::equal(half.begin(), half.end(), sphere.begin()));
  EXPECT_GT(sphere[150].z(), 0);
  for (const Vector3d& view : sphere) EXPECT_NEAR(view.norm(), 1, 1e-12);
}

double Degrees(double radians) { return radians * 180 / std::numbers::pi; }

/// Returns the angle of two directions, of either sign, in degrees.
double LineAngle(const Vector3d& a, const Vector3d& b) {
  return Degrees(std::acos(std::min(1.0, std::abs(a.normalized().dot(b.normalized())))));
}

int CountOfClass(const ObjectLabels& labels, int friction_class) {
  return static_cast<int>(std::count_if(
      labels.grasps.begin(), labels.grasps.end(), [friction_class](const GraspLabel& label) {
        return label.friction_class == friction_class;
      }));
}

TEST(LabelObject, HoldsABoxByItsNarrowSides) {
  const ObjectLabels labels = LabelObject(BoxMesh(Vector3d(40, 110, 110) * kMm), Coarse()).value();
  EXPECT_GT(CountOfClass(labels, 1), 100);
  int far_from_edges = 0;
  for (const GraspLabel& label : labels.grasps) {
    if (label.friction_class == 0) continue;
    const Grasp grasp = GraspOf(labels, label);
    EXPECT_GE(grasp.width_m, 40 * kMm);
    EXPECT_LE(grasp.width_m, 100 * kMm);
    // Near an edge the gradient of distances on a grid is not the face's normal.
    const Vector3d tips = grasp.p_CG + grasp.depth_m * grasp.approach();
    if (tips.cwiseAbs().tail<2>().maxCoeff() > 25 * kMm) continue;
    ++far_from_edges;
    // The sides are flat: the angle of each contact is that of the opening.
    const double angle_deg = LineAngle(grasp.opening(), Vector3d::UnitX());
    const double friction = 1.1 - grasp.score;
    EXPECT_LE(angle_deg, Degrees(std::atan(friction)) + 0.01);
    EXPECT_GE(angle_deg, Degrees(std::atan(friction - 0.1)) - 0.01);
  }
  EXPECT_GT(far_from_edges, 100);
}

TEST(LabelObject, HoldsNoCubeWiderThanTheGripper) {
  const ObjectLabels labels = LabelObject(BoxMesh(Vector3d(110, 110, 110) * kMm), Coarse()).value();
  ASSERT_FALSE(labels.grasps.empty());  // across edges, which the fingers slide off
  EXPECT_EQ(CountOfClass(labels, 0), static_cast<int>(labels.grasps.size()));
}

TEST(LabelObject, KnowsTheAnglesOfASphere) {
  const double radius_m = 30 * kMm;
  const ObjectLabels labels = LabelObject(SphereMesh(radius_m, 64), Coarse()).value();
  EXPECT_GT(CountOfClass(labels, 1), 100);
  for (const GraspLabel& label : labels.grasps) {
    if (label.friction_class == 0) continue;
    const Grasp grasp = GraspOf(labels, label);
    const Vector3d tips = grasp.p_CG + grasp.depth_m * grasp.approach();
    const double offset_m = (tips - tips.dot(grasp.opening()) * grasp.opening()).norm();
    const double angle_deg = Degrees(std::asin(offset_m / radius_m));
    const double friction = 1.1 - grasp.score;
    EXPECT_LE(angle_deg, Degrees(std::atan(friction)) + 1.5);
    EXPECT_GE(angle_deg, Degrees(std::atan(friction - 0.1)) - 1.5);
  }
}

TEST(LabelObject, HoldsACylinderAcrossItsAxis) {
  const ObjectLabels labels = LabelObject(CylinderMesh(25 * kMm, 120 * kMm, 96), Coarse()).value();
  EXPECT_GT(CountOfClass(labels, 1), 100);
  for (const GraspLabel& label : labels.grasps) {
    if (label.friction_class == 1) {
      EXPECT_GT(LineAngle(GraspOf(labels, label).opening(), Vector3d::UnitZ()), 84);
    }
  }
}

TEST(LabelObject, ListsGraspsThatDoNotCollide) {
  const TriangleMesh box = BoxMesh(Vector3d(40, 70, 100) * kMm);
  const ObjectLabels labels = LabelObject(box, Coarse()).value();
  ASSERT_GT(labels.grasps.size(), 1000U);
  const SurfaceSamples surface = SampleSurface(box, 3 * kMm, 77).value();
  const auto is_in = [](double x, double low, double high) {
    constexpr double kSlack_m = 2 * kMm;  // what lies between two points of the cloud
    return x > low + kSlack_m && x < high - kSlack_m;
  };
  for (std::size_t i = 0; i < labels.grasps.size(); i += 37) {
    const Grasp grasp = GraspOf(labels, labels.grasps[i]);
    const double inner_m = grasp.width_m / 2, outer_m = inner_m + 0.01;
    const auto hits = [&](const Vector3d& p) {
      const Vector3d p_G = grasp.R_CG.transpose() * (p - grasp.p_CG);
      const double beside_m = std::abs(p_G.y());
      return is_in(p_G.z(), -0.01, 0.01) &&
             ((is_in(p_G.x(), -0.03, -0.02) && beside_m < outer_m - 2 * kMm) ||
              (is_in(p_G.x(), -0.02, grasp.depth_m) && is_in(beside_m, inner_m, outer_m)));
    };
    EXPECT_TRUE(std::none_of(surface.points.begin(), surface.points.end(), hits)) << i;
  }
}

TEST(LabelObject, DoesNotDependOnTheNumberOfThreads) {
  const TriangleMesh mesh = CylinderMesh(25 * kMm, 60 * kMm, 32);
  LabelOptions options = Coarse();
  const ObjectLabels one = LabelObject(mesh, options).value();
  options.threads = 2;
  const ObjectLabels two = LabelObject(mesh, options).value();
  EXPECT_EQ(one.points_O, two.points_O);
  EXPECT_EQ(one.grasps, two.grasps);
  EXPECT_TRUE(std::is_sorted(
      one.grasps.begin(), one.grasps.end(), [](const GraspLabel& a, const GraspLabel& b) {
        return a.cell < b.cell;
      }));
}

TEST(LabelObject, TakesDistancesACloudAndPoints) {
  const TriangleMesh mesh = SphereMesh(30 * kMm, 64);
  const SignedDistanceGrid grid = SignedDistanceFromMesh(mesh).value();
  const LabelOptions options = Coarse();
  const SurfaceSamples cloud = SampleSurface(mesh, options.cloud_spacing_m, options.seed).value();
  const SurfaceSamples points = SampleSurface(mesh, options.spacing_m, options.seed).value();
  const ObjectLabels labels = LabelObject(grid, cloud.points, points.points, options).value();
  const ObjectLabels of_mesh = LabelObject(mesh, options).value();
  EXPECT_EQ(labels.points_O, of_mesh.points_O);
  EXPECT_EQ(labels.grasps, of_mesh.grasps);
  EXPECT_EQ(labels.key, 0);
  EXPECT_EQ(of_mesh.key, KeyOf(mesh));
}

TEST(LabelObject, RefusesBadInput) {
  EXPECT_THAT(LabelObject(TriangleMesh{}).error().what(), HasSubstr("no faces"));
  const SignedDistanceGrid grid = SignedDistanceFromMesh(SphereMesh(30 * kMm, 16)).value();
  const std::vector<Vector3d> one(1, Vector3d::Zero());
  EXPECT_THAT(LabelObject(grid, {}, one).error().what(), HasSubstr("cloud: has no points"));
  EXPECT_THAT(LabelObject(grid, one, {}).error().what(), HasSubstr("points: has no points"));
  const std::vector<Vector3d> nan(1, Vector3d(0, std::numeric_limits<double>::quiet_NaN(), 0));
  EXPECT_THAT(LabelObject(grid, nan, one).error().what(), HasSubstr("cloud: point 0 is not fin"));
  EXPECT_THAT(LabelObject(grid, one, nan).error().what(), HasSubstr("points: point 0 is not fin"));
  EXPECT_THAT(LabelObject(SignedDistanceGrid{}, one, one).error().what(), HasSubstr("grid"));
  LabelOptions options;
  options.views = 100000;
  options.angles = 1000;
  options.depths = 8;
  const std::vector<Vector3d> three = {Vector3d::Zero(), Vector3d::UnitX(), Vector3d::UnitY()};
  EXPECT_THAT(LabelObject(grid, one, three, options).error().what(), HasSubstr("2^31"));
}

// In a child process, so that the flag does not reach the next test.
[[noreturn]] void LabelAfterASignal() {
  const TriangleMesh mesh = SphereMesh(30 * kMm, 16);
  const SignedDistanceGrid grid = SignedDistanceFromMesh(mesh).value();
  const SurfaceSamples surface = SampleSurface(mesh, 5 * kMm, 0).value();
  InstallInterruptHandler();
  std::raise(SIGINT);
  LabelOptions options = Coarse();
  options.threads = 2;
  const auto labels = LabelObject(grid, surface.points, surface.points, options);
  std::_Exit(!labels.ok() && labels.error().kind() == ErrorKind::kInterrupted ? 0 : 1);
}

TEST(LabelObjectDeathTest, StopsAfterASignal) {
  EXPECT_EXIT(LabelAfterASignal(), ::testing::ExitedWithCode(0), "");
}

TEST(LabelObject, NamesAnOptionOutOfRange) {
  LabelOptions options;
  options.depths = 9;
  EXPECT_THROW((void)LabelObject(SphereMesh(30 * kMm, 16), options), Error);
  EXPECT_THAT(CheckOptions(options).error().what(), HasSubstr("depths"));
  options = {};
  options.max_width_m = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(CheckOptions(options).error().what(), HasSubstr("max_width_m"));
  options = {};
  options.threads = 4096;
  EXPECT_TRUE(CheckOptions(options).ok());
  options.threads = 4097;
  EXPECT_THAT(CheckOptions(options).error().what(), HasSubstr("threads"));
}

}  // namespace
}  // namespace palmist::grasp
