/// How far real hardware stays below its data sheet: the numbers the cost model multiplies with.
///
/// A calibration holds one entry per device name. Entries come from measurement (`palmist profile`,
/// `palmist calibrate`) or from `DefaultCalibration`, whose numbers are prudent defaults with a
/// stated source (presets/efficiency.csv), to be refined.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "palmist/base/json.h"
#include "palmist/cluster/cluster.h"

namespace palmist::cluster {

/// Achieved fraction of peak FLOP/s by the work of one kernel: max * x / (x + half).
struct SaturationCurve {
  double max_fraction = 1.0;  ///< Reached by very large kernels; in (0, 1].
  double half_flops = 0.0;    ///< FLOPs of a kernel that reaches half of it.
  double Fraction(double flops) const { return max_fraction * flops / (flops + half_flops); }
  bool operator==(const SaturationCurve&) const = default;
};

/// Compute efficiency of a device.
struct ComputeEfficiency {
  SaturationCurve gemm;  ///< For a type that `gemm_by_dtype` does not hold.
  std::map<std::string, SaturationCurve, std::less<>> gemm_by_dtype;
  double attention_fraction = 1.0;     ///< Of peak FLOP/s, fused attention.
  double memory_bound_fraction = 1.0;  ///< Of peak memory bandwidth, element-wise kernels.
  double optimizer_fraction = 1.0;     ///< Of peak memory bandwidth, optimizer step.
  double launch_s = 0.0;               ///< Host time per kernel that the device waits for.

  /// Returns the curve for `dtype`.
  const SaturationCurve& GemmCurve(std::string_view dtype) const;

  bool operator==(const ComputeEfficiency&) const = default;
};

/// Fractions of nominal link rates that transfers reach, and the constant cost of a collective.
struct LinkEfficiency {
  double intra_node_fraction = 1.0;
  double inter_node_fraction = 1.0;
  double host_to_device_fraction = 1.0;  ///< All devices of a node copying at once.
  double device_to_host_fraction = 1.0;  ///< All devices of a node copying at once.
  double collective_launch_s = 0.0;      ///< Added once per collective.
  bool operator==(const LinkEfficiency&) const = default;
};

/// What runs at once on a device.
enum class Resource : std::uint8_t { kCompute, kDeviceToDevice, kHostToDevice, kDeviceToHost };
inline constexpr int kNumResources = 4;

/// Returns the name used in files: C, G2G, C2G, G2C.
std::string_view ToString(Resource resource);

/// Returns the bit of `resource` in a set of active resources.
constexpr unsigned Bit(Resource resource) { return 1U << static_cast<unsigned>(resource); }

/// Slowdown factors (at least 1) of each resource in each set of active ones (planner of Mist,
/// EuroSys'25, section 5: a resource works 1/factor as fast while the whole set is active).
struct Interference {
  /// factor[set][resource], `set` a union of `Bit`s; 1 for resources outside the set.
  std::array<std::array<double, kNumResources>, 1 << kNumResources> factor;
  bool measured = false;  ///< False: a default.
  int n = 0;              ///< Measurements behind the fit.
  double relative_error = 0.0;

  /// All factors 1.
  Interference();
  double Factor(unsigned active, Resource resource) const {
    return factor[active][static_cast<std::size_t>(resource)];
  }
  bool operator==(const Interference&) const = default;
};

/// One of the entries that grow with the size of a group.
struct CommunicatorCost {
  int max_ranks = 0;  ///< The cost holds for groups of up to this many ranks.
  double bytes = 0.0;
  bool operator==(const CommunicatorCost&) const = default;
};

/// Device memory that no tensor of the plan accounts for.
struct MemoryOverheads {
  double context_bytes = 0.0;    ///< The process: driver context, loaded kernels, libraries.
  double allocator_bytes = 0.0;  ///< Constant: library workspaces, rounding of blocks.
  double reserved_over_allocated = 1.0;         ///< What the allocator holds over what tensors use.
  std::vector<CommunicatorCost> communicators;  ///< By rising `max_ranks`.

  /// Returns the device memory of one communicator of `ranks`; 0 for a single rank. Above the
  /// largest `max_ranks` the last entry holds.
  double CommunicatorBytes(int ranks) const;

  bool operator==(const MemoryOverheads&) const = default;
};

/// A measured operator.
struct OperatorTime {
  std::string op;
  std::map<std::string, double> shape;  ///< Dimension name to size.
  std::string dtype;
  std::string variant;
  double forward_s = 0.0;
  double backward_s = 0.0;
  double relative_spread = 0.0;
  int n = 0;
  bool operator==(const OperatorTime&) const = default;
};

/// Everything known about one device type.
struct DeviceCalibration {
  std::string source;  ///< Where the numbers come from.
  bool measured = false;
  ComputeEfficiency compute;
  LinkEfficiency links;
  Interference interference;             ///< Where G2G stays inside a node.
  Interference interference_inter_node;  ///< Where G2G crosses the network.
  MemoryOverheads memory;
  std::vector<CollectiveFit> collectives;
  std::vector<OperatorTime> operators;
  bool operator==(const DeviceCalibration&) const = default;
};

/// A calibration file.
struct Calibration {
  std::string name;    ///< What a plan's provenance prints.
  std::string where;   ///< Machine or data the numbers were taken on.
  std::string when;    ///< ISO 8601 date or time; empty for defaults.
  std::string source;  ///< Program, file or publication.
  std::map<std::string, DeviceCalibration, std::less<>> devices;  ///< By `Device::name`.

