/// Triangle meshes.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "palmist/grasp/core/pose.h"

namespace palmist::grasp {

struct TriangleMesh {
  std::vector<Vector3d> vertices;  ///< metres
  std::vector<std::array<std::uint32_t, 3>> triangles;
};

/// An axis-aligned box of a frame.
struct Box {
  Vector3d lower_m, upper_m;
};

/// Returns the closed mesh of a box: 8 vertices, 12 triangles, faces outwards, opposite faces one
/// after the other.
TriangleMesh BoxMesh(const Box& box);

/// What a mesh is like, after WeldVertices.
struct MeshReport {
  std::size_t boundary_edges = 0;      ///< used by one triangle
  std::size_t crowded_edges = 0;       ///< used by more than two
  std::size_t inconsistent_edges = 0;  ///< run through twice in one direction
  double volume_m3 = 0;                ///< signed; of no meaning where the mesh is open
  Vector3d lower_m = Vector3d::Zero(), upper_m = Vector3d::Zero();

  bool closed() const { return boundary_edges == 0 && crowded_edges == 0; }
};

/// @pre here and below: the triangles' numbers are those of vertices
MeshReport Inspect(const TriangleMesh& mesh);

/// Returns the mesh with vertices of one position merged, and without triangles of no area or of
/// the same corners in the same turn as an earlier one.
TriangleMesh WeldVertices(const TriangleMesh& mesh);

}  // namespace palmist::grasp
