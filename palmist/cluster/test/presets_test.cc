#include "palmist/cluster/presets.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>

#include "palmist/base/csv.h"
#include "palmist/cluster/machine.h"
#include "palmist/cluster/preset_table.h"

namespace palmist::cluster {
namespace {

using ::testing::HasSubstr;

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

const NodeGroup& Group(const Cluster& cluster) { return cluster.groups.front(); }

Cluster Preset(const std::string& name) {
  auto cluster = PresetCluster(name);
  EXPECT_TRUE(cluster.ok()) << name << ": " << cluster.error().what();
  return *std::move(cluster);
}

/// Written down by hand from the sources that the tables name.
struct Golden {
  const char* name;
  double shown_gib, usable_gib, fp32, half, memory_gb_per_s;  // half: fp16, TFLOP/s
  double intra_gb_per_s, nic_gb_per_s, node_gb_per_s, host_link_gb_per_s, host_gib;
};

TEST(PresetsTest, GoldenTable) {
  const Golden table[] = {
      {"v100-sxm2-16gb-1x8", 15.78125, 15.78, 15.7, 125, 900, 150, 3.125, 3.125, 15.75, 488},
      {"v100-sxm2-32gb-1x8", 31.748047, 31.73, 15.7, 125, 900, 150, 12.5, 12.5, 15.75, 768},
      {"rtx-2080-ti-1x8", 11, 10.835, 13.45, 53.8, 616, 15.75, 3.125, 3.125, 15.75, 512},
      {"rtx-2080-ti-1x2", 11, 10.835, 13.45, 53.8, 616, 50, 3.125, 3.125, 15.75, 128},
      {"rtx-3090-1x8", 24, 23.68, 35.6, 71.2, 936, 31.5, 3.125, 3.125, 31.5, 512},
      {"rtx-3090-1x2", 24, 23.68, 35.6, 71.2, 936, 56.25, 3.125, 3.125, 31.5, 128},
      {"rtx-4090-1x8", 23.988281, 23.64, 82.6, 165.2, 1008, 31.5, 3.125, 3.125, 31.5, 512},
      {"t4-1x8", 15, 14.56, 8.1, 65, 320, 15.75, 12.5, 12.5, 15.75, 384},
      {"a10g-1x8", 22.488281, 22.06, 35, 70, 600, 31.5, 12.5, 12.5, 31.5, 768},
      {"l4-1x8", 22.488, 22.03, 30.3, 121, 300, 31.5, 12.5, 12.5, 31.5, 768},
      {"l4-2x4", 22.488, 22.03, 30.3, 121, 300, 31.5, 12.5, 12.5, 31.5, 384},
      {"a100-pcie-40gb-1x8", 39.49353, 39.49353, 19.5, 312, 1555, 31.5, 25, 50, 31.5, 1024},
      {"a100-pcie-80gb-1x2", 80, 79.15, 19.5, 312, 1935, 300, 25, 25, 31.5, 256},
      {"a100-sxm4-40gb-1x8", 39.49353, 39.49353, 19.5, 312, 1555, 300, 25, 200, 31.5, 1024},
      {"a100-sxm4-80gb-4x8", 80, 79.15, 19.5, 312, 2039, 300, 25, 200, 31.5, 2048},
      {"h100-pcie-80gb-1x8", 79.647461, 79.1, 51.2, 756, 2000, 63, 50, 100, 63, 1024},
      {"h100-sxm5-80gb-128x8", 79.647461, 79.1, 66.9, 989.4, 3350, 450, 50, 400, 63, 2048},
      {"h200-sxm-141gb-1x8", 140.401367, 139.72, 66.9, 989.4, 4800, 450, 50, 400, 63, 2048},
      {"b200-sxm-1x8", 179.061523, 178.35, 80, 2250, 7700, 900, 50, 400, 63, 2048},
      {"gb200-1x72", 185.030273, 184.31, 90, 2500, 8000, 900, 50, 3600, 225, 17280},
      {"mi250x-1x8", 64, 63.04, 23.95, 191.5, 1638.5, 50, 25, 100, 36, 512},
      {"mi300x-1x8", 191.984375, 191.69, 163.4, 1307.4, 5300, 448, 50, 400, 63, 2048},
      {"l40s-1x8", 44.988281, 44.39, 91.6, 362.05, 864, 31.5, 12.5, 50, 31.5, 1536},
      {"rtx-a6000-1x8", 47.988281, 47.27, 38.7, 154.8, 768, 31.5, 3.125, 3.125, 31.5, 512},
  };
  std::set<std::string> covered;
  for (const Golden& golden : table) {
    SCOPED_TRACE(golden.name);
    const Cluster cluster = Preset(golden.name);
    EXPECT_EQ(cluster.name, golden.name);
    const NodeGroup& group = Group(cluster);
    const Device& device = group.device;
    covered.insert(device.name);
    EXPECT_NEAR(device.memory_bytes / kGib, golden.shown_gib, 1e-5);
    EXPECT_NEAR(device.usable_bytes() / kGib, golden.usable_gib, 1e-5);
    EXPECT_NEAR(device.PeakFlopsPerS("fp32"), golden.fp32 * 1e12, 1e6);
    EXPECT_NEAR(device.PeakFlopsPerS("fp16"), golden.half * 1e12, 1e6);
    EXPECT_NEAR(device.memory_bytes_per_s, golden.memory_gb_per_s * 1e9, 1e3);
    EXPECT_NEAR(group.intra_node.bytes_per_s, golden.intra_gb_per_s * 1e9, 1e3);
    EXPECT_NEAR(group.inter_node.bytes_per_s, golden.nic_gb_per_s * 1e9, 1e3);
    EXPECT_NEAR(group.node_bytes_per_s, golden.node_gb_per_s * 1e9, 1e3);
    EXPECT_NEAR(group.host_to_device.bytes_per_s, golden.host_link_gb_per_s * 1e9, 1e3);
    EXPECT_EQ(group.device_to_host, group.host_to_device);
    EXPECT_NEAR(group.host_memory_bytes / kGib, golden.host_gib, 1e-6);
    EXPECT_EQ(group.price_usd_per_device_hour, std::nullopt);
  }
  EXPECT_EQ(covered.size(), PresetTable("gpus").size());
}

TEST(PresetsTest, TablesAgree) {
  const auto& gpus = PresetTable("gpus");
  std::set<std::string> names;
  for (const PresetRow& row : gpus) names.insert(row.Text("name"));
  for (const char* table : {"hosts", "efficiency"}) {
    std::set<std::string> described;
    for (const PresetRow& row : PresetTable(table)) {
      if (!row.Text("name").starts_with("*")) described.insert(row.Text("name"));
    }
    EXPECT_EQ(described, names) << table;
  }
  std::set<std::string> spoken;
  for (const PresetRow& row : PresetTable("hosts")) {
    EXPECT_THAT(row.Text("host_stated_by"), ::testing::AnyOf("maker", "default"));
    EXPECT_TRUE(row.Has("host_source") && row.Has("memory_source")) << row.Text("name");
    for (const std::string& alias : row.Words("aliases")) {
      EXPECT_TRUE(spoken.insert(alias).second) << alias << " is an alias of two GPUs";
      EXPECT_EQ(alias.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), std::string::npos) << alias;
    }
  }
  for (const PresetRow& row : PresetTable("collectives")) {
    for (const std::string& device : row.Words("devices")) EXPECT_TRUE(names.contains(device));
  }
}

TEST(PresetsTest, TheTableOfGpusIsTheSharedOne) {
  std::ifstream file(PALMIST_SOURCE_DIR "/../shared/data/gpus.csv");
  if (!file) GTEST_SKIP() << "no ../shared/data beside the checkout";
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const CsvTable shared = ParseCsv(text).value();
  ASSERT_EQ(shared.size(), PresetTable("gpus").size());
  for (std::size_t i = 0; i < shared.size(); ++i) {
    for (const char* column : {"name", "fp32_tflops", "bf16_tflops", "memory_gbps", "link"}) {
      EXPECT_EQ(shared[i].Text(column), PresetTable("gpus")[i].Text(column));
    }
  }
}

TEST(PresetsTest, NamesWithoutRegardToCaseAndAliases) {
  EXPECT_EQ(Preset("L4-1X8"), Preset("l4-1x8"));
  EXPECT_EQ(Preset("A100-SXM4-80GB-4x8"), Preset("a100-sxm4-80gb-4x8"));
  const std::pair<const char*, const char*> aliases[] = {
      {"a100", "A100-SXM4-80GB"},
      {"a100-80gb", "A100-SXM4-80GB"},
      {"a100-40gb", "A100-SXM4-40GB"},
      {"h100", "H100-SXM5-80GB"},
      {"h100-80gb", "H100-SXM5-80GB"},
      {"h200", "H200-SXM-141GB"},
      {"b200", "B200-SXM"},
      {"v100", "V100-SXM2-16GB"},
      {"v100-32gb", "V100-SXM2-32GB"},
      {"v100-16gb", "V100-SXM2-16GB"},
      {"4090", "RTX-4090"},
      {"rtx-4090", "RTX-4090"},
      {"3090", "RTX-3090"},
      {"2080-ti", "RTX-2080-Ti"},
      {"a10g", "A10G"},
      {"a10g-24gb", "A10G"},
      {"l4-24gb", "L4"},
      {"a6000", "RTX-A6000"},
      {"h100-pcie", "H100-PCIe-80GB"},
      {"t4", "T4"},
  };
  for (const auto& [alias, name] : aliases) {
    EXPECT_EQ(Group(Preset(std::string(alias) + "-2x4")).device.name, name) << alias;
    EXPECT_EQ(PresetDevice(alias)->name, name);
  }
  EXPECT_EQ(Preset("a100-4x8").name, "a100-sxm4-80gb-4x8");
}

TEST(PresetsTest, BadNamesSayWhatIsNear) {
  const std::pair<const char*, const char*> bad[] = {
      {"l5-1x8", "l4"},
      {"h100-sxm-80g-1x8", "h100-sxm-80gb"},
      {"a100-sxm4-81gb-4x8", "a100-sxm4-80gb"},
      {"quantum-1x8", "palmist clusters"},
      {"l4", "l4-1x8"},
      {"a100", "a100-sxm4-80gb-1x8"},
      {"l4-8", "GPU-NODESxGPUS"},
      {"l4-x8", "GPU-NODESxGPUS"},
      {"l4-1x", "GPU-NODESxGPUS"},
      {"l4-1x8x2", "GPU-NODESxGPUS"},
      {"l4--1x8", "name of a GPU"},
      {"-1x8", "name of a GPU"},
      {"", "GPU-NODESxGPUS"},
      {"l4-0x8", "1 to 72"},
      {"l4-4x0", "1 to 72"},
      {"l4-1x73", "1 to 72"},
      {"l4-99999999x8", "at most 1048576"},
      {"l4-131073x8", "at most 1048576"},
      {"l4-99999999999999999999x8", "at most 1048576"},
      {"l4-+1x8", "GPU-NODESxGPUS"},
      {"l4-1.5x8", "GPU-NODESxGPUS"},
      {"cpu-2x4", "cpu-1xN"},
      {"cpu-1x0", "cpu-1xN"},
      {"cpu-1x5000", "cpu-1xN"},
      {"cpu", "GPU-NODESxGPUS"},
  };
  for (const auto& [name, message] : bad) {
    const auto cluster = PresetCluster(name);
    ASSERT_FALSE(cluster.ok()) << name;
    EXPECT_EQ(cluster.error().kind(), ErrorKind::kUsage) << name;
    EXPECT_THAT(cluster.error().what(), HasSubstr(message)) << name;
    EXPECT_FALSE(LoadCluster(name).ok()) << name;
  }
  EXPECT_TRUE(PresetCluster("l4-131072x8").ok());
}

TEST(PresetsTest, NothingOfALargeModelFitsOneSmallCardAndItsHost) {
  // 70e9 parameters with 16 bytes each, everything offloaded that can be.
  const Cluster one = Preset("l4-1x1");
  EXPECT_LT(Group(one).device.memory_bytes + Group(one).host_memory_bytes, 70e9 * 16);
  EXPECT_DOUBLE_EQ(Group(one).host_memory_bytes, 96 * kGib);
  EXPECT_DOUBLE_EQ(Group(one).host_memory_per_device_bytes(),
                   Group(Preset("l4-1x8")).host_memory_per_device_bytes());
}

TEST(PresetsTest, BridgesJoinPairsOnly) {
  EXPECT_EQ(Group(Preset("3090-1x2")).intra_node.kind, "nvlink3");
  EXPECT_EQ(Group(Preset("3090-1x4")).intra_node.kind, "pcie4");
  EXPECT_EQ(Group(Preset("a100-1x4")).intra_node.kind, "nvlink3");
  EXPECT_EQ(Group(Preset("l4-1x2")).intra_node.kind, "pcie4");
}

TEST(PresetsTest, ListHasEachGpuOnceAndThisMachine) {
  const auto presets = ListPresets();
  ASSERT_EQ(presets.size(), PresetTable("gpus").size() + 1);
  for (const PresetSummary& preset : presets) {
    EXPECT_EQ(*PresetCluster(preset.name), preset.cluster) << preset.name;
    EXPECT_FALSE(preset.source.empty()) << preset.name;
    const auto json = ToJson(preset);
    EXPECT_EQ(json["name"], preset.name);
    EXPECT_EQ(json["devices"], preset.cluster.num_devices());
    EXPECT_EQ(json["spec"]["palmist_cluster"], 1);
  }
  EXPECT_TRUE(Group(presets.back().cluster).device.is_cpu);
}

TEST(PresetsTest, CpuRanksShareTheMachine) {
  const MachineFacts machine{.memory_bytes = 64 * kGib, .cores = 8};
  const NodeGroup two = CpuGroup(machine, 2);
  EXPECT_EQ(two.num_devices(), 2);
  EXPECT_EQ(two.device.threads, 4);
  EXPECT_TRUE(two.device.is_cpu);
  EXPECT_DOUBLE_EQ(two.device.memory_bytes, 32 * kGib);
  EXPECT_DOUBLE_EQ(two.device.PeakFlopsPerS("fp32"), 4 * 32e9);
  EXPECT_DOUBLE_EQ(two.device.PeakFlopsPerS("bf16"), 2 * 32e9);
  EXPECT_DOUBLE_EQ(two.host_memory_bytes, 0.0);

  const NodeGroup three = CpuGroup(machine, 3);
  EXPECT_EQ(three.device.threads, 2);
  EXPECT_DOUBLE_EQ(three.device.PeakFlopsPerS("fp32"), 2 * 32e9);

  const NodeGroup sixteen = CpuGroup(machine, 16);
  EXPECT_EQ(sixteen.device.threads, 1);
  EXPECT_DOUBLE_EQ(sixteen.device.PeakFlopsPerS("fp32"), 0.5 * 32e9);
}

TEST(PresetsTest, CpuPresetIsThisMachine) {
  const Cluster cluster = Preset("cpu-1x2");
  EXPECT_EQ(cluster.name, "cpu-1x2");
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  EXPECT_EQ(Group(cluster).device.threads, std::max(1, cores / 2));
  EXPECT_DOUBLE_EQ(Group(cluster).device.memory_bytes * 2, ThisMachine().memory_bytes);
  EXPECT_GT(ThisMachine().memory_bytes, 0.0);
}

TEST(PresetsTest, ReadsMeminfo) {
  EXPECT_DOUBLE_EQ(MemTotalBytes("MemTotal:       24683656 kB\nMemFree: 1 kB\n"),
                   24683656.0 * 1024);
  EXPECT_DOUBLE_EQ(MemTotalBytes("MemFree: 1 kB\n"), 0.0);
  EXPECT_DOUBLE_EQ(MemTotalBytes("MemTotal:"), 0.0);
  EXPECT_DOUBLE_EQ(MemTotalBytes("MemTotal: x"), 0.0);
}

TEST(PresetRowTest, ReadsNumbersAndWords) {
  const PresetRow row({{"a", "2"}, {"c", " w  v "}});
  EXPECT_DOUBLE_EQ(row.Number("a"), 2.0);
  EXPECT_THAT(row.Words("c"), ::testing::ElementsAre("w", "v"));
  EXPECT_THROW(row.Number("c"), Error);
  EXPECT_THROW((void)row.Text("d"), Error);
}

}  // namespace
}  // namespace palmist::cluster
