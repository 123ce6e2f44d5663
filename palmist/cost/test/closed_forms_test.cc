// The derived memory of a layer against closed forms that were worked out by hand.
//
// Legend of the forms: b micro-batch, s sequence, h hidden, F feed-forward width, a heads, e bytes
// of an activation, u = e*b*s*h.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "palmist/base/rng.h"
#include "palmist/cost/layer_cost.h"
#include "palmist/model/config.h"

namespace palmist::cost {
namespace {

using model::OpVariants;
using model::UniformVariants;
using model::Variant;

/// A layer's shape, and one point of its symbols.
struct Shape {
  std::string family = "gpt2";
  double hidden = 1024, ffn = 4096, heads = 16, kv_heads = 16, vocab = 50304;
  double dropout = 0;
  std::string activation = "gelu";
  double b = 1, s = 1024, tp = 1, sd = 1;
};

model::Graph GraphOf(const Shape& shape) {
  std::string json;
  if (shape.family == "gpt2") {
    json = fmt::format(
        R"({{"model_type": "gpt2", "n_layer": 2, "n_embd": {}, "n_head": {}, "n_inner": {},
        "n_positions": 65536, "vocab_size": {}, "tie_word_embeddings": false,
        "palmist_linear_bias": false, "activation_function": "{}",
        "resid_pdrop": {}, "embd_pdrop": 0, "attn_pdrop": {}}})",
        shape.hidden,
        shape.heads,
        shape.ffn,
        shape.vocab,
        shape.activation,
        shape.dropout,
        shape.dropout);
  } else if (shape.family == "llama") {
    json = fmt::format(
        R"({{"model_type": "llama", "num_hidden_layers": 2, "hidden_size": {},
        "num_attention_heads": {}, "num_key_value_heads": {}, "intermediate_size": {},
        "vocab_size": {}, "max_position_embeddings": 65536}})",
        shape.hidden,
        shape.heads,
        shape.kv_heads,
        shape.ffn,
        shape.vocab);
  } else {
    json = fmt::format(
        R"({{"model_type": "bert", "num_hidden_layers": 2, "hidden_size": {},
        "num_attention_heads": {}, "intermediate_size": {}, "vocab_size": {},
        "max_position_embeddings": 65536, "hidden_dropout_prob": {},
        "attention_probs_dropout_prob": {}, "hidden_act": "gelu"}})",
        shape.hidden,
        shape.heads,
        shape.ffn,
        shape.vocab,
        shape.dropout,
        shape.dropout);
  }
  return model::BuildGraph(model::ParseConfig(json, "test").value().spec);
}

/// Evaluates the memory of a layer of `shape` at its point, without the gradients of weights.
class Evaluated {
 public:
  Evaluated(const Shape& shape, const model::Layer& layer, model::LoweringOptions options)
      : shape_(shape) {
    const bool after_norm = layer.output_is_norm && options.variants.norm == Variant::kLean;
    memory_ = AnalyzeMemory(model::Lower(layer, options, after_norm));
  }
  double operator()(Expr LayerMemory::*field) const {
    return symbolic::Evaluate(memory_.*field,
                              {{"b", shape_.b},
                               {"s", shape_.s},
                               {"tp", shape_.tp},
                               {"sd", shape_.sd},
                               {"cp", 1},
                               {"ep", 1},
                               {"x", 1},
                               {"grad_bytes", 0}});
  }

 private:
  Shape shape_;
  LayerMemory memory_;
};

Evaluated LayerOf(const Shape& shape, const OpVariants& variants, double activation_bytes = 2) {
  model::LoweringOptions options;
  options.variants = variants;
  options.activation_bytes = activation_bytes;
  return Evaluated(shape, GraphOf(shape).kinds.front(), options);
}

double KeptPerToken(const Shape& shape, const OpVariants& variants, double activation_bytes = 2) {
  return LayerOf(shape, variants, activation_bytes)(&LayerMemory::kept) / (shape.b * shape.s);
}

