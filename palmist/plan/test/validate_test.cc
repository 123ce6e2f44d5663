#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "palmist/plan/plan.h"
#include "palmist/plan/test/example_plans.h"

namespace palmist::plan {
namespace {

using test::EvenPlan;
using test::ModelParts;
using test::Parts;
using testing::HasSubstr;
using testing::StartsWith;

Result<void> Check(const Plan& plan, const ModelParts& model) {
  return Validate(plan, model.graph, model.spec);
}

/// Returns what is wrong with a plan; "" where nothing is.
std::string Fault(const Plan& plan, const ModelParts& model) {
  const auto valid = Check(plan, model);
  return valid.ok() ? "" : valid.error().what();
}

struct Violation {
  const char* name;
  std::function<void(Plan&)> change;
  const char* expected;  ///< the first words of the error
};

/// Two stages of four data-parallel ranks, 12 layers, 12 heads, 4 micro-batches of 4 sequences.
const Violation kViolations[] = {
    {"params", [](Plan& p) { p.params += 1; }, "model.params: expected 124439808"},
    {"seq_len",
     [](Plan& p) { p.seq_len = 0; },
     "model.seq_len: expected a positive integer, got 0"},
    {"positions",
     [](Plan& p) { p.seq_len = 1025; },
     "model.seq_len: expected at most 1024, the rows of the model's position table, got 1025"},
    {"global_batch",
     [](Plan& p) { p.training.global_batch = 0; },
     "training.global_batch: expected a"},
    {"micro_batches",
     [](Plan& p) { p.training.micro_batches = 0; },
     "training.micro_batches: expected a positive integer, got 0"},
    {"micro_batches_divide",
     [](Plan& p) { p.training.micro_batches = 3; },
     "training.micro_batches: expected a divisor of the global batch 16, got 3"},
    {"schedule",
     [](Plan& p) { p.training.schedule = "best"; },
     "training.schedule: expected one of gpipe, 1f1b, interleaved, zb-h1, got \"best\""},
    {"dtype", [](Plan& p) { p.training.dtype = "int4"; }, "training.dtype: expected one of bf16"},
    {"grad_dtype",
     [](Plan& p) { p.training.grad_dtype = ""; },
     "training.grad_dtype: expected one"},
    {"grad_clip",
     [](Plan& p) { p.training.grad_clip = std::nan(""); },
     "training.grad_clip: expected"},
    {"stages", [](Plan& p) { p.stages.clear(); }, "stages: expected 1 to 10000 stages, got 0"},
    {"too_many_stages",
     [](Plan& p) { p.stages.resize(10001); },
     "stages: expected 1 to 10000 stages, got 10001"},
    {"first_layer_gap",
     [](Plan& p) { p.stages[1].first_layer = 7; },
     "stages[1].first_layer: expected 6, the layer after the one before, got 7"},
    {"first_layer_twice",
     [](Plan& p) { p.stages[1].first_layer = 5; },
     "stages[1].first_layer: expected 6"},
    {"first_layer_of_all",
     [](Plan& p) { p.stages[0].first_layer = 1; },
     "stages[0].first_layer: expected 0"},
    {"empty_stage",
     [](Plan& p) { p.stages[1].last_layer = 5; },
     "stages[1].last_layer: expected 6 to 11"},
    {"too_few_layers",
     [](Plan& p) { p.stages[1].last_layer = 10; },
     "stages[1].last_layer: expected 11, the model's last layer, got 10"},
    {"too_many_layers",
     [](Plan& p) { p.stages[1].last_layer = 12; },
     "stages[1].last_layer: expected 6 to 11, the model's last layer, got 12"},
    {"embedding",
     [](Plan& p) { p.stages[0].embedding = false; },
     "stages[0].embedding: expected true"},
    {"embedding_twice",
     [](Plan& p) { p.stages[1].embedding = true; },
     "stages[1].embedding: expected false"},
    {"head", [](Plan& p) { p.stages[1].head = false; }, "stages[1].head: expected true"},
    {"head_twice", [](Plan& p) { p.stages[0].head = true; }, "stages[0].head: expected false"},
    {"micro_batch",
     [](Plan& p) { p.stages[1].micro_batch = 0; },
     "stages[1].micro_batch: expected a positive integer, got 0"},
    {"huge_degree",
     [](Plan& p) { p.stages[1].dp = 1 << 30; },
     "stages[1].dp: expected at most 1048576"},
    {"no_devices",
     [](Plan& p) { p.stages[1].devices.clear(); },
     "stages[1].devices: expected at least one device, got none"},
    {"device_range",
     [](Plan& p) { p.stages[1].devices[2] = 8; },
     "stages[1].devices[2]: expected a device from 0 to 7, got 8"},
    {"device_negative",
     [](Plan& p) { p.stages[1].devices[2] = -1; },
     "stages[1].devices[2]: expected a device"},
    {"device_shared",
     [](Plan& p) { p.stages[1].devices[0] = 3; },
     "stages[1].devices[0]: expected a device that no stage has yet, got 3, which stage 0 has"},
    {"device_twice",
     [](Plan& p) { p.stages[0].devices[1] = 0; },
     "stages[0].devices[1]: expected a device that"},
    {"degrees",
     [](Plan& p) { p.stages[1].tp = 2; },
     "stages[1].devices: expected dp * tp * cp = 4 * 2 * 1 devices, got 4"},
    {"degrees_overflow",
     [](Plan& p) { p.stages[1].dp = p.stages[1].tp = p.stages[1].cp = 1 << 20; },
     "stages[1].devices: expected dp * tp * cp"},
    {"batch",
     [](Plan& p) { p.stages[1].micro_batch = 2; },
     "stages[1].micro_batch: expected micro_batch * dp to be 4 (a global batch of 16 in 4 "
     "micro-batches), got 8"},
    {"cp_kind",
     [](Plan& p) { p.stages[0].cp_kind = "line"; },
     "stages[0].cp_kind: expected one of ring, all_to_all, got \"line\""},
    {"ep_dense",
     [](Plan& p) { p.stages[0].ep = 2; },
     "stages[0].ep: expected 1 for a model without experts, got 2"},
    {"zero", [](Plan& p) { p.stages[0].zero = 4; }, "stages[0].zero: expected 0 to 3, got 4"},
    {"zero_shard_without_zero",
     [](Plan& p) { p.stages[0].zero_shard = 2; },
     "stages[0].zero_shard: expected 1 with zero 0, got 2"},
    {"zero_shard",
     [](Plan& p) {
       p.stages[0].zero = 1;
       p.stages[0].zero_shard = 3;
     },
     "stages[0].zero_shard: expected a divisor of dp * cp = 4, got 3"},
    {"recompute_before",
     [](Plan& p) {
       p.stages[1].recompute = {{5, 6, RecomputeMode::kFull, {}}};
     },
     "stages[1].recompute[0].first_layer: expected"},
    {"recompute_after",
     [](Plan& p) {
       p.stages[0].recompute = {{5, 6, RecomputeMode::kFull, {}}};
     },
     "stages[0].recompute[0].last_layer: expected 5 to 5, the stage's last layer, got 6"},
    {"recompute_backwards",
     [](Plan& p) {
       p.stages[0].recompute = {{3, 2, RecomputeMode::kFull, {}}};
     },
     "stages[0].recompute[0].last_layer"},
    {"recompute_overlap",
     [](Plan& p) {
       p.stages[0].recompute = {{0, 2, RecomputeMode::kFull, {}},
                                {2, 3, RecomputeMode::kSelective, {}}};
     },
     "stages[0].recompute[1].first_layer: expected a layer of the stage after earlier ranges (3 "
     "or"},
    {"recompute_modules",
     [](Plan& p) {
       p.stages[0].recompute = {{0, 2, RecomputeMode::kFull, {"mlp"}}};
     },
     "stages[0].recompute[0].modules: expected none with mode full, got 1"},
    {"offload",
     [](Plan& p) { p.stages[0].offload.weights = -0.5; },
     "stages[0].offload.weights: expected a number from 0 to 1, got -0.5"},
    {"offload_nan",
     [](Plan& p) { p.stages[0].offload.activations = std::nan(""); },
     "stages[0].offload.activations"},
    {"chunks",
     [](Plan& p) {
       p.stages[0].chunks = {{0, 5}};
     },
     "stages[0].chunks: expected none with the schedule 1f1b, got 1"},
    {"no_chunks",
     [](Plan& p) { p.training.schedule = "interleaved"; },
     "stages[0].chunks: expected two or more with the schedule interleaved, got 0"},
    {"closest",
     [](Plan& p) {
       p.closest = {{2, 1.0, ""}};
     },
     "closest[0].stage: expected a stage from 0 to 1, got 2"},
};

TEST(Validate, EveryBrokenInvariantNamesItsPath) {
  const ModelParts model = Parts(test::Gpt2Config());
  const Plan valid = EvenPlan(model, 2, 4, 1);
  ASSERT_EQ(Fault(valid, model), "");
  for (const Violation& violation : kViolations) {
    Plan plan = valid;
    violation.change(plan);
    EXPECT_THAT(Fault(plan, model), StartsWith(violation.expected)) << violation.name;
  }
}

TEST(Validate, ReadsTheModelFromThePlanItself) {
  const ModelParts model = Parts(test::Gpt2Config());
  Plan plan = EvenPlan(model, 2, 4, 1);
  EXPECT_TRUE(Validate(plan, model.graph).ok());
  plan.model_config = "{}";
  EXPECT_THAT(Validate(plan, model.graph).error().field(), StartsWith("model.config"));
}

TEST(Validate, DevicesMayStayIdle) {
  const ModelParts model = Parts(test::Gpt2Config());
  Plan plan = EvenPlan(model, 2, 1, 1);
  EXPECT_GT(plan.cluster.num_devices(), 2);
  EXPECT_EQ(Fault(plan, model), "");
}

/// Twelve layers in two rounds over two stages.
Plan Interleaved(const ModelParts& model) {
  Plan plan = EvenPlan(model, 2, 1, 1);
  plan.training.schedule = "interleaved";
  plan.stages[0].chunks = {{0, 2}, {6, 8}};
  plan.stages[1].chunks = {{3, 5}, {9, 11}};
  for (Stage& stage : plan.stages) {
    stage.first_layer = stage.chunks.front().first_layer;
    stage.last_layer = stage.chunks.back().last_layer;
  }
  return plan;
}

TEST(Validate, ChunksCoverTheLayersInTurns) {
  const ModelParts model = Parts(test::Gpt2Config());
  Plan plan = Interleaved(model);
  ASSERT_EQ(Fault(plan, model), "");
  EXPECT_EQ(plan.stages[0].num_layers(), 6);

  plan.stages[0].chunks[1].first_layer = 7;
  EXPECT_THAT(Fault(plan, model), StartsWith("stages[0].chunks[1].first_layer: expected 6"));
  plan = Interleaved(model);
  plan.stages[0].last_layer = 2;
  EXPECT_THAT(Fault(plan, model), StartsWith("stages[0].last_layer: expected 8"));
  plan = Interleaved(model);
  plan.stages[0].first_layer = 1;
  EXPECT_THAT(Fault(plan, model), StartsWith("stages[0].first_layer: expected 0"));
  plan = Interleaved(model);
  plan.stages[1].chunks.push_back({12, 12});
  EXPECT_THAT(Fault(plan, model), StartsWith("stages[1].chunks: expected 2 with"));
  plan = Interleaved(model);
  plan.stages[0].recompute = {{2, 6, RecomputeMode::kFull, {}}};
  EXPECT_THAT(Fault(plan, model),
              StartsWith("stages[0].recompute[0]: expected layers of one chunk"));
}

TEST(Validate, UnlikeReplicasShareTheBatch) {
  const ModelParts model = Parts(test::Gpt2Config());
  Plan valid = EvenPlan(model, 1, 2, 1);
  valid.training.global_batch = 4 * 5;
  valid.stages[0].devices = {0, 1, 2};
  valid.stages[0].replicas = {{{0, 2}, 2, 3}, {{1}, 1, 2}};
  ASSERT_EQ(Fault(valid, model), "");

  Plan plan = valid;
  plan.stages[0].dp = 3;
  EXPECT_THAT(Fault(plan, model), StartsWith("stages[0].dp: expected 2, the number of replicas"));
  plan = valid;
  plan.stages[0].replicas[1].micro_batch = 3;
  EXPECT_THAT(Fault(plan, model),
              StartsWith("stages[0].replicas: expected the sum of their micro_batch to be 5"));
  plan = valid;
  plan.stages[0].replicas[1].micro_batch = 0;
  EXPECT_THAT(Fault(plan, model),
              StartsWith("stages[0].replicas[1].micro_batch: expected a positive"));
  plan = valid;
  plan.stages[0].replicas[0].tp = 1;
  EXPECT_THAT(Fault(plan, model),
              StartsWith("stages[0].replicas[0].devices: expected tp * cp = 1 * 1 devices, got 2"));
  plan = valid;
  plan.stages[0].replicas[1].devices = {0};
  EXPECT_THAT(Fault(plan, model),
              StartsWith("stages[0].replicas: expected each device of the stage"));
  plan = valid;
  plan.stages[0].devices = {0, 1, 2, 3, 4, 5};
  plan.stages[0].replicas = {{{0, 1, 2, 3, 4}, 5, 3}, {{5}, 1, 2}};
  EXPECT_THAT(Fault(plan, model),
              StartsWith("stages[0].replicas[0].tp: expected a divisor of the 12 attention heads"));
}

TEST(Validate, ExpertsAreSharedByDataParallelRanks) {
  const ModelParts model = Parts(test::MixtralConfig());
  Plan plan = EvenPlan(model, 1, 4, 1);
  plan.stages[0].ep = 4;
  EXPECT_EQ(Fault(plan, model), "");
  plan.stages[0].ep = 8;
  EXPECT_THAT(Fault(plan, model), StartsWith("stages[0].ep: expected a divisor of dp * cp = 4"));
  plan.stages[0].ep = 3;
  EXPECT_THAT(Fault(plan, model),
              StartsWith("stages[0].ep: expected a divisor of the 8 experts, got 3"));
  EXPECT_THAT(Check(plan, model).error().hint(), HasSubstr("2 or 4 would do"));
}

TEST(Validate, ConvolutionalModelsAreOnlyDataParallel) {
  const ModelParts model = Parts(test::ConvConfig());
  Plan plan = EvenPlan(model, 2, 2, 1);
  EXPECT_EQ(Fault(plan, model), "");
  plan.seq_len = 1;
  EXPECT_THAT(Fault(plan, model), StartsWith("model.seq_len: expected 0"));
  plan = EvenPlan(model, 2, 2, 1);
  plan.stages[0].sp = true;
  EXPECT_THAT(Fault(plan, model), StartsWith("stages[0].sp: expected false"));
  plan = EvenPlan(model, 1, 2, 2);
  EXPECT_THAT(Fault(plan, model), StartsWith("stages[0].tp: expected 1"));
  plan.stages[0].tp = 1;
  plan.stages[0].cp = 2;
  EXPECT_THAT(Fault(plan, model), StartsWith("stages[0].cp: expected 1"));
}

TEST(Validate, FeedForwardWidthIsDivisible) {
  const ModelParts model = Parts(test::LlamaConfig(32, 32));  // width 5376 = 2^8 * 21
  EXPECT_EQ(Fault(EvenPlan(model, 1, 1, 32), model), "");
  ModelParts narrow = model;
  for (auto& layer : std::get<model::TransformerSpec>(narrow.spec.body).layers) {
    std::get<model::MlpSpec>(layer.mlp).width = 5380;
  }
  const auto valid = Check(EvenPlan(narrow, 1, 1, 8), narrow);
  EXPECT_THAT(valid.error().what(),
              StartsWith("stages[0].tp: expected a divisor of the feed-forward width 5380, got 8"));
  EXPECT_EQ(valid.error().hint(), "4 would do");
}

TEST(Validate, Row08_LayersThatDoNotDivideAreNeverDropped) {
  const ModelParts model =
      Parts(R"({"model_type":"gpt2","n_embd":64,"n_head":4,"n_layer":30,"n_positions":1024,)"
            R"("vocab_size":100})");
  const Plan plan = EvenPlan(model, 4, 1, 1);
  EXPECT_EQ(Fault(plan, model), "");
  int layers = 0;
  for (const Stage& stage : plan.stages) layers += stage.num_layers();
  EXPECT_EQ(layers, 30);
  Plan short_plan = plan;  // 4 * 7 layers
  for (int i = 0; i < 4; ++i) {
    short_plan.stages[i].first_layer = 7 * i;
    short_plan.stages[i].last_layer = 7 * i + 6;
  }
  EXPECT_THAT(Fault(short_plan, model),
              StartsWith("stages[3].last_layer: expected 29, the model's last layer, got 27"));
}

TEST(Validate, Row11_TiedEmbeddingsAreOnBothEndsAndCountedOnce) {
  const ModelParts model = Parts(test::Gpt2Config());
  ASSERT_TRUE(model.graph.tied_head);
  Plan plan = EvenPlan(model, 2, 1, 1);
  EXPECT_EQ(plan.params, 124439808);  // as Hugging Face counts gpt2
  EXPECT_THAT(Notes(plan, model.graph, model.spec), testing::Contains(HasSubstr("both hold it")));
  plan.params += 50257 * 768;
  EXPECT_THAT(Fault(plan, model), StartsWith("model.params: expected 124439808"));
  EXPECT_THAT(Notes(EvenPlan(model, 1, 1, 1), model.graph, model.spec), testing::IsEmpty());
}

TEST(Validate, Row12_KvHeadsAreReplicatedAndSaidSoOrRefused) {
  const ModelParts two = Parts(test::LlamaConfig(16, 2));
  const Plan plan = EvenPlan(two, 1, 1, 8);
  EXPECT_EQ(Fault(plan, two), "");
  EXPECT_EQ(KvReplication(2, 8), 4);
  EXPECT_EQ(KvReplication(8, 8), 1);
  EXPECT_EQ(KvReplication(8, 2), 1);
  EXPECT_THAT(Notes(plan, two.graph, two.spec),
              testing::ElementsAre(
                  "Each of the 2 key/value heads is held by 4 of 8 tensor-parallel ranks."));

  const ModelParts three = Parts(test::LlamaConfig(12, 3));
  const auto refused = Check(EvenPlan(three, 1, 1, 2), three);
  EXPECT_THAT(
      refused.error().what(),
      StartsWith("stages[0].tp: expected a divisor or a multiple of the 3 key/value heads, got 2"));
  EXPECT_EQ(refused.error().hint(), "1 or 3 would do");
}

TEST(Validate, Row13_TheVocabularyIsPaddedAndSaidSo) {
  EXPECT_EQ(PaddedVocabulary(151669, 4), 151672);
  EXPECT_EQ(PaddedVocabulary(151669, 2), 151670);
  EXPECT_EQ(PaddedVocabulary(151672, 4), 151672);
  const ModelParts model = Parts(test::LlamaConfig(16, 4, 151669));
  const Plan plan = EvenPlan(model, 1, 1, 4);
  EXPECT_EQ(Fault(plan, model), "");
  EXPECT_THAT(Notes(plan, model.graph, model.spec),
              testing::ElementsAre("The vocabulary of 151669 is padded to 151672 rows, so that 4 "
                                   "tensor-parallel ranks hold 37918 each."));
}

TEST(Validate, Row14_SequencesThatDoNotDivideAreRefusedWithWhatWouldDo) {
  const ModelParts model = Parts(test::LlamaConfig(16, 4));
  Plan plan = EvenPlan(model, 1, 1, 2);
  plan.seq_len = 8193;
  EXPECT_EQ(Fault(plan, model), "");
  plan.stages[0].sp = true;
  auto refused = Check(plan, model);
  EXPECT_THAT(
      refused.error().what(),
      StartsWith("stages[0].sp: expected model.seq_len to be a multiple of tp = 2, got 8193"));
  EXPECT_EQ(refused.error().hint(),
            "use a seq_len of 8192, 8194 of padded sequences, or set sp to false");

  plan = EvenPlan(model, 1, 2, 1);
  plan.stages[0].dp = 1;
  plan.stages[0].cp = 2;
  plan.training.global_batch = 4;
  plan.seq_len = 8192;
  EXPECT_EQ(Fault(plan, model), "");
  plan.seq_len = 8194;
  refused = Check(plan, model);
  EXPECT_THAT(refused.error().what(),
              StartsWith("stages[0].cp: expected model.seq_len to be a multiple of 2 * cp = 4"));
  EXPECT_THAT(refused.error().hint(), HasSubstr("8192, 8196"));
  plan.seq_len = 3;
  EXPECT_THAT(Check(plan, model).error().hint(), StartsWith("use a seq_len of 4 of padded"));
}

TEST(Validate, ContextParallelByAllToAllSharesTheHeads) {
  const ModelParts model = Parts(test::LlamaConfig(4, 4));
  Plan plan = EvenPlan(model, 1, 8, 1);
  plan.stages[0].dp = 1;
  plan.stages[0].cp = 8;
  plan.training.global_batch = 4;
  EXPECT_EQ(Fault(plan, model), "");
  plan.stages[0].cp_kind = "all_to_all";
  EXPECT_THAT(Fault(plan, model), StartsWith("stages[0].cp: expected tp * cp to divide the 4"));
}

TEST(Stage, SaysWhichLayersItRecomputes) {
  Stage stage;
  stage.recompute = {{2, 4, RecomputeMode::kFull, {}}, {6, 7, RecomputeMode::kSelective, {}}};
  EXPECT_FALSE(stage.recomputes(1));
  EXPECT_TRUE(stage.recomputes(2));
  EXPECT_TRUE(stage.recomputes(4));
  EXPECT_FALSE(stage.recomputes(6));
}

}  // namespace
}  // namespace palmist::plan
