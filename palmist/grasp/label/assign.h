/// What a network learns of labels, and the best that it could answer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "palmist/grasp/core/camera.h"
#include "palmist/grasp/core/grasp.h"
#include "palmist/grasp/label/label.h"

namespace palmist::grasp {

/// Returns the grasps of an object at the pose X_CO that hold with friction `max_friction` or less,
/// in the camera's frame: least friction first, of one friction in the order of the labels. Scores
/// are 1.1 - friction. They do not collide with the object itself; the scene is not looked at.
GraspGroup OracleGrasps(const ObjectLabels& labels,
                        const Isometry3d& X_CO,
                        std::int64_t object_id,
                        double max_friction = kLabelFrictions.back());

struct AssignOptions {
  int rows = 72, columns = 96;  ///< of cells; they cover the whole image
  /// Whether a grasp turned by half a turn about its approach is the same (NearestAnchor).
  bool is_symmetric = true;
  /// A grasp farther from all anchors is left out: it comes from behind the object.
  double max_angle_rad = 0.5235987755982988;  ///< 30 degrees
};

/// Returns the positives of AVN's output (anchors, rows, columns): for each grasp the cell of the
/// pixel that its point is seen at, and the anchor nearest to its rotation, as the number
/// (anchor · rows + row) · columns + column; rising, each once. Grasps behind the camera or outside
/// of the image are left out.
/// @throws Error (usage) unless there are 1 to 2000 rows and columns, (input) for a camera that
/// CheckIntrinsics refuses
std::vector<std::int32_t> AssignAnchors(std::span<const Grasp> grasps,
                                        const Intrinsics& camera,
                                        const AssignOptions& options = {});

}  // namespace palmist::grasp
