/// Signed distances to a surface on a regular grid: negative inside.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "palmist/grasp/core/pose.h"

namespace palmist::grasp {

struct SignedDistanceGrid {
  std::array<int, 3> dims = {0, 0, 0};
  Vector3d origin_m = Vector3d::Zero();  ///< of the node (0, 0, 0), in the model's frame
  double resolution_m = 0;               ///< between two nodes
  std::vector<float> values_m;           ///< [x][y][z]: z runs fastest

  std::size_t Index(int x, int y, int z) const {
    return (static_cast<std::size_t>(x) * dims[1] + y) * dims[2] + z;
  }
  float at(int x, int y, int z) const { return values_m[Index(x, y, z)]; }
};

}  // namespace palmist::grasp
