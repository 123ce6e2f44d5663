/// What `palmist grasp detect` prints.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "palmist/grasp/core/grasp.h"
#include "palmist/grasp/core/gripper.h"
#include "palmist/grasp/search/detect.h"

namespace palmist::cli {

/// Returns the grasps, in `frame`, with the poses to command the gripper to, the table and times.
nlohmann::ordered_json ToJson(const grasp::Detection& detection,
                              std::span<const grasp::Grasp> grasps,
                              std::string_view frame,
                              const grasp::Gripper& gripper);

/// Returns the best ten grasps as a table; where there are none, what to look at.
std::string FormatDetection(const grasp::Detection& detection,
                            std::span<const grasp::Grasp> grasps,
                            std::string_view frame);

}  // namespace palmist::cli
