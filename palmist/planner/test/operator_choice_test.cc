#include "palmist/planner/operator_choice.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "palmist/base/rng.h"
#include "palmist/cluster/presets.h"
#include "palmist/cost/cost_model.h"
#include "palmist/cost/layout.h"
#include "palmist/model/config.h"
#include "palmist/plan/plan.h"

namespace palmist::planner {
namespace {

using model::OpVariants;
using model::Variant;
using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;

std::string Bert(int layers, double dropout = 0.1, int hidden = 1024, int vocab = 500) {
  return fmt::format(
      R"({{"model_type": "bert", "num_hidden_layers": {}, "hidden_size": {},
      "num_attention_heads": {}, "intermediate_size": {}, "vocab_size": {},
      "max_position_embeddings": 512, "hidden_act": "gelu", "hidden_dropout_prob": {},
      "attention_probs_dropout_prob": {}}})",
      layers,
      hidden,
      hidden / 64,
      4 * hidden,
      vocab,
      dropout,
      dropout);
}

std::string Gpt2(int layers, int vocab = 500) {
  return fmt::format(
      R"({{"model_type": "gpt2", "n_layer": {}, "n_embd": 768, "n_head": 12, "n_positions": 1024,
      "vocab_size": {}}})",
      layers,
      vocab);
}

std::string Llama(int layers, int vocab = 500) {
  return fmt::format(
      R"({{"model_type": "llama", "num_hidden_layers": {}, "hidden_size": 1024,
      "intermediate_size": 2752, "num_attention_heads": 16, "num_key_value_heads": 16,
      "vocab_size": {}, "max_position_embeddings": 1024}})",
      layers,
      vocab);
}

OperatorRequest RequestFor(const std::string& config,
                           std::int64_t seq_len,
                           std::int64_t batch = 1,
                           const std::string& device = "cpu") {
  OperatorRequest request;
  request.model = model::ParseConfig(config, "test").value().spec;
  request.cluster = cluster::PresetCluster(device + "-1x1").value();
  request.calibration = cluster::DefaultCalibration(request.cluster);
  request.seq_len = seq_len;
  request.batch = batch;
  return request;
}

/// Returns what a layer of the choice keeps for a token: the difference that two layers more make.
double KeptPerToken(const std::function<OperatorRequest(int layers)>& request,
                    OperatorChoice OperatorAnswer::*choice) {
  const OperatorRequest more = request(4);
  const double difference = (ChooseOperators(more).*choice).memory.activations -
                            (ChooseOperators(request(2)).*choice).memory.activations;
  return difference / 2 / static_cast<double>(more.seq_len * more.batch);
}

