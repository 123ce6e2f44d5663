#include "palmist/grasp/label/assign.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "palmist/grasp/core/anchors.h"

namespace palmist::grasp {

GraspGroup OracleGrasps(const ObjectLabels& labels,
                        const Isometry3d& X_CO,
                        std::int64_t object_id,
                        double max_friction) {
  GraspGroup grasps;
  for (std::size_t k = 0; k < kLabelFrictions.size() && kLabelFrictions[k] <= max_friction; ++k) {
    for (const GraspLabel& label : labels.grasps) {
      if (label.friction_class != k + 1) continue;
      grasps.push_back(Transformed(X_CO, GraspOf(labels, label)));
      grasps.back().object_id = object_id;
    }
  }
  return grasps;
}

std::vector<std::int32_t> AssignAnchors(std::span<const Grasp> grasps,
                                        const Intrinsics& camera,
                                        const AssignOptions& options) {
  constexpr int kMost = 2000;  // squared and times kAnchors it is still an int32
  if (std::min(options.rows, options.columns) < 1 ||
      std::max(options.rows, options.columns) > kMost) {
    throw UsageError("rows",
                     fmt::format("expected 1 to {} rows and columns, got {} and {}",
                                 kMost,
                                 options.rows,
                                 options.columns));
  }
  CheckIntrinsics(camera, camera.width, camera.height).value();
  std::vector<std::int32_t> positives;
  for (const Grasp& grasp : grasps) {
    const Vector3d& p = grasp.p_CG;
    if (!(p.z() > 0)) continue;
    // Pixel 0 covers [-1/2, 1/2).
    const double u = camera.fx * p.x() / p.z() + camera.cx + 0.5;
    const double v = camera.fy * p.y() / p.z() + camera.cy + 0.5;
    if (!(u >= 0 && u < camera.width && v >= 0 && v < camera.height)) continue;
    const int anchor = NearestAnchor(grasp.R_CG, options.is_symmetric);
    const Matrix3d& Ra = AnchorRotations()[anchor];
    const Matrix3d half_turn = Vector3d(1, -1, -1).asDiagonal();
    double angle_rad = RotationAngle(Ra, grasp.R_CG);
    if (options.is_symmetric) {
      angle_rad = std::min(angle_rad, RotationAngle(Ra, grasp.R_CG * half_turn));
    }
    if (angle_rad > options.max_angle_rad) continue;
    const int row = std::min(static_cast<int>(v * options.rows / camera.height), options.rows - 1);
    const int column =
        std::min(static_cast<int>(u * options.columns / camera.width), options.columns - 1);
    positives.push_back((anchor * options.rows + row) * options.columns + column);
  }
  std::sort(positives.begin(), positives.end());
  positives.erase(std::unique(positives.begin(), positives.end()), positives.end());
  return positives;
}

}  // namespace palmist::grasp
