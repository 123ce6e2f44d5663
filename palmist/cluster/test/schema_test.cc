/// The published schemas and the readers agree.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "palmist/base/file.h"
#include "palmist/cluster/calibration.h"
#include "palmist/cluster/cluster_file.h"
#include "palmist/cluster/presets.h"

namespace palmist::cluster {
namespace {

using nlohmann::json;

/// Checks the part of JSON Schema (draft 2020-12) that our schemas use.
class Schema {
 public:
  explicit Schema(const std::string& name) {
    root_ = *ParseJson(*ReadFile(std::string(PALMIST_SOURCE_DIR "/docs/schemas/") + name));
  }

  /// Returns what is wrong with `value`, or "".
  std::string Check(const json& value) const { return Check(value, root_, "#"); }

 private:
  static bool HasType(const json& value, const std::string& type) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_boolean();
    if (type == "integer") return value.is_number_integer();
    return type == "number" && value.is_number();
  }

  std::string Check(const json& value, const json& schema, const std::string& path) const {
    if (schema.is_boolean()) return schema.get<bool>() ? "" : path + ": not allowed";
    std::string wrong;
    for (const auto& [keyword, expected] : schema.items()) {
      wrong = CheckKeyword(value, schema, keyword, expected, path);
      if (!wrong.empty()) return wrong;
    }
    return {};
  }

  std::string CheckKeyword(const json& value,
                           const json& schema,
                           const std::string& keyword,
                           const json& expected,
                           const std::string& path) const {
    const std::string wrong = path + ": " + keyword + " " + expected.dump();
    if (keyword == "$ref") {
      return Check(
          value, root_.at(json::json_pointer(expected.get<std::string>().substr(1))), path);
    }
    if (keyword == "type") return HasType(value, expected) ? "" : wrong;
    if (keyword == "const") return value == expected ? "" : wrong;
    if (keyword == "enum") {
      for (const json& option : expected) {
        if (value == option) return "";
      }
      return wrong;
    }
    if (keyword == "oneOf") {
      int fitting = 0;
      for (const json& option : expected) fitting += Check(value, option, path).empty();
      return fitting == 1 ? "" : wrong;
    }
    if (keyword == "minimum" && value.is_number()) return value >= expected ? "" : wrong;
    if (keyword == "maximum" && value.is_number()) return value <= expected ? "" : wrong;
    if (value.is_string() && (keyword == "minLength" || keyword == "maxLength")) {
      const auto length = value.get_ref<const std::string&>().size();
      const auto bound = expected.get<std::size_t>();
      return (keyword == "minLength" ? length >= bound : length <= bound) ? "" : wrong;
    }
    if (value.is_array()) {
      if (keyword == "minItems") return value.size() >= expected.get<std::size_t>() ? "" : wrong;
      if (keyword == "maxItems") return value.size() <= expected.get<std::size_t>() ? "" : wrong;
      if (keyword == "items") {
        for (std::size_t i = 0; i < value.size(); ++i) {
          auto inner = Check(value[i], expected, path + "/" + std::to_string(i));
          if (!inner.empty()) return inner;
        }
      }
    }
    if (value.is_object() && keyword == "required") {
      for (const json& key : expected) {
        if (!value.contains(key.get<std::string>())) return path + ": lacks " + key.dump();
      }
    }
    if (value.is_object() && (keyword == "properties" || keyword == "additionalProperties")) {
      return CheckMembers(value, schema, keyword, path);
    }
    return {};
  }

  std::string CheckMembers(const json& value,
                           const json& schema,
                           const std::string& keyword,
                           const std::string& path) const {
    const json none = json::object();
    const json& properties = schema.contains("properties") ? schema["properties"] : none;
    for (const auto& [key, member] : value.items()) {
      const bool named = properties.contains(key);
      if (named != (keyword == "properties")) continue;
      if (!named && key.starts_with("x_") && schema.contains("patternProperties")) continue;
      const json& inner = named ? properties[key] : schema["additionalProperties"];
      auto wrong = Check(member, inner, path + "/" + key);
      if (!wrong.empty()) return wrong;
    }
    return {};
  }

