#include "palmist/cluster/presets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <utility>

#include "palmist/base/nearest.h"
#include "palmist/base/text.h"
#include "palmist/cluster/cluster_file.h"
#include "palmist/cluster/machine.h"
#include "palmist/cluster/preset_table.h"
#include "palmist/cluster/units_in_files.h"

namespace palmist::cluster {
namespace {

constexpr int kListedDevicesPerNode = 8;
constexpr int kMaxPresetDevicesPerNode =
    72;  // the largest NVLink domain of the table (GB200 NVL72)
constexpr double kBitsPerByte = 8.0;

/// One direction of an x16 slot by generation, GB/s (PCIe base specification: 8, 16 and 32 GT/s
/// with 128b/130b coding).
double PcieGbPerS(const std::string& generation) {
  if (generation == "3") return 15.75;
  if (generation == "4") return 31.5;
  return 63.0;
}

// Latency of one hop as in NVIDIA/nccl, src/graph/tuning.cc (ring, simple protocol): NVLink, PCIe.
constexpr double kNvlinkLatencyUs = 3.4;
constexpr double kPcieLatencyUs = 5.7;
constexpr double kHostCopyLatencyUs = 10.0;  // Launch of a copy; our default.

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return lower;
}

/// A GPU of the tables.
struct Gpu {
  const PresetRow* sheet;  ///< Its row of gpus.csv.
  const PresetRow* host;   ///< Its row of hosts.csv.
  std::string name() const { return sheet->Text("name"); }
};

const std::vector<Gpu>& Gpus() {
  static const auto* const gpus = [] {
    auto* result = new std::vector<Gpu>;
    for (const PresetRow& sheet : PresetTable("gpus")) {
      const auto& hosts = PresetTable("hosts");
      const auto host = std::find_if(hosts.begin(), hosts.end(), [&](const PresetRow& row) {
        return row.Text("name") == sheet.Text("name");
      });
      PALMIST_ASSERT(host != hosts.end());
      result->push_back({&sheet, &*host});
    }
    return result;
  }();
  return *gpus;
}

const Gpu* FindGpu(std::string_view name) {
  const std::string lower = Lower(name);
  for (const Gpu& gpu : Gpus()) {
    const auto aliases = gpu.host->Words("aliases");
    if (Lower(gpu.name()) == lower ||
        std::find(aliases.begin(), aliases.end(), lower) != aliases.end()) {
      return &gpu;
    }
  }
  return nullptr;
}

Error UnknownGpu(std::string_view name) {
  std::vector<std::string> names = {"cpu"};
  for (const Gpu& gpu : Gpus()) {
    names.push_back(Lower(gpu.name()));
    for (std::string& alias : gpu.host->Words("aliases")) names.push_back(std::move(alias));
  }
  std::string hint = DidYouMean(Lower(name), names);
  if (hint.empty()) hint = "`palmist clusters` lists the names; others can be described in a file";
  return UsageError({}, "expected the name of a GPU, got " + Quote(name), std::move(hint));
}

Device MakeDevice(const Gpu& gpu) {
  constexpr double kDefaultCapacity = 0.985;
  const double parts = gpu.host->Number("parts");
  Device device;
  device.name = gpu.name();
  const double shown_gib = gpu.host->Number("shown_gib") / parts;
  const double capacity_gib = gpu.host->Has("capacity_gib")
                                  ? gpu.host->Number("capacity_gib") / parts
                                  : kDefaultCapacity * shown_gib;
  device.memory_bytes = shown_gib * kGib;
  device.reserved_bytes = std::round((shown_gib - capacity_gib) * 1e6) / 1e6 * kGib;
  device.memory_bytes_per_s = gpu.sheet->Number("memory_gbps") / parts * kGiga;
  for (const std::string_view dtype : kDtypes) {
    const std::string column = std::string(dtype) + "_tflops";
    const PresetRow& row = dtype == "fp16" && gpu.host->Has(column) ? *gpu.host : *gpu.sheet;
    if (row.Has(column)) {
      device.flops_per_s[std::string(dtype)] = row.Number(column) / parts * kTera;
    }
  }
  return device;
}

/// Returns "nvlink3" for "NVLink 3 bridge".
std::string LinkKind(const Gpu& gpu) {
  std::string kind = Lower(gpu.sheet->Text("link"));
  kind.erase(std::remove(kind.begin(), kind.end(), ' '), kind.end());
  const auto bridge = kind.find("bridge");
  return kind.substr(0, bridge);
}

Link IntraNode(const Gpu& gpu, int devices_per_node) {
  const std::string& link = gpu.sheet->Text("link");
  const bool is_bridge = link.find("bridge") != std::string::npos;
  if (gpu.host->Has("intra_node_gb_per_s")) {
    return {
        LinkKind(gpu), gpu.host->Number("intra_node_gb_per_s") * kGiga, kNvlinkLatencyUs * kMicro};
  }
  if (link != "none" && (!is_bridge || devices_per_node == 2)) {
    const double one_way = gpu.sheet->Number("link_gbps_both_ways") / 2;
    return {LinkKind(gpu), one_way * kGiga, kNvlinkLatencyUs * kMicro};
  }
  const std::string& generation = gpu.sheet->Text("pcie_gen");
  return {"pcie" + generation, PcieGbPerS(generation) * kGiga, kPcieLatencyUs * kMicro};
}

Link HostLink(const Gpu& gpu) {
  const std::string& generation = gpu.sheet->Text("pcie_gen");
  const double gb_per_s = gpu.host->Has("host_link_gb_per_s")
                              ? gpu.host->Number("host_link_gb_per_s")
                              : PcieGbPerS(generation);
  return {generation.empty() || gpu.host->Has("host_link_gb_per_s") ? "host" : "pcie" + generation,
          gb_per_s * kGiga,
          kHostCopyLatencyUs * kMicro};
}

NodeGroup MakeGroup(const Gpu& gpu, int nodes, int devices_per_node) {
  const double share = devices_per_node / gpu.host->Number("host_gpus");
  const double cards = std::max(1.0, std::round(gpu.host->Number("nics") * share));
  NodeGroup group;
  group.nodes = nodes;
  group.devices_per_node = devices_per_node;
  group.device = MakeDevice(gpu);
  group.intra_node = IntraNode(gpu, devices_per_node);
  group.inter_node = {gpu.host->Text("nic_kind"),
                      gpu.host->Number("nic_gbit_per_s") / kBitsPerByte * kGiga,
                      gpu.host->Number("nic_latency_us") * kMicro};
  group.node_bytes_per_s = cards * group.inter_node.bytes_per_s;
  group.host_to_device = HostLink(gpu);
  group.device_to_host = group.host_to_device;
  group.host_memory_bytes = gpu.host->Number("host_memory_gib") * share * kGib;
  return group;
}

/// The parts of `GPU-NODESxGPUS`.
struct PresetName {
  std::string_view gpu;
  int nodes = 0;
  int devices_per_node = 0;
};

/// Reads a count that stands in `text` alone; a number too large for an int counts as the largest.
std::optional<int> ReadCount(std::string_view text) {
  if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos) {
    return std::nullopt;
  }
  int count = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), count);
  return read.ec == std::errc() ? count : std::numeric_limits<int>::max();
}

