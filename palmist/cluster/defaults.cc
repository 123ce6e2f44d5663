/// Default calibrations from the tables carried in the program.
#include <fmt/format.h>

#include <algorithm>

#include "palmist/cluster/calibration.h"
#include "palmist/cluster/preset_table.h"
#include "palmist/cluster/presets.h"
#include "palmist/cluster/units_in_files.h"

namespace palmist::cluster {
namespace {

// Device memory of a communicator for each of its channels, from 544 and 688 MB with 24 channels
// (presets/README.md).
constexpr double kInNodeBytesPerChannel = 544e6 / 24;
constexpr double kAcrossBytesPerChannel = 688e6 / 24;
constexpr int kManyRanks = 1 << 20;

// Library workspaces and the rounding of the allocator's blocks: the one constant fitted on the
// measured stages of Dazz993/Mist@d69e530acb62 (docs/adr/0006).
constexpr double kAllocatorMib = 160.0;
// Reserved over allocated memory: 1.02 to 1.12 in the runs of eth-easl/sailor@16eebd4.
constexpr double kReservedOverAllocated = 1.05;
// All-reduce over a bridge of two cards: 43.5 of 56.25 GB/s (eth-easl/sailor@16eebd4, RTX 3090).
constexpr double kBridgeFraction = 0.77;

bool IsFast(const Link& link) {
  return link.kind.starts_with("nvlink") || link.kind.starts_with("infinity") ||
         link.kind.starts_with("xgmi");
}

/// Returns the device's row of efficiency.csv, else that of its class.
const PresetRow& EfficiencyRow(const NodeGroup& group) {
  const std::string_view klass = group.device.is_cpu        ? "*cpu"
                                 : IsFast(group.intra_node) ? "*fast"
                                                            : "*pcie";
  const auto& rows = PresetTable("efficiency");
  const auto find = [&](std::string_view name) {
    return std::find_if(
        rows.begin(), rows.end(), [&](const PresetRow& row) { return row.Text("name") == name; });
  };
  const auto own = find(group.device.name);
  return own != rows.end() ? *own : *find(klass);
}

SaturationCurve Curve(const PresetRow& row, std::string_view max_column, double peak_flops_per_s) {
  return {.max_fraction = row.Number(max_column),
          .half_flops = row.Number("gemm_half_us") * kMicro * peak_flops_per_s};
}

ComputeEfficiency Compute(const PresetRow& row, const Device& device) {
  ComputeEfficiency compute;
  compute.gemm = Curve(row, "gemm_max", device.PeakFlopsPerS("bf16"));
  for (const auto& [dtype, peak] : device.flops_per_s) {
    compute.gemm_by_dtype[dtype] = Curve(row, dtype == "fp32" ? "gemm_fp32_max" : "gemm_max", peak);
  }
  compute.attention_fraction = row.Number("attention");
  compute.memory_bound_fraction = row.Number("memory_bound");
  compute.optimizer_fraction = row.Number("optimizer");
  compute.launch_s = row.Number("launch_us") * kMicro;
  return compute;
}

LinkEfficiency Links(const PresetRow& row, const NodeGroup& group) {
  const bool bridged = IsFast(group.intra_node) && row.Number("channels") <= 4;
  return {.intra_node_fraction = bridged ? kBridgeFraction : row.Number("intra_node"),
          .inter_node_fraction = row.Number("inter_node"),
          .host_to_device_fraction = row.Number("host_to_device"),
          .device_to_host_fraction = row.Number("device_to_host"),
          .collective_launch_s = row.Number("collective_launch_us") * kMicro};
}

Interference ClassInterference(std::string_view klass) {
  constexpr std::array<Resource, kNumResources> kResources = {Resource::kCompute,
                                                              Resource::kDeviceToDevice,
                                                              Resource::kHostToDevice,
                                                              Resource::kDeviceToHost};
  Interference interference;
  double weighted_error = 0.0;
  for (const PresetRow& row : PresetTable("interference")) {
    if (row.Text("class") != klass) continue;
    unsigned active = 0;
    for (const Resource resource : kResources) {
      if (row.Has(ToString(resource))) active |= Bit(resource);
    }
    for (const Resource resource : kResources) {
      if ((active & Bit(resource)) == 0) continue;
      interference.factor[active][static_cast<std::size_t>(resource)] =
          row.Number(ToString(resource));
    }
    const int n = static_cast<int>(row.Number("n"));
    interference.n += n;
    weighted_error += n * row.Number("relative_error");
  }
  if (interference.n > 0) interference.relative_error = weighted_error / interference.n;
  return interference;
}

MemoryOverheads Memory(const PresetRow& row, int devices_per_node) {
  MemoryOverheads memory;
  memory.context_bytes = row.Number("context_gib") * kGib;
  memory.allocator_bytes = kAllocatorMib * kMib;
  memory.reserved_over_allocated = kReservedOverAllocated;
  const double channels = row.Number("channels");
  if (devices_per_node > 1) {
    memory.communicators.push_back({devices_per_node, channels * kInNodeBytesPerChannel});
  }
  memory.communicators.push_back({kManyRanks, channels * kAcrossBytesPerChannel});
  return memory;
}

/// Returns how fast the links of `group` are against those the measurements were taken on: inside
/// a node, and between nodes.
std::pair<double, double> LinkRatios(const NodeGroup& group) {
  const Result<Cluster> preset =
      PresetCluster(group.device.name + "-1x" + std::to_string(group.devices_per_node));
  if (!preset.ok()) return {1, 1};
  const NodeGroup& measured = preset->groups.front();
  const auto ratio = [](double here, double there) {
    return here > 0 && there > 0 ? here / there : 1;
  };
  return {ratio(group.intra_node.bytes_per_s, measured.intra_node.bytes_per_s),
          ratio(group.node_bytes_per_s, measured.node_bytes_per_s)};
}

std::vector<CollectiveFit> Collectives(const NodeGroup& group) {
  const auto [inside, between] = LinkRatios(group);
  std::vector<CollectiveFit> fits;
  for (const PresetRow& row : PresetTable("collectives")) {
    const auto devices = row.Words("devices");
    if (std::find(devices.begin(), devices.end(), group.device.name) == devices.end()) continue;
    CollectiveFit fit;
    fit.kind = *ParseCollectiveKind(row.Text("kind"));
    fit.ranks_in_node = static_cast<int>(row.Number("ranks_in_node"));
    fit.nodes = static_cast<int>(row.Number("nodes"));
    fit.alpha_s = row.Number("alpha_us") * kMicro;
    fit.bytes_per_s = row.Number("bandwidth_gb_per_s") * kGiga * (fit.nodes > 1 ? between : inside);
    fit.n = static_cast<int>(row.Number("n"));
    fit.relative_error = row.Number("relative_error");
    fits.push_back(fit);
  }
  return fits;
}

DeviceCalibration DefaultFor(const NodeGroup& group) {
  const PresetRow& row = EfficiencyRow(group);
  DeviceCalibration result;
  result.source = row.Text("source");
  result.compute = Compute(row, group.device);
  result.links = Links(row, group);
  if (!group.device.is_cpu) {
    result.interference = ClassInterference(IsFast(group.intra_node) ? "nvlink" : "pcie");
    result.interference_inter_node = ClassInterference("network");
  }
  result.memory = Memory(row, group.devices_per_node);
  result.collectives = Collectives(group);
  return result;
}

}  // namespace

Calibration WithDefaults(Calibration calibration, const Cluster& cluster) {
  for (const NodeGroup& group : cluster.groups) {
    if (calibration.Find(group.device.name) == nullptr) {
      calibration.devices[group.device.name] = DefaultFor(group);
    }
  }
  return calibration;
}

Calibration DefaultCalibration(const Cluster& cluster) {
  Calibration calibration;
  calibration.name = "default";
  calibration.where = "published measurements and prudent defaults";
  calibration.source = "palmist/cluster/presets";
  return WithDefaults(std::move(calibration), cluster);
}

}  // namespace palmist::cluster
