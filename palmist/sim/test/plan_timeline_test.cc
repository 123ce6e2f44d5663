#include "palmist/sim/plan_timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "palmist/base/error.h"
#include "palmist/base/file.h"
#include "palmist/base/json.h"
#include "palmist/cost/test/uniform_plan.h"
#include "palmist/plan/test/example_plans.h"
#include "tests/support/folder.h"

namespace palmist::sim {
namespace {

using cost::test::MakePlan;
using cost::test::PlanShape;
using cost::test::Predicted;
using palmist::test::Folder;

plan::Plan PredictedPlan(int stages, int micro_batches) {
  plan::Plan plan = plan::test::EvenPlan(plan::test::Parts(plan::test::Gpt2Config()), stages, 1, 1);
  plan.training.micro_batches = micro_batches;
  for (plan::Stage& stage : plan.stages) {
    stage.predicted = plan::StagePrediction();
    stage.predicted->forward_s = 1;
    stage.predicted->backward_s = 2;
  }
  plan.stages.front().predicted->first_extra_s = 0.5;
  plan.predicted = plan::Prediction();
  plan.predicted->iteration_time_s = 3.0 * (stages + micro_batches - 1) + 0.5 + 0.25;
  return plan;
}

TEST(PlanTimelineTest, WhatIsBeyondTheScheduleIsTheTail) {
  const Pipeline pipeline = PipelineOf(PredictedPlan(4, 8));
  EXPECT_NEAR(pipeline.tail_s, 0.25, 1e-12);
  EXPECT_NEAR(Simulate(pipeline).iteration_s, 33.75, 1e-9);
}

TEST(PlanTimelineTest, LongTracesShowTheFirstMicroBatches) {
  const Folder folder;
  const std::string file = folder.File("trace.json");
  const plan::Plan plan = PredictedPlan(2, 120'000);
  EXPECT_NEAR(WriteTrace(plan, file), plan.predicted->iteration_time_s, 1e-3);
  const nlohmann::json trace = ParseJson(ReadFile(file).value()).value();
  EXPECT_EQ(trace.at("otherData").at("micro_batches_shown"), 50'000);
  EXPECT_NEAR(trace.at("otherData").at("iteration_s").get<double>(),
              plan.predicted->iteration_time_s,
              1e-3);
}

TEST(PlanTimelineTest, TooLongToSimulateIsAnError) {
  const Folder folder;
  EXPECT_THROW(WriteTrace(PredictedPlan(4, 1'000'001), folder.File("trace.json")), Error);
  EXPECT_THAT(folder.Files(), testing::IsEmpty());
}

struct Case {
  std::string model, cluster;
  std::int64_t seq_len;
  int stages, dp, tp, zero;
};

/// Stages with even parts of the layers; with interleaved two chunks each.
plan::Plan PlanOf(const Case& c, const std::string& schedule, int micro_batches) {
  PlanShape shape;
  shape.model = c.model;
  shape.cluster = cluster::PresetCluster(c.cluster).value();
  shape.seq_len = c.seq_len;
  shape.dp = c.dp;
  shape.tp = c.tp;
  shape.micro_batches = micro_batches;
  const auto model = cost::test::ModelOf(c.model);
  const int layers = static_cast<int>(model::BuildGraph(model.spec).layers.size());
  for (int i = 0; i < c.stages; ++i) {
    shape.layers.push_back(layers * (i + 1) / c.stages - layers * i / c.stages);
  }
  plan::Plan plan = MakePlan(shape);
  cost::test::SetZero(plan, c.zero);
  plan.training.schedule = schedule;
  if (schedule == "interleaved") {
    const int parts = 2 * c.stages;
    for (int i = 0; i < c.stages; ++i) {
      plan::Stage& stage = plan.stages[static_cast<std::size_t>(i)];
      for (int part = i; part < parts; part += c.stages) {
        stage.chunks.push_back({layers * part / parts, layers * (part + 1) / parts - 1});
      }
      stage.first_layer = stage.chunks.front().first_layer;
      stage.last_layer = stage.chunks.back().last_layer;
    }
  }
  return Predicted(std::move(plan));
}

TEST(PlanTimelineTest, ClosedFormsAreWithinTwoPercentOverTheZoo) {
  const std::vector<Case> cases = {
      {"gpt2", "l4-1x4", 512, 4, 1, 1, 0},
      {"gpt2-xl", "a100-sxm4-80gb-1x8", 1024, 4, 2, 1, 1},
      {"llama-2-7b", "a100-sxm4-80gb-2x8", 2048, 8, 2, 1, 1},
      {"llama-2-7b", "l4-2x8", 2048, 8, 1, 2, 0},
      {"qwen3-0.6b", "l4-1x8", 1024, 2, 4, 1, 2},
  };
  for (const Case& c : cases) {
    for (const char* schedule : {"gpipe", "1f1b", "interleaved", "zb-h1"}) {
      for (const int rounds : {1, 4}) {
        const plan::Plan plan = PlanOf(c, schedule, rounds * c.stages);
        const double closed_s = plan.predicted->iteration_time_s;
        const double simulated_s = Simulate(PipelineOf(plan)).iteration_s;
        const double most = schedule == std::string("1f1b") ? 1e-9 : 0.02;
        EXPECT_NEAR(closed_s, simulated_s, most * simulated_s)
            << c.model << " on " << c.cluster << ", " << schedule << ", " << rounds * c.stages;
      }
    }
  }
}

TEST(PlanTimelineTest, EachScheduleShortensTheOneBefore) {
  const Case c = {"llama-2-7b", "a100-sxm4-80gb-2x8", 2048, 8, 2, 1, 1};
  const plan::Plan simple = PlanOf(c, "1f1b", 16), interleaved = PlanOf(c, "interleaved", 16),
                   split = PlanOf(c, "zb-h1", 16);
  EXPECT_LT(interleaved.predicted->iteration_time_s, simple.predicted->iteration_time_s);
  EXPECT_LT(split.predicted->iteration_time_s, simple.predicted->iteration_time_s);
}

TEST(PlanTimelineTest, MemoryFollowsWhatAScheduleHolds) {
  const Case c = {"llama-2-7b", "a100-sxm4-80gb-2x8", 2048, 8, 2, 1, 1};
  const auto held = [&](const std::string& schedule, std::size_t stage) {
    return PlanOf(c, schedule, 16).stages[stage].predicted->memory.activations;
  };
  EXPECT_GT(held("gpipe", 0), 1.9 * held("1f1b", 0));        // 16 micro-batches against 8
  EXPECT_GT(held("interleaved", 0), 1.3 * held("1f1b", 0));  // 23 half passes against 8
  EXPECT_LT(held("interleaved", 0), 1.6 * held("1f1b", 0));
  EXPECT_DOUBLE_EQ(held("zb-h1", 0), held("1f1b", 0));
  EXPECT_GT(held("zb-h1", 6), 3.5 * held("1f1b", 6));  // 8 against 2
}

TEST(PlanTimelineTest, WeightGradientsAreHalfTheProductsOfBackward) {
  const Case c = {"llama-2-7b", "a100-sxm4-80gb-2x8", 2048, 8, 2, 1, 1};
  const plan::Plan plan = PlanOf(c, "zb-h1", 16);
  const plan::StagePrediction& stage = *plan.stages[3].predicted;
  EXPECT_GT(stage.weight_grad_s, 0.3 * stage.backward_s);
  EXPECT_LE(stage.weight_grad_s, 0.5 * stage.backward_s);
}

}  // namespace
}  // namespace palmist::sim
