#include "palmist/planner/space_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "palmist/planner/planner.h"
#include "palmist/planner/test/small_request.h"

namespace palmist::planner {
namespace {

using test::RequestFor;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Models, clusters and memory limits that leave each space some plan, most of them a tight one.
std::vector<PlanRequest> Requests() {
  std::vector<PlanRequest> requests = {RequestFor("gpt3-1.3b", "l4-2x2", 2048, 32),
                                       RequestFor("gpt3-2.7b", "l4-2x4", 2048, 32),
                                       RequestFor("llama-2-7b", "a100-sxm4-80gb-2x4", 4096, 64)};
  requests.push_back(requests.front());
  requests.back().memory_limit = 0.7;
  for (PlanRequest& request : requests) request.top = 1;
  return requests;
}

plan::Plan BestOf(PlanRequest request, const std::string& space) {
  request.space = RulesOf(space);
  const PlanResult result = FindPlan(request);
  EXPECT_EQ(result.outcome, Outcome::kOptimal) << space << ", " << request.model.name;
  EXPECT_FALSE(result.plans.empty()) << space << ", " << request.model.name;
  return result.plans.empty() ? result.nearest : result.plans.front();
}

/// Calls `check(plan, stage, number of stages)` with each stage of the space's best plans.
template <typename Check>
void ForEachStage(const std::string& space, const Check& check) {
  for (const PlanRequest& request : Requests()) {
    const plan::Plan plan = BestOf(request, space);
    for (const plan::Stage& stage : plan.stages) {
      SCOPED_TRACE(space + ", " + request.model.name);
      check(plan, stage, static_cast<int>(plan.stages.size()));
    }
  }
}

bool HasLeanOperators(const plan::Stage& stage) {
  const model::OpVariants& ops = stage.ops;
  return ops.attention == model::Variant::kLean || ops.norm == model::Variant::kLean ||
         ops.activation == model::Variant::kLean || ops.loss == model::Variant::kLean;
}

TEST(SpaceRules, FullFindsNothingLongerThanAnyOther) {
  for (const PlanRequest& request : Requests()) {
    const double full_s = BestOf(request, "full").predicted->iteration_time_s;
    for (const std::string& space : SpaceNames()) {
      EXPECT_GE(BestOf(request, space).predicted->iteration_time_s, full_s * (1 - request.gap))
          << space << ", " << request.model.name;
    }
  }
}

TEST(SpaceRules, MistHasStagesOfOneShape) {
  ForEachStage("mist", [](const plan::Plan& plan, const plan::Stage& stage, int stages) {
    const plan::Stage& front = plan.stages.front();
    EXPECT_EQ(stage.devices.size(), front.devices.size());
    EXPECT_EQ(stage.tp, front.tp);
    EXPECT_EQ(stage.dp, front.dp);
    EXPECT_EQ(stage.micro_batch, front.micro_batch);
    const double mean = static_cast<double>(plan.stages.back().last_layer + 1) / stages;
    EXPECT_LE(std::abs(stage.num_layers() - mean), 2);
    EXPECT_LE(stage.micro_batch, 4);
    EXPECT_FALSE(stage.sp);
    EXPECT_FALSE(HasLeanOperators(stage));
    EXPECT_GE(stage.zero, stage.dp > 1 ? 1 : 0);
    EXPECT_EQ(std::log2(plan.training.micro_batches),
              std::round(std::log2(plan.training.micro_batches)));
  });
}

TEST(SpaceRules, MegatronHasEvenStages) {
  ForEachStage("megatron", [](const plan::Plan& plan, const plan::Stage& stage, int /*stages*/) {
    EXPECT_EQ(stage.num_layers(), plan.stages.front().num_layers());
    EXPECT_EQ(stage.num_recomputed(), plan.stages.front().num_recomputed());
    EXPECT_LE(stage.zero, 1);
    EXPECT_EQ(stage.offload, plan::OffloadRatios());
    EXPECT_FALSE(HasLeanOperators(stage));
  });
}

TEST(SpaceRules, DeepSpeedRecomputesAllOrNothing) {
  ForEachStage("deepspeed", [](const plan::Plan& plan, const plan::Stage& stage, int stages) {
    EXPECT_EQ(stage.num_layers(), plan.stages.front().num_layers());
    const int recomputed = stage.num_recomputed();
    EXPECT_TRUE(recomputed == 0 || recomputed == stage.num_layers()) << recomputed;
    EXPECT_LE(stage.zero, stages > 1 ? 1 : 3);
    EXPECT_FALSE(stage.sp);
    EXPECT_TRUE(stage.offload.optimizer == 0 || stage.offload.optimizer == 1);
    EXPECT_TRUE(stage.offload.weights == 0 || stage.offload.weights == 1);
  });
}

TEST(SpaceRules, SailorHasDataTensorAndPipelineParallelismAlone) {
  PlanRequest request = RequestFor("gpt3-1.3b", "a100-sxm4-80gb-2x4", 2048, 32);
  request.top = 1;
  const plan::Plan plan = BestOf(request, "sailor");
  for (const plan::Stage& stage : plan.stages) {
    EXPECT_EQ(stage.num_recomputed(), 0);
    EXPECT_EQ(stage.zero, 0);
    EXPECT_FALSE(stage.sp);
    EXPECT_EQ(stage.dp, plan.stages.front().dp);
    EXPECT_EQ(stage.micro_batch, plan.stages.front().micro_batch);
    EXPECT_EQ(stage.offload, plan::OffloadRatios());
  }
}

TEST(SpaceRules, DeepSpeedOffloadsWholeTensors) {
  // Two devices of 22 GiB do not hold 16 bytes a parameter of 2.65 billion.
  PlanRequest request = RequestFor("gpt3-2.7b", "l4-1x2", 2048, 8);
  request.top = 1;
  const plan::Plan plan = BestOf(request, "deepspeed");
  EXPECT_EQ(plan.stages.front().offload.optimizer, 1);
}

TEST(SpaceRules, WhatASpaceLacksIsNamed) {
  const auto message = [](const std::string& space, const std::vector<std::string>& fixes) {
    PlanRequest request = RequestFor("gpt3-1.3b", "l4-2x2", 2048, 32);
    request.space = RulesOf(space);
    for (const std::string& fix : fixes) EXPECT_TRUE(ParseFix(fix, request.fixed).ok()) << fix;
    try {
      FindPlan(request);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(message("megatron", {"zero=3"}),
              AllOf(HasSubstr("no layout is left"), HasSubstr("megatron has no ZeRO-3")));
  EXPECT_THAT(message("deepspeed", {"pp=2", "zero=2"}), HasSubstr("deepspeed has no ZeRO-2"));
  EXPECT_THAT(message("mist", {"sp=on", "tp=2"}), HasSubstr("mist has no sequence parallelism"));
  EXPECT_THAT(message("mist", {"micro_batch=8"}), HasSubstr("micro-batches of 4 at most"));
}

TEST(SpaceRules, UnknownSpacesListTheKnownOnes) {
  try {
    RulesOf("alpa");
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("alpa"), HasSubstr("full, uniform, mist")));
  }
}

}  // namespace
}  // namespace palmist::planner
