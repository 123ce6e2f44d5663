#include "palmist/cost/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "palmist/cluster/cluster_file.h"
#include "palmist/cluster/presets.h"

namespace palmist::cost {
namespace {

std::vector<int> Devices(int first, int count) {
  std::vector<int> devices(static_cast<std::size_t>(count));
  std::iota(devices.begin(), devices.end(), first);
  return devices;
}

/// A cluster with its defaults, and what a test asks of them.
class Machine {
 public:
  explicit Machine(cluster::Cluster cluster)
      : cluster_(std::move(cluster)), calibration_(cluster::DefaultCalibration(cluster_)) {}
  explicit Machine(const std::string& preset) : Machine(cluster::PresetCluster(preset).value()) {}

  LayoutContext context() const {
    return {.cluster = cluster_, .calibration = calibration_, .seq_len = 2048};
  }
  StageRates Rates(const Layout& layout, int first = 0, const std::vector<int>& next = {}) const {
    return ComputeRates(context(), layout, Devices(first, layout.dp * layout.tp * layout.cp), next);
  }
  const cluster::Cluster& cluster() const { return cluster_; }
  const cluster::Calibration& calibration() const { return calibration_; }

 private:
  cluster::Cluster cluster_;
  cluster::Calibration calibration_;
};

TEST(LayoutTest, DegreesReachTheFormulas) {
  const Machine machine("h100-sxm5-80gb-2x8");
  const StageRates rates = machine.Rates({.micro_batch = 3,
                                          .dp = 4,
                                          .tp = 2,
                                          .cp = 2,
                                          .ep = 4,
                                          .sp = true,
                                          .zero = 1,
                                          .zero_shard = 8});
  EXPECT_EQ(rates.inputs.b, 3);
  EXPECT_EQ(rates.inputs.s, 2048);
  EXPECT_EQ(rates.inputs.tp, 2);
  EXPECT_EQ(rates.inputs.sd, 2);
  EXPECT_EQ(rates.inputs.cp, 2);
  EXPECT_EQ(rates.inputs.ep, 4);
  EXPECT_EQ(machine.Rates({.dp = 8, .tp = 2, .sp = false}).inputs.sd, 1);
}

TEST(LayoutTest, ValuesFollowTheNames) {
  LayoutInputs inputs;
  inputs.b = 11;
  inputs.launch_s = 12;
  inputs.ep_group.all_to_all_s_per_byte = 13;
  const std::vector<std::string> names = LayoutInputs::Names();
  const std::vector<double> values = inputs.Values();
  ASSERT_EQ(names.size(), values.size());
  const auto value = [&](const std::string& name) {
    return values.at(
        static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin()));
  };
  EXPECT_EQ(value("b"), 11);
  EXPECT_EQ(value("launch_s"), 12);
  EXPECT_EQ(value("ep_all_to_all_s_per_byte"), 13);
}

TEST(LayoutTest, OneRankHasNoCollectives) {
  const StageRates rates = Machine("l4-1x8").Rates({});
  for (const LayoutInputs::Group* group :
       {&rates.inputs.tp_group, &rates.inputs.cp_group, &rates.inputs.ep_group}) {
    EXPECT_EQ(group->all_reduce_s, 0);
    EXPECT_EQ(group->all_reduce_s_per_byte, 0);
    EXPECT_EQ(group->all_to_all_s_per_byte, 0);
  }
  EXPECT_EQ(rates.data_all_reduce.s_per_byte, 0);
  EXPECT_EQ(rates.shard_gather.s_per_byte, 0);
  EXPECT_EQ(rates.send.s_per_byte, 0);
}

// Ranks of one tensor-parallel group are neighbours, so data parallelism is what crosses nodes.
TEST(LayoutTest, TensorParallelismIsInnermost) {
  const Machine machine("a100-sxm4-80gb-2x8");
  const StageRates rates = machine.Rates({.dp = 2, .tp = 8, .zero = 1, .zero_shard = 2});
  const auto cost = [&](const std::vector<int>& devices) {
    const cluster::CollectiveCost found = cluster::GroupCost(
        machine.cluster(), machine.calibration(), cluster::CollectiveKind::kAllReduce, devices);
    return cluster::WireFactor(cluster::CollectiveKind::kAllReduce,
                               static_cast<int>(devices.size())) /
           found.bytes_per_s;
  };
  EXPECT_DOUBLE_EQ(rates.inputs.tp_group.all_reduce_s_per_byte, cost(Devices(0, 8)));
  EXPECT_DOUBLE_EQ(rates.data_all_reduce.s_per_byte, cost({0, 8}));
  EXPECT_GT(rates.data_all_reduce.s_per_byte, 2 * rates.inputs.tp_group.all_reduce_s_per_byte);
}

TEST(LayoutTest, ContextParallelRanksLieATensorGroupApart) {
  const Machine machine("a100-sxm4-80gb-2x8");
  // With tp 4 the two context-parallel ranks share a node, with tp 8 they do not.
  const double inside =
      machine.Rates({.dp = 2, .tp = 4, .cp = 2}).inputs.cp_group.gather_s_per_byte;
  const double across =
      machine.Rates({.dp = 1, .tp = 8, .cp = 2}).inputs.cp_group.gather_s_per_byte;
  EXPECT_GT(inside, 0);
  EXPECT_GT(across, 2 * inside);
}

TEST(LayoutTest, SlowestDeviceSetsTheRates) {
  cluster::Cluster cluster = cluster::PresetCluster("l4-1x8").value();
  const StageRates even = Machine(cluster).Rates({.dp = 8});
  cluster.slow_devices[5] = 0.5;
  const StageRates slow = Machine(cluster).Rates({.dp = 8});
  EXPECT_DOUBLE_EQ(slow.inputs.gemm_s_per_flop, 2 * even.inputs.gemm_s_per_flop);
  EXPECT_DOUBLE_EQ(slow.inputs.memory_s_per_byte, 2 * even.inputs.memory_s_per_byte);
  EXPECT_DOUBLE_EQ(slow.peak_flops_per_s, even.peak_flops_per_s * 7.5 / 8);
  // A stage without it is not slowed.
  const StageRates without = Machine(cluster).Rates({.dp = 4});
  EXPECT_DOUBLE_EQ(without.inputs.gemm_s_per_flop, even.inputs.gemm_s_per_flop);
}

TEST(LayoutTest, SmallestDeviceSetsTheMemory) {
  const Machine machine(
      cluster::ReadClusterFile(PALMIST_SOURCE_DIR "/palmist/cluster/testdata/two_groups.yaml")
          .value());
  const double small = machine.cluster().DeviceAt(0).usable_bytes();
  const double large = machine.cluster().DeviceAt(19).usable_bytes();
  ASSERT_LT(small, large);
  EXPECT_EQ(machine.Rates({.dp = 20}).usable_bytes, small);
  EXPECT_EQ(machine.Rates({.dp = 4}, 16).usable_bytes, large);
}

TEST(LayoutTest, SendsCostMoreAcrossNodes) {
  const Machine machine("a100-sxm4-80gb-2x8");
  const double inside = machine.Rates({.dp = 4}, 0, Devices(4, 4)).send.s_per_byte;
  const double across = machine.Rates({.dp = 4}, 4, Devices(8, 4)).send.s_per_byte;
  EXPECT_GT(inside, 0);
  EXPECT_GT(across, 2 * inside);
}

TEST(LayoutTest, EndsThatAreOneDeviceReduceNothing) {
  const Machine machine("l4-1x8");
  EXPECT_EQ(PairAllReduce(machine.context(), 3, 3).s_per_byte, 0);
  EXPECT_GT(PairAllReduce(machine.context(), 0, 7).s_per_byte, 0);
}

TEST(LayoutTest, RateOfNothingIsNothing) {
  const Rate rate = {.alpha_s = 1e-5, .s_per_byte = 1e-9};
  EXPECT_EQ(rate.Seconds(0), 0);
  EXPECT_DOUBLE_EQ(rate.Seconds(1e6), 1e-5 + 1e-3);
}

TEST(LayoutTest, RanksThatSendAtOnceShareTheNodesCards) {
  const Machine machine("l4-2x8");
  const double alone = machine.Rates({.dp = 1}, 7, Devices(8, 1)).send.s_per_byte;
  const double together = machine.Rates({.dp = 8}, 0, Devices(8, 8)).send.s_per_byte;
  EXPECT_NEAR(together / alone, 8, 0.8);
}

}  // namespace
}  // namespace palmist::cost
