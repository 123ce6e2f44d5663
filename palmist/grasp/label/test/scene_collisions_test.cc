#include "palmist/grasp/label/scene_collisions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

#include "palmist/base/interrupt.h"
#include "palmist/grasp/contact/signed_distance.h"
#include "palmist/grasp/core/gripper.h"
#include "palmist/grasp/core/mesh_shapes.h"
#include "palmist/grasp/formats/npz.h"
#include "palmist/grasp/formats/test/test_files.h"

namespace palmist::grasp {
namespace {

using ::testing::HasSubstr;

Isometry3d Pose(const Vector3d& p, double angle_rad, const Vector3d& axis) {
  Isometry3d X(Eigen::AngleAxisd(angle_rad, axis.normalized()));
  X.pretranslate(p);
  return X;
}

/// Boxes of 4 x 6 x 5 cm.
class SceneCollisionsTest : public ::testing::Test {
 protected:
  SceneCollisionsTest() {
    const TriangleMesh mesh = BoxMesh(Vector3d(0.04, 0.06, 0.05));
    LabelOptions options;
    options.spacing_m = 0.02;
    options.views = 60;
    labels_ = LabelObject(mesh, options).value();
    cloud_ = SampleSurface(mesh, options.cloud_spacing_m, options.seed).value().points;
  }

  PlacedObject At(const Isometry3d& X_CO) const { return {0, &labels_, cloud_, X_CO}; }
  PlacedObject At(const Vector3d& p) const { return At(Pose(p, 0, Vector3d::UnitZ())); }