Shape RandomShape(Rng& rng, const std::string& family) {
  constexpr double kDegrees[] = {1, 2, 4, 8};
  Shape shape;
  shape.family = family;
  shape.heads = 8.0 * static_cast<double>(1 + rng.Integer(8));
  shape.kv_heads = shape.heads;
  shape.hidden = shape.heads * (rng.Integer(2) == 0 ? 64 : 128);
  shape.tp = kDegrees[rng.Integer(4)];
  // Between 2.75 and 6 times the width, as models have it: there the gradient of the feed-forward
  // block is the largest thing alive, which the closed form takes for granted.
  shape.ffn = 64 * std::ceil(shape.hidden * (2.75 + 3.25 * rng.Uniform()) / 64);
  // On many ranks an ungated block must be wider for that (docs/adr/0007).
  if (family == "gpt2") shape.ffn = std::max(shape.ffn, shape.hidden * shape.tp / 2);
  shape.vocab = 64.0 * static_cast<double>(100 + rng.Integer(4000));
  shape.b = static_cast<double>(1 + rng.Integer(8));
  shape.s = 128.0 * static_cast<double>(1 + rng.Integer(64));
  return shape;
}

/// The forms of the planner's design, section 2, for fused operators.
struct Forms {
  double u, att, s0, forward, backward;
};

Forms FormsOf(const Shape& shape, bool flash) {
  const bool gpt = shape.family == "gpt2";
  const double k = gpt ? 2 : 3;
  Forms forms;
  forms.u = 2 * shape.b * shape.s * shape.hidden;
  forms.att = (flash ? 4 : 2 * shape.s) * shape.b * shape.heads * shape.s / shape.tp;
  const double kv = shape.kv_heads / shape.heads;
  const double f = shape.ffn / shape.hidden;
  const double statistics = (gpt ? 16 : 8) * shape.b * shape.s;
  // Multi-head attention has 4 u/tp: queries, keys, values and the context; grouped queries 2 + 2
  // kv.
  forms.s0 = forms.u * (4 + (2 + 2 * kv + k * f) / shape.tp) + forms.att + statistics;
  forms.forward = forms.s0 + forms.u;
  forms.backward = forms.s0 + forms.u * (1 + (gpt ? 1 : 2) * f / shape.tp);
  if (!flash) {
    // By then the second norm and the feed-forward block are done, with that norm's statistics.
    forms.backward = std::max(
        forms.backward,
        forms.s0 - statistics / 2 - forms.u * (2 + k * f / shape.tp) + forms.u + 2 * forms.att);
  }
  return forms;
}

TEST(ClosedFormsTest, FusedLayersEqualTheFormsOnRandomPoints) {
  Rng rng(7, 0);
  for (int trial = 0; trial < 1000; ++trial) {
    const bool flash = trial % 4 < 2;
    Shape shape = RandomShape(rng, trial % 2 == 0 ? "gpt2" : "llama");
    const Evaluated derived =
        LayerOf(shape, UniformVariants(flash ? Variant::kFused : Variant::kFusedSoftmax));
    const Forms forms = FormsOf(shape, flash);
    SCOPED_TRACE(fmt::format("trial {}: {} h {} F {} a {} b {} s {} tp {} flash {}",
                             trial,
                             shape.family,
                             shape.hidden,
                             shape.ffn,
                             shape.heads,
                             shape.b,
                             shape.s,
                             shape.tp,
                             flash));
    ASSERT_NEAR(derived(&LayerMemory::kept), forms.s0, 1e-9 * forms.s0);
    ASSERT_NEAR(derived(&LayerMemory::input), forms.u, 1e-9 * forms.u);
    ASSERT_NEAR(derived(&LayerMemory::forward_peak), forms.forward, 1e-9 * forms.forward);
    ASSERT_NEAR(derived(&LayerMemory::backward_peak), forms.backward, 1e-9 * forms.backward);
  }
}

TEST(ClosedFormsTest, GroupedQueriesKeepFewerKeysAndValues) {
  Rng rng(8, 0);
  for (int trial = 0; trial < 200; ++trial) {
    Shape shape = RandomShape(rng, "llama");
    shape.kv_heads = shape.heads / 4;
    while (static_cast<std::int64_t>(shape.kv_heads) % static_cast<std::int64_t>(shape.tp) != 0) {
      shape.tp /= 2;
    }
    const Forms forms = FormsOf(shape, true);
    const Evaluated derived = LayerOf(shape, UniformVariants(Variant::kFused));
    ASSERT_NEAR(derived(&LayerMemory::kept), forms.s0, 1e-9 * forms.s0);
  }
}

