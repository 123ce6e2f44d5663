/// Reads a Hugging Face `config.json` (or our own convolutional format) into a `ModelSpec`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "palmist/base/result.h"
#include "palmist/model/spec.h"

namespace palmist::model {

/// A model with the text it came from.
struct Model {
  std::string name;         ///< the zoo's name, or the file's or its folder's
  std::string config_json;  ///< the configuration, whole, as read
  ModelSpec spec;
};

/// Reads a configuration. Unknown `model_type`s name the nearest known ones.
/// Sizes are checked: positive, whole, at most 2^31 - 1 each, and no product overflows 64 bits.
Result<Model> ParseConfig(std::string_view json, std::string name);

/// Finds MODEL as the commands mean it: a name of the zoo, a `config.json`, or a directory that
/// holds one.
Result<Model> LoadModel(const std::string& name_or_path);

/// Returns the `model_type`s that can be read, sorted.
std::vector<std::string> KnownModelTypes();

}  // namespace palmist::model
