/// Leaves out grasps that are near to a better one.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "palmist/grasp/core/grasp.h"

namespace palmist::grasp {

struct NmsOptions {
  double distance_m = 0.03;
  double angle_rad = 0.5235987755982988;  ///< 30 degrees
  /// Whether a grasp turned by 180 degrees about its approach is the same: a parallel gripper's two
  /// fingers are alike. GraspNet's evaluation does not know this.
  bool is_symmetric = false;
};

/// Returns the rows that are kept, by falling score: a later grasp goes where it is nearer than
/// `distance_m` to a kept one and turned from it by less than `angle_rad`, both strictly. Of equal
/// scores the lower row comes first. O(n · kept), by cells of `distance_m`.
/// Source: the rule of `grasp_nms` 1.0.2 (PyPI), observed through its results.
std::vector<std::size_t> NonMaximumSuppression(std::span<const Grasp> grasps,
                                               const NmsOptions& options = {});

}  // namespace palmist::grasp
