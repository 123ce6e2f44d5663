#include "palmist/model/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "palmist/model/config.h"
#include "palmist/model/zoo.h"

namespace palmist::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Point = std::map<std::string, double>;

Graph GraphOf(const std::string& name) { return BuildGraph(LoadModel(name).value().spec); }

/// Values of the symbols of the legend.
Point At(
    double b, double s, double tp = 1, double sd = 1, double cp = 1, double ep = 1, double x = 1) {
  return {{"b", b}, {"s", s}, {"tp", tp}, {"sd", sd}, {"cp", cp}, {"ep", ep}, {"x", x}};
}

double Value(const Expr& expr, const Point& point) { return symbolic::Evaluate(expr, point); }

const Op& Find(const Layer& layer, const std::string& name) {
  for (const Op& op : layer.ops) {
    if (op.name == name) return op;
  }
  ADD_FAILURE() << layer.name << " has no operator " << name;
  return layer.ops.front();
}

bool HasOp(const Layer& layer, const std::string& name) {
  return std::any_of(
      layer.ops.begin(), layer.ops.end(), [&](const Op& op) { return op.name == name; });
}

double Elements(const Layer& layer, TensorId tensor, const Point& point) {
  return Value(layer.tensors.at(static_cast<std::size_t>(tensor)).elements, point);
}

double OutputElements(const Layer& layer, const std::string& op, const Point& point) {
  return Elements(layer, Find(layer, op).outputs.at(0), point);
}

double ParametersPerRank(const Layer& layer, const Point& point) {
  double total = 0;
  for (const Op& op : layer.ops) {
    for (const Parameter& parameter : op.parameters) {
      if (!parameter.tied) total += Value(parameter.elements_per_rank, point);
    }
  }
  return total;
}

double ForwardFlops(const Layer& layer, const Point& point) {
  double total = 0;
  for (const Op& op : layer.ops) total += Value(op.forward_flops, point);
  return total;
}

std::vector<OpKind> Kinds(const Layer& layer) {
  std::vector<OpKind> kinds;
  for (const Op& op : layer.ops) kinds.push_back(op.kind);
  return kinds;
}

std::vector<const Layer*> AllLayers(const Graph& graph) {
  std::vector<const Layer*> layers = {&graph.embedding, &graph.head};
  for (const Layer& kind : graph.kinds) layers.push_back(&kind);
  return layers;
}

// The closed forms of the literature: (4h² + 2hF)/tp + 4h and (4h² + 3hF)/tp + 2h.
TEST(GraphTest, ParametersOfALayerOnARank) {
  const double h = 4096;
  for (const double tp : {1, 2, 4, 8}) {
    const Point point = At(1, 2048, tp);
    const double gpt_ffn = 16384, llama_ffn = 11008;
    EXPECT_EQ(ParametersPerRank(GraphOf("mist-gpt2-7b").kinds[0], point),
              (4 * h * h + 2 * h * gpt_ffn) / tp + 4 * h);
    EXPECT_EQ(ParametersPerRank(GraphOf("mist-llama-7b").kinds[0], point),
              (4 * h * h + 3 * h * llama_ffn) / tp + 2 * h);
  }
}

TEST(GraphTest, FewerKvHeadsThanRanksAreReplicated) {
  const Graph graph = GraphOf("llama-3-8b");
  const Layer& layer = graph.kinds[0];
  const double h = 4096, ffn = 14336, kv_width = 8 * 128;
  for (const double tp : {1, 2, 8, 16, 32}) {
    const double kv_shard = std::min(tp, 8.0);
    EXPECT_EQ(ParametersPerRank(layer, At(1, 1, tp)),
              2 * h * h / tp + 2 * h * kv_width / kv_shard + 3 * h * ffn / tp + 2 * h);
    EXPECT_EQ(OutputElements(layer, "qkv", At(2, 512, tp)),
              2 * 512 * (h / tp + 2 * kv_width / kv_shard));
  }
  // One KV head is whole everywhere.
  EXPECT_EQ(OutputElements(GraphOf("falcon-7b").kinds[0], "qkv", At(1, 1, 71)), 64 + 2 * 64);
}

