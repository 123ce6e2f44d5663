/// The machines a plan runs on: devices, the links between them, and the hosts that hold them.
///
/// Devices are numbered as ranks are: group by group, node by node, device by device. All rates are
/// bytes per second in one direction, all sizes bytes, all times seconds.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace palmist::cluster {

/// Names of the arithmetic types a device may state a peak for, in the order they are printed.
inline constexpr std::string_view kDtypes[] = {"fp32", "tf32", "fp16", "bf16", "fp8"};

/// One accelerator, or one rank's share of a CPU machine.
struct Device {
  std::string name;
  double memory_bytes = 0.0;        ///< What the driver shows as the device's total.
  double reserved_bytes = 0.0;      ///< Part of it that no program can have (driver, firmware).
  double memory_bytes_per_s = 0.0;  ///< Peak of the device's memory, reads and writes together.
  std::map<std::string, double, std::less<>> flops_per_s;  ///< Dense peak, by names of `kDtypes`.
  bool is_cpu = false;
  int threads = 0;     ///< Threads of a rank where `is_cpu`; else 0.
  double speed = 1.0;  ///< Factor on every rate of the device; below 1 is slower.

  /// Returns the memory a program can have; its own context is not yet taken off.
  double usable_bytes() const { return memory_bytes - reserved_bytes; }

  /// Returns the peak FLOP/s for `dtype`, times `speed`.
  ///
  /// A type the device has no units for runs on others: tf32, fp16 and bf16 at the rate of fp32,
  /// fp8 at that of bf16 or fp16. The result is 0 only where the device states no peak at all.
  double PeakFlopsPerS(std::string_view dtype) const;

  /// Returns `memory_bytes_per_s` times `speed`.
  double PeakMemoryBytesPerS() const { return memory_bytes_per_s * speed; }

  bool operator==(const Device&) const = default;
};

/// A link as seen by one device.
struct Link {
  std::string kind;          ///< Free text, such as `nvlink3`, `pcie4`, `infiniband`.
  double bytes_per_s = 0.0;  ///< Nominal, each direction, one device alone.
  double latency_s = 0.0;    ///< Of one hop, without the launch of a kernel.
  bool operator==(const Link&) const = default;
};

/// Collective operations, named as in the files.
enum class CollectiveKind { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kSendRecv };
inline constexpr CollectiveKind kCollectiveKinds[] = {CollectiveKind::kAllReduce,
                                                      CollectiveKind::kAllGather,
                                                      CollectiveKind::kReduceScatter,
                                                      CollectiveKind::kAllToAll,
                                                      CollectiveKind::kSendRecv};

/// Returns the name used in files, such as `all_reduce`.
std::string_view ToString(CollectiveKind kind);

/// Returns the kind called `name`, if there is one.
std::optional<CollectiveKind> ParseCollectiveKind(std::string_view name);

/// A measured collective: time = alpha_s + WireFactor(kind, n) * bytes / bytes_per_s, with n =
/// ranks_in_node * nodes (calibration.h says what `bytes` counts).
struct CollectiveFit {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int ranks_in_node = 1;
  int nodes = 1;
  double alpha_s = 0.0;
  double bytes_per_s = 0.0;     ///< Bus bandwidth.
  int n = 0;                    ///< Measurements behind the fit; 0 = not stated.
  double relative_error = 0.0;  ///< Mean absolute error of the fit over its measurements.
  bool operator==(const CollectiveFit&) const = default;
};

/// Identical nodes with identical devices.
///
/// `inter_node.bytes_per_s` is what one device reaches over the network while its neighbours are
/// silent (its nearest network card); `node_bytes_per_s` is what all devices of a node reach
/// together (all cards of the node). k devices of a node that talk at once get
/// min(inter_node.bytes_per_s, node_bytes_per_s / k) each.
struct NodeGroup {
  int nodes = 1;
  int devices_per_node = 1;
  Device device;
  Link intra_node;
  Link inter_node;
  double node_bytes_per_s = 0.0;
  Link host_to_device;             ///< One device alone.
  Link device_to_host;             ///< One device alone.
  double host_memory_bytes = 0.0;  ///< Of a whole node; 0 where `device.is_cpu`: it is the same.
  std::optional<double> price_usd_per_device_hour;
  std::string zone;                        ///< Empty = the one place of all such groups.
  std::vector<CollectiveFit> collectives;  ///< Measured on this group; may be empty.

  int num_devices() const { return nodes * devices_per_node; }

  /// Returns a device's even share of the node's host memory.
  double host_memory_per_device_bytes() const { return host_memory_bytes / devices_per_node; }

  /// Returns what each of `talking` devices of one node reaches over the network at once.
  double InterNodeBytesPerS(int talking) const;

  bool operator==(const NodeGroup&) const = default;
};

/// What lies between the nodes of two zones, in the direction `from` to `to`.
struct ZoneLink {
  std::string from;
  std::string to;
  double node_bytes_per_s = 0.0;  ///< Per node of the sending zone, all its devices together.
  double latency_s = 0.0;
  double egress_usd_per_gb = 0.0;  ///< Per 1e9 bytes.
  bool operator==(const ZoneLink&) const = default;
};

/// Where a device is.
struct Place {
  int group = 0;
  int node = 0;  ///< Counted over the whole cluster.
  int index_in_node = 0;
  bool operator==(const Place&) const = default;
};

/// A cluster: groups of nodes.
struct Cluster {
  std::string name;
  std::vector<NodeGroup> groups;
  std::vector<ZoneLink> zone_links;
  std::map<int, double> slow_devices;  ///< Device to factor on its speed (`slow_devices` in files).

  int num_devices() const;
  int num_nodes() const;

  /// Returns where `device` is. @pre 0 <= device < num_devices()
  Place PlaceOf(int device) const;

  /// Returns the group that holds `device`. @pre 0 <= device < num_devices()
  const NodeGroup& group_of(int device) const;

  /// Returns `group_of(device).device` with the device's own slowness in `speed`.
  /// @pre 0 <= device < num_devices()
  Device DeviceAt(int device) const;

  /// Returns the link from zone `from` to zone `to`; null where the file states none.
  const ZoneLink* FindZoneLink(std::string_view from, std::string_view to) const;

  bool operator==(const Cluster&) const = default;
};

}  // namespace palmist::cluster