  json root_;
};

/// Every path in `value` that leads to a number or to a member of an object.
void Collect(const json& value,
             const json::json_pointer& at,
             std::vector<json::json_pointer>& out) {
  if (value.is_object()) {
    for (const auto& [key, member] : value.items()) {
      out.push_back(at / key);
      Collect(member, at / key, out);
    }
  } else if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) Collect(value[i], at / i, out);
  }
}

/// Spoils each member in turn: what the schema refuses, the reader must refuse, and the other way
/// round.
template <typename Read>
void ExpectAgreement(const json& valid, const Schema& schema, Read read) {
  ASSERT_EQ(schema.Check(valid), "");
  ASSERT_TRUE(read(valid));
  std::vector<json::json_pointer> members;
  Collect(valid, json::json_pointer(), members);
  ASSERT_GT(members.size(), 50U);
  int refused = 0;
  for (const auto& member : members) {
    const json bad_values[] = {-1, "text", true, 1e300};
    for (const json& bad : bad_values) {
      json spoilt = valid;
      spoilt[member] = bad;
      if (!schema.Check(spoilt).empty()) {
        EXPECT_FALSE(read(spoilt)) << member << " = " << bad << ": " << schema.Check(spoilt);
        ++refused;
      }
    }
    json without = valid;
    without.at(member.parent_pointer()).erase(member.back());
    if (!schema.Check(without).empty()) {
      EXPECT_FALSE(read(without)) << member << " left out";
    }
    json unknown = valid;
    unknown[member.parent_pointer()]["surely_unknown"] = 1;
    if (!schema.Check(unknown).empty()) {
      EXPECT_FALSE(read(unknown)) << "unknown key beside " << member;
    }
    json mine = valid;
    mine[member.parent_pointer()]["x_mine"] = 1;
    EXPECT_EQ(schema.Check(mine), "") << "x_mine beside " << member;
  }
  EXPECT_GT(refused, static_cast<int>(members.size()));
}

TEST(ClusterSchemaTest, AgreesWithTheReader) {
  const Schema schema("cluster.schema.json");
  const auto cluster =
      ReadClusterFile(PALMIST_SOURCE_DIR "/palmist/cluster/testdata/two_groups.yaml");
  ASSERT_TRUE(cluster.ok());
  ExpectAgreement(json::parse(ToJson(*cluster).dump()), schema, [](const json& value) {
    return ClusterFromJson(value).ok();
  });
}

TEST(ClusterSchemaTest, HoldsForEveryPreset) {
  const Schema schema("cluster.schema.json");
  for (const PresetSummary& preset : ListPresets()) {
    EXPECT_EQ(schema.Check(json::parse(ToJson(preset.cluster).dump())), "") << preset.name;
  }
}

TEST(CalibrationSchemaTest, AgreesWithTheReader) {
  const Schema schema("calibration.schema.json");
  Calibration calibration = DefaultCalibration(*PresetCluster("l4-2x8"));
  DeviceCalibration& device = calibration.devices.at("L4");
  device.collectives.resize(1);
  device.operators = {{"linear", {{"m", 4096}}, "bf16", "fused", 1e-3, 2e-3, 0.02, 10}};
  ExpectAgreement(json::parse(ToJson(calibration).dump()), schema, [](const json& value) {
    return CalibrationFromJson(value).ok();
  });
}

TEST(CalibrationSchemaTest, HoldsForEveryDefault) {
  const Schema schema("calibration.schema.json");
  for (const PresetSummary& preset : ListPresets()) {
    const Calibration calibration = DefaultCalibration(preset.cluster);
    EXPECT_EQ(schema.Check(json::parse(ToJson(calibration).dump())), "") << preset.name;
  }
}

}  // namespace
}  // namespace palmist::cluster
