#include "palmist/grasp/formats/annotation.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <pugixml.hpp>
#include <sstream>

#include "palmist/base/text.h"
#include "palmist/grasp/formats/parse_file.h"

namespace palmist::grasp {
namespace {

constexpr std::int64_t kMaxXmlBytes = 16 * kMiB;

/// Reads `count` finite numbers from the text of a child element.
Result<std::vector<double>> ParseNumbers(const pugi::xml_node& object,
                                         const char* name,
                                         std::size_t count) {
  std::vector<double> numbers;
  const std::string_view text = object.child_value(name);
  bool is_good = true;
  std::string_view rest = text;
  for (std::string_view word = TakeWord(rest); is_good && !word.empty(); word = TakeWord(rest)) {
    double& value = numbers.emplace_back();
    const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), value);
    is_good = status == std::errc() && end == word.data() + word.size() && std::isfinite(value) &&
              numbers.size() <= count;
  }
  if (!is_good || numbers.size() != count) {
    return InputError(name, fmt::format("expected {} finite numbers, got {}", count, Quote(text)));
  }
  return numbers;
}

Result<AnnotatedObject> ParseObject(const pugi::xml_node& node) {
  AnnotatedObject object;
  PALMIST_ASSIGN_OR_RETURN(const std::vector<double> id, ParseNumbers(node, "obj_id", 1));
  constexpr double kMaxId = 1'000'000;
  if (id[0] != std::floor(id[0]) || id[0] < 0 || id[0] > kMaxId) {
    return InputError("obj_id",
                      fmt::format("expected an integer of 0 to {}, got {}", kMaxId, id[0]));
  }
  object.id = static_cast<int>(id[0]);
  object.name = node.child_value("obj_name");
  object.path = node.child_value("obj_path");
  PALMIST_ASSIGN_OR_RETURN(const std::vector<double> position,
                           ParseNumbers(node, "pos_in_world", 3));
  PALMIST_ASSIGN_OR_RETURN(const std::vector<double> quaternion,
                           ParseNumbers(node, "ori_in_world", 4));
  object.p_CO = Vector3d(position[0], position[1], position[2]);
  if (!(object.p_CO.norm() <= kMaxReach_m)) {
    return InputError(
        "pos_in_world",
        fmt::format("expected a place within {} m, got {:.4g} m", kMaxReach_m, object.p_CO.norm()),
        "write it in metres");
  }
  std::copy(quaternion.begin(), quaternion.end(), object.quaternion_wxyz.begin());
  const double length = std::hypot(std::hypot(quaternion[0], quaternion[1]),
                                   std::hypot(quaternion[2], quaternion[3]));
  if (!(length > 0.5 && length < 2)) {
    return InputError("ori_in_world",
                      fmt::format("expected a quaternion of length 1, got length {}", length));
  }
  return object;
}

}  // namespace

Eigen::Matrix4f AnnotatedObject::Pose() const {
  const auto [w, x, y, z] = quaternion_wxyz;
  const double s = 2 / (w * w + x * x + y * y + z * z);
  Matrix4d X_CO = Matrix4d::Identity();
  X_CO.topLeftCorner<3, 3>() << 1 - s * (y * y + z * z), s * (x * y - w * z), s * (x * z + w * y),
      s * (x * y + w * z), 1 - s * (x * x + z * z), s * (y * z - w * x),  //
      s * (x * z - w * y), s * (y * z + w * x), 1 - s * (x * x + y * y);
  X_CO.topRightCorner<3, 1>() = p_CO;
  return X_CO.cast<float>();
}

Result<std::vector<AnnotatedObject>> ParseAnnotation(std::string_view xml) {
  pugi::xml_document document;
  // The default flags read no document type, so that no entity can be declared.
  const pugi::xml_parse_result parsed = document.load_buffer(xml.data(), xml.size());
  if (!parsed) {
    return InputError({},
                      fmt::format("bad XML at byte {}: {}", parsed.offset, parsed.description()));
  }
  const pugi::xml_node scene = document.child("scene");
  if (!scene) return InputError("scene", "expected this element, it is missing");
  std::vector<AnnotatedObject> objects;
  for (const pugi::xml_node& node : scene.children("obj")) {
    auto object = ParseObject(node);
    if (!object.ok()) {
      return object.error().WithFieldPrefix(fmt::format("scene.obj[{}]", objects.size()));
    }
    objects.push_back(std::move(*object));
  }
  return objects;
}

Result<std::vector<AnnotatedObject>> ReadAnnotation(const std::string& path) {
  return ParseFile(path, kMaxXmlBytes, ParseAnnotation);
}

Result<void> WriteAnnotation(const std::string& path, std::span<const AnnotatedObject> objects) {
  pugi::xml_document document;
  pugi::xml_node scene = document.append_child("scene");
  for (const AnnotatedObject& object : objects) {
    pugi::xml_node node = scene.append_child("obj");
    const auto add = [&](const char* name, const std::string& text) {
      node.append_child(name).text().set(text.c_str());
    };
    add("obj_id", std::to_string(object.id));
    add("obj_name", object.name);
    add("obj_path", object.path);
    add("pos_in_world", fmt::format("{} {} {}", object.p_CO.x(), object.p_CO.y(), object.p_CO.z()));
    add("ori_in_world", fmt::format("{}", fmt::join(object.quaternion_wxyz, " ")));
  }
  std::ostringstream text;
  document.save(text, "    ");
  return WriteFileAtomic(path, text.str());
}

AnnotatedObject MakeAnnotatedObject(int id, const Isometry3d& X_CO) {
  const Eigen::Quaterniond q(X_CO.rotation());
  return {id,
          fmt::format("{:03}.ply", id),
          fmt::format("models/{:03}/nontextured.ply", id),
          X_CO.translation(),
          {q.w(), q.x(), q.y(), q.z()}};
}

}  // namespace palmist::grasp
