/// Closed meshes of simple solids about the origin, faces outwards.
#pragma once

#include <array>
#include <vector>

#include "palmist/grasp/core/mesh.h"

namespace palmist::grasp {

/// Returns a box with edges of the given lengths.
TriangleMesh BoxMesh(const Vector3d& sizes_m);

/// Returns a body of revolution about z, with `sides` around it, through rings of the given radii,
/// heights rising, and closed by a point of the axis at each end.
TriangleMesh LatheMesh(const std::vector<std::array<double, 2>>& radius_height_m,
                       double lowest_m,
                       double highest_m,
                       int sides);

/// Returns a sphere of `sides` around the axis z, half as many from pole to pole.
TriangleMesh SphereMesh(double radius_m, int sides);

/// Returns a cylinder along z.
TriangleMesh CylinderMesh(double radius_m, double height_m, int sides);

}  // namespace palmist::grasp
