/// Grids of exact signed distances, for tests.
#pragma once

#include <algorithm>
#include <array>

#include "palmist/grasp/core/pose.h"
#include "palmist/grasp/core/signed_distance_grid.h"

namespace palmist::grasp {

/// Returns the grid of `distance(p_O)` in metres; its middle is at the origin.
template <typename DistanceFunction>
SignedDistanceGrid GridOf(const DistanceFunction& distance,
                          const std::array<int, 3>& dims,
                          double resolution_m) {
  SignedDistanceGrid grid;
  grid.dims = dims;
  grid.resolution_m = resolution_m;
  grid.origin_m = -0.5 * resolution_m * Vector3d(dims[0] - 1, dims[1] - 1, dims[2] - 1);
  for (int x = 0; x < dims[0]; ++x) {
    for (int y = 0; y < dims[1]; ++y) {
      for (int z = 0; z < dims[2]; ++z) {
        const Vector3d p_O = grid.origin_m + resolution_m * Vector3d(x, y, z);
        grid.values_m.push_back(static_cast<float>(distance(p_O)));
      }
    }
  }
  return grid;
}

/// 41 nodes of 3 mm along each axis.
inline SignedDistanceGrid SphereGrid(double radius_m) {
  return GridOf([&](const Vector3d& p_O) { return p_O.norm() - radius_m; }, {41, 41, 41}, 0.003);
}

/// The half space n·p <= 0.
inline SignedDistanceGrid HalfSpaceGrid(const Vector3d& normal_O) {
  return GridOf([&](const Vector3d& p_O) { return normal_O.dot(p_O); }, {41, 41, 41}, 0.003);
}

inline SignedDistanceGrid BoxGrid(const Vector3d& half_sizes_m, const Matrix3d& R_OB) {
  const auto distance = [&](const Vector3d& p_O) {
    const Vector3d beyond = (R_OB.transpose() * p_O).cwiseAbs() - half_sizes_m;
    return beyond.cwiseMax(0).norm() + std::min(beyond.maxCoeff(), 0.0);
  };
  return GridOf(distance, {41, 41, 41}, 0.003);
}

}  // namespace palmist::grasp
