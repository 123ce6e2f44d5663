#include "palmist/planner/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "palmist/cost/predict.h"
#include "palmist/planner/test/small_request.h"

namespace palmist::planner {
namespace {

using ::testing::HasSubstr;

Explanation ExplainedPlan(const PlanRequest& request, const plan::Plan& plan) {
  return Explain(plan, request.model, request.calibration, {});
}

const Knob* Find(const Explanation& explanation, const std::string& name) {
  const auto found = std::find_if(explanation.knobs.begin(),
                                  explanation.knobs.end(),
                                  [&](const Knob& knob) { return knob.name == name; });
  return found == explanation.knobs.end() ? nullptr : &*found;
}

class ExplainTest : public testing::Test {
 protected:
  ExplainTest() : request_(test::RequestFor("gpt3-1.3b", "l4-2x4", 2048, 32)) {
    request_.space = RulesOf("full");
  }
  PlanRequest request_;
};

TEST_F(ExplainTest, EachChoiceIsWorthWhatASearchWithoutItLoses) {
  request_.memory_limit = 0.6;
  const plan::Plan plan = FindPlan(request_).plans.front();
  const Explanation explanation = ExplainedPlan(request_, plan);
  ASSERT_TRUE(explanation.best_s);
  EXPECT_NEAR(*explanation.best_s, plan.predicted->iteration_time_s, 1e-9);
  EXPECT_FALSE(explanation.binding.empty());
  EXPECT_FALSE(explanation.alternatives.empty());
  ASSERT_FALSE(explanation.knobs.empty());
  for (const Knob& knob : explanation.knobs) {
    EXPECT_TRUE(knob.is_finished) << knob.name;
    EXPECT_FALSE(knob.setting.empty()) << knob.name;
    if (!knob.without_s) continue;
    // A smaller space has nothing better than what was proven of the larger one.
    EXPECT_GE(*knob.without_s, explanation.search->lower_bound_s * (1 - 1e-9)) << knob.name;
    EXPECT_THAT(knob.instead, HasSubstr("pp ")) << knob.name;
  }
}

TEST_F(ExplainTest, OnlyChoicesThatThePlanMakesAreTried) {
  for (const char* fix : {"pp=1", "tp=2", "zero=0", "recompute=full"}) {
    ASSERT_TRUE(ParseFix(fix, request_.fixed).ok());
  }
  request_.ops = "fused";
  request_.space = RulesOf("uniform");
  const plan::Plan plan = FindPlan(request_).plans.front();
  const Explanation explanation = ExplainedPlan(request_, plan);
  EXPECT_EQ(Find(explanation, "pipeline"), nullptr);
  EXPECT_EQ(Find(explanation, "ZeRO"), nullptr);
  EXPECT_EQ(Find(explanation, "lean operators"), nullptr);
  EXPECT_EQ(Find(explanation, "offload"), nullptr);
  EXPECT_EQ(Find(explanation, "stages of their own"), nullptr);
  ASSERT_NE(Find(explanation, "tensor parallelism"), nullptr);
  EXPECT_EQ(Find(explanation, "tensor parallelism")->setting, "tp 2");
  ASSERT_NE(Find(explanation, "recomputation"), nullptr);
  EXPECT_EQ(Find(explanation, "recomputation")->setting, "24 of 24 layers");
  // Recomputing everything is worse than what a search finds.
  EXPECT_LT(*explanation.best_s, plan.predicted->iteration_time_s);
}

TEST_F(ExplainTest, TheRequestHasThePlansTraining) {
  plan::Plan plan = FindPlan(request_).plans.front();
  plan.training.optimizer = {"sgd", 4};
  plan.training.grad_clip = 0;
  plan.training.schedule = "gpipe";
  const PlanRequest request = RequestOf(plan, request_.model, request_.calibration);
  EXPECT_EQ(request.fixed.schedule, "gpipe");
  const plan::Plan found = FindPlan(request).plans.front();
  EXPECT_EQ(found.training.optimizer, plan.training.optimizer);
  EXPECT_EQ(found.training.grad_clip, 0);
}

TEST_F(ExplainTest, AChoiceThatNothingReplacesHasNoPlanWithoutIt) {
  // 16 bytes a parameter on two devices do not fit without offload.
  request_ = test::RequestFor("llama-2-7b", "l4-1x2", 2048, 2);
  request_.space = RulesOf("full");
  const plan::Plan plan = FindPlan(request_).plans.front();
  const Explanation explanation = ExplainedPlan(request_, plan);
  const Knob* offload = Find(explanation, "offload");
  ASSERT_NE(offload, nullptr);
  EXPECT_FALSE(offload->without_s);
  EXPECT_TRUE(offload->is_finished);
}

}  // namespace
}  // namespace palmist::planner
