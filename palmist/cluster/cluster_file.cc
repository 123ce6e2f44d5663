#include "palmist/cluster/cluster_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "palmist/base/file.h"
#include "palmist/base/yaml.h"
#include "palmist/cluster/collective_json.h"
#include "palmist/cluster/presets.h"
#include "palmist/cluster/units_in_files.h"

namespace palmist::cluster {
namespace {

using nlohmann::ordered_json;

// Ranges wide enough for any machine, narrow enough that no product of two overflows.
constexpr double kMaxRate = 1e7;  // GB/s, TFLOP/s
constexpr double kMaxGib = 1e7;
constexpr double kMinPositive = 1e-6;
constexpr double kMaxLatencyUs = 1e8;
constexpr double kMaxUsd = 1e6;
constexpr double kMaxSpeed = 100.0;
constexpr std::size_t kMaxNameBytes = 200;

std::string TflopsKey(std::string_view dtype) { return std::string(dtype) + "_tflops"; }

double RequirePositive(const JsonReader& reader, const std::string& key, double unit, double max) {
  return reader.RequireDouble(key, kMinPositive, max) * unit;
}

std::string CheckedName(const JsonReader& reader, const std::string& key, std::string name) {
  if (name.size() > kMaxNameBytes) {
    reader.Fail(key, fmt::format("expected at most {} bytes, got {}", kMaxNameBytes, name.size()));
  }
  return name;
}

Device ReadDevice(const JsonReader& reader) {
  std::vector<std::string> known = {"name",
                                    "kind",
                                    "threads",
                                    "memory_gib",
                                    "reserved_gib",
                                    "memory_bandwidth_gb_per_s",
                                    "speed"};
  for (const std::string_view dtype : kDtypes) known.push_back(TflopsKey(dtype));
  reader.RejectUnknown(known);

  Device device;
  device.name = CheckedName(reader, "name", reader.RequireString("name"));
  if (device.name.empty()) reader.Fail("name", "expected a name, got an empty one");
  const std::string kind = reader.OptionalString("kind", "gpu");
  if (kind != "gpu" && kind != "cpu") {
    reader.Fail("kind", "expected gpu or cpu, got " + DescribeJson(reader.json().at("kind")));
  }
  device.is_cpu = kind == "cpu";
  constexpr std::int64_t kMaxThreads = 1 << 16;
  device.threads = static_cast<int>(
      reader.OptionalInt("threads", device.is_cpu ? 1 : 0, 0, device.is_cpu ? kMaxThreads : 0));
  device.memory_bytes = RequirePositive(reader, "memory_gib", kGib, kMaxGib);
  device.reserved_bytes = reader.OptionalDouble("reserved_gib", 0.0, 0.0, kMaxGib) * kGib;
  if (device.reserved_bytes >= device.memory_bytes) {
    reader.Fail("reserved_gib", "expected less than memory_gib, got as much or more");
  }
  device.memory_bytes_per_s = RequirePositive(reader, "memory_bandwidth_gb_per_s", kGiga, kMaxRate);
  for (const std::string_view dtype : kDtypes) {
    if (reader.Has(TflopsKey(dtype))) {
      device.flops_per_s[std::string(dtype)] =
          RequirePositive(reader, TflopsKey(dtype), kTera, kMaxRate);
    }
  }
  if (!device.flops_per_s.contains("fp32")) {
    reader.Fail("fp32_tflops", "expected the peak of fp32, got nothing", "add this key");
  }
  device.speed = reader.OptionalDouble("speed", 1.0, kMinPositive, kMaxSpeed);
  return device;
}

/// Reads `device`: an object, or the name of a GPU of the presets.
Device ReadDeviceMember(const JsonReader& group) {
  if (group.Has("device") && group.json().at("device").is_string()) {
    auto device = PresetDevice(group.RequireString("device"));
    if (!device.ok()) {
      group.Fail("device", device.error().message(), device.error().hint());
    }
    return *std::move(device);
  }
  return ReadDevice(group.Child("device"));
}

Link ReadLink(const JsonReader& reader, std::span<const std::string> further_keys = {}) {
  std::vector<std::string> known = {"kind", "bandwidth_gb_per_s", "latency_us"};
  known.insert(known.end(), further_keys.begin(), further_keys.end());
  reader.RejectUnknown(known);
  Link link;
  link.kind = CheckedName(reader, "kind", reader.OptionalString("kind", ""));
  link.bytes_per_s = RequirePositive(reader, "bandwidth_gb_per_s", kGiga, kMaxRate);
  link.latency_s = reader.RequireDouble("latency_us", 0.0, kMaxLatencyUs) * kMicro;
  return link;
}

void ReadInterNode(const JsonReader& reader, NodeGroup& group) {
  const std::array<std::string, 1> further = {"node_bandwidth_gb_per_s"};
  group.inter_node = ReadLink(reader, further);
  group.node_bytes_per_s = RequirePositive(reader, "node_bandwidth_gb_per_s", kGiga, kMaxRate);
  if (group.node_bytes_per_s < group.inter_node.bytes_per_s) {
    reader.Fail("node_bandwidth_gb_per_s",
                "expected at least bandwidth_gb_per_s, which one device reaches alone, got less");
  }
}

void ReadHostLinks(const JsonReader& reader, NodeGroup& group) {
  if (!reader.Has("host_to_device") && group.device.is_cpu) return;
  group.host_to_device = ReadLink(reader.Child("host_to_device"));
  const auto back = reader.OptionalChild("device_to_host");
  group.device_to_host = back ? ReadLink(*back) : group.host_to_device;
}

NodeGroup ReadGroup(const JsonReader& reader) {
  const std::vector<std::string> known = {"nodes",
                                          "devices_per_node",
                                          "device",
                                          "intra_node",
                                          "inter_node",
                                          "host_to_device",
                                          "device_to_host",
                                          "host_memory_gib",
                                          "price_usd_per_device_hour",
                                          "zone",
                                          "collectives"};
  reader.RejectUnknown(known);

  NodeGroup group;
  group.nodes = static_cast<int>(reader.RequireInt("nodes", 1, kMaxDevices));
  group.devices_per_node = static_cast<int>(reader.RequireInt("devices_per_node", 1, kMaxDevices));
  group.device = ReadDeviceMember(reader);
  if (group.devices_per_node > 1 || reader.Has("intra_node")) {
    group.intra_node = ReadLink(reader.Child("intra_node"));
  }
  if (reader.Has("inter_node")) ReadInterNode(reader.Child("inter_node"), group);
  ReadHostLinks(reader, group);
  if (group.device.is_cpu) {
    group.host_memory_bytes = reader.OptionalDouble("host_memory_gib", 0.0, 0.0, kMaxGib) * kGib;
  } else {
    group.host_memory_bytes = reader.RequireDouble("host_memory_gib", 0.0, kMaxGib) * kGib;
  }
  if (reader.Has("price_usd_per_device_hour")) {
    group.price_usd_per_device_hour =
        reader.RequireDouble("price_usd_per_device_hour", 0.0, kMaxUsd);
  }
  group.zone = CheckedName(reader, "zone", reader.OptionalString("zone", ""));
  group.collectives = ReadCollectives(reader, "collectives");
  return group;
}

ZoneLink ReadZoneLink(const JsonReader& reader, const std::set<std::string>& zones) {
  const std::vector<std::string> known = {
      "from", "to", "node_bandwidth_gb_per_s", "latency_us", "egress_usd_per_gb"};
  reader.RejectUnknown(known);
  ZoneLink link;
  for (const auto& [key, zone] : {std::pair{"from", &link.from}, std::pair{"to", &link.to}}) {
    *zone = reader.RequireString(key);
    if (!zones.contains(*zone)) {
      reader.Fail(key, "expected the zone of a group, got " + DescribeJson(*zone));
    }
  }
  link.node_bytes_per_s = RequirePositive(reader, "node_bandwidth_gb_per_s", kGiga, kMaxRate);
  link.latency_s = reader.RequireDouble("latency_us", 0.0, kMaxLatencyUs) * kMicro;
  link.egress_usd_per_gb = reader.OptionalDouble("egress_usd_per_gb", 0.0, 0.0, kMaxUsd);
  return link;
}

void ReadGroups(const JsonReader& reader, Cluster& cluster) {
  const auto groups = reader.Array("groups");
  if (groups.empty()) reader.Fail("groups", "expected at least one group, got none");
  if (groups.size() > static_cast<std::size_t>(kMaxGroups)) {
    reader.Fail("groups",
                fmt::format("expected at most {} groups, got {}", kMaxGroups, groups.size()));
  }
  std::int64_t devices = 0;
  for (const JsonReader& each : groups) {
    NodeGroup group = ReadGroup(each);
    devices += std::int64_t{group.nodes} * group.devices_per_node;
    if (devices > kMaxDevices) {
      each.Fail("nodes", fmt::format("expected at most {} devices in all, got more", kMaxDevices));
    }
    cluster.groups.push_back(std::move(group));
  }
  if (cluster.num_nodes() == 1) return;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (cluster.groups[i].inter_node.bytes_per_s == 0.0) {
      groups[i].Fail("inter_node",
                     "expected the network, since the cluster has more than one node, got nothing",
                     "add this key");
    }
  }
}

void ReadZoneLinks(const JsonReader& reader, Cluster& cluster) {
  std::set<std::string> zones;
  for (const NodeGroup& group : cluster.groups) {
    if (!group.zone.empty()) zones.insert(group.zone);
  }
  std::set<std::pair<std::string, std::string>> seen;
  for (const JsonReader& each : reader.OptionalArray("zone_links")) {
    ZoneLink link = ReadZoneLink(each, zones);
    if (!seen.emplace(link.from, link.to).second) {
      each.Fail("to", "expected each pair of zones once, got one again");
    }
    cluster.zone_links.push_back(std::move(link));
  }
}

void ReadSlowDevices(const JsonReader& reader, Cluster& cluster) {
  const std::vector<std::string> known = {"device", "speed"};
  for (const JsonReader& each : reader.OptionalArray("slow_devices")) {
    each.RejectUnknown(known);
    const auto device = static_cast<int>(each.RequireInt("device", 0, cluster.num_devices() - 1));
    const double speed = each.RequireDouble("speed", kMinPositive, kMaxSpeed);
    if (!cluster.slow_devices.emplace(device, speed).second) {
      each.Fail("device", fmt::format("expected each device once, got {} again", device));
    }
  }
}

Cluster ReadCluster(const JsonReader& reader) {
  const std::vector<std::string> known = {
      "palmist_cluster", "name", "groups", "zone_links", "slow_devices"};
  const std::int64_t version = reader.RequireInt("palmist_cluster");
  if (version != 1) {
    reader.Fail("palmist_cluster",
                fmt::format("expected version 1 of the cluster file, got {}", version));
  }
  reader.RejectUnknown(known);
  Cluster cluster;
  cluster.name = CheckedName(reader, "name", reader.OptionalString("name", ""));
  ReadGroups(reader, cluster);
  ReadZoneLinks(reader, cluster);
  ReadSlowDevices(reader, cluster);
  return cluster;
}

ordered_json LinkJson(const Link& link) {
  ordered_json json = ordered_json::object();
  if (!link.kind.empty()) json["kind"] = link.kind;
  json["bandwidth_gb_per_s"] = InUnit(link.bytes_per_s, kGiga);
  json["latency_us"] = InUnit(link.latency_s, kMicro);
  return json;
}

ordered_json DeviceJson(const Device& device) {
  ordered_json json;
  json["name"] = device.name;
  if (device.is_cpu) {
    json["kind"] = "cpu";
    json["threads"] = device.threads;
  }
  json["memory_gib"] = InUnit(device.memory_bytes, kGib);
  json["reserved_gib"] = InUnit(device.reserved_bytes, kGib);
  json["memory_bandwidth_gb_per_s"] = InUnit(device.memory_bytes_per_s, kGiga);
  for (const std::string_view dtype : kDtypes) {
    const auto found = device.flops_per_s.find(dtype);
    if (found != device.flops_per_s.end()) json[TflopsKey(dtype)] = InUnit(found->second, kTera);
  }
  if (device.speed != 1.0) json["speed"] = device.speed;
  return json;
}

ordered_json GroupJson(const NodeGroup& group) {
  ordered_json json;
  json["nodes"] = group.nodes;
  json["devices_per_node"] = group.devices_per_node;
  json["device"] = DeviceJson(group.device);
  if (group.intra_node.bytes_per_s > 0.0) json["intra_node"] = LinkJson(group.intra_node);
  if (group.inter_node.bytes_per_s > 0.0) {
    json["inter_node"] = LinkJson(group.inter_node);
    json["inter_node"]["node_bandwidth_gb_per_s"] = InUnit(group.node_bytes_per_s, kGiga);
  }
  if (group.host_to_device.bytes_per_s > 0.0) {
    json["host_to_device"] = LinkJson(group.host_to_device);
    json["device_to_host"] = LinkJson(group.device_to_host);
  }
  json["host_memory_gib"] = InUnit(group.host_memory_bytes, kGib);
  if (group.price_usd_per_device_hour) {
    json["price_usd_per_device_hour"] = *group.price_usd_per_device_hour;
  }
  if (!group.zone.empty()) json["zone"] = group.zone;
  if (!group.collectives.empty()) json["collectives"] = CollectivesJson(group.collectives);
  return json;
}

}  // namespace

