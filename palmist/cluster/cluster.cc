#include "palmist/cluster/cluster.h"

#include <algorithm>
#include <array>

#include "palmist/base/error.h"

namespace palmist::cluster {
namespace {

constexpr std::array<std::string_view, 5> kKindNames = {
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"};

/// What a type runs as where the device has no units for it, best first.
std::vector<std::string_view> Substitutes(std::string_view dtype) {
  if (dtype == "fp8") return {"fp8", "bf16", "fp16", "fp32"};
  return {dtype, "fp32"};
}

}  // namespace

double Device::PeakFlopsPerS(std::string_view dtype) const {
  for (const std::string_view substitute : Substitutes(dtype)) {
    const auto found = flops_per_s.find(substitute);
    if (found != flops_per_s.end()) return found->second * speed;
  }
  return 0.0;
}

std::string_view ToString(CollectiveKind kind) {
  return kKindNames[static_cast<std::size_t>(kind)];
}

std::optional<CollectiveKind> ParseCollectiveKind(std::string_view name) {
  const auto found = std::find(kKindNames.begin(), kKindNames.end(), name);
  if (found == kKindNames.end()) return std::nullopt;
  return static_cast<CollectiveKind>(found - kKindNames.begin());
}

double NodeGroup::InterNodeBytesPerS(int talking) const {
  PALMIST_ASSERT(talking >= 1);
  return std::min(inter_node.bytes_per_s, node_bytes_per_s / talking);
}

int Cluster::num_devices() const {
  int count = 0;
  for (const NodeGroup& group : groups) count += group.num_devices();
  return count;
}

int Cluster::num_nodes() const {
  int count = 0;
  for (const NodeGroup& group : groups) count += group.nodes;
  return count;
}

Place Cluster::PlaceOf(int device) const {
  PALMIST_ASSERT(device >= 0);
  int first_node = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const NodeGroup& group = groups[i];
    if (device < group.num_devices()) {
      return {.group = static_cast<int>(i),
              .node = first_node + device / group.devices_per_node,
              .index_in_node = device % group.devices_per_node};
    }
    device -= group.num_devices();
    first_node += group.nodes;
  }
  PALMIST_ASSERT(false && "device is not in the cluster");
  return {};
}

const NodeGroup& Cluster::group_of(int device) const {
  return groups[static_cast<std::size_t>(PlaceOf(device).group)];
}

Device Cluster::DeviceAt(int device) const {
  Device result = group_of(device).device;
  const auto slow = slow_devices.find(device);
  if (slow != slow_devices.end()) result.speed *= slow->second;
  return result;
}

const ZoneLink* Cluster::FindZoneLink(std::string_view from, std::string_view to) const {
  const auto found = std::find_if(zone_links.begin(), zone_links.end(), [&](const ZoneLink& link) {
    return link.from == from && link.to == to;
  });
  return found == zone_links.end() ? nullptr : &*found;
}

}  // namespace palmist::cluster
