/// A scene with its grasps as one file, to look at in any viewer of meshes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "palmist/base/result.h"
#include "palmist/grasp/core/grasp.h"
#include "palmist/grasp/core/gripper.h"
#include "palmist/grasp/core/point_cloud.h"

namespace palmist::grasp {

/// Returns the colour of a score between `lowest` and `highest`: red, over yellow, to green. Green
/// where both are the same.
std::array<std::uint8_t, 3> ScoreColor(double score, double lowest, double highest);

/// Writes a binary .ply with the cloud's points as vertices (grey where it has no colours) and the
/// fingers and the palm of the gripper at each grasp as coloured boxes.
Result<void> WriteGraspScenePly(const std::string& path,
                                const PointCloud& cloud,
                                std::span<const Grasp> grasps,
                                const Gripper& gripper);

}  // namespace palmist::grasp
