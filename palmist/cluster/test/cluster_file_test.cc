#include "palmist/cluster/cluster_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "palmist/base/file.h"
#include "palmist/cluster/presets.h"

namespace palmist::cluster {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
const char kFile[] = PALMIST_SOURCE_DIR "/palmist/cluster/testdata/two_groups.yaml";

Cluster TwoGroups() {
  auto cluster = ReadClusterFile(kFile);
  EXPECT_TRUE(cluster.ok()) << cluster.error().what();
  return *std::move(cluster);
}

/// The JSON of a valid file, to be spoilt.
json ValidJson() { return json::parse(ToJson(TwoGroups()).dump()); }

TEST(ClusterFileTest, ReadsEveryKey) {
  const Cluster cluster = TwoGroups();
  EXPECT_EQ(cluster.name, "two-groups");
  ASSERT_EQ(cluster.groups.size(), 2U);
  EXPECT_EQ(cluster.num_devices(), 20);
  EXPECT_EQ(cluster.num_nodes(), 3);

  const NodeGroup& home = cluster.groups[0];
  EXPECT_EQ(home.device, *PresetDevice("L4"));
  EXPECT_EQ(home.intra_node, (Link{"pcie4", 31.5e9, 5.7e-6}));
  EXPECT_EQ(home.device_to_host, home.host_to_device);
  EXPECT_DOUBLE_EQ(home.node_bytes_per_s, 1.25e9);
  EXPECT_DOUBLE_EQ(home.host_memory_bytes, 768 * kGib);
  EXPECT_EQ(home.price_usd_per_device_hour, 0.9);
  EXPECT_EQ(home.zone, "home");
  ASSERT_EQ(home.collectives.size(), 1U);
  EXPECT_EQ(home.collectives[0].kind, CollectiveKind::kAllReduce);
  EXPECT_DOUBLE_EQ(home.collectives[0].alpha_s, 110e-6);

  const NodeGroup& cloud = cluster.groups[1];
  EXPECT_EQ(cloud.device.name, "A100 rented");
  EXPECT_DOUBLE_EQ(cloud.device.usable_bytes(), 79.15 * kGib);
  EXPECT_DOUBLE_EQ(cloud.device.PeakFlopsPerS("bf16"), 0.9 * 312e12);
  EXPECT_DOUBLE_EQ(cloud.device.PeakFlopsPerS("fp16"), 0.9 * 19.5e12);  // no fp16 units stated
  EXPECT_DOUBLE_EQ(cloud.device.PeakFlopsPerS("fp8"), 0.9 * 312e12);
  EXPECT_DOUBLE_EQ(cloud.device.PeakMemoryBytesPerS(), 0.9 * 2039e9);
  EXPECT_DOUBLE_EQ(cloud.device_to_host.bytes_per_s, 20e9);
  EXPECT_EQ(cloud.price_usd_per_device_hour, std::nullopt);

  ASSERT_NE(cluster.FindZoneLink("cloud", "home"), nullptr);
  EXPECT_DOUBLE_EQ(cluster.FindZoneLink("cloud", "home")->egress_usd_per_gb, 0.09);
  EXPECT_EQ(cluster.FindZoneLink("home", "home"), nullptr);
  EXPECT_DOUBLE_EQ(cluster.DeviceAt(3).speed, 0.5);
  EXPECT_DOUBLE_EQ(cluster.DeviceAt(4).speed, 1.0);
}

TEST(ClusterFileTest, NumbersDevicesGroupByGroup) {
  const Cluster cluster = TwoGroups();
  EXPECT_EQ(cluster.PlaceOf(0), (Place{0, 0, 0}));
  EXPECT_EQ(cluster.PlaceOf(15), (Place{0, 1, 7}));
  EXPECT_EQ(cluster.PlaceOf(16), (Place{1, 2, 0}));
  EXPECT_EQ(cluster.PlaceOf(19), (Place{1, 2, 3}));
  EXPECT_THROW(cluster.PlaceOf(20), Error);
  EXPECT_THROW(cluster.PlaceOf(-1), Error);
  EXPECT_EQ(cluster.group_of(17).device.name, "A100 rented");
}

TEST(ClusterFileTest, ShareOfTheNetworkFallsWithTheNumberOfTalkers) {
  const NodeGroup cloud = TwoGroups().groups[1];
  EXPECT_DOUBLE_EQ(cloud.InterNodeBytesPerS(1), 12.5e9);
  EXPECT_DOUBLE_EQ(cloud.InterNodeBytesPerS(4), 12.5e9);
  EXPECT_DOUBLE_EQ(TwoGroups().groups[0].InterNodeBytesPerS(8), 1.25e9 / 8);
}

TEST(ClusterFileTest, RoundTrips) {
  std::vector<Cluster> clusters = {TwoGroups()};
  for (const PresetSummary& preset : ListPresets()) clusters.push_back(preset.cluster);
  for (const Cluster& cluster : clusters) {
    const auto from_yaml = ParseCluster(ToYaml(cluster));
    ASSERT_TRUE(from_yaml.ok()) << cluster.name << ": " << from_yaml.error().what();
    const auto from_json = ClusterFromJson(json::parse(ToJson(cluster).dump()));
    ASSERT_TRUE(from_json.ok()) << cluster.name << ": " << from_json.error().what();
    EXPECT_EQ(*from_yaml, *from_json) << cluster.name;
    EXPECT_EQ(ToYaml(*from_yaml), ToYaml(cluster)) << cluster.name;
    const Device& device = cluster.groups[0].device;
    EXPECT_NEAR(from_yaml->groups[0].device.memory_bytes, device.memory_bytes, 1.0);
    if (!device.is_cpu) {
      EXPECT_EQ(*from_yaml, cluster) << cluster.name;
    }
  }
}

TEST(ClusterFileTest, AcceptsJsonText) {
  const auto cluster = ParseCluster(ToJson(TwoGroups()).dump(2));
  ASSERT_TRUE(cluster.ok()) << cluster.error().what();
  EXPECT_EQ(*cluster, TwoGroups());
}

TEST(ClusterFileTest, OneNodeNeedsNoNetwork) {
  json file = ValidJson();
  file["groups"].erase(0);
  file.erase("zone_links");
  file.erase("slow_devices");
  file["groups"][0].erase("inter_node");
  EXPECT_TRUE(ClusterFromJson(file).ok()) << ClusterFromJson(file).error().what();
  file["groups"][0]["nodes"] = 2;
  ASSERT_FALSE(ClusterFromJson(file).ok());
  EXPECT_EQ(ClusterFromJson(file).error().field(), "groups[0].inter_node");
}

TEST(ClusterFileTest, CpuNodesNeedNoHost) {
  json file = ValidJson();
  file["groups"].erase(0);
  file.erase("zone_links");
  file.erase("slow_devices");
  json& group = file["groups"][0];
  group["device"]["kind"] = "cpu";
  group["device"]["threads"] = 4;
  group.erase("host_to_device");
  group.erase("host_memory_gib");
  const auto cluster = ClusterFromJson(file);
  ASSERT_TRUE(cluster.ok()) << cluster.error().what();
  EXPECT_TRUE(cluster->groups[0].device.is_cpu);
  EXPECT_EQ(cluster->groups[0].device.threads, 4);
  EXPECT_EQ(ToYaml(*cluster), ToYaml(*ParseCluster(ToYaml(*cluster))));
}

struct BadValue {
  const char* pointer;  ///< Where the value is put; a null value removes the key.
  json value;
  const char* field;
  const char* message;
};

TEST(ClusterFileTest, BadValuesNameTheirPath) {
  const BadValue bad_values[] = {
      {"/palmist_cluster", 2, "palmist_cluster", "expected version 1"},
      {"/palmist_cluster", nullptr, "palmist_cluster", "got nothing"},
      {"/grups", 1, "grups", "groups"},
      {"/name", 3, "name", "expected a string"},
      {"/name", std::string(300, 'a'), "name", "at most 200 bytes"},
      {"/groups", nullptr, "groups", "expected an array"},
      {"/groups", json::array(), "groups", "at least one group"},
      {"/groups", json::object(), "groups", "expected an array"},
      {"/groups/1", 7, "groups[1]", "expected an object"},
      {"/groups/0/nodes", 0, "groups[0].nodes", "got 0"},
      {"/groups/0/nodes", -4, "groups[0].nodes", "got -4"},
      {"/groups/0/nodes", 1.5, "groups[0].nodes", "expected an integer"},
      {"/groups/0/nodes", "2", "groups[0].nodes", "expected an integer"},
      {"/groups/0/nodes", 1e30, "groups[0].nodes", "expected an integer"},
      {"/groups/0/nodes", 200000, "groups[0].nodes", "at most 1048576 devices"},
      {"/groups/0/devices_per_node", 0, "groups[0].devices_per_node", "got 0"},
      {"/groups/0/device_per_node", 1, "groups[0].device_per_node", "devices_per_node"},
      {"/groups/1/device", nullptr, "groups[1].device", "expected an object"},
      {"/groups/1/device", "l5", "groups[1].device", "l4"},
      {"/groups/1/device/name", "", "groups[1].device.name", "empty"},
      {"/groups/1/device/kind", "tpu", "groups[1].device.kind", "gpu or cpu"},
      {"/groups/1/device/threads", 4, "groups[1].device.threads", "expected an integer"},
      {"/groups/1/device/memory_gib", 0, "groups[1].device.memory_gib", "got 0"},
      {"/groups/1/device/memory_gib", -80, "groups[1].device.memory_gib", "got -80"},
      {"/groups/1/device/memory_gib", "80GiB", "groups[1].device.memory_gib", "80GiB"},
      {"/groups/1/device/memory_gib", 1e300, "groups[1].device.memory_gib", "expected a number"},
      {"/groups/1/device/memory_gb", 80, "groups[1].device.memory_gb", "memory_gib"},
      {"/groups/1/device/reserved_gib",
       80,
       "groups[1].device.reserved_gib",
       "less than memory_gib"},
      {"/groups/1/device/reserved_gib", -1, "groups[1].device.reserved_gib", "got -1"},
      {"/groups/1/device/fp32_tflops", nullptr, "groups[1].device.fp32_tflops", "add this key"},
      {"/groups/1/device/bf16_tflops", 0, "groups[1].device.bf16_tflops", "got 0"},
      {"/groups/1/device/bf16_flops", 1, "groups[1].device.bf16_flops", "bf16_tflops"},
      {"/groups/1/device/speed", 0, "groups[1].device.speed", "got 0"},
      {"/groups/1/intra_node", nullptr, "groups[1].intra_node", "got nothing"},
      {"/groups/1/intra_node/latency_us", -1, "groups[1].intra_node.latency_us", "got -1"},
      {"/groups/1/intra_node/latency_ms", 1, "groups[1].intra_node.latency_ms", "latency_us"},
      {"/groups/1/inter_node/node_bandwidth_gb_per_s",
       1,
       "groups[1].inter_node.node_bandwidth_gb_per_s",
       "at least bandwidth_gb_per_s"},
      {"/groups/1/host_to_device", nullptr, "groups[1].host_to_device", "got nothing"},
      {"/groups/1/host_memory_gib", nullptr, "groups[1].host_memory_gib", "got nothing"},
      {"/groups/1/price_usd_per_device_hour", -1, "groups[1].price_usd_per_device_hour", "got -1"},
      {"/groups/0/collectives/0/kind", "allreduce", "groups[0].collectives[0].kind", "all_reduce"},
      {"/groups/0/collectives/0/ranks_in_node",
       1,
       "groups[0].collectives[0].ranks_in_node",
       "2 to 1048576 ranks"},
      {"/groups/0/collectives/0/bandwidth_gb_per_s",
       0,
       "groups[0].collectives[0].bandwidth_gb_per_s",
       "got 0"},
      {"/zone_links/0/from", "mars", "zone_links[0].from", "the zone of a group"},
      {"/zone_links/1/to", "cloud", "zone_links[1].node_bandwidth_gb_per_s", "got"},
      {"/slow_devices/0/device", 20, "slow_devices[0].device", "from 0 to 19"},
      {"/slow_devices/0/speed", -1, "slow_devices[0].speed", "got -1"},
  };
  for (const BadValue& bad : bad_values) {
    json file = ValidJson();
    const json::json_pointer pointer(bad.pointer);
    if (bad.value.is_null()) {
      file.at(pointer.parent_pointer()).erase(pointer.back());
    } else {
      file[pointer] = bad.value;
    }
    if (std::string_view(bad.pointer) == "/zone_links/1/to") {
      file["zone_links"][1]["node_bandwidth_gb_per_s"] = 0;
    }
    const auto cluster = ClusterFromJson(file);
    ASSERT_FALSE(cluster.ok()) << bad.pointer;
    EXPECT_EQ(cluster.error().field(), bad.field) << cluster.error().what();
    EXPECT_THAT(cluster.error().what(), HasSubstr(bad.message)) << bad.pointer;
    EXPECT_EQ(cluster.error().kind(), ErrorKind::kInput);
  }
}

TEST(ClusterFileTest, RepetitionsAreRefused) {
  json file = ValidJson();
  file["slow_devices"].push_back({{"device", 3}, {"speed", 0.4}});
  EXPECT_EQ(ClusterFromJson(file).error().field(), "slow_devices[1].device");
  file = ValidJson();
  file["zone_links"].push_back(file["zone_links"][0]);
  EXPECT_EQ(ClusterFromJson(file).error().field(), "zone_links[2].to");
  file = ValidJson();
  file["groups"][0]["collectives"].push_back(file["groups"][0]["collectives"][0]);
  EXPECT_EQ(ClusterFromJson(file).error().field(), "groups[0].collectives[1].kind");
  file = ValidJson();
  while (file["groups"].size() <= static_cast<std::size_t>(kMaxGroups)) {
    file["groups"].push_back(file["groups"][1]);
  }
  EXPECT_THAT(ClusterFromJson(file).error().what(), HasSubstr("at most 64 groups"));
}

TEST(ClusterFileTest, ErrorsCarryThePathOfTheEnclosingFile) {
  json file = ValidJson();
  file["groups"][1]["nodes"] = 0;
  EXPECT_EQ(ClusterFromJson(file, "cluster.spec").error().field(), "cluster.spec.groups[1].nodes");
}

TEST(ClusterFileTest, InfinityInYamlIsRefused) {
  std::string text = *ReadFile(kFile);
  const std::string number = "memory_gib: 80";
  for (const char* bad : {".inf", ".nan", "1e999", "-0.0", "0x50"}) {
    std::string spoilt = text;
    spoilt.replace(spoilt.find(number), number.size(), "memory_gib: " + std::string(bad));
    const auto cluster = ParseCluster(spoilt);
    ASSERT_FALSE(cluster.ok()) << bad;
    EXPECT_EQ(cluster.error().field(), "groups[1].device.memory_gib") << cluster.error().what();
  }
}

TEST(ClusterFileTest, NotAMappingIsRefused) {
  for (const char* text : {"12", "[]", "text", "null", "~"}) {
    const auto cluster = ParseCluster(text);
    ASSERT_FALSE(cluster.ok()) << text;
    EXPECT_THAT(cluster.error().what(), HasSubstr("expected an object")) << text;
  }
}

TEST(ClusterFileTest, TheExampleOfTheGuideIsValid) {
  const std::string guide = *ReadFile(PALMIST_SOURCE_DIR "/docs/guide/cluster-files.md");
  const std::string fence = "```yaml\n";
  const std::size_t begin = guide.find(fence) + fence.size();
  const auto cluster = ParseCluster(guide.substr(begin, guide.find("```", begin) - begin));
  ASSERT_TRUE(cluster.ok()) << cluster.error().what();
  EXPECT_EQ(cluster->num_devices(), 20);
}

TEST(ClusterFileTest, FilesAreFoundByName) {
  const auto path = std::filesystem::temp_directory_path() / "palmist_cluster_file_test.yaml";
  ASSERT_TRUE(WriteFileAtomic(path, ToYaml(TwoGroups())).ok());
  EXPECT_EQ(*LoadCluster(path), TwoGroups());
  std::filesystem::remove(path);
  EXPECT_EQ(LoadCluster(path).error().kind(), ErrorKind::kInput);
  EXPECT_THAT(LoadCluster("missing.yaml").error().what(), HasSubstr("missing.yaml"));
}

}  // namespace
}  // namespace palmist::cluster