TEST(ClosedFormsTest, HeadHoldsLogitsTwice) {
  Rng rng(9, 0);
  for (int trial = 0; trial < 200; ++trial) {
    const Shape shape = RandomShape(rng, trial % 2 == 0 ? "gpt2" : "llama");
    model::LoweringOptions options;
    const Evaluated derived(shape, GraphOf(shape).head, options);
    const double u = 2 * shape.b * shape.s * shape.hidden;
    const double padded = shape.tp * std::ceil(shape.vocab / shape.tp);
    const double logits = 2 * shape.b * shape.s * padded / shape.tp;
    const double statistics = (shape.family == "gpt2" ? 8 : 4) * shape.b * shape.s;
    const double beyond_input =
        derived(&LayerMemory::forward_peak) - derived(&LayerMemory::input) - statistics;
    // The loss itself is one number.
    ASSERT_NEAR(beyond_input, u + 2 * logits, 64);
  }
}

TEST(ClosedFormsTest, ParametersOfALayerOnARank) {
  Rng rng(10, 0);
  for (int trial = 0; trial < 1000; ++trial) {
    const Shape shape = RandomShape(rng, trial % 2 == 0 ? "gpt2" : "llama");
    const model::Graph graph = GraphOf(shape);
    const LayerCost<Expr> cost = DeriveLayerCost(model::Lower(graph.kinds.front(), {}));
    const double h = shape.hidden, f = shape.ffn;
    const double expected = shape.family == "gpt2" ? (4 * h * h + 2 * h * f) / shape.tp + 4 * h
                                                   : (4 * h * h + 3 * h * f) / shape.tp + 2 * h;
    ASSERT_DOUBLE_EQ(symbolic::Evaluate(cost.weights, {{"tp", shape.tp}}), expected);
  }
}

// Bytes kept a token and layer (H hidden, I width, A heads, S sequence; statistics of the norms are
// added: 8 bytes a LayerNorm, 4 an RMSNorm or an output-only LayerNorm).

Shape BertLarge(double s) {
  Shape shape;
  shape.family = "bert";
  shape.dropout = 0.1;
  shape.s = s;
  return shape;
}

TEST(KeptBytesTest, BertEager) {
  const Shape shape = BertLarge(512);
  const double h = 1024, as = 16 * 512;
  EXPECT_DOUBLE_EQ(KeptPerToken(shape, UniformVariants(Variant::kEager)), 34 * h + 5 * as + 16);
  EXPECT_DOUBLE_EQ(KeptPerToken(shape, UniformVariants(Variant::kEager), 4), 66 * h + 9 * as + 16);
}

TEST(KeptBytesTest, BertWithFlashAttention) {
  const Shape shape = BertLarge(512);
  EXPECT_DOUBLE_EQ(KeptPerToken(shape, UniformVariants(Variant::kSdpa)), 34 * 1024 + 4 * 16 + 16);
}

TEST(KeptBytesTest, BertTempoAsPublished) {
  const Shape shape = BertLarge(512);
  model::LoweringOptions options;
  options.variants = UniformVariants(Variant::kTempo);
  options.variants.dropout = Variant::kEager;  // a mask of one byte an element
  options.tempo_mask_bits = 8;
  const double h = 1024, as = 16 * 512;
  for (const double e : {2.0, 4.0}) {
    options.activation_bytes = e;
    const Evaluated derived(shape, GraphOf(shape).kinds.front(), options);
    EXPECT_DOUBLE_EQ(derived(&LayerMemory::kept) / (shape.b * shape.s),
                     10 * e * h + 6 * h + (e + 1) * as + 8);
  }
}

TEST(KeptBytesTest, BertTempoRepaired) {
  const double h = 1024, as = 16 * 512;
  EXPECT_DOUBLE_EQ(KeptPerToken(BertLarge(512), UniformVariants(Variant::kTempo), 4),
                   40 * h + h / 2 + 4 * as + 8);
}

TEST(KeptBytesTest, BertLean) {
  for (const double s : {128.0, 512.0}) {
    EXPECT_DOUBLE_EQ(KeptPerToken(BertLarge(s), UniformVariants(Variant::kLean)),
                     20 * 1024 + 4 * 16 + 16);
  }
  EXPECT_DOUBLE_EQ(KeptPerToken(BertLarge(512), UniformVariants(Variant::kLean), 4),
                   40 * 1024 + 4 * 16 + 16);
}

