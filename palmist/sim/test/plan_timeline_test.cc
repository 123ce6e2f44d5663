#include "palmist/sim/plan_timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "palmist/base/error.h"
#include "palmist/base/file.h"
#include "palmist/base/json.h"
#include "palmist/plan/test/example_plans.h"
#include "tests/support/folder.h"

namespace palmist::sim {
namespace {

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

}  // namespace
}  // namespace palmist::sim
