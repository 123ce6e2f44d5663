#include "palmist/cost/stage_terms.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>

#include "palmist/base/rng.h"

namespace palmist::cost {
namespace {

using Costs = std::array<double, 4>;

Costs CostsOf(const schedule::StagePoint& point) {
  return {point.forward_s, point.backward_s, point.first_extra_s, point.last_extra_s};
}

/// A stage of random size on a device with random interference, whose limit is a share of what it
/// needs.
StageTerms RandomTerms(Rng& rng) {
  StageTerms terms;
  const auto up_to = [&](double most) { return most * rng.Uniform(); };
  terms.memory.weights = up_to(8e9);
  terms.memory.grads = up_to(8e9);
  terms.memory.optimizer = up_to(4e10);
  terms.memory.activations = up_to(2e10);
  terms.memory.transient = up_to(1e9);
  terms.memory.buffers = up_to(1e8);
  terms.memory.logits = up_to(1e9);
  terms.weight_buffer = up_to(1e9);
  terms.grad_buffer = up_to(1e9);
  terms.activation_buffer = up_to(1e9);
  terms.weights_sharded = rng.Integer(2) == 0;
  terms.grads_sharded = rng.Integer(2) == 0;
  terms.communicators = up_to(5e8);
  terms.context = up_to(5e8);
  terms.reserved_over_allocated = 1 + up_to(0.1);
  terms.host_limit_bytes = up_to(1e11);
  terms.forward_compute_s = up_to(0.1);
  terms.backward_compute_s = up_to(0.2);
  terms.gather_s = rng.Integer(2) * up_to(0.05);
  terms.steady_reduce_s = rng.Integer(2) * up_to(0.05);
  terms.last_reduce_s = rng.Integer(2) * up_to(0.05);
  terms.forward_serial_s = up_to(0.02);
  terms.backward_serial_s = up_to(0.02);
  terms.tied_s = up_to(0.01);
  terms.step_s = up_to(0.05);
  terms.is_step_deferred = rng.Integer(2) == 0;
  terms.gather_updated_s = up_to(0.02);
  terms.moved_activation_bytes = up_to(2e9);
  terms.host_to_device_s_per_byte = 1 / (1e9 + up_to(3e10));
  terms.device_to_host_s_per_byte = 1 / (1e9 + up_to(3e10));
  for (auto& set : terms.interference.factor) {
    for (double& factor : set) factor = 1 + rng.Uniform();
  }
  terms.limit = Compose(terms, {}).memory.needed() * (0.2 + rng.Uniform());
  return terms;
}

TEST(OffloadFrontierTest, IsThatOfAllCombinations) {
  const std::array<double, 4> ratios = {0, 0.25, 0.5, 1};
  int fitting = 0, several = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    const StageTerms terms = RandomTerms(rng);
    std::vector<Costs> all;
    for (const double w : ratios) {
      for (const double g : ratios) {
        for (const double o : ratios) {
          for (const double a : ratios) {
            const StageEstimate estimate =
                Compose(terms, {.weights = w, .grads = g, .optimizer = o, .activations = a});
            if (estimate.ExcessBytes() <= 0) all.push_back(CostsOf(estimate.point));
          }
        }
      }
    }
    std::int64_t evaluated = 0;
    const std::vector<OffloadPoint> frontier = OffloadFrontier(terms, ratios, evaluated);
    EXPECT_LE(evaluated, 256);
    const auto beats = [](const Costs& a, const Costs& b) {
      return std::equal(
          a.begin(), a.end(), b.begin(), [](double x, double y) { return x <= y + 1e-12; });
    };
    for (const Costs& costs : all) {
      EXPECT_TRUE(std::any_of(frontier.begin(), frontier.end(), [&](const OffloadPoint& point) {
        return beats(CostsOf(point.point), costs);
      })) << seed;
    }
    for (const OffloadPoint& point : frontier) {
      const StageEstimate estimate = Compose(terms, point.ratios);
      EXPECT_LE(estimate.ExcessBytes(), 0) << seed;
      EXPECT_EQ(CostsOf(estimate.point), CostsOf(point.point)) << seed;
      EXPECT_DOUBLE_EQ(estimate.host_bytes, point.host_bytes) << seed;
      for (const OffloadPoint& other : frontier) {
        const Costs a = CostsOf(other.point), b = CostsOf(point.point);
        EXPECT_FALSE(&other != &point &&
                     std::equal(a.begin(), a.end(), b.begin(), std::less_equal<>()))
            << seed;
      }
    }
    fitting += !all.empty();
    several += frontier.size() > 1;
  }
  EXPECT_GT(fitting, 100);
  EXPECT_GT(several, 30);
}

TEST(OffloadFrontierTest, WhatFitsWithoutNeedsNone) {
  Rng rng(1);
  StageTerms terms = RandomTerms(rng);
  terms.interference = {};
  terms.limit = Compose(terms, {}).memory.needed() * 1.01;
  std::int64_t evaluated = 0;
  const std::vector<OffloadPoint> frontier = OffloadFrontier(terms, kOffloadRatios, evaluated);
  ASSERT_FALSE(frontier.empty());
  EXPECT_EQ(frontier[0].ratios, plan::OffloadRatios{});
  // What moves beside a steady micro-batch can only make room for the extras.
  for (const OffloadPoint& point : frontier) {
    EXPECT_GE(point.point.forward_s, frontier[0].point.forward_s);
    EXPECT_GE(point.point.backward_s, frontier[0].point.backward_s);
  }
  terms.limit = 0;
  EXPECT_TRUE(OffloadFrontier(terms, kOffloadRatios, evaluated).empty());
}

}  // namespace
}  // namespace palmist::cost
