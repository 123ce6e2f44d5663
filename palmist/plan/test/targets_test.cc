#include "palmist/plan/targets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "palmist/plan/test/example_plans.h"

namespace palmist::plan {
namespace {

using test::EvenPlan;
using test::Parts;

constexpr Target kAll[] = {Target::kNone,
                           Target::kPalmist,
                           Target::kMegatron,
                           Target::kDeepSpeed,
                           Target::kTorchtitan,
                           Target::kAccelerate};

/// Returns the fields of a plan that a target cannot express.
std::vector<std::string> Fields(const Plan& plan, Target target) {
  std::vector<std::string> fields;
  for (const Unsupported& each : FindUnsupported(plan, target)) fields.push_back(each.field);
  return fields;
}

TEST(Targets, NamesComeBack) {
  for (const Target target : kAll) EXPECT_EQ(ParseTarget(ToString(target)).value(), target);
  const auto unknown = ParseTarget("megatorn");
  EXPECT_EQ(unknown.error().kind(), ErrorKind::kUsage);
  EXPECT_THAT(unknown.error().hint(), testing::HasSubstr("megatron"));
}

TEST(Targets, OurOwnExecutorTakesEveryPlan) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Plan plan = test::RandomPlan(seed);
    EXPECT_TRUE(CheckTarget(plan, Target::kNone).ok());
    EXPECT_TRUE(CheckTarget(plan, Target::kPalmist).ok());
  }
}

TEST(Targets, EveryTargetTakesAPlainPlan) {
  const Plan plan = EvenPlan(Parts(test::Gpt2Config()), 1, 4, 2);
  for (const Target target : kAll) {
    const auto check = CheckTarget(plan, target);
    EXPECT_TRUE(check.ok()) << ToString(target) << ": " << check.error().what();
  }
}

TEST(Targets, Row15_DeepSpeedHasNoZero2Or3InAPipeline) {
  Plan plan = EvenPlan(Parts(test::Gpt2Config()), 4, 2, 1);
  for (int zero = 0; zero <= 3; ++zero) {
    for (Stage& stage : plan.stages) {
      stage.zero = zero;
      stage.zero_shard = zero > 0 ? 2 : 1;
    }
    EXPECT_EQ(CheckTarget(plan, Target::kDeepSpeed).ok(), zero < 2) << zero;
    EXPECT_TRUE(CheckTarget(plan, Target::kPalmist).ok()) << zero;
  }
  const Error error = CheckTarget(plan, Target::kDeepSpeed).error();
  EXPECT_EQ(error.kind(), ErrorKind::kInfeasible);
  EXPECT_EQ(std::string(error.what()),
            "stages[0].zero: deepspeed refuses ZeRO 2 and 3 in a pipeline (use --fix zero=1)");
  Plan flat = EvenPlan(Parts(test::Gpt2Config()), 1, 2, 1);
  flat.stages[0].zero = 3;
  EXPECT_TRUE(CheckTarget(flat, Target::kDeepSpeed).ok());
}

struct Case {
  const char* name;
  std::function<void(Plan&)> change;
  /// The field each of megatron, deepspeed, torchtitan and accelerate cannot express; "" for none.
  const char* fields[4];
};