TEST(GraphTest, ShardsOfTensorSequenceAndContextParallelism) {
  const Graph graph = GraphOf("gpt2-xl");
  const Layer& layer = graph.kinds[0];
  const Point point = At(2, 1024, 4, 4, 2);
  const double tokens = 2 * 1024 / 2.0, h = 1600;
  EXPECT_EQ(Elements(layer, layer.input, point), tokens / 4 * h);
  EXPECT_EQ(Elements(layer, layer.output, point), tokens / 4 * h);
  EXPECT_EQ(OutputElements(layer, "norm1", point), tokens / 4 * h);
  EXPECT_EQ(Value(Find(layer, "norm1").rows, point), tokens / 4);
  EXPECT_EQ(OutputElements(layer, "qkv", point), tokens * 3 * h / 4);
  EXPECT_EQ(OutputElements(layer, "attention", point), tokens * h / 4);
  EXPECT_EQ(OutputElements(layer, "attention_output", point), tokens / 4 * h);
  EXPECT_EQ(OutputElements(layer, "mlp_activation", point), tokens * 4 * h / 4);
  EXPECT_EQ(OutputElements(graph.head, "logits", point), tokens * std::ceil(50257 / 4.0));
  EXPECT_EQ(Value(Find(layer, "attention").score_rows, point), tokens * 25 / 4);
  EXPECT_EQ(Value(Find(layer, "attention").score_keys, point), 1024);
}

TEST(GraphTest, PaddedVocabulary) {
  const auto padded = [](std::int64_t vocab, double tp, std::int64_t multiple) {
    return Value(PaddedVocabulary(vocab, Expr::Symbol("tp"), multiple), {{"tp", tp}});
  };
  EXPECT_EQ(padded(50257, 1, 128), 50304);
  EXPECT_EQ(padded(50257, 8, 128), 51200);
  EXPECT_EQ(padded(151669, 4, 1), 151672);
  EXPECT_EQ(padded(50304, 2, 1), 50304);
  const Graph graph = BuildGraph(LoadModel("gpt2").value().spec, {.vocab_multiple = 128});
  EXPECT_EQ(Value(graph.embedding.ops[0].parameters[0].elements_per_rank, At(1, 1, 8)),
            51200 / 8 * 768);
  EXPECT_EQ(CountParameters(graph), 124'439'808) << "padding is not counted";
  EXPECT_THROW(BuildGraph(LoadModel("gpt2").value().spec, {.vocab_multiple = 0}), Error);
}

/// Keys seen, counted pair by pair.
double CountedKeys(int s, int window, bool causal) {
  double pairs = 0;
  for (int q = 0; q < s; ++q) {
    for (int k = 0; k < s; ++k) {
      const bool seen = (!causal || k <= q) && (window == 0 || std::abs(q - k) < window);
      pairs += seen ? 1 : 0;
    }
  }
  return pairs / s;
}

TEST(GraphTest, AttentionFlopsCountTheKeysThatAreSeen) {
  const int s = 512;
  const auto keys = [&](AttentionSpec attention) {
    TransformerSpec spec = LoadModel("mist-llama-1.3b").value().spec.transformer();
    spec.layers[0].attention.window = attention.window;
    spec.layers[0].attention.causal = attention.causal;
    const Graph graph = BuildGraph({"test", spec});
    const Op& op = Find(graph.kinds[0], "attention");
    // 2 flops for each of 16 heads, query, key and element of head and value.
    return Value(op.forward_flops, At(3, s)) / (2.0 * 3 * 16 * s * (128 + 128));
  };
  for (const int window : {0, 16, 100, 512, 5000}) {
    AttentionSpec attention;
    attention.window = window;
    attention.causal = true;
    // The diagonal counts half: (s + 1) / 2 is s / 2 here.
    EXPECT_NEAR(keys(attention), CountedKeys(s, window, true), 0.5 + 1e-9) << window;
  }
  AttentionSpec encoder;
  encoder.causal = false;
  EXPECT_EQ(keys(encoder), s);
}

TEST(GraphTest, ContextParallelismSplitsTheQueries) {
  const Graph graph = GraphOf("llama-2-7b");
  const Op& op = Find(graph.kinds[0], "attention");
  EXPECT_EQ(Value(op.forward_flops, At(1, 8192, 1, 1, 4)) * 4,
            Value(op.forward_flops, At(1, 8192)));
}

