/// The page of grasps in a scene: the cloud and the grippers in 3D, and a table.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "palmist/grasp/core/grasp.h"
#include "palmist/grasp/core/gripper.h"
#include "palmist/grasp/core/point_cloud.h"
#include "palmist/report/page.h"

namespace palmist::report {

/// What is shown, all in the camera's frame.
struct GraspScene {
  std::string title;
  const grasp::PointCloud& cloud;
  std::span<const grasp::Grasp> grasps;  ///< best first
  const grasp::Gripper& gripper;
  std::optional<grasp::Plane> table;
  std::vector<std::pair<std::string, double>> timing_s;  ///< stage and seconds
  std::vector<std::string> notes;
};

/// Returns the page of `scene`. Of a large cloud, points taken evenly are shown; of many grasps,
/// the best ones that do not crowd.
Page GraspPage(const GraspScene& scene);

}  // namespace palmist::report