TEST(KeptBytesTest, Gpt2) {
  Shape shape;
  shape.hidden = 768;
  shape.ffn = 3072;
  shape.heads = 12;
  shape.dropout = 0.1;
  const double h = 768, as = 12 * 1024;
  EXPECT_DOUBLE_EQ(KeptPerToken(shape, UniformVariants(Variant::kEager)), 34 * h + 5 * as + 16);
  EXPECT_DOUBLE_EQ(KeptPerToken(shape, UniformVariants(Variant::kLean)), 20 * h + 4 * 12 + 16);
  // Hugging Face's gelu_new is a composition that keeps three tensors more.
  shape.activation = "gelu_new";
  EXPECT_DOUBLE_EQ(KeptPerToken(shape, UniformVariants(Variant::kEager)),
                   34 * h + 3 * 2 * 4 * h + 5 * as + 16);
}

TEST(KeptBytesTest, Llama) {
  Shape shape;
  shape.family = "llama";
  shape.hidden = 4096;
  shape.ffn = 11008;
  shape.heads = shape.kv_heads = 32;
  shape.s = 2048;
  const double h = 4096, i = 11008, a = 32, as = 32 * 2048;
  EXPECT_DOUBLE_EQ(KeptPerToken(shape, UniformVariants(Variant::kEager)),
                   24 * h + 8 * i + 6 * as + 8);
  OpVariants ops = UniformVariants(Variant::kSdpa);
  EXPECT_DOUBLE_EQ(KeptPerToken(shape, ops), 24 * h + 8 * i + 4 * a + 8);
  ops.norm = Variant::kFused;
  EXPECT_DOUBLE_EQ(KeptPerToken(shape, ops), 16 * h + 8 * i + 4 * a + 8);
  ops.activation = Variant::kFused;
  EXPECT_DOUBLE_EQ(KeptPerToken(shape, ops), 16 * h + 6 * i + 4 * a + 8);
  EXPECT_DOUBLE_EQ(KeptPerToken(shape, UniformVariants(Variant::kLean)),
                   12 * h + 4 * i + 4 * a + 8);
}

TEST(KeptBytesTest, ActivationBeforeALinear) {
  // Per element of the activation, with the linear's own input, in bytes (half precision).
  Shape shape;
  const double base = KeptPerToken(shape, UniformVariants(Variant::kFused));
  const auto per_element = [&](Variant variant) {
    OpVariants ops = UniformVariants(Variant::kFused);
    ops.activation = variant;
    return 4 + (KeptPerToken(shape, ops) - base) / shape.ffn;
  };
  EXPECT_DOUBLE_EQ(per_element(Variant::kEager), 4);
  EXPECT_DOUBLE_EQ(per_element(Variant::kTempo), 2.125);
  EXPECT_DOUBLE_EQ(per_element(Variant::kLean), 2);
}

TEST(KeptBytesTest, SequenceParallelismDividesWhatTensorParallelismRepeats) {
  Shape shape;
  shape.hidden = 4096;
  shape.ffn = 16384;
  shape.heads = shape.kv_heads = 32;
  shape.tp = 4;
  const double whole = KeptPerToken(shape, UniformVariants(Variant::kFused));
  shape.sd = 4;
  const double divided = KeptPerToken(shape, UniformVariants(Variant::kFused));
  // Four tensors of the model's width, and the norms' statistics, fall to a quarter.
  EXPECT_DOUBLE_EQ(whole - divided, 0.75 * (4 * 2 * 4096 + 16));
}

TEST(KeptBytesTest, LeanLossNeverHoldsTheLogits) {
  Shape shape;
  shape.b = 8;
  model::LoweringOptions options;
  options.variants = UniformVariants(Variant::kEager);
  const model::Graph graph = GraphOf(shape);
  const double eager = Evaluated(shape, graph.head, options)(&LayerMemory::backward_peak);
  options.variants.loss = options.variants.norm = Variant::kLean;
  const double lean = Evaluated(shape, graph.head, options)(&LayerMemory::backward_peak);
  EXPECT_LT(lean, eager / 8);
}

}  // namespace
}  // namespace palmist::cost
