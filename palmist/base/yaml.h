/// YAML from outside as a JSON value: bounded, and only the part of YAML that data files need.
#pragma once

#include <cstdint>
#include <string_view>

#include "palmist/base/json.h"

namespace palmist {

/// What is refused before anything is allocated for it.
struct YamlLimits {
  std::int64_t max_bytes = 1 * kMiB;
  int max_depth = 20;                 ///< Lists and mappings inside each other.
  std::int64_t max_values = 200'000;  ///< Of every kind.
};

/// Returns the one document that `text` holds, or an input error with line and column.
///
/// Text must be UTF-8 without control characters. Plain scalars are numbers, true, false, null
/// (also ~ and nothing) or strings, quoted ones strings; numbers are those of JSON, with an
/// optional sign + and digits required on one side of the point only. Anchors, aliases, tags,
/// repeated keys, keys that are not scalars and further documents are refused.
Result<nlohmann::json> ParseYaml(std::string_view text, const YamlLimits& limits = {});

/// Returns `json` as YAML in block style; `ParseYaml` reads it back.
std::string ToYamlText(const nlohmann::ordered_json& json);

}  // namespace palmist
