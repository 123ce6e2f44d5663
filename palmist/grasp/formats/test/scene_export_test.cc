#include "palmist/grasp/formats/scene_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "palmist/grasp/core/mesh.h"
#include "palmist/grasp/formats/ply.h"
#include "test_files.h"

namespace palmist::grasp {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

TEST(SceneExport, ColoursRunFromRedToGreen) {
  EXPECT_THAT(ScoreColor(0, 0, 2), ElementsAre(255, 0, 0));
  EXPECT_THAT(ScoreColor(1, 0, 2), ElementsAre(255, 255, 0));
  EXPECT_THAT(ScoreColor(2, 0, 2), ElementsAre(0, 255, 0));
  EXPECT_THAT(ScoreColor(9, 0, 2), ElementsAre(0, 255, 0));
  EXPECT_THAT(ScoreColor(1, 1, 1), ElementsAre(0, 255, 0));
}

TEST(SceneExport, DrawsTheGrippersBoxes) {
  Gripper gripper;
  gripper.finger_length_m = 0.25;
  gripper.finger_thickness_m = 0.125;
  gripper.height_m = 0.5;
  gripper.palm_depth_m = 0.0625;
  Grasp worst, best;
  worst.score = 0.1;
  worst.width_m = best.width_m = 0.5;
  worst.depth_m = best.depth_m = 0.125;
  best.score = 0.9;
  // x, the approach, along the camera's z; y, the opening, along its x.
  best.R_CG << 0, 1, 0, 0, 0, 1, 1, 0, 0;
  best.p_CG = {1, 2, 3};
  const PointCloud points{{{7, 7, 7}}, {}};
  const Folder folder;
  ASSERT_TRUE(
      WriteGraspScenePly(folder.File("a.ply"), points, std::array{worst, best}, gripper).ok());
  const std::string bytes = ReadFile(folder.File("a.ply")).value();
  const PointCloud cloud = ParsePlyCloud(bytes).value();
  ASSERT_EQ(cloud.size(), 1U + 2 * 3 * 8);
  EXPECT_EQ(cloud.points[0], Vector3d(7, 7, 7));
  EXPECT_THAT(std::vector(cloud.colors.begin() + 1, cloud.colors.begin() + 25),
              Each(ElementsAre(255, 0, 0)));
  EXPECT_THAT(std::vector(cloud.colors.begin() + 25, cloud.colors.end()),
              Each(ElementsAre(0, 255, 0)));

  const TriangleMesh mesh = ParsePlyMesh(bytes).value();
  ASSERT_EQ(mesh.triangles.size(), 2U * 3 * 12);
  // Each box is closed and looks outwards: its volume is positive.
  const std::array<double, 3> volumes = {
      0.25 * 0.125 * 0.5, 0.25 * 0.125 * 0.5, 0.0625 * 0.75 * 0.5};
  for (std::size_t box = 0; box < 6; ++box) {
    TriangleMesh part{mesh.vertices, {}};
    part.triangles.assign(mesh.triangles.begin() + static_cast<std::ptrdiff_t>(12 * box),
                          mesh.triangles.begin() + static_cast<std::ptrdiff_t>(12 * (box + 1)));
    const MeshReport report = Inspect(part);
    EXPECT_TRUE(report.closed());
    EXPECT_EQ(report.inconsistent_edges, 0U);
    EXPECT_NEAR(report.volume_m3, volumes[box % 3], 1e-6);
  }
  // The best grasp fills x: 1 ± 0.375, y: 2 ± 0.25, z: 3 + 0.125 back to the palm's end.
  Vector3d lower = cloud.points[25], upper = cloud.points[25];
  for (std::size_t i = 25; i < cloud.size(); ++i) {
    lower = lower.cwiseMin(cloud.points[i]);
    upper = upper.cwiseMax(cloud.points[i]);
  }
  EXPECT_TRUE(lower.isApprox(Vector3d(0.625, 1.75, 3 + 0.125 - 0.25 - 0.0625), 1e-6)) << lower;
  EXPECT_TRUE(upper.isApprox(Vector3d(1.375, 2.25, 3.125), 1e-6)) << upper;
}

TEST(SceneExport, WritesACloudWithoutGrasps) {
  const Folder folder;
  const PointCloud points{{{1, 2, 3}}, {{9, 8, 7}}};
  ASSERT_TRUE(WriteGraspScenePly(folder.File("a.ply"), points, {}, Gripper{}).ok());
  EXPECT_EQ(ReadPlyCloud(folder.File("a.ply")).value().colors, points.colors);
}

}  // namespace
}  // namespace palmist::grasp