std::optional<PresetName> SplitName(std::string_view name) {
  const std::size_t dash = name.rfind('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const std::string_view shape = name.substr(dash + 1);
  const std::size_t cross = shape.find_first_of("xX");
  if (cross == std::string_view::npos) return std::nullopt;
  const auto nodes = ReadCount(shape.substr(0, cross));
  const auto devices = ReadCount(shape.substr(cross + 1));
  if (!nodes || !devices) return std::nullopt;
  return PresetName{name.substr(0, dash), *nodes, *devices};
}

Error BadShape(std::string_view name) {
  return UsageError({},
                    fmt::format("expected 1 to {} devices in a node and at most {} in all, got {}",
                                kMaxPresetDevicesPerNode,
                                kMaxDevices,
                                Quote(name)),
                    "larger nodes can be described in a cluster file");
}

Result<Cluster> CpuCluster(std::string_view name, const PresetName& parts) {
  constexpr int kMaxRanks = 1024;
  if (parts.nodes != 1 || parts.devices_per_node < 1 || parts.devices_per_node > kMaxRanks) {
    return UsageError(
        {},
        fmt::format(
            "expected cpu-1xN with 1 to {} ranks on this machine, got {}", kMaxRanks, Quote(name)));
  }
  Cluster cluster;
  cluster.name = fmt::format("cpu-1x{}", parts.devices_per_node);
  cluster.groups.push_back(CpuGroup(ThisMachine(), parts.devices_per_node));
  return cluster;
}

bool LooksLikePath(const std::string& text) {
  std::error_code ignored;
  return text.find('/') != std::string::npos || text.ends_with(".yaml") || text.ends_with(".yml") ||
         text.ends_with(".json") || std::filesystem::exists(text, ignored);
}

}  // namespace

