/// Clusters that need no file: `GPU-NODESxGPUS`, and this machine as `cpu-1xN`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "palmist/base/json.h"
#include "palmist/cluster/cluster.h"

namespace palmist::cluster {

/// One line of `palmist clusters`.
struct PresetSummary {
  std::string name;                  ///< Such as `l4-1x8`.
  std::vector<std::string> aliases;  ///< Further names of the GPU, such as `l4-24gb`.
  Cluster cluster;
  std::string source;  ///< Where the host's numbers come from.
};

/// Returns one entry per GPU type, 8 to a node, and this machine last.
std::vector<PresetSummary> ListPresets();

/// Returns the JSON object of one entry, for `palmist clusters --json`.
nlohmann::ordered_json ToJson(const PresetSummary& preset);

/// Returns the cluster called `name`: `GPU-NODESxGPUS` or `cpu-1xN`. Fails with kUsage; an unknown
/// GPU is answered with the nearest names.
Result<Cluster> PresetCluster(std::string_view name);

/// Returns the device called `name` (a GPU of the presets or an alias), if there is one.
Result<Device> PresetDevice(std::string_view name);

/// Returns the preset called `name_or_path`, or reads the file of that name. What exists as a file
/// or looks like a path (has a `/`, or ends in .yaml, .yml or .json) is a file.
Result<Cluster> LoadCluster(const std::string& name_or_path);

}  // namespace palmist::cluster
