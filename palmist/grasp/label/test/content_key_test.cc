#include "palmist/grasp/label/content_key.h"

#include <gtest/gtest.h>

#include <string_view>

#include "palmist/grasp/contact/signed_distance.h"
#include "palmist/grasp/core/mesh_shapes.h"

namespace palmist::grasp {
namespace {

TEST(ContentKey, IsFnv1a) {
  EXPECT_EQ(static_cast<std::uint64_t>(ContentKey().value()), 0xcbf29ce484222325U);
  ContentKey key;
  const std::string_view text = "foobar";  // of the draft's test vectors
  key.Add(std::span(text));
  EXPECT_EQ(static_cast<std::uint64_t>(key.value()), 0x85944171f73967e8U);
}

TEST(ContentKey, ChangesWithEachPartOfAModel) {
  const TriangleMesh mesh = BoxMesh(Vector3d(0.04, 0.06, 0.05));
  const SignedDistanceGrid grid = SignedDistanceFromMesh(mesh).value();
  const std::int64_t of_mesh = KeyOf(mesh), of_both = KeyOf(mesh, &grid);
  EXPECT_NE(of_mesh, of_both);
  EXPECT_EQ(KeyOf(TriangleMesh(mesh)), of_mesh);
  TriangleMesh changed = mesh;
  changed.vertices[3].y() += 1e-9;
  EXPECT_NE(KeyOf(changed), of_mesh);
  changed = mesh;
  std::swap(changed.triangles[0][0], changed.triangles[0][1]);
  EXPECT_NE(KeyOf(changed), of_mesh);
  for (int part = 0; part < 4; ++part) {
    SignedDistanceGrid other = grid;
    if (part == 0) std::swap(other.dims[0], other.dims[1]);
    if (part == 1) other.origin_m.z() += 1e-9;
    if (part == 2) other.resolution_m *= 2;
    if (part == 3) other.values_m.back() += 1e-6F;
    EXPECT_NE(KeyOf(mesh, &other), of_both) << part;
  }
}

TEST(ContentKey, ChangesWithEachPartOfLabels) {
  ObjectLabels labels;
  labels.points_O = {Vector3d(0.25, -0.5, 1), Vector3d(0, 0, 0.125)};
  labels.grasps = {{3, 4, 1}, {15, 20, 0}};
  labels.key = 7;
  for (int part = 0; part < 7; ++part) {
    ObjectLabels other = labels;
    if (part == 0) other.key = 8;
    if (part == 1) other.points_O[1].x() = 1;
    if (part == 2) other.grasps[1].cell = 16;
    if (part == 3) other.grasps[0].width_steps = 5;
    if (part == 4) other.grasps[0].friction_class = 2;
    if (part == 5) other.options.angles = 6;
    if (part == 6) other.options.seed = 1;
    EXPECT_NE(KeyOf(other), KeyOf(labels)) << part;
  }
}

}  // namespace
}  // namespace palmist::grasp