// Measured from outside with torch's profiler: torch 2.11, transformers 5.24, on CPU, batch 1.
TEST(OperatorChoiceTest, BaselinesKeepWhatHuggingFaceKeepsOnCpu) {
  const auto bert = [](int layers) { return RequestFor(Bert(layers), 512); };
  EXPECT_NEAR(KeptPerToken(bert, &OperatorAnswer::baseline), 172'048, 1);
  // A fused projection keeps copies of scaled queries and keys beside its output.
  const auto gpt2 = [](int layers) { return RequestFor(Gpt2(layers), 1024); };
  EXPECT_NEAR(KeptPerToken(gpt2, &OperatorAnswer::baseline), 245'776, 0.03 * 245'776);
  const auto llama = [](int layers) { return RequestFor(Llama(layers), 1024); };
  EXPECT_NEAR(KeptPerToken(llama, &OperatorAnswer::baseline), 85'064, 1);
}

TEST(OperatorChoiceTest, SdpaWithDropoutOnCpuKeepsScoresInFp32) {
  // Probabilities, noise and dropped probabilities, 4 bytes each, and copies of Q, K and V.
  const auto half = [](int layers) {
    OperatorRequest request = RequestFor(Bert(layers), 512, 2);
    request.dtype = "bf16";
    return request;
  };
  const double h = 1024, as = 16 * 512;
  // Hidden dropout masks are noise of the dtype's size; Q, K and V in fp32 instead of bf16.
  EXPECT_NEAR(KeptPerToken(half, &OperatorAnswer::baseline), 36 * h + 6 * h + 12 * as + 16, 1);
  const auto on_gpu = [](int layers) {
    OperatorRequest request = RequestFor(Bert(layers), 512, 2, "a100-sxm4-80gb");
    request.dtype = "bf16";
    return request;
  };
  EXPECT_NEAR(KeptPerToken(on_gpu, &OperatorAnswer::baseline), 34 * h + 4 * 16 + 16, 1);
}

TEST(OperatorChoiceTest, LeanLayersKeepOneTensorBetweenProducts) {
  const auto request = [](const std::string& config, std::int64_t seq, const std::string& dtype) {
    OperatorRequest result = RequestFor(config, seq, 2);
    result.dtype = dtype;
    result.techniques.recompute = false;
    return result;
  };
  for (const auto& [dtype, e] : std::map<std::string, double>{{"fp32", 4}, {"bf16", 2}}) {
    const auto bert = [&](int layers) { return request(Bert(layers), 512, dtype); };
    EXPECT_NEAR(KeptPerToken(bert, &OperatorAnswer::leanest), e * 10 * 1024 + 4 * 16 + 16, 1)
        << dtype;
    const auto gpt2 = [&](int layers) { return request(Gpt2(layers), 1024, dtype); };
    EXPECT_NEAR(KeptPerToken(gpt2, &OperatorAnswer::leanest), e * 10 * 768 + 4 * 12 + 16, 1)
        << dtype;
    const auto llama = [&](int layers) { return request(Llama(layers), 1024, dtype); };
    EXPECT_NEAR(
        KeptPerToken(llama, &OperatorAnswer::leanest), e * (6 * 1024 + 2 * 2752) + 4 * 16 + 8, 1)
        << dtype;
  }
}

TEST(OperatorChoiceTest, TempoLayersKeepProbabilitiesAndABitAnActivation) {
  // The fastest of all where memory is plenty and attention by tiles is slow.
  const auto request = [](int layers) {
    OperatorRequest result = RequestFor(Bert(layers), 512, 2);
    result.techniques.recompute = false;
    result.allow_tempo = true;
    result.budget_bytes = 1e15;
    for (auto& [name, device] : result.calibration.devices) {
      device.compute.attention_fraction = 0.1;
    }
    return result;
  };
  const OperatorChoice best = ChooseOperators(request(2)).best;
  EXPECT_THAT(best.layers,
              Each(Field(&LayerChoice::ops,
                         OpVariants{.attention = Variant::kTempo,
                                    .norm = Variant::kTempo,
                                    .activation = Variant::kTempo,
                                    .dropout = Variant::kLean,
                                    .loss = Variant::kEager})));
  const double h = 1024, as = 16 * 512;
  EXPECT_NEAR(KeptPerToken(request, &OperatorAnswer::best), 40 * h + h / 2 + 4 * as + 8, 1);
}

TEST(OperatorChoiceTest, LeanLossHoldsAChunkOfLogitsAndGradients) {
  const double vocab = 50'257, h = 768, tokens = 2 * 1024;
  OperatorRequest request = RequestFor(Gpt2(2, 50'257), 1024, 2);
  request.techniques = {.attention = false,
                        .norm = false,
                        .activation = false,
                        .dropout = false,
                        .loss = true,
                        .recompute = false};
  const OperatorAnswer answer = ChooseOperators(request);
  ASSERT_EQ(answer.leanest.loss, Variant::kLean);
  // Logits, their logarithms of probabilities, and the gradient of each.
  EXPECT_GE(answer.baseline.memory.logits, 3 * 4 * vocab * tokens);
  // Logits of a chunk and their gradient, 32 MiB each; the weight's gradient, and the one it is
  // added to; the norm's input and output and their gradients.
  const double chunk = 2 * 32 * 1024 * 1024;
  EXPECT_LE(answer.leanest.memory.logits, chunk + 2 * 4 * vocab * h + 5 * 4 * h * tokens);
  EXPECT_GE(answer.leanest.memory.logits, 0.9 * chunk + 4 * vocab * h);
}

TEST(OperatorChoiceTest, TempoOnlyOnRequestAndWhereItExists) {
  const auto uses_tempo = [](const OperatorRequest& request) {
    for (const double budget : {2e9, 4e9, 1e15}) {
      OperatorRequest with_budget = request;
      with_budget.budget_bytes = budget;
      const OperatorAnswer answer = ChooseOperators(with_budget);
      for (const OperatorChoice* choice : {&answer.best, &answer.leanest}) {
        for (const LayerChoice& layer : choice->layers) {
          if (layer.ops.norm == Variant::kTempo || layer.ops.activation == Variant::kTempo) {
            return true;
          }
        }
      }
    }
    return false;
  };
  OperatorRequest bert = RequestFor(Bert(4), 512, 4);
  EXPECT_FALSE(uses_tempo(bert));
  bert.allow_tempo = true;
  EXPECT_TRUE(uses_tempo(bert));
  // There are neither output-only RMSNorms nor gates.
  OperatorRequest llama = RequestFor(Llama(4), 512, 4);
  llama.allow_tempo = true;
  EXPECT_FALSE(uses_tempo(llama));
}

TEST(OperatorChoiceTest, TechniquesThatAreOffStayAsInTheBaseline) {
  OperatorRequest request = RequestFor(Gpt2(3, 5000), 256, 4);
  request.techniques = {.attention = false,
                        .norm = false,
                        .activation = true,
                        .dropout = false,
                        .loss = false,
                        .recompute = false};
  const OperatorAnswer answer = ChooseOperators(request);
  EXPECT_EQ(answer.leanest.loss, Variant::kEager);
  EXPECT_THAT(answer.leanest.layers,
              Each(LayerChoice{{.attention = Variant::kSdpa,
                                .norm = Variant::kEager,
                                .activation = Variant::kLean,
                                .dropout = Variant::kEager,
                                .loss = Variant::kEager},
                               false}));
  request.techniques.activation = false;
  const OperatorAnswer none = ChooseOperators(request);
  EXPECT_EQ(none.leanest.layers, none.baseline.layers);
  EXPECT_EQ(none.leanest.peak_bytes(), none.baseline.peak_bytes());
  EXPECT_EQ(none.largest_batch, none.baseline_largest_batch);
}

TEST(OperatorChoiceTest, MoreBudgetIsNeverSlowerAndLessNeverKeepsMore) {
  for (const std::string& config : {Bert(8, 0.1, 256), Gpt2(4, 30'000), Llama(5, 30'000)}) {
    OperatorRequest request = RequestFor(config, 512, 4);
    request.allow_tempo = config == Bert(8, 0.1, 256);
    request.budget_bytes = 1e15;
    const OperatorAnswer ends = ChooseOperators(request);
    EXPECT_LE(ends.best.step_time_s, ends.baseline.step_time_s);
    const double low = ends.leanest.peak_bytes();
    OperatorAnswer last;
    last.best.step_time_s = ends.leanest.step_time_s;
    int changes = 0;
    constexpr int kSteps = 10;
    for (int i = 0; i <= kSteps; ++i) {
      request.budget_bytes = low + static_cast<double>(i) / kSteps * (ends.best.peak_bytes() - low);
      const OperatorAnswer answer = ChooseOperators(request);
      ASSERT_TRUE(answer.fits);
      EXPECT_EQ(answer.missing_bytes, 0);
      EXPECT_LE(answer.best.peak_bytes(), request.budget_bytes);
      EXPECT_LE(answer.best.step_time_s, last.best.step_time_s + 1e-9);
      EXPECT_GE(answer.best.peak_bytes(), last.best.peak_bytes());
      EXPECT_GE(answer.largest_batch, std::max(last.largest_batch, request.batch));
      EXPECT_GE(answer.largest_batch, answer.baseline_largest_batch);
      changes += answer.best.layers != last.best.layers;
      last = answer;
    }
    EXPECT_GT(changes, kSteps / 4);
    EXPECT_EQ(last.best.layers, ends.best.layers);
  }
}

/// Prices every assignment of options to layers by the cost model's own formulas.
class BruteForce {
 public:
  explicit BruteForce(const OperatorRequest& request)
      : request_(request), graph_(model::BuildGraph(request.model)) {
    cost::LayoutContext context = {.cluster = request.cluster,
                                   .calibration = request.calibration,
                                   .seq_len = static_cast<double>(request.seq_len),
                                   .dtype = request.dtype,
                                   .grad_bytes = 4,
                                   .expert_imbalance = 1};
    rates_ = cost::ComputeRates(context, {.micro_batch = static_cast<int>(request.batch)}, {0}, {});
    for (const Variant attention : {Variant::kSdpa, Variant::kLean}) {
      for (const Variant norm : {Variant::kEager, Variant::kLean}) {
        for (const Variant activation : {Variant::kEager, Variant::kLean}) {
          ops_.push_back({attention, norm, activation, Variant::kEager, Variant::kEager});
        }
      }
    }
    for (const OpVariants& ops : ops_) {
      model::LoweringOptions options;
      options.variants = ops;
      options.activation_bytes = options.dropout_mask_bytes = 4;
      options.sdpa_dropout_unfused = true;
      options.mask_draw_flops = 6e-9 / rates_.inputs.gemm_s_per_flop;
      costs_.push_back(
          cost::CostModel(graph_, options).Evaluate(std::span(&rates_.inputs, 1)).front());
    }
  }

  /// Returns the least time within the budget, and the least bytes of it; the two are 0 where
  /// nothing fits.
  std::pair<double, double> Best() {
    Visit({}, 0);
    return {std::max(0.0, best_s_), best_bytes_};
  }

 private:
  void Visit(std::vector<std::size_t> chosen, std::size_t least) {
    if (chosen.size() == graph_.layers.size()) return Price(chosen);
    // All layers are alike: their order does not matter.
    for (std::size_t option = least; option < 2 * ops_.size(); ++option) {
      chosen.push_back(option);
      Visit(chosen, option);
      chosen.pop_back();
    }
  }

  void Price(const std::vector<std::size_t>& chosen) {
    cost::ModelCost<double> model = costs_.front();
    model.kinds.clear();
    cost::StageContent<double> content;
    for (const std::size_t option : chosen) {
      const bool recompute = option >= ops_.size();
      model.kinds.push_back(costs_[option % ops_.size()].kinds.front());
      content.plain.push_back(recompute ? 0 : 1);
      content.recomputed.push_back(recompute ? 1 : 0);
    }
    content.embedding = content.head = 1;
    content.tied = graph_.tied_head;
    const cost::StateLayout<double> states = {
        .weight_bytes = 4, .grad_bytes = 4, .optimizer_bytes = 8};
    const double bytes = cost::ComposeMemory(model, content, states).Sum();
    const cost::StageTime<double> time = cost::ComposeTime(model, content);
    const double total_s =
        time.forward_s + time.backward_s +
        cost::CountWeights(model, content).dense * rates_.optimizer_s_per_byte * (4 + 2 * 8 + 4);
    if (bytes > request_.budget_bytes) return;
    constexpr double kSame = 1e-8;  // times are rounded to nanoseconds
    if (best_s_ < 0 || total_s < best_s_ - kSame ||
        (total_s < best_s_ + kSame && bytes < best_bytes_)) {
      best_s_ = total_s;
      best_bytes_ = bytes;
    }
  }

  const OperatorRequest& request_;
  model::Graph graph_;
  cost::StageRates rates_;
  std::vector<OpVariants> ops_;
  std::vector<cost::ModelCost<double>> costs_;
  double best_s_ = -1, best_bytes_ = 0;
};

TEST(OperatorChoiceTest, EqualsEveryAssignmentTriedInTurn) {
  Rng rng(11, 0);
  int fitted = 0;
  for (int trial = 0; trial < 36; ++trial) {
    const int layers = 1 + static_cast<int>(rng.Integer(4));
    const int vocab = 100 + static_cast<int>(rng.Integer(3000));
    const double dropout = rng.Integer(2) == 0 ? 0 : 0.1;
    const std::string configs[] = {
        Bert(layers, dropout, 128, vocab), Gpt2(layers, vocab), Llama(layers, vocab)};
    OperatorRequest request = RequestFor(configs[trial % 3],
                                         64 * static_cast<std::int64_t>(1 + rng.Integer(8)),
                                         static_cast<std::int64_t>(1 + rng.Integer(6)));
    request.techniques.loss = request.techniques.dropout = false;
    const OperatorAnswer ends = ChooseOperators(request);
    const double low = ends.leanest.peak_bytes();
    request.budget_bytes = low + (1.3 * rng.Uniform() - 0.1) * (ends.baseline.peak_bytes() - low);
    const OperatorAnswer answer = ChooseOperators(request);
    const auto [time_s, bytes] = BruteForce(request).Best();
    SCOPED_TRACE(
        fmt::format("trial {}: {} layers, budget {}", trial, layers, request.budget_bytes));
    ASSERT_EQ(answer.fits, time_s > 0);
    if (!answer.fits) continue;
    ++fitted;
    ASSERT_NEAR(answer.best.step_time_s, time_s, 1e-7);
    ASSERT_NEAR(answer.best.peak_bytes(), bytes, 1);
  }
  EXPECT_GT(fitted, 20);
}

TEST(OperatorChoiceTest, LooksForTheLargestBatch) {
  OperatorRequest request = RequestFor(Bert(6, 0.1, 256), 256, 1);
  request.budget_bytes = 1e9;
  const OperatorAnswer answer = ChooseOperators(request);
  ASSERT_GT(answer.baseline_largest_batch, 1);
  ASSERT_GT(answer.largest_batch, 2 * answer.baseline_largest_batch);
  request.batch = answer.largest_batch;
  EXPECT_TRUE(ChooseOperators(request).fits);
  ++request.batch;
  EXPECT_FALSE(ChooseOperators(request).fits);
  request.batch = answer.baseline_largest_batch;
  EXPECT_LE(ChooseOperators(request).baseline.peak_bytes(), request.budget_bytes);
  ++request.batch;
  EXPECT_GT(ChooseOperators(request).baseline.peak_bytes(), request.budget_bytes);
}

TEST(OperatorChoiceTest, BudgetBelowTheWeightsDoesNotFit) {
  OperatorRequest request = RequestFor(Llama(2), 128, 1);
  const double states = ChooseOperators(request).leanest.memory.weights;
  request.budget_bytes = states / 2;
  const OperatorAnswer answer = ChooseOperators(request);
  EXPECT_FALSE(answer.fits);
  EXPECT_EQ(answer.largest_batch, 0);
  EXPECT_EQ(answer.baseline_largest_batch, 0);
  EXPECT_EQ(answer.best.layers, answer.leanest.layers);
  EXPECT_DOUBLE_EQ(answer.missing_bytes, answer.leanest.peak_bytes() - request.budget_bytes);
}

TEST(OperatorChoiceTest, RecomputedLayersComeLastAndLeanNormsTogether) {
  OperatorRequest request = RequestFor(Bert(12, 0.1, 256), 512, 8);
  const OperatorAnswer ends = ChooseOperators(request);
  const double low = ends.leanest.peak_bytes();
  for (const double share : {0.05, 0.1, 0.3, 0.5, 0.7}) {
    request.budget_bytes = low + share * (ends.baseline.peak_bytes() - low);
    const std::vector<LayerChoice> layers = ChooseOperators(request).best.layers;
    ASSERT_EQ(layers.size(), 12u);
    const auto key = [](const LayerChoice& layer) {
      return std::pair(layer.recompute, layer.ops.norm == Variant::kLean);
    };
    EXPECT_TRUE(std::is_sorted(layers.begin(), layers.end(), [&](const auto& a, const auto& b) {
      return key(a) < key(b);
    }));
  }
}

TEST(OperatorChoiceTest, StatesFollowTheRequest) {
  OperatorRequest request = RequestFor(Gpt2(2), 128, 1);
  request.dtype = "bf16";
  request.optimizer_bytes_per_param = 12;
  request.grad_bytes_per_param = 4;
  const auto memory = ChooseOperators(request).baseline.memory;
  const double params =
      static_cast<double>(model::CountParameters(model::BuildGraph(request.model)));
  EXPECT_DOUBLE_EQ(memory.weights, 2 * params);
  EXPECT_DOUBLE_EQ(memory.grads, 4 * params);
  EXPECT_DOUBLE_EQ(memory.optimizer, 12 * params);
}

TEST(OperatorChoiceTest, ModelsWithoutImplementationsKeepTheirOperators) {
  // Gemma 2 caps its scores; T5 learns a bias of them and passes them between encoder and decoder.
  for (const char* name : {"gemma-2-9b", "t5-large"}) {
    OperatorRequest request = RequestFor(Gpt2(1), 128, 1);
    request.model = model::LoadModel(name).value().spec;
    request.techniques.recompute = false;
    EXPECT_THAT(ChooseOperators(request).leanest.layers,
                Each(Field(&LayerChoice::ops, Field(&OpVariants::attention, Variant::kSdpa))))
        << name;
  }
}

TEST(OperatorChoiceTest, TakesTheDeepestModels) {
  OperatorRequest request = RequestFor(Bert(kMaxChosenLayers, 0.1, 128), 128, 4);
  const OperatorAnswer ends = ChooseOperators(request);
  request.budget_bytes = (ends.leanest.peak_bytes() + ends.baseline.peak_bytes()) / 2;
  const OperatorAnswer answer = ChooseOperators(request);
  EXPECT_TRUE(answer.fits);
  // The last layer that does not fit a cheaper option costs less than a layer's span.
  const double span = (ends.baseline.peak_bytes() - ends.leanest.peak_bytes()) / kMaxChosenLayers;
  EXPECT_GT(answer.best.peak_bytes(), request.budget_bytes - span);
}

TEST(OperatorChoiceTest, RefusesWhatItCannotAnswer) {
  const auto error_of = [](const std::function<void(OperatorRequest&)>& spoil) {
    OperatorRequest request = RequestFor(Gpt2(2), 128, 1);
    spoil(request);
    try {
      ChooseOperators(request);
    } catch (const Error& error) {
      EXPECT_TRUE(error.kind() == ErrorKind::kInput || error.kind() == ErrorKind::kUsage);
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_THAT(error_of([](auto& r) { r.batch = 0; }), HasSubstr("batch: expected 1 to"));
  EXPECT_THAT(error_of([](auto& r) { r.batch = -3; }), HasSubstr("got -3"));
  EXPECT_THAT(error_of([](auto& r) { r.batch = kMaxChosenBatch + 1; }), HasSubstr("batch"));
  EXPECT_THAT(error_of([](auto& r) { r.seq_len = 0; }), HasSubstr("seq: expected"));
  EXPECT_THAT(error_of([](auto& r) { r.seq_len = 1025; }), HasSubstr("1024 learned positions"));
  EXPECT_THAT(error_of([](auto& r) { r.dtype = "int8"; }), HasSubstr("fp32, bf16 or fp16"));
  EXPECT_THAT(error_of([](auto& r) { r.budget_bytes = -1; }), HasSubstr("budget_bytes"));
  EXPECT_THAT(error_of([&](auto& r) { r.budget_bytes = infinite; }), HasSubstr("finite"));
  EXPECT_THAT(error_of([&](auto& r) { r.grad_bytes_per_param = -infinite; }), HasSubstr("grad"));
  EXPECT_THAT(error_of([](auto& r) { r.optimizer_bytes_per_param = -1; }), HasSubstr("optimizer"));
  EXPECT_THAT(error_of([](auto& r) { r.baseline_attention = Variant::kFused; }),
              HasSubstr("eager or sdpa"));
  EXPECT_THAT(error_of([](auto& r) { r.model = model::LoadModel("resnet-50").value().spec; }),
              HasSubstr("transformer"));
  EXPECT_THAT(error_of([](auto& r) {
                r.model = model::ParseConfig(Gpt2(kMaxChosenLayers + 1), "").value().spec;
              }),
              HasSubstr("at most 1024 layers"));
  OperatorRequest huge = RequestFor(Llama(2), plan::kMaxSequence, kMaxChosenBatch);
  huge.budget_bytes = 1e12;
  EXPECT_FALSE(ChooseOperators(huge).fits);
}

}  // namespace
}  // namespace palmist::planner