// Every product's arithmetic is two operations a weight and token.
TEST(GraphTest, FlopsOfProductsFollowFromTheirWeights) {
  const Point point = At(2, 128);
  for (const std::string& name : ZooNames()) {
    const Graph graph = GraphOf(name);
    if (!graph.has_sequence) continue;
    for (const Layer* layer : AllLayers(graph)) {
      for (const Op& op : layer->ops) {
        if (op.kind != OpKind::kLinear && op.kind != OpKind::kRoute) continue;
        double weights = 0;
        for (const Parameter& parameter : op.parameters) {
          if (!parameter.name.ends_with("weight")) continue;
          weights += static_cast<double>(parameter.elements) * parameter.active_fraction;
        }
        const double rows = op.name == "pooler" ? 2 : 2 * 128;
        EXPECT_DOUBLE_EQ(Value(op.forward_flops, point), 2 * rows * weights)
            << name << " " << op.name;
      }
    }
  }
}

TEST(GraphTest, OneRankHoldsEverything) {
  for (const std::string& name : ZooNames()) {
    const Graph graph = GraphOf(name);
    for (const Layer* layer : AllLayers(graph)) {
      for (const Tensor& tensor : layer->tensors) {
        const double elements = Value(tensor.elements, At(1, 128));
        EXPECT_GE(elements, 1) << name << " " << tensor.name;
        EXPECT_EQ(elements, std::floor(elements)) << name << " " << tensor.name;
      }
      for (const Op& op : layer->ops) {
        for (const Parameter& parameter : op.parameters) {
          EXPECT_EQ(Value(parameter.elements_per_rank, At(1, 128)),
                    static_cast<double>(parameter.elements))
              << name << " " << op.name << "." << parameter.name;
        }
      }
    }
  }
}

TEST(GraphTest, SplittingOverRanksDividesTheArithmetic) {
  for (const char* name : {"gpt2-xl", "llama-2-70b", "mixtral-8x7b-v0.1", "gemma-2-27b"}) {
    for (const Layer& layer : GraphOf(name).kinds) {
      double whole = 0, split = 0;
      for (const Op& op : layer.ops) {
        if (op.kind == OpKind::kRoute) continue;  // every rank routes
        whole += Value(op.forward_flops, At(1, 1024));
        split += Value(op.forward_flops, At(1, 1024, 4));
      }
      EXPECT_DOUBLE_EQ(split * 4, whole) << name;
    }
  }
}

TEST(GraphTest, DropoutOnlyWhereItsRateIsAboveZero) {
  EXPECT_THAT(Kinds(GraphOf("mist-gpt2-1.3b").kinds[0]),
              ElementsAre(OpKind::kNorm,
                          OpKind::kLinear,
                          OpKind::kAttention,
                          OpKind::kLinear,
                          OpKind::kAdd,
                          OpKind::kNorm,
                          OpKind::kLinear,
                          OpKind::kActivation,
                          OpKind::kLinear,
                          OpKind::kAdd));
  EXPECT_THAT(Kinds(GraphOf("gpt2").kinds[0]),
              ElementsAre(OpKind::kNorm,
                          OpKind::kLinear,
                          OpKind::kAttention,
                          OpKind::kLinear,
                          OpKind::kDropout,
                          OpKind::kAdd,
                          OpKind::kNorm,
                          OpKind::kLinear,
                          OpKind::kActivation,
                          OpKind::kLinear,
                          OpKind::kDropout,
                          OpKind::kAdd));
  EXPECT_EQ(Find(GraphOf("gpt2").kinds[0], "attention").dropout, 0.1);
}

TEST(GraphTest, PreNormLlama) {
  const Graph graph = GraphOf("llama-2-7b");
  EXPECT_THAT(Kinds(graph.kinds[0]),
              ElementsAre(OpKind::kNorm,
                          OpKind::kLinear,
                          OpKind::kRotary,
                          OpKind::kAttention,
                          OpKind::kLinear,
                          OpKind::kAdd,
                          OpKind::kNorm,
                          OpKind::kLinear,
                          OpKind::kGatedActivation,
                          OpKind::kLinear,
                          OpKind::kAdd));
  EXPECT_FALSE(graph.kinds[0].output_is_norm);
}

TEST(GraphTest, PostNormBertEndsWithANorm) {
  const Graph graph = GraphOf("bert-base-uncased");
  const Layer& layer = graph.kinds[0];
  EXPECT_EQ(layer.ops.back().kind, OpKind::kNorm);
  EXPECT_TRUE(layer.output_is_norm);
  EXPECT_EQ(layer.output, layer.ops.back().outputs[0]);
  EXPECT_EQ(layer.ops.front().inputs[0], layer.input) << "no norm before the attention";
  EXPECT_THAT(
      Kinds(graph.head),
      ElementsAre(
          OpKind::kLinear, OpKind::kActivation, OpKind::kNorm, OpKind::kLinear, OpKind::kLoss));
}

