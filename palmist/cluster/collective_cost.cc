#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "palmist/cluster/calibration.h"

namespace palmist::cluster {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// What a group talks over: achieved bytes per second and seconds per hop.
struct Wires {
  double intra_bytes_per_s;  ///< One device, inside the node.
  double node_bytes_per_s;   ///< All ranks of the group in one node, over the network.
  double pair_bytes_per_s;   ///< One device over the network, beside the others of its group.
  double intra_latency_s;
  double inter_latency_s;
  double launch_s;
};

Wires WiresOf(const NodeGroup& group, const LinkEfficiency& links, int ranks_in_node) {
  const double share = static_cast<double>(ranks_in_node) / group.devices_per_node;
  return {
      .intra_bytes_per_s = group.intra_node.bytes_per_s * links.intra_node_fraction,
      .node_bytes_per_s =
          std::min(ranks_in_node * group.inter_node.bytes_per_s, share * group.node_bytes_per_s) *
          links.inter_node_fraction,
      .pair_bytes_per_s = group.InterNodeBytesPerS(ranks_in_node) * links.inter_node_fraction,
      .intra_latency_s = group.intra_node.latency_s,
      .inter_latency_s = group.inter_node.latency_s,
      .launch_s = links.collective_launch_s,
  };
}

/// Latency of a ring's pass over all ranks: one hop between nodes for each node but one.
double RingPass(const Wires& wires, int ranks_in_node, int nodes) {
  const double hops_inside = static_cast<double>(nodes) * (ranks_in_node - 1);
  return hops_inside * wires.intra_latency_s + (nodes - 1) * wires.inter_latency_s;
}

/// Latency of one way through NCCL's tree: a chain inside the node, a binary tree between nodes.
double TreePass(const Wires& wires, int ranks_in_node, int nodes) {
  return (ranks_in_node - 1) * wires.intra_latency_s + std::log2(nodes) * wires.inter_latency_s;
}

double RingBytesPerS(const Wires& wires, int ranks_in_node, int nodes) {
  if (nodes == 1) return wires.intra_bytes_per_s;
  if (ranks_in_node == 1) return wires.node_bytes_per_s;
  return std::min(wires.intra_bytes_per_s, wires.node_bytes_per_s);
}

/// Each rank sends an equal part to each other one; what stays in the node goes beside the rest.
double AllToAllBytesPerS(const Wires& wires, int ranks_in_node, int nodes) {
  const double n = static_cast<double>(ranks_in_node) * nodes;
  const double inside = ranks_in_node > 1 ? (ranks_in_node - 1) / wires.intra_bytes_per_s : 0.0;
  const double across =
      nodes > 1 ? (n - ranks_in_node) * ranks_in_node / wires.node_bytes_per_s : 0.0;
  return (n - 1) / std::max(inside, across);
}

CollectiveCost Derived(const Wires& wires, CollectiveKind kind, int ranks_in_node, int nodes) {
  const double ring = RingPass(wires, ranks_in_node, nodes);
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return {wires.launch_s + 2 * std::min(ring, TreePass(wires, ranks_in_node, nodes)),
              RingBytesPerS(wires, ranks_in_node, nodes)};
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
      return {wires.launch_s + ring, RingBytesPerS(wires, ranks_in_node, nodes)};
    case CollectiveKind::kAllToAll:
      return {wires.launch_s + (ranks_in_node - 1) * wires.intra_latency_s +
                  (nodes - 1) * wires.inter_latency_s,
              AllToAllBytesPerS(wires, ranks_in_node, nodes)};
    case CollectiveKind::kSendRecv:
      return nodes == 1
                 ? CollectiveCost{wires.launch_s + wires.intra_latency_s, wires.intra_bytes_per_s}
                 : CollectiveCost{wires.launch_s + wires.inter_latency_s, wires.pair_bytes_per_s};
  }
  PALMIST_ASSERT(false && "unknown kind");
  return {};
}

/// How far apart two group shapes are, in doublings.
double Distance(const CollectiveFit& fit, int ranks_in_node, int nodes) {
  return std::abs(std::log2(static_cast<double>(fit.ranks_in_node) / ranks_in_node)) +
         std::abs(std::log2(static_cast<double>(fit.nodes) / nodes));
}

/// Returns the fit of this kind whose shape is nearest, inside nodes or across them alike.
const CollectiveFit* Nearest(const std::vector<CollectiveFit>& fits,
                             CollectiveKind kind,
                             int ranks_in_node,
                             int nodes) {
  const CollectiveFit* nearest = nullptr;
  for (const CollectiveFit& fit : fits) {
    if (fit.kind != kind || (fit.nodes > 1) != (nodes > 1)) continue;
    if (nearest == nullptr ||
        Distance(fit, ranks_in_node, nodes) < Distance(*nearest, ranks_in_node, nodes)) {
      nearest = &fit;
    }
  }
  return nearest;
}