TEST(Targets, EachFeatureIsRefusedWhereItIsMissing) {
  const Case cases[] = {
      {"dp differs",
       [](Plan& p) { p.stages[1].dp = 1; },
       {"stages[1].dp", "stages[1].dp", "stages[1].dp", ""}},
      {"tp differs",
       [](Plan& p) { p.stages[1].tp = 4; },
       {"stages[1].tp", "stages[1].tp", "stages[1].tp", ""}},
      {"micro_batch differs",
       [](Plan& p) { p.stages[1].micro_batch = 2; },
       {"stages[1].micro_batch", "stages[1].micro_batch", "stages[1].micro_batch", ""}},
      {"replicas",
       [](Plan& p) { p.stages[1].replicas.resize(2); },
       {"stages[1].replicas", "stages[1].replicas", "stages[1].replicas", "stages[1].replicas"}},
      {"zero differs",
       [](Plan& p) { p.stages[1].zero = 2; },
       {"stages[1].zero", "stages[1].zero", "", ""}},
      {"zero 1",
       [](Plan& p) { p.stages[0].zero = p.stages[1].zero = 1; },
       {"", "", "stages[0].zero", ""}},
      {"zb-h1",
       [](Plan& p) { p.training.schedule = "zb-h1"; },
       {"training.schedule", "training.schedule", "training.schedule", ""}},
      {"gpipe",
       [](Plan& p) { p.training.schedule = "gpipe"; },
       {"training.schedule", "training.schedule", "", ""}},
      {"interleaved",
       [](Plan& p) { p.training.schedule = "interleaved"; },
       {"", "training.schedule", "", ""}},
      {"cp", [](Plan& p) { p.stages[0].cp = p.stages[1].cp = 2; }, {"", "stages[0].cp", "", ""}},
      {"cp a2a",
       [](Plan& p) {
         for (Stage& stage : p.stages) {
           stage.cp = 2;
           stage.cp_kind = "all_to_all";
         }
       },
       {"", "stages[0].cp", "stages[0].cp_kind", "stages[0].cp_kind"}},
      {"sp",
       [](Plan& p) { p.stages[0].sp = p.stages[1].sp = true; },
       {"", "stages[0].sp", "", "stages[0].sp"}},
      {"ep", [](Plan& p) { p.stages[0].ep = p.stages[1].ep = 2; }, {"", "", "", "stages[0].ep"}},
      {"fp16", [](Plan& p) { p.training.dtype = "fp16"; }, {"", "", "training.dtype", ""}},
      {"weights",
       [](Plan& p) { p.stages[0].offload.weights = 0.5; },
       {"stages[0].offload.weights",
        "stages[0].offload.weights",
        "stages[0].offload",
        "stages[0].offload.weights"}},
      {"grads",
       [](Plan& p) { p.stages[0].offload.grads = 1; },
       {"stages[0].offload.grads", "", "stages[0].offload", ""}},
      {"optimizer",
       [](Plan& p) {
         for (Stage& stage : p.stages) {
           stage.zero = 1;
           stage.dp = 1;
           stage.offload.optimizer = 0.5;
         }
       },
       {"", "stages[0].offload.optimizer", "stages[0].offload", "stages[0].offload.optimizer"}},
      {"optimizer without zero",
       [](Plan& p) { p.stages[0].offload.optimizer = 1; },
       {"", "stages[0].offload.optimizer", "stages[0].offload", ""}},
      {"activations",
       [](Plan& p) { p.stages[1].offload.activations = 0.5; },
       {"",
        "stages[1].offload.activations",
        "stages[1].offload.activations",
        "stages[1].offload.activations"}},
      {"lean",
       [](Plan& p) { p.stages[1].ops.norm = model::Variant::kLean; },
       {"stages[1].ops", "stages[1].ops", "stages[1].ops", "stages[1].ops"}},
      {"tempo",
       [](Plan& p) { p.stages[1].ops.activation = model::Variant::kTempo; },
       {"stages[1].ops", "stages[1].ops", "stages[1].ops", "stages[1].ops"}},
      {"recompute differs",
       [](Plan& p) {
         p.stages[1].recompute = {{6, 11, RecomputeMode::kFull, {}}};
       },
       {"", "", "", ""}},
  };
  const Plan base = EvenPlan(Parts(test::Gpt2Config()), 2, 2, 2);
  constexpr Target kOthers[] = {
      Target::kMegatron, Target::kDeepSpeed, Target::kTorchtitan, Target::kAccelerate};
  for (const Case& each : cases) {
    Plan plan = base;
    each.change(plan);
    for (int i = 0; i < 4; ++i) {
      std::vector<std::string> expected;
      if (kOthers[i] == Target::kAccelerate) expected.push_back("stages");  // it has no pipeline
      if (*each.fields[i] != '\0') expected.push_back(each.fields[i]);
      EXPECT_THAT(Fields(plan, kOthers[i]), testing::UnorderedElementsAreArray(expected))
          << each.name << " for " << ToString(kOthers[i]);
    }
  }
}

}  // namespace
}  // namespace palmist::plan
