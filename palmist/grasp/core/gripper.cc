#include "palmist/grasp/core/gripper.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "palmist/base/embedded_file.h"
#include "palmist/base/file.h"
#include "palmist/base/nearest.h"
#include "palmist/base/yaml.h"
#include "palmist/grasp/core/gripper_files.h"

namespace palmist::grasp {
namespace {

constexpr double kMaxLength_m = 1;
constexpr double kMinThickness_m = 1e-4;

const std::array<std::string, 10> kKeys = {"palmist_gripper",
                                           "name",
                                           "finger_length_m",
                                           "finger_thickness_m",
                                           "height_m",
                                           "min_opening_m",
                                           "max_opening_m",
                                           "palm_depth_m",
                                           "sweep_m",
                                           "grasp_point_m"};

/// @throws Error kInput
Gripper ReadGripper(const JsonReader& reader) {
  reader.RejectUnknown(kKeys);
  reader.RequireInt("palmist_gripper", 1, 1);
  Gripper gripper;
  gripper.name = reader.RequireString("name");
  gripper.finger_length_m = reader.RequireDouble("finger_length_m", kMinThickness_m, kMaxLength_m);
  gripper.finger_thickness_m =
      reader.RequireDouble("finger_thickness_m", kMinThickness_m, kMaxLength_m);
  gripper.height_m = reader.RequireDouble("height_m", kMinThickness_m, kMaxLength_m);
  gripper.max_opening_m = reader.RequireDouble("max_opening_m", kMinThickness_m, kMaxLength_m);
  gripper.palm_depth_m = reader.RequireDouble("palm_depth_m", 0, kMaxLength_m);
  gripper.min_opening_m =
      reader.OptionalDouble("min_opening_m", gripper.min_opening_m, 0, kMaxLength_m);
  gripper.sweep_m = reader.OptionalDouble("sweep_m", gripper.sweep_m, 0, kMaxLength_m);
  gripper.grasp_point_m =
      reader.OptionalDouble("grasp_point_m", gripper.grasp_point_m, 0, kMaxLength_m);
  if (gripper.min_opening_m >= gripper.max_opening_m) {
    reader.Fail("min_opening_m",
                fmt::format("expected less than max_opening_m, {}, got {}",
                            gripper.max_opening_m,
                            gripper.min_opening_m));
  }
  if (gripper.grasp_point_m > gripper.finger_length_m) {
    reader.Fail("grasp_point_m",
                fmt::format("expected at most finger_length_m, {}, got {}",
                            gripper.finger_length_m,
                            gripper.grasp_point_m),
                "it is measured from the palm's face towards the tips");
  }
  return gripper;
}

/// Returns the name of the preset in a file "presets/NAME.yaml".
std::string PresetName(const EmbeddedFile& file) {
  const std::size_t begin = file.name.rfind('/') + 1;
  return std::string(file.name.substr(begin, file.name.rfind('.') - begin));
}

}  // namespace

Result<Gripper> ParseGripper(std::string_view yaml) {
  PALMIST_ASSIGN_OR_RETURN(const nlohmann::json json, ParseYaml(yaml));
  try {
    return ReadGripper(JsonReader(json));
  } catch (const Error& error) {
    return error;
  }
}

Result<Gripper> LoadGripper(const std::string& name_or_path) {
  for (const EmbeddedFile& file : core::kGripperFiles) {
    if (name_or_path == PresetName(file)) return ParseGripper(file.content);
  }
  const Result<std::string> yaml = ReadFile(name_or_path);
  if (!yaml.ok()) {
    const std::vector<std::string> presets = GripperPresets();
    const std::string nearest = DidYouMean(name_or_path, presets);
    return InputError("gripper",
                      yaml.error().message(),
                      nearest.empty() ? fmt::format("give a file, or one of the presets {}",
                                                    fmt::join(presets, ", "))
                                      : nearest);
  }
  Result<Gripper> gripper = ParseGripper(*yaml);
  if (!gripper.ok()) return gripper.error().WithFieldPrefix(name_or_path);
  return gripper;
}

std::vector<std::string> GripperPresets() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : core::kGripperFiles) names.push_back(PresetName(file));
  return names;
}

std::array<Box, 3> GripperBoxes(const Gripper& gripper, double width_m, double depth_m) {
  const double base = depth_m - gripper.finger_length_m;
  const double inner = width_m / 2, outer = inner + gripper.finger_thickness_m;
  const double half_height = gripper.height_m / 2;
  return {{{{base, -outer, -half_height}, {depth_m, -inner, half_height}},
           {{base, inner, -half_height}, {depth_m, outer, half_height}},
           {{base - gripper.palm_depth_m, -outer, -half_height}, {base, outer, half_height}}}};
}

TriangleMesh GripperMesh(const Gripper& gripper, const Grasp& grasp) {
  TriangleMesh mesh;
  for (const Box& box : GripperBoxes(gripper, grasp.width_m, grasp.depth_m)) {
    const auto first = static_cast<std::uint32_t>(mesh.vertices.size());
    const TriangleMesh part_G = BoxMesh(box);
    for (const Vector3d& corner_G : part_G.vertices) {
      mesh.vertices.push_back(grasp.R_CG * corner_G + grasp.p_CG);
    }
    for (const auto& [a, b, c] : part_G.triangles) {
      mesh.triangles.push_back({first + a, first + b, first + c});
    }
  }
  return mesh;
}

}  // namespace palmist::grasp