Result<Cluster> PresetCluster(std::string_view name) {
  const auto parts = SplitName(name);
  if (!parts) {
    const Gpu* gpu = FindGpu(name);
    return UsageError(
        {},
        "expected GPU-NODESxGPUS, cpu-1xN or a cluster file, got " + Quote(name),
        gpu == nullptr ? "for example l4-1x8" : "for example " + Lower(gpu->name()) + "-1x8");
  }
  if (Lower(parts->gpu) == "cpu") return CpuCluster(name, *parts);
  const Gpu* gpu = FindGpu(parts->gpu);
  if (gpu == nullptr) return UnknownGpu(parts->gpu);
  if (parts->nodes < 1 || parts->devices_per_node < 1 ||
      parts->devices_per_node > kMaxPresetDevicesPerNode ||
      parts->nodes > kMaxDevices / parts->devices_per_node) {
    return BadShape(name);
  }
  Cluster cluster;
  cluster.name = fmt::format("{}-{}x{}", Lower(gpu->name()), parts->nodes, parts->devices_per_node);
  cluster.groups.push_back(MakeGroup(*gpu, parts->nodes, parts->devices_per_node));
  return cluster;
}

Result<Device> PresetDevice(std::string_view name) {
  const Gpu* gpu = FindGpu(name);
  if (gpu == nullptr) return UnknownGpu(name);
  return MakeDevice(*gpu);
}

std::vector<PresetSummary> ListPresets() {
  std::vector<PresetSummary> presets;
  for (const Gpu& gpu : Gpus()) {
    PresetSummary preset;
    preset.name = fmt::format("{}-1x{}", Lower(gpu.name()), kListedDevicesPerNode);
    preset.aliases = gpu.host->Words("aliases");
    preset.cluster.name = preset.name;
    preset.cluster.groups.push_back(MakeGroup(gpu, 1, kListedDevicesPerNode));
    preset.source = gpu.host->Text("host_source");
    presets.push_back(std::move(preset));
  }
  const MachineFacts machine = ThisMachine();
  PresetSummary preset;
  preset.name = fmt::format("cpu-1x{}", std::max(1, machine.cores));
  preset.cluster.name = preset.name;
  preset.cluster.groups.push_back(CpuGroup(machine, std::max(1, machine.cores)));
  preset.source = "this machine, by the rule in the guide";
  presets.push_back(std::move(preset));
  return presets;
}

nlohmann::ordered_json ToJson(const PresetSummary& preset) {
  const NodeGroup& group = preset.cluster.groups.front();
  nlohmann::ordered_json json;
  json["name"] = preset.name;
  json["aliases"] = preset.aliases;
  json["device"] = group.device.name;
  json["devices"] = preset.cluster.num_devices();
  json["memory_bytes"] = std::round(group.device.memory_bytes);
  json["usable_bytes"] = std::round(group.device.usable_bytes());
  json["flops_per_s"] = group.device.flops_per_s;
  json["host_memory_bytes"] = std::round(group.host_memory_bytes);
  json["source"] = preset.source;
  json["spec"] = ToJson(preset.cluster);
  return json;
}

Result<Cluster> LoadCluster(const std::string& name_or_path) {
  return LooksLikePath(name_or_path) ? ReadClusterFile(name_or_path) : PresetCluster(name_or_path);
}

}  // namespace palmist::cluster
