#include "palmist/cluster/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "palmist/base/file.h"
#include "palmist/cluster/preset_table.h"
#include "palmist/cluster/presets.h"

namespace palmist::cluster {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

Calibration DefaultsOf(const char* preset) { return DefaultCalibration(*PresetCluster(preset)); }

/// A calibration with every key in use.
Calibration Sample() {
  Calibration calibration = DefaultsOf("l4-2x8");
  calibration.when = "2025-01-31T12:00:00Z";
  DeviceCalibration& device = calibration.devices.at("L4");
  device.measured = true;
  device.interference.measured = true;
  device.operators = {
      {"linear", {{"m", 4096}, {"n", 4096}, {"k", 2048}}, "bf16", "fused", 1e-3, 2e-3, 0.02, 10},
      {"empty", {}, "fp32", "", 0.0, 0.0, 0.0, 0}};
  return calibration;
}

json SampleJson() { return json::parse(ToJson(Sample()).dump()); }

TEST(CalibrationTest, GemmCurveSaturates) {
  const SaturationCurve curve{.max_fraction = 0.8, .half_flops = 1e9};
  EXPECT_DOUBLE_EQ(curve.Fraction(1e9), 0.4);
  EXPECT_NEAR(curve.Fraction(1e15), 0.8, 1e-5);
  EXPECT_DOUBLE_EQ(curve.Fraction(0.0), 0.0);
  ComputeEfficiency compute;
  compute.gemm = curve;
  compute.gemm_by_dtype["fp32"] = {0.9, 1e8};
  EXPECT_EQ(compute.GemmCurve("fp32").max_fraction, 0.9);
  EXPECT_EQ(compute.GemmCurve("bf16").max_fraction, 0.8);
}

TEST(CalibrationTest, CommunicatorsCostByTheSizeOfTheirGroup) {
  MemoryOverheads memory;
  EXPECT_EQ(memory.CommunicatorBytes(8), 0.0);
  memory.communicators = {{8, 500e6}, {64, 600e6}};
  EXPECT_EQ(memory.CommunicatorBytes(1), 0.0);
  EXPECT_EQ(memory.CommunicatorBytes(2), 500e6);
  EXPECT_EQ(memory.CommunicatorBytes(8), 500e6);
  EXPECT_EQ(memory.CommunicatorBytes(9), 600e6);
  EXPECT_EQ(memory.CommunicatorBytes(1024), 600e6);
}

TEST(CalibrationTest, DefaultsAreSoberAndHaveSources) {
  for (const PresetSummary& preset : ListPresets()) {
    SCOPED_TRACE(preset.name);
    const Device& device = preset.cluster.groups[0].device;
    const Calibration calibration = DefaultCalibration(preset.cluster);
    const DeviceCalibration& entry = calibration.For(device);
    EXPECT_FALSE(entry.source.empty());
    EXPECT_FALSE(entry.measured);
    EXPECT_GE(entry.compute.gemm.max_fraction, 0.4);
    EXPECT_LE(entry.compute.gemm.max_fraction, 0.85);
    EXPECT_EQ(entry.compute.gemm_by_dtype.size(), device.flops_per_s.size());
    EXPECT_LE(entry.compute.memory_bound_fraction, 0.9);
    EXPECT_LE(entry.compute.attention_fraction, entry.compute.gemm.max_fraction);
    for (const auto& row : entry.interference.factor) {
      for (const double factor : row) EXPECT_GE(factor, 1.0);
    }
    EXPECT_GT(entry.memory.context_bytes, 0.0);
    EXPECT_LT(entry.memory.context_bytes, 0.1 * device.memory_bytes);
    EXPECT_EQ(CalibrationFromJson(json::parse(ToJson(calibration).dump()))->devices.size(), 1U);
  }
}

TEST(CalibrationTest, CommunicatorsOfLargeGpusCostWhatUsersReport) {
  const MemoryOverheads memory = DefaultsOf("a100-4x8").devices.at("A100-SXM4-80GB").memory;
  EXPECT_DOUBLE_EQ(memory.CommunicatorBytes(8), 544e6);
  EXPECT_DOUBLE_EQ(memory.CommunicatorBytes(32), 688e6);
  const MemoryOverheads small = DefaultsOf("l4-2x8").devices.at("L4").memory;
  EXPECT_LT(small.CommunicatorBytes(8), 100e6);
}

TEST(CalibrationTest, InterferenceDefaultsComeFromTheTable) {
  const DeviceCalibration l4 = DefaultsOf("l4-1x8").devices.at("L4");
  const unsigned both = Bit(Resource::kCompute) | Bit(Resource::kDeviceToDevice);
  EXPECT_DOUBLE_EQ(l4.interference.Factor(both, Resource::kCompute), 1.36);
  EXPECT_DOUBLE_EQ(l4.interference.Factor(both, Resource::kHostToDevice), 1.0);
  EXPECT_DOUBLE_EQ(l4.interference.Factor(Bit(Resource::kCompute), Resource::kCompute), 1.0);
  EXPECT_GT(l4.interference.n, 1000);
  const DeviceCalibration a100 = DefaultsOf("a100-1x8").devices.at("A100-SXM4-80GB");
  EXPECT_DOUBLE_EQ(a100.interference.Factor(both, Resource::kCompute), 1.85);
  EXPECT_DOUBLE_EQ(a100.interference_inter_node.Factor(both, Resource::kCompute), 1.08);
  EXPECT_EQ(PresetTable("interference").size(), 33U);  // three classes of eleven sets
}

TEST(CalibrationTest, DevicesOutsideTheTablesGetTheirClass) {
  Cluster cluster = *PresetCluster("l4-1x8");
  cluster.groups[0].device.name = "RTX-3080";
  const auto pcie = DefaultCalibration(cluster).devices.at("RTX-3080");
  EXPECT_THAT(pcie.source, HasSubstr("PCIe"));
  cluster.groups[0].intra_node.kind = "nvlink4";
  const auto fast = DefaultCalibration(cluster).devices.at("RTX-3080");
  EXPECT_THAT(fast.source, HasSubstr("fast links"));
  EXPECT_GT(fast.links.intra_node_fraction, pcie.links.intra_node_fraction);
  cluster.groups[0].device.is_cpu = true;
  EXPECT_THAT(DefaultCalibration(cluster).devices.at("RTX-3080").source, HasSubstr("CPU"));
}

TEST(CalibrationTest, BridgedPairsReachMoreOfTheirLink) {
  EXPECT_GT(DefaultsOf("3090-1x2").devices.at("RTX-3090").links.intra_node_fraction,
            DefaultsOf("3090-1x4").devices.at("RTX-3090").links.intra_node_fraction);
}

TEST(CalibrationTest, DefaultsFillWhatACalibrationLacks) {
  Calibration calibration = Sample();
  Cluster cluster = *PresetCluster("a100-1x8");
  cluster.groups.push_back(PresetCluster("l4-1x8")->groups[0]);
  cluster.groups[1].device.name = "l4";
  const Calibration filled = WithDefaults(calibration, cluster);
  EXPECT_EQ(filled.devices.size(), 2U);
  EXPECT_TRUE(filled.For(cluster.groups[1].device).measured);
  EXPECT_FALSE(filled.For(cluster.groups[0].device).measured);
  EXPECT_EQ(calibration.Find("A100-SXM4-80GB"), nullptr);
  EXPECT_THROW(calibration.For(cluster.groups[0].device), Error);
}

TEST(CalibrationTest, RoundTrips) {
  const Calibration sample = Sample();
  const auto again = ParseCalibration(ToJson(sample).dump());
  ASSERT_TRUE(again.ok()) << again.error().what();
  EXPECT_EQ(ToJson(*again), ToJson(sample));
  EXPECT_EQ(*ParseCalibration(ToJson(*again).dump()), *again);
  EXPECT_EQ(again->devices.at("L4").operators, sample.devices.at("L4").operators);
  EXPECT_EQ(again->devices.at("L4").interference, sample.devices.at("L4").interference);
}

TEST(CalibrationTest, AcrossNodesDefaultsToInsideThem) {
  json file = SampleJson();
  file["devices"]["L4"].erase("interference_inter_node");
  const auto calibration = CalibrationFromJson(file);
  ASSERT_TRUE(calibration.ok()) << calibration.error().what();
  const DeviceCalibration& device = calibration->devices.at("L4");
  EXPECT_EQ(device.interference_inter_node, device.interference);
}

TEST(CalibrationTest, ReadsFiles) {
  const auto path = std::filesystem::temp_directory_path() / "palmist_calibration_test.json";
  ASSERT_TRUE(WriteFileAtomic(path, ToJson(Sample()).dump(2)).ok());
  EXPECT_EQ(ToJson(*ReadCalibration(path)), ToJson(Sample()));
  std::filesystem::remove(path);
  EXPECT_EQ(ReadCalibration(path).error().kind(), ErrorKind::kInput);
}

struct BadValue {
  const char* pointer;
  json value;
  const char* field;
  const char* message;
};

TEST(CalibrationTest, BadValuesNameTheirPath) {
  const BadValue bad_values[] = {
      {"/palmist_calibration", 2, "palmist_calibration", "version 1"},
      {"/palmist_calibration", nullptr, "palmist_calibration", "got nothing"},
      {"/wher", "x", "wher", "where"},
      {"/devices", nullptr, "devices", "an object"},
      {"/devices", json::array(), "devices", "an object"},
      {"/devices/L4", 1, "devices.L4", "an object"},
      {"/devices/l4", json::object(), "devices.l4", "each device once"},
      {"/devices/L4/measured", "yes", "devices.L4.measured", "true or false"},
      {"/devices/L4/compute/gemm/max_fraction", 1.5, "devices.L4.compute.gemm.max_fraction", "1.5"},
      {"/devices/L4/compute/gemm/max_fraction", 0, "devices.L4.compute.gemm.max_fraction", "got 0"},
      {"/devices/L4/compute/gemm/half_gflop", -1, "devices.L4.compute.gemm.half_gflop", "got -1"},
      {"/devices/L4/compute/gemm_by_dtype/bf17",
       json::object(),
       "devices.L4.compute.gemm_by_dtype.bf17",
       "bf16"},
      {"/devices/L4/compute/attention_fraction",
       nullptr,
       "devices.L4.compute.attention_fraction",
       "got nothing"},
      {"/devices/L4/links/intra_node_fraction", 2, "devices.L4.links.intra_node_fraction", "got 2"},
      {"/devices/L4/links/speed", 2, "devices.L4.links.speed", ""},
      {"/devices/L4/interference/factors/C+G2G",
       nullptr,
       "devices.L4.interference.factors.C+G2G",
       "got nothing"},
      {"/devices/L4/interference/factors/C+G2G/C",
       0.9,
       "devices.L4.interference.factors.C+G2G.C",
       "0.9"},
      {"/devices/L4/interference/factors/C+G2G/C2G",
       1.1,
       "devices.L4.interference.factors.C+G2G.C2G",
       "C"},
      {"/devices/L4/interference/factors/G2G+C",
       json::object(),
       "devices.L4.interference.factors.G2G+C",
       ""},
      {"/devices/L4/memory/context_mib", -1, "devices.L4.memory.context_mib", "got -1"},
      {"/devices/L4/memory/reserved_over_allocated",
       0.5,
       "devices.L4.memory.reserved_over_allocated",
       "0.5"},
      {"/devices/L4/memory/communicators/1/max_ranks",
       8,
       "devices.L4.memory.communicators[1].max_ranks",
       "from 9"},
      {"/devices/L4/collectives/0/nodes", 0, "devices.L4.collectives[0].nodes", "got 0"},
      {"/devices/L4/operators/0/shape/m", "x", "devices.L4.operators[0].shape.m", "a number"},
      {"/devices/L4/operators/0/forward_s", -1, "devices.L4.operators[0].forward_s", "got -1"},
      {"/devices/L4/operators/0/n", -1, "devices.L4.operators[0].n", "got -1"},
  };
  for (const BadValue& bad : bad_values) {
    json file = SampleJson();
    const json::json_pointer pointer(bad.pointer);
    if (bad.value.is_null()) {
      file.at(pointer.parent_pointer()).erase(pointer.back());
    } else {
      file[pointer] = bad.value;
    }
    const auto calibration = CalibrationFromJson(file);
    ASSERT_FALSE(calibration.ok()) << bad.pointer;
    EXPECT_EQ(calibration.error().field(), bad.field) << calibration.error().what();
    EXPECT_THAT(calibration.error().what(), HasSubstr(bad.message)) << bad.pointer;
  }
  EXPECT_FALSE(ParseCalibration("{").ok());
  EXPECT_FALSE(ParseCalibration("[]").ok());
  EXPECT_FALSE(ParseCalibration(std::string(100000, '[')).ok());
}

TEST(CalibrationTest, PrivateKeysAreIgnored) {
  json file = SampleJson();
  file["x_mine"] = 1;
  file["devices"]["x_other"] = "anything";
  file["devices"]["L4"]["compute"]["x_note"] = "hm";
  EXPECT_TRUE(CalibrationFromJson(file).ok());
}

TEST(CalibrationTest, MeasuredCollectivesFollowTheLinksOfTheCluster) {
  Cluster cluster = PresetCluster("l4-1x8").value();
  const auto seconds = [&] {
    const CollectiveCost cost =
        GroupCost(cluster, DefaultCalibration(cluster), CollectiveKind::kAllReduce, 8, 1);
    return CollectiveSeconds(cost, CollectiveKind::kAllReduce, 8, 1e9);
  };
  const double as_measured = seconds();
  cluster.groups.front().intra_node.bytes_per_s /= 10;
  EXPECT_NEAR(seconds() / as_measured, 10, 0.1);
}

}  // namespace
}  // namespace palmist::cluster
