#include "palmist/planner/whatif.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "palmist/cost/predict.h"
#include "palmist/planner/planner.h"
#include "palmist/planner/test/small_request.h"

namespace palmist::planner {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// A plan of four stages of one device each pair: pp 2, dp 2, tp 2.
class WhatIfTest : public testing::Test {
 protected:
  WhatIfTest() : request_(test::RequestFor("gpt3-350m", "l4-1x8", 1024, 32)) {
    for (const char* fix : {"pp=2", "dp=2", "tp=2", "micro_batch=2", "zero=1", "recompute=full"}) {
      EXPECT_TRUE(ParseFix(fix, request_.fixed).ok());
    }
    plan_ = FindPlan(request_).plans.front();
  }

  plan::Plan With(const std::vector<std::string>& sets) const {
    Change change;
    for (const std::string& set : sets) ParseChange(set, change).value();
    return WithChange(plan_, change, request_.model);
  }

  std::string MessageOf(const std::vector<std::string>& sets) const {
    try {
      With(sets);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  PlanRequest request_;
  plan::Plan plan_;
};

TEST_F(WhatIfTest, NothingSetChangesNothing) {
  plan::Plan same = With({});
  cost::Predict(same, model::BuildGraph(request_.model.spec), request_.calibration);
  same.search = plan_.search;
  EXPECT_EQ(same, plan_);
}

TEST_F(WhatIfTest, WhatIsSetAsFoundIsAsSearched) {
  // The same change as a fix of a search gives the same plan, where it leaves no choice.
  plan::Plan changed = With({"zero=2", "recompute=none"});
  cost::Predict(changed, model::BuildGraph(request_.model.spec), request_.calibration);
  request_.fixed.zero = 2;
  request_.fixed.recompute = "none";
  const plan::Plan searched = FindPlan(request_).plans.front();
  EXPECT_EQ(changed.stages, searched.stages);
  EXPECT_EQ(changed.predicted, searched.predicted);
}

TEST_F(WhatIfTest, TheRestFollows) {
  const plan::Stage tp = With({"tp=4"}).stages.front();
  EXPECT_EQ(tp.dp, 1);
  EXPECT_EQ(tp.zero, 0);
  EXPECT_EQ(tp.zero_shard, 1);
  const plan::Plan dp = With({"dp=4"});
  EXPECT_EQ(dp.stages.front().tp, 1);
  EXPECT_EQ(dp.stages.front().zero_shard, 4);
  EXPECT_EQ(dp.training.micro_batches, 4);
  EXPECT_EQ(With({"micro_batch=4"}).training.micro_batches, 4);
  EXPECT_EQ(With({"micro_batches=16"}).stages.back().micro_batch, 1);
  EXPECT_EQ(With({"global_batch=64"}).training.micro_batches, 16);
  EXPECT_EQ(With({"sp=on"}).stages.front().sp, true);
  EXPECT_EQ(With({"sp=on", "tp=1"}).stages.size(), 2U);
}

TEST_F(WhatIfTest, AnotherPipelineIsSplitEvenly) {
  const plan::Plan plan = With({"pp=4", "recompute=none", "dp=1"});
  ASSERT_EQ(plan.stages.size(), 4U);
  for (const plan::Stage& stage : plan.stages) {
    EXPECT_EQ(stage.devices.size(), 2U);
    EXPECT_EQ(stage.num_layers(), 6);
    EXPECT_EQ(stage.num_recomputed(), 0);
  }
  EXPECT_EQ(With({"pp=4"}).stages.front().num_recomputed(), 6);
  EXPECT_EQ(With({"pp=1"}).stages.front().num_layers(), 24);
}

TEST_F(WhatIfTest, AnyScheduleCanBeTried) {
  const auto seconds = [&](const std::vector<std::string>& sets) {
    plan::Plan plan = With(sets);
    cost::Predict(plan, model::BuildGraph(request_.model.spec), request_.calibration);
    return plan.predicted->iteration_time_s;
  };
  const double simple_s = seconds({"pp=4", "dp=1"});
  EXPECT_LT(seconds({"pp=4", "dp=1", "schedule=zb-h1"}), simple_s);
  EXPECT_LT(seconds({"pp=4", "dp=1", "schedule=interleaved"}), simple_s);
  const plan::Plan plan = With({"schedule=interleaved", "chunks=3"});
  ASSERT_EQ(plan.stages.size(), 2U);
  EXPECT_EQ(plan.stages[0].num_chunks(), 3);
  EXPECT_EQ(plan.stages[1].chunks[1].first_layer, 12);
  EXPECT_EQ(plan.stages[1].num_recomputed(), 12);
  // And back again.
  Change back;
  ASSERT_TRUE(ParseChange("schedule=1f1b", back).ok());
  EXPECT_EQ(WithChange(plan, back, request_.model).stages, With({}).stages);
  EXPECT_THAT(MessageOf({"chunks=2"}), HasSubstr("chunks are of the schedule interleaved"));
  EXPECT_THAT(MessageOf({"schedule=interleaved", "chunks=5"}), HasSubstr("must divide the 24"));
  EXPECT_THAT(MessageOf({"schedule=dual"}), HasSubstr("interleaved, zb-h1"));
}

TEST_F(WhatIfTest, TrainingCanBeChanged) {
  EXPECT_EQ(With({"seq=512"}).seq_len, 512);
  const plan::Plan fp32 = With({"dtype=fp32"});
  EXPECT_EQ(fp32.training.dtype, "fp32");
  EXPECT_EQ(fp32.training.grad_dtype, "fp32");
  EXPECT_EQ(fp32.training.optimizer.state_bytes_per_param, 8);
  EXPECT_EQ(With({"grad_clip=0"}).training.grad_clip, 0);
  EXPECT_EQ(With({"optimizer=sgd"}).training.optimizer, (plan::Optimizer{"sgd", 8}));
  EXPECT_EQ(With({"optimizer=sgd", "dtype=fp32"}).training.optimizer, (plan::Optimizer{"sgd", 4}));
  EXPECT_EQ(With({"ops=lean", "ops.norm=eager"}).stages[1].ops.norm, model::Variant::kEager);
  EXPECT_EQ(With({"ops=lean"}).stages[1].ops.attention, model::Variant::kLean);
  EXPECT_EQ(With({"offload.optimizer=0.5"}).stages[1].offload.optimizer, 0.5);
}

TEST_F(WhatIfTest, WhatCannotFollowSaysSo) {
  EXPECT_THAT(MessageOf({"tp=3"}), AllOf(HasSubstr("--set"), HasSubstr("do not divide by 3")));
  EXPECT_THAT(MessageOf({"tp=4", "dp=4"}), HasSubstr("dp * tp * cp must be"));
  EXPECT_THAT(MessageOf({"tp=2", "dp=1"}), HasSubstr("dp * tp * cp must be the 4 devices"));
  EXPECT_THAT(MessageOf({"pp=3"}), HasSubstr("pp must divide the 8 devices"));
  EXPECT_THAT(MessageOf({"micro_batch=3"}), HasSubstr("does not divide the global batch of 32"));
  EXPECT_THAT(MessageOf({"micro_batch=2", "micro_batches=4"}),
              HasSubstr("must be the global batch of 32"));
  EXPECT_THAT(MessageOf({"seq=4096"}), HasSubstr("position"));
}

TEST_F(WhatIfTest, KeysAndValuesAreChecked) {
  Change change;
  const auto message = [&](const char* set) {
    const Result<void> result = ParseChange(set, change);
    return result.ok() ? std::string("no error") : std::string(result.error().what());
  };
  EXPECT_THAT(message("tp"), AllOf(HasSubstr("--set"), HasSubstr("key=value")));
  EXPECT_THAT(message("layers=3"), AllOf(HasSubstr("layers"), HasSubstr("global_batch")));
  EXPECT_THAT(message("seq=long"), HasSubstr("--set seq"));
  EXPECT_THAT(message("dtype=int8"), HasSubstr("bf16, fp16 or fp32"));
  EXPECT_THAT(message("optimizer=lion"), AllOf(HasSubstr("--set optimizer"), HasSubstr("sgd")));
  EXPECT_THAT(message("grad_clip=-1"), HasSubstr("at least 0"));
  EXPECT_THAT(message("zero=4"), HasSubstr("--set zero"));
  EXPECT_THAT(message("ops=leen"), HasSubstr("lean"));
  EXPECT_EQ(message("zero=3"), "no error");
  EXPECT_THAT(message("zero=2"), HasSubstr("keep one --set zero"));
}

TEST(MemoryLimitOfTest, IsWhatThePlanWasMadeFor) {
  PlanRequest request = test::RequestFor("gpt2", "l4-1x2", 512, 8);
  request.memory_limit = 5e9;
  EXPECT_EQ(MemoryLimitOf(FindPlan(request).plans.front()), 5e9);
  EXPECT_EQ(MemoryLimitOf(plan::Plan()), 1);
}

}  // namespace
}  // namespace palmist::planner
