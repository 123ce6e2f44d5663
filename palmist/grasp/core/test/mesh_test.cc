#include "palmist/grasp/core/mesh.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "palmist/base/error.h"
#include "palmist/grasp/core/test/random_rotation.h"

namespace palmist::grasp {
namespace {

/// Returns a box with corners at 0 and `edges_m`.
TriangleMesh CornerBox(const Vector3d& edges_m) { return BoxMesh({Vector3d::Zero(), edges_m}); }

/// Returns the mesh with vertices of its own for each triangle, as STL has it.
TriangleMesh Unwelded(const TriangleMesh& mesh) {
  TriangleMesh result;
  for (const auto& triangle : mesh.triangles) {
    const auto first = static_cast<std::uint32_t>(result.vertices.size());
    for (const std::uint32_t corner : triangle) result.vertices.push_back(mesh.vertices[corner]);
    result.triangles.push_back({first, first + 1, first + 2});
  }
  return result;
}

TEST(InspectTest, ABoxIsClosedAndHasItsVolume) {
  const MeshReport report = Inspect(CornerBox({0.1, 0.2, 0.3}));
  EXPECT_TRUE(report.closed());
  EXPECT_EQ(report.inconsistent_edges, 0U);
  EXPECT_NEAR(report.volume_m3, 0.006, 1e-15);
  EXPECT_EQ(report.lower_m, Vector3d::Zero());
  EXPECT_EQ(report.upper_m, Vector3d(0.1, 0.2, 0.3));
}

TEST(InspectTest, TheVolumeIsThatOfAnyPose) {
  Rng rng(1);
  TriangleMesh mesh = CornerBox({0.1, 0.2, 0.3});
  const Matrix3d R = RandomRotation(rng);
  for (Vector3d& vertex : mesh.vertices) vertex = R * vertex + Vector3d(100, -200, 300);
  EXPECT_NEAR(Inspect(mesh).volume_m3, 0.006, 1e-12);
}

TEST(InspectTest, ADefectIsCounted) {
  TriangleMesh open = CornerBox({1, 1, 1});
  open.triangles.pop_back();
  EXPECT_EQ(Inspect(open).boundary_edges, 3U);
  EXPECT_FALSE(Inspect(open).closed());

  TriangleMesh flipped = CornerBox({1, 1, 1});
  std::swap(flipped.triangles[0][1], flipped.triangles[0][2]);
  EXPECT_EQ(Inspect(flipped).inconsistent_edges, 3U);
  EXPECT_TRUE(Inspect(flipped).closed());

  TriangleMesh fin = CornerBox({1, 1, 1});
  fin.vertices.push_back({2, 2, 2});
  fin.triangles.push_back({0, 1, 8});
  EXPECT_EQ(Inspect(fin).crowded_edges, 1U);
  EXPECT_EQ(Inspect(fin).boundary_edges, 2U);
  EXPECT_FALSE(Inspect(fin).closed());

  TriangleMesh inside_out = CornerBox({1, 1, 1});
  for (auto& triangle : inside_out.triangles) std::swap(triangle[1], triangle[2]);
  EXPECT_EQ(Inspect(inside_out).volume_m3, -1);
  EXPECT_EQ(Inspect(inside_out).inconsistent_edges, 0U);
}

TEST(InspectTest, WeldsFirst) {
  const MeshReport report = Inspect(Unwelded(CornerBox({1, 1, 1})));
  EXPECT_TRUE(report.closed());
  EXPECT_NEAR(report.volume_m3, 1, 1e-15);
}

TEST(InspectTest, NothingIsClosedAndEmpty) {
  const MeshReport report = Inspect({});
  EXPECT_TRUE(report.closed());
  EXPECT_EQ(report.volume_m3, 0);
}

TEST(WeldVerticesTest, MergesVerticesOfOnePosition) {
  const TriangleMesh welded = WeldVertices(Unwelded(CornerBox({1, 1, 1})));
  EXPECT_EQ(welded.vertices.size(), 8U);
  EXPECT_EQ(welded.triangles.size(), 12U);
  EXPECT_EQ(WeldVertices({{{0, 0, 0}, {-0.0, 0, -0.0}, {0, 0, 1e-300}}, {}}).vertices.size(), 2U);
}

TEST(WeldVerticesTest, LeavesOutTrianglesOfNoArea) {
  const TriangleMesh mesh = {{{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {2, 0, 0}, {0, 0, 0}},
                             {{0, 1, 2}, {0, 1, 3}, {0, 0, 1}, {0, 4, 2}}};
  EXPECT_EQ(WeldVertices(mesh).triangles, (std::vector<std::array<std::uint32_t, 3>>{{0, 1, 2}}));
}

TEST(WeldVerticesTest, LeavesOutTrianglesThatAreThereAlready) {
  // The last is the other side of the first.
  const TriangleMesh mesh = {{{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {0, 0, 0}},
                             {{1, 2, 0}, {0, 1, 2}, {2, 4, 1}, {0, 1, 3}, {0, 2, 1}}};
  EXPECT_EQ(WeldVertices(mesh).triangles,
            (std::vector<std::array<std::uint32_t, 3>>{{1, 2, 0}, {0, 1, 3}, {0, 2, 1}}));
}

TEST(WeldVerticesTest, TakesNumbersThatAreNotFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const TriangleMesh mesh = {{{nan, 0, 0}, {nan, 0, 0}, {0, 1, 0}}, {{0, 1, 2}}};
  EXPECT_EQ(WeldVertices(mesh).vertices.size(), 3U);
}

TEST(WeldVerticesTest, ANumberOfNoVertexIsOurBug) {
  EXPECT_THROW(WeldVertices({{{0, 0, 0}}, {{0, 0, 1}}}), Error);
}

}  // namespace
}  // namespace palmist::grasp