TEST(GraphTest, EncoderWithoutHeadEndsWithItsPooler) {
  const Graph graph = GraphOf("all-minilm-l6-v2");
  EXPECT_THAT(Kinds(graph.head), ElementsAre(OpKind::kLinear, OpKind::kActivation));
  EXPECT_FALSE(graph.tied_head);
}

TEST(GraphTest, ParallelBranches) {
  const Layer shared = GraphOf("gpt-j-6b").kinds[0];
  EXPECT_EQ(Find(shared, "qkv").inputs, Find(shared, "mlp_in").inputs);
  const Layer separate = GraphOf("gpt-neox-20b").kinds[0];
  EXPECT_NE(Find(separate, "qkv").inputs, Find(separate, "mlp_in").inputs);
  EXPECT_EQ(Find(separate, "norm1").inputs, Find(separate, "norm2").inputs);
  for (const Layer* layer : {&shared, &separate}) {
    EXPECT_EQ(Find(*layer, "residual").inputs[0], layer->input);
  }
}

TEST(GraphTest, SandwichAndPostOnlyNorms) {
  const Layer gemma = GraphOf("gemma-2-2b").kinds[0];
  EXPECT_EQ(Find(gemma, "residual1").inputs[1], Find(gemma, "post_norm1").outputs[0]);
  EXPECT_EQ(Find(gemma, "mlp_in").inputs, Find(gemma, "norm2").outputs);
  const Layer olmo = GraphOf("olmo-2-7b").kinds[0];
  EXPECT_EQ(Find(olmo, "qkv").inputs[0], olmo.input);
  EXPECT_EQ(Find(olmo, "residual2").inputs[1], Find(olmo, "post_norm2").outputs[0]);
  EXPECT_FALSE(olmo.output_is_norm);
}

TEST(GraphTest, NormsOfQueriesAndKeys) {
  const Op per_head = Find(GraphOf("qwen3-0.6b").kinds[0], "qk_norm");
  EXPECT_EQ(Value(per_head.rows, At(1, 10, 2)), 10 * (16 / 2 + 8 / 2));
  EXPECT_EQ(per_head.parameters[0].elements, 128);
  const Op whole = Find(GraphOf("olmo-2-7b").kinds[0], "qk_norm");
  EXPECT_EQ(Value(whole.rows, At(1, 10, 2)), 20);
  EXPECT_EQ(Value(whole.parameters[0].elements_per_rank, At(1, 10, 2)), 2048);
}

TEST(GraphTest, EqualLayersAreStoredOnce) {
  EXPECT_EQ(GraphOf("gpt3-175b").kinds.size(), 1u);
  const Graph gemma = GraphOf("gemma-3-1b");
  EXPECT_EQ(gemma.kinds.size(), 2u);
  EXPECT_THAT(std::vector<int>(gemma.layers.begin(), gemma.layers.begin() + 7),
              ElementsAre(0, 0, 0, 0, 0, 1, 0));
  EXPECT_THAT(gemma.kinds[0].name, HasSubstr("window 512"));
  const Graph deepseek = GraphOf("deepseek-v3");
  EXPECT_EQ(deepseek.kinds.size(), 2u);
  EXPECT_EQ(std::count(deepseek.layers.begin(), deepseek.layers.end(), 0), 3);
}

TEST(GraphTest, ExpertsGetTheRoutedTokens) {
  const Layer layer = GraphOf("mixtral-8x7b-v0.1").kinds[0];
  const Point point = At(1, 4096, 2, 2, 1, 4, 1.5);
  EXPECT_EQ(OutputElements(layer, "router", point), 4096 * 8);
  EXPECT_EQ(OutputElements(layer, "dispatch", point), 4096 * 2 * 1.5 * 4096);
  EXPECT_EQ(OutputElements(layer, "experts_in", point), 4096 * 2 * 1.5 * 2 * 14336 / 2);
  EXPECT_EQ(OutputElements(layer, "combine", point), 4096 / 2 * 4096);
  const Op& in = Find(layer, "experts_in");
  EXPECT_EQ(in.parallelism, Parallelism::kExpert);
  EXPECT_EQ(Value(in.parameters[0].elements_per_rank, point), 8.0 * 4096 * 14336 / (4 * 2));
  EXPECT_EQ(in.parameters[0].active_fraction, 0.25);
  // gpt-oss: the output's bias is added after the sum over tensor-parallel ranks.
  const Op out = Find(GraphOf("gpt-oss-20b").kinds[0], "experts_out");
  EXPECT_EQ(out.parameters[1].name, "down.bias");
  EXPECT_EQ(Value(out.parameters[1].elements_per_rank, point), 32 * 2880 / 4);
}

