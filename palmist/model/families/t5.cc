/// T5 and its 1.1 variants (gated MLP, head of its own).
#include "palmist/base/text.h"
#include "palmist/model/families/common.h"
#include "palmist/model/families/families.h"

namespace palmist::model {
namespace {

/// Reads "relu", "gated-gelu" and their like. The gated GELU is the tanh form (transformers).
void ReadFeedForward(const ConfigReader& config, MlpSpec& mlp) {
  const std::string text = config.Text({"feed_forward_proj"}, "relu");
  constexpr std::string_view kGated = "gated-";
  mlp.gated = text.starts_with(kGated);
  const auto kind = ParseActivation(mlp.gated ? text.substr(kGated.size()) : text);
  if (!kind) {
    config.Fail("feed_forward_proj",
                "expected an activation function, got " + Quote(text),
                "such as \"relu\" or \"gated-gelu\"");
  }
  mlp.activation = text == "gated-gelu" ? ActivationKind::kGeluTanh : *kind;
}

/// The first layer of each stack holds the table of relative positions for all.
std::vector<LayerSpec> Stack(LayerSpec layer, std::int64_t count, std::int64_t buckets) {
  std::vector<LayerSpec> stack(static_cast<std::size_t>(count), layer);
  stack.front().attention.relative_buckets = buckets;
  return stack;
}

}  // namespace

ModelBody ReadT5(const ConfigReader& config) {
  const double dropout = config.Dropout({"dropout_rate"}, 0.1);
  TransformerSpec spec;
  spec.hidden = config.Size({"d_model", "hidden_size"});
  spec.embedding.vocab = config.Size({"vocab_size"});
  spec.embedding.width = spec.hidden;
  spec.embedding.dropout = dropout;

  LayerSpec layer;
  layer.norm = RmsNorm();
  layer.residual_dropout = dropout;
  layer.attention.heads = layer.attention.kv_heads =
      config.Size({"num_heads", "num_attention_heads"});
  layer.attention.head_dim = layer.attention.value_dim = config.Size({"d_kv", "head_dim"});
  layer.attention.causal = false;
  layer.attention.dropout = dropout;
  MlpSpec mlp;
  mlp.width = config.Size({"d_ff"});
  mlp.dropout = dropout;
  ReadFeedForward(config, mlp);
  layer.mlp = mlp;

  const std::int64_t buckets = config.Size({"relative_attention_num_buckets"}, 32);
  const std::int64_t layers = ReadLayerCount(config, {"num_layers", "num_hidden_layers"});
  spec.encoder = Stack(layer, layers, buckets);
  spec.encoder_norm = RmsNorm();
  spec.stack_dropout = dropout;

  layer.cross_attention = layer.attention;
  layer.cross_attention->cross = true;
  layer.attention.causal = true;
  spec.layers = Stack(layer, ReadLayerCount(config, {"num_decoder_layers"}, layers), buckets);
  spec.head.final_norm = RmsNorm();
  spec.head.tied = config.Flag({"tie_word_embeddings"}, true);
  return spec;
}

}  // namespace palmist::model
