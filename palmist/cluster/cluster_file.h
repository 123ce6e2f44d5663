/// Cluster files (`palmist_cluster: 1`): YAML as people write it, JSON as plan files carry it.
#pragma once

#include <string>
#include <string_view>

#include "palmist/base/json.h"
#include "palmist/cluster/cluster.h"

namespace palmist::cluster {

inline constexpr std::size_t kMaxClusterFileBytes = 1U << 20;
inline constexpr int kMaxGroups = 64;
inline constexpr int kMaxDevices = 1 << 20;

/// Reads the text of a cluster file. JSON is YAML too. Anchors, aliases and tags are refused.
/// Fails with kInput; the error's field is the path of the bad value, such as
/// `groups[1].device.memory_gib`.
Result<Cluster> ParseCluster(std::string_view text);

/// Reads the cluster file at `path`.
Result<Cluster> ReadClusterFile(const std::string& path);

/// Reads the parsed form. `field` is the path put in front of errors.
Result<Cluster> ClusterFromJson(const nlohmann::json& json, const std::string& field = {});

/// Returns the JSON form with keys in the order of the guide; `ClusterFromJson` reads it back.
nlohmann::ordered_json ToJson(const Cluster& cluster);

/// Returns the text of a cluster file; `ParseCluster` reads it back.
std::string ToYaml(const Cluster& cluster);

}  // namespace palmist::cluster