TEST(GraphTest, SharedExpertIsAddedToTheRoutedOnes) {
  const Graph graph = GraphOf("deepseek-v2-lite");
  const Layer& layer = graph.kinds[1];
  EXPECT_EQ(Find(layer, "add_shared").inputs[0], Find(layer, "combine").outputs[0]);
  EXPECT_EQ(OutputElements(layer, "shared_in", At(1, 1, 2)), 2 * 2 * 1408 / 2);
  EXPECT_EQ(Find(layer, "shared_in").inputs, Find(layer, "router").inputs);
}

TEST(GraphTest, LatentAttention) {
  const Layer layer = GraphOf("deepseek-v3").kinds[0];
  const Point point = At(1, 100, 4);
  EXPECT_EQ(Find(layer, "query_down").parallelism, Parallelism::kNone);
  EXPECT_EQ(Find(layer, "kv").parallelism, Parallelism::kColumn);
  const Op& down = Find(layer, "kv_down");
  ASSERT_EQ(down.outputs.size(), 2u);
  EXPECT_EQ(Elements(layer, down.outputs[0], point), 100 * 512);
  EXPECT_EQ(Elements(layer, down.outputs[1], point), 100 * 64);
  EXPECT_EQ(OutputElements(layer, "qkv", point), 100 * 128 / 4 * (192 + 192 + 128));
  EXPECT_EQ(OutputElements(layer, "attention", point), 100 * 128 / 4 * 128);
  EXPECT_FALSE(HasOp(GraphOf("deepseek-v2-lite").kinds[0], "query_down"));
}

TEST(GraphTest, EncoderComesBeforeDecoder) {
  const Graph graph = GraphOf("t5-small");
  EXPECT_THAT(graph.layers, ElementsAre(0, 1, 1, 1, 1, 2, 3, 4, 4, 4, 4, 4));
  const Layer& last_encoder = graph.kinds[2];
  EXPECT_EQ(last_encoder.ops.back().name, "encoder_dropout");
  EXPECT_EQ(last_encoder.memory, kNoTensor);
  const Layer& first_decoder = graph.kinds[3];
  EXPECT_EQ(first_decoder.input, first_decoder.memory);
  EXPECT_TRUE(Find(first_decoder, "token_embedding").parameters[0].tied);
  EXPECT_EQ(Find(first_decoder, "attention").parameters[0].elements, 32 * 8);
  const Layer& decoder = graph.kinds[4];
  EXPECT_NE(decoder.memory, decoder.input);
  EXPECT_EQ(Find(decoder, "cross_key_value").inputs[0], decoder.memory);
  EXPECT_EQ(Find(decoder, "cross_attention").inputs,
            (std::vector<TensorId>{Find(decoder, "cross_query").outputs[0],
                                   Find(decoder, "cross_key_value").outputs[0]}));
  EXPECT_TRUE(Find(decoder, "attention").parameters.empty());
}

TEST(GraphTest, NarrowEmbeddingIsProjected) {
  const Graph graph = GraphOf("opt-350m");
  EXPECT_EQ(OutputElements(graph.embedding, "token_embedding", At(1, 1)), 512);
  EXPECT_EQ(OutputElements(graph.embedding, "project_in", At(1, 1)), 1024);
  EXPECT_EQ(OutputElements(graph.head, "project_out", At(1, 1)), 512);
  EXPECT_FALSE(HasOp(graph.head, "final_norm"));
}

TEST(GraphTest, TiedHeadIsCountedOnce) {
  const Graph graph = GraphOf("gpt2");
  EXPECT_TRUE(graph.tied_head);
  EXPECT_TRUE(Find(graph.head, "logits").parameters[0].tied);
  const Graph untied = GraphOf("mist-gpt2-1.3b");
  EXPECT_FALSE(untied.tied_head);
  EXPECT_FALSE(Find(untied.head, "logits").parameters[0].tied);
}

