#include "palmist/cli/grasp_detection_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace palmist::cli {

nlohmann::ordered_json ToJson(const grasp::Detection& detection,
                              std::span<const grasp::Grasp> grasps,
                              std::string_view frame,
                              const grasp::Gripper& gripper) {
  nlohmann::ordered_json json = {{"grasps", nlohmann::json::array()}, {"frame", frame}};
  for (const grasp::Grasp& grasp : grasps) {
    nlohmann::ordered_json rotation = nlohmann::json::array();
    for (int i = 0; i < 9; ++i) rotation.push_back(grasp.R_CG(i / 3, i % 3));
    const grasp::Vector3d command = grasp::CommandedPose(grasp, gripper).translation();
    json["grasps"].push_back(
        {{"score", grasp.score},
         {"width_m", grasp.width_m},
         {"height_m", grasp.height_m},
         {"depth_m", grasp.depth_m},
         {"rotation", std::move(rotation)},
         {"translation_m", {grasp.p_CG.x(), grasp.p_CG.y(), grasp.p_CG.z()}},
         {"commanded_translation_m", {command.x(), command.y(), command.z()}}});
  }
  json["gripper"] = gripper.name;
  if (detection.table) {
    const grasp::Vector3d& normal = detection.table->normal;
    json["table"] = {{"normal", {normal.x(), normal.y(), normal.z()}},
                     {"offset_m", detection.table->offset_m}};
  }
  json["candidates"] = detection.candidates;
  json["timing_s"] = nlohmann::ordered_json::object();
  for (const grasp::StageTime& stage : detection.times)
    json["timing_s"][stage.stage] = stage.time_s;
  return json;
}

std::string FormatDetection(const grasp::Detection& detection,
                            std::span<const grasp::Grasp> grasps,
                            std::string_view frame) {
  double total_s = 0;
  for (const grasp::StageTime& stage : detection.times) total_s += stage.time_s;
  std::string text = fmt::format("{} grasps of {} candidates on {} points, {:.0f} ms, {} frame\n",
                                 grasps.size(),
                                 detection.candidates,
                                 detection.object_points,
                                 total_s * 1e3,
                                 frame);
  if (grasps.empty()) {
    text += detection.object_points == 0
                ? "nothing stands on the table: check --camera, --workspace and --table\n"
                : "nothing fits between the fingers without a collision: check --gripper\n";
    return text;
  }
  text +=
      "\n  score   opening     position, m              approach                 closes along\n";
  for (const grasp::Grasp& grasp : grasps.first(std::min<std::size_t>(grasps.size(), 10))) {
    const auto numbers = [](const grasp::Vector3d& v) {
      return fmt::format("{:7.3f} {:7.3f} {:7.3f}", v.x(), v.y(), v.z());
    };
    text += fmt::format("{:7.3f} {:6.0f} mm   {}  {}  {}\n",
                        grasp.score,
                        grasp.width_m * 1e3,
                        numbers(grasp.p_CG),
                        numbers(grasp.approach()),
                        numbers(grasp.opening()));
  }
  if (grasps.size() > 10) text += fmt::format("  and {} more\n", grasps.size() - 10);
  return text;
}

}  // namespace palmist::cli
