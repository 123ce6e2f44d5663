/// The closed forms of schedule/ against the simulator. The table it prints is what the docs quote.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "palmist/schedule/paths.h"
#include "palmist/schedule/pipeline.h"
#include "palmist/sim/simulate.h"
#include "palmist/sim/test/random_pipeline.h"

namespace palmist::sim {
namespace {

using Form = std::function<double(const Pipeline&)>;

/// Relative errors of a form; `low` and `high` are the most it is too short and too long.
struct Errors {
  double mean = 0, low = 0, high = 0;
  double worst() const { return std::max(-low, high); }
};

constexpr int kPipelines = 1500;

double Paths(const Pipeline& pipeline) {
  return schedule::PathSeconds(
      pipeline.schedule, test::Points(pipeline), pipeline.micro_batches, pipeline.chunks);
}

double Iteration(const Pipeline& pipeline) {
  return schedule::IterationSeconds(
      pipeline.schedule, test::Points(pipeline), pipeline.micro_batches, pipeline.chunks);
}

/// Measures `form` on random pipelines, prints a line, and records it in the test's XML.
Errors Measure(const std::string& schedule,
               const std::string& what,
               const test::Ranges& ranges,
               const Form& form) {
  Rng rng(7, 0);
  Errors errors;
  for (int i = 0; i < kPipelines; ++i) {
    const Pipeline pipeline = test::RandomPipeline(rng, schedule, ranges);
    const double error = form(pipeline) / Simulate(pipeline).iteration_s - 1;
    errors.mean += std::abs(error) / kPipelines;
    errors.low = std::min(errors.low, error);
    errors.high = std::max(errors.high, error);
  }
  std::printf(
      "%-12s %-10s +-%2.0f%% extras <=%3.0f s, hops <=%4.2f s: mean %.3f%%, %.2f .. %+.2f%%\n",
      schedule.c_str(),
      what.c_str(),
      100 * ranges.imbalance,
      ranges.extra_s,
      ranges.hop_s,
      100 * errors.mean,
      100 * errors.low,
      100 * errors.high);
  const std::string key = schedule + "_" + what + "_extras" +
                          std::to_string(static_cast<int>(ranges.extra_s)) + "_hops" +
                          std::to_string(static_cast<int>(100 * ranges.hop_s));
  testing::Test::RecordProperty(key + "_mean", std::to_string(errors.mean));
  testing::Test::RecordProperty(key + "_worst", std::to_string(errors.worst()));
  return errors;
}

// A micro-batch takes 3 s, so extras are up to four of them and hops up to a tenth of one.
constexpr double kExtra = 12, kHop = 0.3;
constexpr double kRounding = 1e-9;

class PathFormTest : public testing::TestWithParam<std::string> {};

TEST_P(PathFormTest, IsWithinTwoPercentAndNeverTooLong) {
  for (const double extra_s : {0.0, kExtra}) {
    for (const double hop_s : {0.0, kHop}) {
      const test::Ranges ranges{.imbalance = 0.2, .extra_s = extra_s, .hop_s = hop_s};
      const Errors errors = Measure(GetParam(), "paths", ranges, Paths);
      EXPECT_LT(errors.mean, 0.0005);
      EXPECT_LT(errors.high, kRounding);
      const bool exact = GetParam() == "gpipe" || (hop_s == 0 && GetParam() != "interleaved");
      EXPECT_LT(errors.worst(), exact ? kRounding : 0.01);
    }
  }
}

TEST_P(PathFormTest, IsCloseForVeryUnevenStages) {
  for (const double imbalance : {0.5, 0.9}) {
    const test::Ranges ranges{.imbalance = imbalance, .extra_s = 0, .hop_s = kHop};
    const Errors errors = Measure(GetParam(), "paths", ranges, Paths);
    EXPECT_LT(errors.worst(), imbalance < 0.6 ? 0.02 : 0.05);
    EXPECT_LT(errors.mean, 0.0005);
    if (GetParam() == "gpipe") {
      EXPECT_LT(errors.worst(), kRounding);
    }
    EXPECT_LT(errors.high, kRounding);
  }
}

TEST(EqualStagesTest, HaveTheBubblesOfThePapers) {
  Rng rng(13, 0);
  for (int trial = 0; trial < 200; ++trial) {
    Pipeline pipeline;
    const int stages = static_cast<int>(1 + rng.Integer(8));
    const int g = stages * static_cast<int>(1 + rng.Integer(8)), v = 3;
    const double f = 0.5 + rng.Uniform(), x = 0.5 + rng.Uniform(), w = 0.5 + rng.Uniform();
    const double t = f + x + w;
    const std::vector<schedule::StagePoint> points(
        static_cast<std::size_t>(stages),
        {.forward_s = f, .backward_s = x + w, .weight_grad_s = w});
    const auto bubble_s = [&](const char* schedule, int chunks) {
      return schedule::PathSeconds(schedule, points, g, chunks) - g * t;
    };
    EXPECT_NEAR(bubble_s("gpipe", 1), (stages - 1) * t, 1e-9);
    EXPECT_NEAR(bubble_s("1f1b", 1), (stages - 1) * t, 1e-9);
    EXPECT_NEAR(bubble_s("zb-h1", 1), (stages - 1) * (f + x - std::min({f, x, w})), 1e-9);
    EXPECT_NEAR(bubble_s("interleaved", v), (stages - 1) * t / v, 1e-9);
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules,
                         PathFormTest,
                         testing::Values("gpipe", "1f1b", "interleaved", "zb-h1"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::erase(name, '-');
                           return name;
                         });

// The forms that a search can build up from the last stage, beside the exact ones.
TEST(IterationFormTest, OneForwardOneBackwardEqualsTheSimulation) {
  for (const double extra_s : {0.0, kExtra}) {
    const Errors errors =
        Measure("1f1b", "iteration", {.imbalance = 0.2, .extra_s = extra_s, .hop_s = 0}, Iteration);
    EXPECT_LT(errors.worst(), kRounding);
  }
  EXPECT_LT(
      Measure("1f1b", "iteration", {.imbalance = 0.2, .extra_s = kExtra, .hop_s = kHop}, Iteration)
          .worst(),
      0.01);
  // Stages that differ by half.
  const Errors uneven =
      Measure("1f1b", "iteration", {.imbalance = 0.5, .extra_s = kExtra, .hop_s = 0}, Iteration);
  EXPECT_LT(uneven.mean, 0.002);
  EXPECT_LT(uneven.worst(), 0.06);
}

TEST(IterationFormTest, GPipeIsExactWithoutExtrasAndElseTooLong) {
  const Errors plain =
      Measure("gpipe", "iteration", {.imbalance = 0.2, .extra_s = 0, .hop_s = kHop}, Iteration);
  EXPECT_LT(plain.worst(), kRounding);
  const Errors extras =
      Measure("gpipe", "iteration", {.imbalance = 0.2, .extra_s = kExtra, .hop_s = 0}, Iteration);
  EXPECT_GT(extras.low, -kRounding);
  EXPECT_LT(extras.high, 0.12);
}

TEST(IterationFormTest, DispatchesOnEverySchedule) {
  Rng rng(11, 0);
  for (const char* schedule : {"interleaved", "zb-h1"}) {
    const Pipeline pipeline = test::RandomPipeline(rng, schedule, {});
    EXPECT_DOUBLE_EQ(Iteration(pipeline), Paths(pipeline));
  }
}

}  // namespace
}  // namespace palmist::sim
