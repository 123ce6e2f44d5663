#include "palmist/model/config.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "palmist/base/file.h"
#include "palmist/base/json.h"
#include "palmist/base/nearest.h"
#include "palmist/base/text.h"
#include "palmist/model/families/families.h"
#include "palmist/model/graph.h"
#include "palmist/model/zoo.h"

namespace palmist::model {
namespace {

constexpr JsonLimits kLimits = {.max_bytes = 16 * kMiB, .max_depth = 64, .max_values = 1'000'000};

std::string KnownTypesHint() {
  std::string known = "known are ";
  for (const std::string& type : KnownModelTypes()) {
    known += (known.ends_with(' ') ? "" : ", ") + type;
  }
  return known;
}

const Family& FindByType(const ConfigReader& config, const std::string& type) {
  for (const Family& family : Families()) {
    if (family.model_type == type) return family;
  }
  const std::string nearest = DidYouMean(type, KnownModelTypes());
  config.Fail("model_type",
              "expected a model type that can be read, got " + Quote(type),
              (nearest.empty() ? "" : nearest + " ") + KnownTypesHint());
}

/// Finds the family whose class names begin like the first entry of `architectures`.
const Family& FindByArchitecture(const ConfigReader& config) {
  const auto architectures = config.Texts("architectures");
  const Family* found = nullptr;
  for (const Family& family : Families()) {
    const std::string_view prefix = family.architecture;
    if (prefix.empty() || architectures.empty() || !architectures.front().starts_with(prefix)) {
      continue;
    }
    if (found == nullptr || prefix.size() > found->architecture.size()) found = &family;
  }
  if (found == nullptr) {
    config.Fail("model_type", "expected a model type, but the field is missing", KnownTypesHint());
  }
  return *found;
}

ModelSpec ReadSpec(const nlohmann::json& json) {
  const ConfigReader config{JsonReader(json)};
  const std::string type = config.Text({"model_type"}, {});
  const Family& family = type.empty() ? FindByArchitecture(config) : FindByType(config, type);
  ModelSpec spec{std::string(family.model_type), family.read(config)};
  // What is read can be built and counted: sizes that overflow are found here.
  CountParameters(BuildGraph(spec));
  return spec;
}

bool IsZooName(const std::string& name) {
  const auto names = ZooNames();
  return std::binary_search(names.begin(), names.end(), name);
}

/// Returns what a model read from `path` is called: the file's name, or the folder's where the file
/// is called config.json.
std::string NameOf(const std::filesystem::path& path) {
  std::error_code failure;
  std::filesystem::path whole = std::filesystem::weakly_canonical(path, failure);
  if (failure) whole = path;  // a pipe has no place in the file system
  return whole.filename() == "config.json" ? whole.parent_path().filename().string()
                                           : whole.stem().string();
}

}  // namespace

Result<Model> ParseConfig(std::string_view json, std::string name) {
  PALMIST_ASSIGN_OR_RETURN(const nlohmann::json parsed, ParseJson(json, kLimits));
  try {
    return Model{std::move(name), std::string(json), ReadSpec(parsed)};
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    return error;
  }
}

Result<Model> LoadModel(const std::string& name_or_path) {
  if (IsZooName(name_or_path)) {
    return ParseConfig(ZooConfig(name_or_path).value(), name_or_path);
  }
  std::filesystem::path path = name_or_path;
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) path /= "config.json";
  const bool looks_like_path =
      name_or_path.find('/') != std::string::npos || path.extension() == ".json";
  if (!looks_like_path && !std::filesystem::exists(path, error)) {
    return UsageError("",
                      "expected a built-in model, a config.json or a folder that holds one, got " +
                          Quote(name_or_path),
                      ZooConfig(name_or_path).error().hint());
  }
  PALMIST_ASSIGN_OR_RETURN(const std::string json, ReadFile(path.string(), kLimits.max_bytes));
  auto model = ParseConfig(json, NameOf(path));
  if (!model.ok()) {
    const Error& cause = model.error();
    return Error(cause.kind(), path.string() + ": " + cause.message(), cause.field(), cause.hint());
  }
  return model;
}

std::vector<std::string> KnownModelTypes() {
  std::vector<std::string> types;
  for (const Family& family : Families()) types.emplace_back(family.model_type);
  std::sort(types.begin(), types.end());
  return types;
}

}  // namespace palmist::model