TEST(GraphTest, PositionsAreTheSameForEverySequence) {
  const Graph graph = GraphOf("gpt2");
  EXPECT_EQ(OutputElements(graph.embedding, "position_embedding", At(8, 1024)), 1024 * 768);
}

TEST(GraphTest, SoftcapsAndSinks) {
  EXPECT_TRUE(HasOp(GraphOf("gemma-2-2b").head, "softcap"));
  EXPECT_FALSE(HasOp(GraphOf("gemma-3-1b").head, "softcap"));
  EXPECT_EQ(Find(GraphOf("gpt-oss-20b").kinds[0], "attention").parameters[0].elements, 64);
}

double MultiplyAdds(const Graph& graph) {
  double flops = 0;
  for (const int kind : graph.layers) {
    flops += ForwardFlops(graph.kinds[static_cast<std::size_t>(kind)], At(1, 1));
  }
  return flops / 2;
}

// 1.81 and 4.09 G for the ResNets (as torchvision states them), 41 G for AVN.
TEST(GraphTest, ConvolutionalArithmetic) {
  EXPECT_EQ(MultiplyAdds(GraphOf("resnet-18")), 1'814'073'344);
  EXPECT_EQ(MultiplyAdds(GraphOf("resnet-50")), 4'089'184'256);
  EXPECT_NEAR(MultiplyAdds(GraphOf("avn")), 41e9, 0.5e9);
}

TEST(GraphTest, ConvolutionalShapes) {
  const Graph avn = GraphOf("avn");
  EXPECT_FALSE(avn.has_sequence);
  EXPECT_TRUE(avn.embedding.ops.empty());
  EXPECT_TRUE(avn.head.ops.empty());
  const Layer& stem = avn.kinds.front();
  EXPECT_EQ(Elements(stem, stem.input, At(2, 1)), 2 * 3 * 288 * 384);
  EXPECT_FALSE(stem.tensors[0].differentiable) << "the image takes no gradient";
  const Layer& head = avn.kinds.back();
  EXPECT_EQ(OutputElements(head, "conv_out", At(2, 1)), 2 * 360 * 72 * 96);
  EXPECT_EQ(head.ops.back().kind, OpKind::kLoss);
  const Layer& first = avn.kinds[1];
  EXPECT_TRUE(HasOp(first, "se.scale"));
  EXPECT_FALSE(HasOp(avn.kinds[2], "se.scale")) << "only in the first block of a stage";
  EXPECT_EQ(Find(first, "se.scale").inputs[0], Find(first, "bn3").outputs[0]);
  EXPECT_EQ(Find(first, "downsample.conv").inputs[0], first.input);
  EXPECT_EQ(Find(avn.kinds[2], "add").inputs[1], avn.kinds[2].input);
  EXPECT_EQ(avn.layers.size(), 1 + 16 + 2 + 1u);
}

// The checker finds what is wrong.

class CheckGraphTest : public ::testing::Test {
 protected:
  void ExpectFailure(const std::string& text) {
    const auto checked = CheckGraph(graph_);
    ASSERT_FALSE(checked.ok());
    EXPECT_THAT(std::string(checked.error().what()), HasSubstr(text));
  }

  Graph graph_ = GraphOf("gpt2");
  Layer& layer_ = graph_.kinds[0];
};

TEST_F(CheckGraphTest, ReadBeforeMade) {
  std::swap(layer_.ops[0], layer_.ops[1]);
  ExpectFailure("qkv reads norm1 before it is made");
}

TEST_F(CheckGraphTest, MadeTwice) {
  layer_.ops[1].outputs = layer_.ops[0].outputs;
  ExpectFailure("a second time");
}

TEST_F(CheckGraphTest, NeverRead) {
  layer_.ops.pop_back();
  layer_.output = layer_.ops[0].outputs[0];
  ExpectFailure("is never read");
}

TEST_F(CheckGraphTest, NoOutput) {
  layer_.output = kNoTensor;
  ExpectFailure("output is not made");
}

TEST_F(CheckGraphTest, NoInput) {
  layer_.input = kNoTensor;
  ExpectFailure("no input");
}

TEST_F(CheckGraphTest, NoSuchTensor) {
  layer_.ops[0].inputs[0] = 1000;
  ExpectFailure("does not exist");
}

TEST_F(CheckGraphTest, NoSuchKind) {
  graph_.layers.push_back(1);
  ExpectFailure("no layer kind 1");
}

}  // namespace
}  // namespace palmist::model