  ObjectLabels labels_;
  std::vector<Vector3d> cloud_;
};

/// Returns what SceneCollisions should, by the gripper's boxes and each point.
bool Collides(const Grasp& grasp,
              const std::vector<Vector3d>& points,
              const std::optional<Plane>& table) {
  const double outer = grasp.width_m / 2 + kFingerThickness_m;
  for (const Vector3d& p : points) {
    const Vector3d g = grasp.R_CG.transpose() * (p - grasp.p_CG);
    if (std::abs(g.z()) >= kHalfHeight_m || std::abs(g.y()) >= outer) continue;
    const bool in_finger =
        g.x() > -kFingersBehind_m && g.x() < grasp.depth_m && std::abs(g.y()) > grasp.width_m / 2;
    const bool in_palm = g.x() > -kFingersBehind_m - kPalmDepth_m && g.x() < -kFingersBehind_m;
    if (in_finger || in_palm) return true;
  }
  for (int corner = 0; corner < 8 && table; ++corner) {
    const Vector3d g((corner & 1) != 0 ? grasp.depth_m : -kFingersBehind_m - kPalmDepth_m,
                     (corner & 2) != 0 ? outer : -outer,
                     (corner & 4) != 0 ? kHalfHeight_m : -kHalfHeight_m);
    if (table->SignedDistance(grasp.p_CG + grasp.R_CG * g) <= 0) return true;
  }
  return false;
}

TEST_F(SceneCollisionsTest, AreThoseOfEachPointAndCorner) {
  // T is a frame near the table, which is tilted in it; the camera is at X_CT.
  const Isometry3d X_CT = Pose({0.1, -0.05, 0.6}, 2.4, {1, 0.3, -0.2});
  const std::vector<Isometry3d> X_TO = {Pose({0, 0, 0.045}, 0.5, {0.2, 1, 0.1}),
                                        Pose({0.075, 0.01, 0.04}, -0.8, {1, -0.4, 0.9})};
  const std::vector<PlacedObject> scene = {At(X_CT * X_TO[0]), At(X_CT * X_TO[1])};
  const Vector3d normal_T = Vector3d(0.2, -0.1, 1).normalized();
  const Vector3d normal_C = X_CT.linear() * normal_T;
  const Plane table_C{normal_C, normal_C.dot(X_CT * Vector3d(0.02, 0, -0.002))};
  for (const bool has_table : {false, true}) {
    const std::optional<Plane> plane = has_table ? std::optional(table_C) : std::nullopt;
    const auto flags = SceneCollisions(scene, plane, 1).value();
    ASSERT_EQ(flags.size(), 2U);
    for (const std::size_t self : {0, 1}) {
      ASSERT_EQ(flags[self].size(), labels_.grasps.size());
      std::vector<Vector3d> others_C;
      for (const Vector3d& p_O : cloud_) others_C.push_back(scene[1 - self].X_CO * p_O);
      std::size_t differ = 0, collide = 0;
      for (std::size_t i = 0; i < labels_.grasps.size(); ++i) {
        const Grasp grasp = Transformed(scene[self].X_CO, GraspOf(labels_, labels_.grasps[i]));
        differ += Collides(grasp, others_C, plane) != (flags[self][i] != 0);
        collide += flags[self][i];
      }
      EXPECT_GT(collide, labels_.grasps.size() / 20);
      EXPECT_LT(collide, labels_.grasps.size() * 19 / 20);
      // Points are compared in single precision.
      EXPECT_LE(differ, labels_.grasps.size() / 1000);
    }
  }
}

TEST_F(SceneCollisionsTest, FarObjectsDoNotMatterAndThreadsNeither) {
  const std::vector<PlacedObject> far = {At({0, 0, 1}), At({0.5, 0, 1})};
  const std::vector<CollisionFlags> apart = SceneCollisions(far, std::nullopt, 2).value();
  for (const CollisionFlags& flags : apart) {
    EXPECT_EQ(flags, CollisionFlags(labels_.grasps.size(), 0));
  }
  const std::vector<PlacedObject> near = {At({0, 0, 0.025}), At({0.07, 0.01, 0.025})};
  const Plane table{Vector3d::UnitZ(), 0};
  EXPECT_EQ(SceneCollisions(near, table, 1).value(), SceneCollisions(near, table, 2).value());
}

TEST_F(SceneCollisionsTest, ASignalStopsWithinTheScene) {
  // In a child process, so that the signal does not reach the next test.
  const std::vector<PlacedObject> scene = {At({0, 0, 0.025}), At({0.07, 0.01, 0.025})};
  const auto stop = [&] {
    InstallInterruptHandler();
    std::raise(SIGINT);
    const auto flags = SceneCollisions(scene, std::nullopt, 2);
    std::_Exit(!flags.ok() && flags.error().kind() == ErrorKind::kInterrupted ? 0 : 1);
  };
  EXPECT_EXIT(stop(), ::testing::ExitedWithCode(0), "");
}

TEST_F(SceneCollisionsTest, AreWrittenAndRead) {
  const Folder folder;
  const std::string path = folder.File("flags.npz");
  const SceneLabels labels = {{3, 7}, {{0, 1, 1}, {}}, -5};
  WriteSceneLabels(path, labels).value();
  const SceneLabels read = ReadSceneLabels(path).value();
  EXPECT_EQ(read.objects, labels.objects);
  EXPECT_EQ(read.collides, labels.collides);
  EXPECT_EQ(read.key, -5);

  NpzArrays arrays = ReadNpz(path).value();
  const std::vector<std::int64_t> two = {1, 2};
  arrays["key"] = MakeNpyArray<std::int64_t>({2}, two);
  WriteNpz(path, arrays).value();
  EXPECT_THAT(Message(ReadSceneLabels(path)), HasSubstr("key: expected int64 of the shape (1,)"));
  arrays.erase("key");
  WriteNpz(path, arrays).value();
  EXPECT_THAT(Message(ReadSceneLabels(path)), HasSubstr("key: expected int64 of the shape (1,)"));
  WriteSceneLabels(path, {{3}, {{2}}}).value();
  EXPECT_THAT(Message(ReadSceneLabels(path)), HasSubstr("arr_0: expected 0 or 1"));
  WriteSceneLabels(path, {{3, 4}, {{1}}}).value();
  EXPECT_THAT(Message(ReadSceneLabels(path)), HasSubstr("arr_1"));
  WriteNpz(path, {}).value();
  EXPECT_THAT(Message(ReadSceneLabels(path)), HasSubstr("objects"));
}

}  // namespace
}  // namespace palmist::grasp
