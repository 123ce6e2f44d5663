#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "palmist/cluster/calibration.h"
#include "palmist/cluster/presets.h"

namespace palmist::cluster {
namespace {

constexpr auto kAllReduce = CollectiveKind::kAllReduce;
constexpr auto kAllGather = CollectiveKind::kAllGather;
constexpr auto kReduceScatter = CollectiveKind::kReduceScatter;
constexpr auto kAllToAll = CollectiveKind::kAllToAll;
constexpr auto kSendRecv = CollectiveKind::kSendRecv;

/// Round numbers: 100 GB/s inside, cards of 10 GB/s, 40 GB/s a node of 8.
NodeGroup RoundGroup() {
  NodeGroup group;
  group.nodes = 16;
  group.devices_per_node = 8;
  group.device.name = "round";
  group.device.flops_per_s = {{"fp32", 1e12}};
  group.intra_node = {"nvlink", 100e9, 1e-6};
  group.inter_node = {"infiniband", 10e9, 10e-6};
  group.node_bytes_per_s = 40e9;
  return group;
}

Cluster RoundCluster() {
  Cluster cluster;
  cluster.groups = {RoundGroup()};
  return cluster;
}

/// Everything at its nominal rate, 5 us a launch.
DeviceCalibration Nominal() {
  DeviceCalibration calibration;
  calibration.links.collective_launch_s = 5e-6;
  return calibration;
}

CollectiveCost Cost(CollectiveKind kind, int ranks_in_node, int nodes) {
  return GroupCost(RoundGroup(), Nominal(), kind, ranks_in_node, nodes);
}

TEST(WireFactorTest, IsWhatEachRankSends) {
  EXPECT_DOUBLE_EQ(WireFactor(kAllReduce, 8), 2 * 7.0 / 8);
  EXPECT_DOUBLE_EQ(WireFactor(kAllGather, 8), 7.0 / 8);
  EXPECT_DOUBLE_EQ(WireFactor(kReduceScatter, 4), 3.0 / 4);
  EXPECT_DOUBLE_EQ(WireFactor(kAllToAll, 2), 0.5);
  EXPECT_DOUBLE_EQ(WireFactor(kSendRecv, 2), 1.0);
  for (const CollectiveKind kind : kCollectiveKinds) EXPECT_EQ(WireFactor(kind, 1), 0.0);
}

TEST(CollectiveCostTest, OneRankCostsNothing) {
  for (const CollectiveKind kind : kCollectiveKinds) {
    const CollectiveCost cost = Cost(kind, 1, 1);
    EXPECT_EQ(cost.alpha_s, 0.0);
    EXPECT_EQ(CollectiveSeconds(cost, kind, 1, 1e9), 0.0);
  }
}

TEST(CollectiveCostTest, InsideANodeTheLinkBounds) {
  for (const CollectiveKind kind : kCollectiveKinds) {
    EXPECT_DOUBLE_EQ(Cost(kind, 8, 1).bytes_per_s, 100e9) << ToString(kind);
  }
  EXPECT_NEAR(Cost(kAllReduce, 8, 1).alpha_s, 5e-6 + 14 * 1e-6, 1e-12);
  EXPECT_NEAR(Cost(kAllGather, 8, 1).alpha_s, 5e-6 + 7 * 1e-6, 1e-12);
  EXPECT_NEAR(Cost(kSendRecv, 2, 1).alpha_s, 5e-6 + 1e-6, 1e-12);
  EXPECT_NEAR(CollectiveSeconds(Cost(kAllReduce, 8, 1), kAllReduce, 8, 1e9),
              19e-6 + 1.75 * 1e9 / 100e9,
              1e-9);
}

TEST(CollectiveCostTest, AcrossNodesTheShareOfTheCardsBounds) {
  EXPECT_DOUBLE_EQ(Cost(kAllReduce, 8, 2).bytes_per_s, 40e9);
  EXPECT_DOUBLE_EQ(Cost(kAllReduce, 4, 2).bytes_per_s, 20e9);
  EXPECT_DOUBLE_EQ(Cost(kAllReduce, 1, 2).bytes_per_s, 5e9);
  EXPECT_DOUBLE_EQ(Cost(kAllGather, 1, 16).bytes_per_s, 5e9);
  // A lone pair has its card, eight pairs share those of the node.
  EXPECT_DOUBLE_EQ(Cost(kSendRecv, 1, 2).bytes_per_s, 10e9);
  EXPECT_DOUBLE_EQ(Cost(kSendRecv, 8, 2).bytes_per_s, 5e9);
}

TEST(CollectiveCostTest, ManyNodesUseTheTree) {
  EXPECT_NEAR(Cost(kAllReduce, 8, 2).alpha_s, 5e-6 + 2 * (7e-6 + 10e-6), 1e-12);
  EXPECT_NEAR(Cost(kAllReduce, 8, 16).alpha_s, 5e-6 + 2 * (7e-6 + 4 * 10e-6), 1e-12);
  // A ring, where there is no tree.
  EXPECT_NEAR(Cost(kReduceScatter, 8, 16).alpha_s, 5e-6 + 16 * 7e-6 + 15 * 10e-6, 1e-12);
}

TEST(CollectiveCostTest, AllToAllIsBoundByItsSlowerPart) {
  // 2 nodes of 8: 8 of 16 parts cross; 8 ranks share 40 GB/s, so 5 GB/s each; inside 7 parts.
  const double across = 8 / 5e9;
  EXPECT_NEAR(Cost(kAllToAll, 8, 2).bytes_per_s, 15 / across, 1.0);
  const CollectiveCost cost = Cost(kAllToAll, 8, 2);
  const double bytes = 16e6;
  EXPECT_NEAR(CollectiveSeconds(cost, kAllToAll, 16, bytes) - cost.alpha_s, 8e6 / 5e9, 1e-9);
}

TEST(CollectiveCostTest, GrowsWithRanksAndBytesAndShrinksWithSpeed) {
  for (const CollectiveKind kind : kCollectiveKinds) {
    if (kind == kSendRecv) continue;
    double before = 0.0;
    for (int nodes = 1; nodes <= 16; nodes *= 2) {
      const double now = CollectiveSeconds(Cost(kind, 8, nodes), kind, 8 * nodes, 1e8);
      EXPECT_GT(now, before) << ToString(kind) << nodes;
      before = now;
    }
    DeviceCalibration half = Nominal();
    half.links.intra_node_fraction = 0.5;
    half.links.inter_node_fraction = 0.5;
    for (const auto& [ranks, nodes] : {std::pair{8, 1}, {8, 4}, {1, 4}, {2, 2}}) {
      EXPECT_DOUBLE_EQ(GroupCost(RoundGroup(), half, kind, ranks, nodes).bytes_per_s * 2,
                       Cost(kind, ranks, nodes).bytes_per_s);
    }
  }
}

TEST(CollectiveCostTest, MeasuredShapesWin) {
  const CollectiveFit fit{kAllReduce, 8, 1, 50e-6, 70e9, 10, 0.01};
  const CollectiveFit other{kAllReduce, 8, 1, 60e-6, 60e9, 10, 0.01};
  NodeGroup group = RoundGroup();
  DeviceCalibration calibration = Nominal();
  calibration.collectives = {fit};
  EXPECT_EQ(GroupCost(group, calibration, kAllReduce, 8, 1).bytes_per_s, 70e9);
  EXPECT_EQ(GroupCost(group, calibration, kAllReduce, 8, 1).alpha_s, 50e-6);
  EXPECT_EQ(GroupCost(group, calibration, kAllGather, 8, 1).bytes_per_s, 100e9);  // another kind

  group.collectives = {other};  // measured on this cluster: better than a default...
  EXPECT_EQ(GroupCost(group, calibration, kAllReduce, 8, 1).bytes_per_s, 60e9);
  calibration.measured = true;  // ...but not than a calibration
  EXPECT_EQ(GroupCost(group, calibration, kAllReduce, 8, 1).bytes_per_s, 70e9);
}

TEST(CollectiveCostTest, OtherShapesAreCorrectedAsTheNearest) {
  DeviceCalibration calibration = Nominal();
  calibration.collectives = {{kAllReduce, 8, 1, 119e-6, 50e9, 10, 0.0},
                             {kAllReduce, 2, 1, 7e-6, 80e9, 10, 0.0}};
  const CollectiveCost four = GroupCost(RoundGroup(), calibration, kAllReduce, 4, 1);
  EXPECT_DOUBLE_EQ(four.bytes_per_s, 50e9);  // half of nominal, as at eight (a tie keeps the first)
  EXPECT_NEAR(four.alpha_s, 100e-6 + 5e-6 + 6e-6, 1e-12);  // 100 us more than derived, as at eight
  const CollectiveCost three = GroupCost(RoundGroup(), calibration, kAllReduce, 3, 1);
  EXPECT_DOUBLE_EQ(three.bytes_per_s, 80e9);
  // What was measured inside a node says nothing of the network.
  EXPECT_DOUBLE_EQ(GroupCost(RoundGroup(), calibration, kAllReduce, 8, 2).bytes_per_s, 40e9);
}

TEST(CollectiveCostTest, ClusterTakesItsSlowestGroup) {
  Cluster cluster = RoundCluster();
  NodeGroup slow = RoundGroup();
  slow.devices_per_node = 4;
  slow.device.name = "slow";
  slow.intra_node.bytes_per_s = 30e9;
  slow.intra_node.latency_s = 9e-6;
  cluster.groups.push_back(slow);
  Calibration calibration;
  calibration.devices = {{"round", Nominal()}, {"slow", Nominal()}};
  EXPECT_DOUBLE_EQ(GroupCost(cluster, calibration, kAllReduce, 4, 1).bytes_per_s, 30e9);
  EXPECT_NEAR(GroupCost(cluster, calibration, kAllReduce, 4, 1).alpha_s, 5e-6 + 6 * 9e-6, 1e-12);
  EXPECT_DOUBLE_EQ(GroupCost(cluster, calibration, kAllReduce, 8, 1).bytes_per_s, 100e9);
  EXPECT_THROW(GroupCost(cluster, calibration, kAllReduce, 16, 1), Error);
}

TEST(CollectiveCostTest, DevicesGiveTheShape) {
  const Cluster cluster = RoundCluster();
  Calibration calibration;
  calibration.devices = {{"round", Nominal()}};
  std::vector<int> node(8);
  std::iota(node.begin(), node.end(), 8);  // all of node 1
  const auto cost = [&](std::span<const int> devices) {
    return GroupCost(cluster, calibration, kAllReduce, devices);
  };
  EXPECT_DOUBLE_EQ(cost(node).bytes_per_s, Cost(kAllReduce, 8, 1).bytes_per_s);
  EXPECT_DOUBLE_EQ(cost(node).alpha_s, Cost(kAllReduce, 8, 1).alpha_s);
  const std::array<int, 4> strided = {0, 8, 16, 24};
  EXPECT_DOUBLE_EQ(cost(strided).bytes_per_s, Cost(kAllReduce, 1, 4).bytes_per_s);
  EXPECT_DOUBLE_EQ(cost(strided).alpha_s, Cost(kAllReduce, 1, 4).alpha_s);
  const std::array<int, 3> uneven = {0, 1, 8};
  EXPECT_DOUBLE_EQ(cost(uneven).bytes_per_s, Cost(kAllReduce, 2, 2).bytes_per_s);
  const std::array<int, 1> alone = {5};
  EXPECT_EQ(cost(alone).alpha_s, 0.0);
}

TEST(CollectiveCostTest, ZonesBoundWhatCrossesThem) {
  Cluster cluster = RoundCluster();
  cluster.groups.push_back(RoundGroup());
  cluster.groups[0].zone = "a";
  cluster.groups[1].zone = "b";
  cluster.zone_links = {{"a", "b", 2e9, 1e-3, 0.1}, {"b", "a", 1e9, 2e-3, 0.1}};
  Calibration calibration;
  calibration.devices = {{"round", Nominal()}};
  const std::array<int, 2> inside = {0, 8};
  const std::array<int, 2> across = {0, 128};
  const auto near = GroupCost(cluster, calibration, kAllReduce, inside);
  const auto far = GroupCost(cluster, calibration, kAllReduce, across);
  EXPECT_DOUBLE_EQ(near.bytes_per_s, 5e9);
  EXPECT_DOUBLE_EQ(far.bytes_per_s, 1e9 / 8);
  EXPECT_NEAR(far.alpha_s, near.alpha_s + 2 * 2e-3, 1e-12);
  EXPECT_NEAR(GroupCost(cluster, calibration, kAllGather, across).alpha_s,
              GroupCost(cluster, calibration, kAllGather, inside).alpha_s + 2e-3,
              1e-12);
}

TEST(CollectiveCostTest, PublishedMeasurementsAreMet) {
  // From the collective measurements published with Mist (EuroSys'25): 8 L4, all_reduce of 4 GiB
  // took 1.498 s; 8 A100 40 GB, 32.5 ms; 2 V100 32 GB, 214 ms.
  struct Row {
    const char* preset;
    int ranks;
    double seconds;
  };
  for (const Row& row : {Row{"l4-1x8", 8, 1.497913},
                         {"a100-40gb-1x8", 8, 0.032484},
                         {"v100-32gb-1x8", 2, 0.214006}}) {
    const Cluster cluster = *PresetCluster(row.preset);
    const Calibration calibration = DefaultCalibration(cluster);
    const CollectiveCost cost = GroupCost(cluster, calibration, kAllReduce, row.ranks, 1);
    const double seconds = CollectiveSeconds(cost, kAllReduce, row.ranks, 4294967296.0);
    EXPECT_NEAR(seconds / row.seconds, 1.0, 0.1) << row.preset;
  }
}

TEST(CollectiveCostTest, SlowNetworksShow) {
  // Two nodes on 10 Gb/s: at least eight times slower than inside the node.
  NodeGroup group = PresetCluster("a100-2x8")->groups[0];
  group.inter_node.bytes_per_s = 1.25e9;
  group.node_bytes_per_s = 1.25e9;
  Cluster cluster;
  cluster.groups = {group};
  const Calibration calibration = DefaultCalibration(cluster);
  const double inside =
      CollectiveSeconds(GroupCost(cluster, calibration, kAllReduce, 8, 1), kAllReduce, 8, 1e9);
  const double across =
      CollectiveSeconds(GroupCost(cluster, calibration, kAllReduce, 8, 2), kAllReduce, 16, 1e9);
  EXPECT_GT(across, 8 * inside);
}

}  // namespace
}  // namespace palmist::cluster
