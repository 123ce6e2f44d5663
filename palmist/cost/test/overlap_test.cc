#include "palmist/cost/overlap.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "palmist/base/rng.h"
#include "palmist/cluster/presets.h"

namespace palmist::cost {
namespace {

using cluster::Bit;
using cluster::Interference;
using cluster::Resource;

void SetFactor(Interference& interference, unsigned active, Resource resource, double factor) {
  interference.factor[active][static_cast<std::size_t>(resource)] = factor;
}

double Sum(const ResourceSeconds& work) {
  return work.compute + work.device_to_device + work.host_to_device + work.device_to_host;
}

double Longest(const ResourceSeconds& work) {
  return std::max({work.compute, work.device_to_device, work.host_to_device, work.device_to_host});
}

/// Each resource idle in a quarter of the draws.
ResourceSeconds Draw(Rng& rng) {
  const auto draw = [&] { return rng.Integer(4) == 0 ? 0.0 : rng.Uniform(); };
  ResourceSeconds work;
  work.compute = draw();
  work.device_to_device = draw();
  work.host_to_device = draw();
  work.device_to_host = draw();
  return work;
}

/// The factors of every device that is built in, inside a node or across nodes.
std::vector<Interference> DefaultFactors(Interference cluster::DeviceCalibration::*factors) {
  std::vector<Interference> all;
  for (const cluster::PresetSummary& preset : cluster::ListPresets()) {
    const cluster::Calibration calibration = cluster::DefaultCalibration(preset.cluster);
    for (const auto& [name, device] : calibration.devices) all.push_back(device.*factors);
  }
  return all;
}

std::vector<Interference> DefaultFactors() {
  std::vector<Interference> all = DefaultFactors(&cluster::DeviceCalibration::interference);
  for (const Interference& factors :
       DefaultFactors(&cluster::DeviceCalibration::interference_inter_node)) {
    all.push_back(factors);
  }
  return all;
}

TEST(OverlapTest, NoWorkTakesNoTime) { EXPECT_EQ(OverlappedSeconds({}, Interference()), 0); }

TEST(OverlapTest, OneResourceTakesItsTime) {
  for (const Interference& factors : DefaultFactors()) {
    EXPECT_DOUBLE_EQ(OverlappedSeconds({.compute = 3}, factors), 3);
    EXPECT_DOUBLE_EQ(OverlappedSeconds({.device_to_device = 3}, factors), 3);
    EXPECT_DOUBLE_EQ(OverlappedSeconds({.host_to_device = 3}, factors), 3);
    EXPECT_DOUBLE_EQ(OverlappedSeconds({.device_to_host = 3}, factors), 3);
  }
}

TEST(OverlapTest, WithoutInterferenceTheLongestCounts) {
  Rng rng(1);
  for (int trial = 0; trial < 200; ++trial) {
    const ResourceSeconds work = Draw(rng);
    EXPECT_NEAR(OverlappedSeconds(work, Interference()), Longest(work), 1e-12);
  }
}

// Compute 10 at 1/1.25 and traffic 6 at 1/1.5: traffic ends at 9, when 10 - 9/1.25 = 2.8 of compute
// is left, which then runs alone.
TEST(OverlapTest, TwoResourcesByHand) {
  Interference factors;
  const unsigned both = Bit(Resource::kCompute) | Bit(Resource::kDeviceToDevice);
  SetFactor(factors, both, Resource::kCompute, 1.25);
  SetFactor(factors, both, Resource::kDeviceToDevice, 1.5);
  EXPECT_DOUBLE_EQ(OverlappedSeconds({.compute = 10, .device_to_device = 6}, factors), 11.8);
  // The other way round compute ends first, at 5: 6 - 5/1.5 of traffic is left.
  EXPECT_DOUBLE_EQ(OverlappedSeconds({.compute = 4, .device_to_device = 6}, factors),
                   5 + 6 - 5 / 1.5);
}

// All three run at a half until the first, 1 s of work, ends at 2; the other two have 1 and 2 left
// and slow each other by 4/3: 1 ends after 4/3, when 2 - 1 = 1 is left alone.
TEST(OverlapTest, ThreeResourcesByHand) {
  Interference factors;
  const unsigned pair = Bit(Resource::kHostToDevice) | Bit(Resource::kDeviceToHost);
  for (const Resource resource :
       {Resource::kCompute, Resource::kHostToDevice, Resource::kDeviceToHost}) {
    SetFactor(factors, pair | Bit(Resource::kCompute), resource, 2);
    SetFactor(factors, pair, resource, 4.0 / 3);
  }
  EXPECT_NEAR(OverlappedSeconds({.compute = 1, .host_to_device = 2, .device_to_host = 3}, factors),
              2 + 4.0 / 3 + 1,
              1e-12);
}

TEST(OverlapTest, FactorsOfTwoMakeTwoResourcesSerial) {
  Interference factors;
  const unsigned both = Bit(Resource::kCompute) | Bit(Resource::kHostToDevice);
  SetFactor(factors, both, Resource::kCompute, 2);
  SetFactor(factors, both, Resource::kHostToDevice, 2);
  for (const double compute : {0.5, 3.0, 7.0}) {
    EXPECT_DOUBLE_EQ(OverlappedSeconds({.compute = compute, .host_to_device = 3}, factors),
                     compute + 3);
  }
}

/// Checks that overlapping is never quicker than the longest work, nor slower than `most` times
/// one after the other.
void CheckBetween(const std::vector<Interference>& all, double most) {
  Rng rng(2);
  for (const Interference& factors : all) {
    for (int trial = 0; trial < 500; ++trial) {
      const ResourceSeconds work = Draw(rng);
      const double seconds = OverlappedSeconds(work, factors);
      ASSERT_GE(seconds, Longest(work) * (1 - 1e-12));
      ASSERT_LE(seconds, Sum(work) * most * (1 + 1e-12));
    }
  }
}

TEST(OverlapTest, InANodeDefaultsStayBetweenTheLongestAndTheSum) {
  CheckBetween(DefaultFactors(&cluster::DeviceCalibration::interference), 1);
}

// Across nodes, network and copies to the host were measured to be up to 3.7 % slower together
// than one after the other: they share the host's links.
TEST(OverlapTest, AcrossNodesDefaultsAreAtMostALittleWorseThanTheSum) {
  CheckBetween(DefaultFactors(&cluster::DeviceCalibration::interference_inter_node), 1.037);
}

// With the measured factors of three or four resources it may: work that ends later keeps a milder
// set active for longer. Searches rely on these two.
TEST(OverlapTest, MoreComputeOrTrafficNeverEndsEarlierUnderDefaultFactors) {
  Rng rng(3);
  for (const Interference& factors : DefaultFactors()) {
    for (int trial = 0; trial < 500; ++trial) {
      ResourceSeconds work = Draw(rng);
      work.host_to_device = work.device_to_host = 0;
      const double seconds = OverlappedSeconds(work, factors);
      ResourceSeconds more = work;
      more.compute += rng.Uniform();
      ASSERT_GE(OverlappedSeconds(more, factors), seconds * (1 - 1e-12));
      more = work;
      more.device_to_device += rng.Uniform();
      ASSERT_GE(OverlappedSeconds(more, factors), seconds * (1 - 1e-12));
    }
  }
}

}  // namespace
}  // namespace palmist::cost