CollectiveCost Slower(const CollectiveCost& a, const CollectiveCost& b) {
  return {std::max(a.alpha_s, b.alpha_s), std::min(a.bytes_per_s, b.bytes_per_s)};
}

constexpr CollectiveCost kNothing = {0.0, kInfinity};

}  // namespace

double WireFactor(CollectiveKind kind, int n) {
  if (n <= 1) return 0.0;
  const double others = static_cast<double>(n - 1) / n;
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return 2 * others;
    case CollectiveKind::kSendRecv:
      return 1.0;
    default:
      return others;
  }
}

CollectiveCost GroupCost(const NodeGroup& group,
                         const DeviceCalibration& calibration,
                         CollectiveKind kind,
                         int ranks_in_node,
                         int nodes) {
  PALMIST_ASSERT(ranks_in_node >= 1 && ranks_in_node <= group.devices_per_node && nodes >= 1);
  if (ranks_in_node == 1 && nodes == 1) return kNothing;

  const std::vector<CollectiveFit>* sources[] = {&calibration.collectives, &group.collectives};
  if (!calibration.measured) std::swap(sources[0], sources[1]);
  const CollectiveFit* nearest = nullptr;
  for (const auto* fits : sources) {
    const CollectiveFit* found = Nearest(*fits, kind, ranks_in_node, nodes);
    if (found == nullptr) continue;
    if (found->ranks_in_node == ranks_in_node && found->nodes == nodes) {
      return {found->alpha_s, found->bytes_per_s};
    }
    if (nearest == nullptr && found->ranks_in_node <= group.devices_per_node) nearest = found;
  }
  const auto derive = [&](int ranks, int over_nodes) {
    return Derived(WiresOf(group, calibration.links, ranks), kind, ranks, over_nodes);
  };
  CollectiveCost cost = derive(ranks_in_node, nodes);
  if (nearest != nullptr) {
    const CollectiveCost there = derive(nearest->ranks_in_node, nearest->nodes);
    cost.alpha_s = std::max(0.0, cost.alpha_s + nearest->alpha_s - there.alpha_s);
    cost.bytes_per_s *= nearest->bytes_per_s / there.bytes_per_s;
  }
  return cost;
}

CollectiveCost GroupCost(const Cluster& cluster,
                         const Calibration& calibration,
                         CollectiveKind kind,
                         int ranks_in_node,
                         int nodes) {
  CollectiveCost slowest = kNothing;
  bool any = false;
  for (const NodeGroup& group : cluster.groups) {
    if (ranks_in_node > group.devices_per_node) continue;
    any = true;
    slowest = Slower(slowest,
                     GroupCost(group, calibration.For(group.device), kind, ranks_in_node, nodes));
  }
  PALMIST_ASSERT(any);
  return slowest;
}

CollectiveCost GroupCost(const Cluster& cluster,
                         const Calibration& calibration,
                         CollectiveKind kind,
                         std::span<const int> devices) {
  std::map<int, int> ranks_by_node;
  std::map<int, int> ranks_in_node_by_group;
  for (const int device : devices) {
    const Place place = cluster.PlaceOf(device);
    int& most = ranks_in_node_by_group[place.group];
    most = std::max(most, ++ranks_by_node[place.node]);
  }
  const int nodes = static_cast<int>(ranks_by_node.size());
  CollectiveCost slowest = kNothing;
  for (const auto& [index, ranks] : ranks_in_node_by_group) {
    const NodeGroup& group = cluster.groups[static_cast<std::size_t>(index)];
    slowest = Slower(slowest, GroupCost(group, calibration.For(group.device), kind, ranks, nodes));
  }
  double zone_latency_s = 0.0;
  for (const auto& [from, ranks] : ranks_in_node_by_group) {
    for (const auto& [to, unused] : ranks_in_node_by_group) {
      const NodeGroup& sender = cluster.groups[static_cast<std::size_t>(from)];
      const NodeGroup& receiver = cluster.groups[static_cast<std::size_t>(to)];
      const ZoneLink* link = cluster.FindZoneLink(sender.zone, receiver.zone);
      if (link == nullptr) continue;
      const double share = static_cast<double>(ranks) / sender.devices_per_node;
      slowest.bytes_per_s = std::min(slowest.bytes_per_s, share * link->node_bytes_per_s);
      zone_latency_s = std::max(zone_latency_s, link->latency_s);
    }
  }
  slowest.alpha_s += (kind == CollectiveKind::kAllReduce ? 2 : 1) * zone_latency_s;
  return slowest;
}

}  // namespace palmist::cluster