Result<Cluster> ClusterFromJson(const nlohmann::json& json, const std::string& field) {
  try {
    return ReadCluster(JsonReader(json, field));
  } catch (const Error& error) {
    return error;
  }
}

Result<Cluster> ParseCluster(std::string_view text) {
  YamlLimits limits;
  limits.max_bytes = kMaxClusterFileBytes;
  PALMIST_ASSIGN_OR_RETURN(const nlohmann::json parsed, ParseYaml(text, limits));
  return ClusterFromJson(parsed);
}

Result<Cluster> ReadClusterFile(const std::string& path) {
  PALMIST_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxClusterFileBytes));
  return ParseCluster(text);
}

ordered_json ToJson(const Cluster& cluster) {
  ordered_json json;
  json["palmist_cluster"] = 1;
  json["name"] = cluster.name;
  json["groups"] = ordered_json::array();
  for (const NodeGroup& group : cluster.groups) json["groups"].push_back(GroupJson(group));
  for (const ZoneLink& link : cluster.zone_links) {
    ordered_json each;
    each["from"] = link.from;
    each["to"] = link.to;
    each["node_bandwidth_gb_per_s"] = InUnit(link.node_bytes_per_s, kGiga);
    each["latency_us"] = InUnit(link.latency_s, kMicro);
    each["egress_usd_per_gb"] = link.egress_usd_per_gb;
    json["zone_links"].push_back(std::move(each));
  }
  for (const auto& [device, speed] : cluster.slow_devices) {
    json["slow_devices"].push_back({{"device", device}, {"speed", speed}});
  }
  return json;
}

std::string ToYaml(const Cluster& cluster) { return ToYamlText(ToJson(cluster)); }

}  // namespace palmist::cluster