  /// Returns the entry of the device called `device`, without regard to case; null without one.
  const DeviceCalibration* Find(std::string_view device) const;

  /// Returns the entry of `device`. @pre there is one, as after `WithDefaults`
  const DeviceCalibration& For(const Device& device) const;

  bool operator==(const Calibration&) const = default;
};

/// Returns `calibration` with a default entry for each device of `cluster` that has none.
///
/// A device the tables do not name gets the numbers of its class: CPU, GPU with fast links inside
/// the node (NVLink, Infinity Fabric), or GPU on PCIe. Where several groups hold one device type,
/// the first group's links decide.
Calibration WithDefaults(Calibration calibration, const Cluster& cluster);

/// Returns the defaults of all devices of `cluster`; sources in presets/efficiency.csv,
/// collectives.csv and interference.csv.
Calibration DefaultCalibration(const Cluster& cluster);

inline constexpr std::int64_t kMaxCalibrationFileBytes = 64 * kMiB;

/// Reads a calibration file's JSON text. Fails with kInput and the path of the bad value.
Result<Calibration> ParseCalibration(std::string_view text);

/// Reads the calibration file at `path`.
Result<Calibration> ReadCalibration(const std::string& path);

/// Reads the parsed form. `field` is the path put in front of errors.
Result<Calibration> CalibrationFromJson(const nlohmann::json& json, const std::string& field = {});

/// Returns the JSON form; `CalibrationFromJson` reads it back.
nlohmann::ordered_json ToJson(const Calibration& calibration);

/// Cost of a collective: time = alpha_s + WireFactor(kind, n) * bytes / bytes_per_s.
struct CollectiveCost {
  double alpha_s = 0.0;      ///< Per operation, all its steps included.
  double bytes_per_s = 0.0;  ///< Infinite for a group of one rank.
};

/// Returns what each rank sends, as a multiple of `bytes`: all_reduce 2(n-1)/n, all_gather and
/// reduce_scatter (n-1)/n, all_to_all (n-1)/n, send_recv 1; 0 where n is 1.
///
/// `bytes` is the full tensor for all_reduce, all_gather (the output) and reduce_scatter (the
/// input), and what a rank holds for all_to_all and sends for send_recv. Source: NVIDIA/nccl-tests,
/// doc/PERFORMANCE.md (bus bandwidth).
double WireFactor(CollectiveKind kind, int n);

/// Returns the cost over a group with `ranks_in_node` ranks in each of `nodes` nodes of `group`.
///
/// A measured fit of this shape wins: a measured calibration's, then the cluster file's, then a
/// default calibration's. Without one the cost is derived, and corrected as at the fit of the
/// nearest shape of the same kind (inside nodes or across them), if there is any.
///
/// Derived cost: rings, for all_reduce the quicker of ring and tree; latency by steps as in the
/// tuning model of NVIDIA/nccl (src/graph/tuning.cc). The cards of a node are shared by all its
/// devices at once, since groups that leave some devices of a node out run beside like groups on
/// the others: a group with r of d devices has min(r * inter_node.bytes_per_s,
/// node_bytes_per_s * r / d). Exception: send_recv shares them between the `ranks_in_node` devices
/// that send at once, so that a lone pair has a whole card.
/// @pre 1 <= ranks_in_node <= group.devices_per_node, nodes >= 1
CollectiveCost GroupCost(const NodeGroup& group,
                         const DeviceCalibration& calibration,
                         CollectiveKind kind,
                         int ranks_in_node,
                         int nodes);

/// The same for a cluster: the slowest of its groups that have `ranks_in_node` devices in a node.
/// @pre there is such a group, and `calibration` has an entry for each device of the cluster
CollectiveCost GroupCost(const Cluster& cluster,
                         const Calibration& calibration,
                         CollectiveKind kind,
                         int ranks_in_node,
                         int nodes);

/// The same for named devices, which may lie in several groups and zones: the largest number of
/// them in one node of each group counts for its nodes; the slowest group and zone link count for
/// all, and the longest zone latency once for each way.
/// @pre every device is in the cluster, none is named twice, and `calibration` has their entries
CollectiveCost GroupCost(const Cluster& cluster,
                         const Calibration& calibration,
                         CollectiveKind kind,
                         std::span<const int> devices);

/// Returns seconds for `bytes` under `cost`.
inline double CollectiveSeconds(const CollectiveCost& cost,
                                CollectiveKind kind,
                                int n,
                                double bytes) {
  return n <= 1 ? 0.0 : cost.alpha_s + WireFactor(kind, n) * bytes / cost.bytes_per_s;
}

}  // namespace palmist::cluster
