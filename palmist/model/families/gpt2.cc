/// GPT-2 and what shares its field names: GPT-J.
///
/// A key of ours serves GPT-like models of other trainers: `palmist_linear_bias` (default true)
/// says whether linear layers have a bias. All other keys are Hugging Face's.
#include "palmist/model/families/common.h"
#include "palmist/model/families/families.h"

namespace palmist::model {
namespace {

/// Reads what GPT-2 and GPT-J share; `dropout` is the default of the three rates.
TransformerSpec ReadGptLike(const ConfigReader& config, double dropout) {
  TransformerSpec spec;
  spec.hidden = config.Size({"n_embd", "hidden_size"});
  spec.embedding.vocab = config.Size({"vocab_size"});
  spec.embedding.width = spec.hidden;
  spec.embedding.dropout = config.Dropout({"embd_pdrop"}, dropout);

  LayerSpec layer;
  layer.norm = LayerNorm();
  layer.attention = ReadHeads(config, spec.hidden, {"n_head", "num_attention_heads"});
  layer.attention.dropout = config.Dropout({"attn_pdrop"}, dropout);
  layer.residual_dropout = config.Dropout({"resid_pdrop"}, dropout);

  MlpSpec mlp;
  mlp.width = config.Size({"n_inner"}, 4 * spec.hidden);
  mlp.bias = mlp.output_bias = true;
  mlp.activation = config.Activation({"activation_function"}, ActivationKind::kGeluTanh);
  layer.mlp = mlp;

  const std::int64_t layers = ReadLayerCount(config, {"n_layer", "num_hidden_layers"});
  spec.layers.assign(static_cast<std::size_t>(layers), layer);
  spec.head.final_norm = LayerNorm();
  return spec;
}

}  // namespace

ModelBody ReadGpt2(const ConfigReader& config) {
  config.Refuse("add_cross_attention", "cross-attention in GPT-2");
  TransformerSpec spec = ReadGptLike(config, 0.1);
  spec.max_positions = config.Size({"n_positions", "max_position_embeddings", "n_ctx"});
  spec.embedding.positions = spec.max_positions;
  spec.head.tied = config.Flag({"tie_word_embeddings"}, true);
  const bool bias = config.Flag({"palmist_linear_bias"}, true);
  const bool upcast = config.Flag({"reorder_and_upcast_attn"}, false);
  for (LayerSpec& layer : spec.layers) {
    SetQkvBias(layer.attention, bias);
    layer.attention.output_bias = bias;
    layer.attention.softmax_fp32 = upcast;
    MlpSpec& mlp = std::get<MlpSpec>(layer.mlp);
    mlp.bias = mlp.output_bias = bias;
  }
  return spec;
}

ModelBody ReadGptJ(const ConfigReader& config) {
  TransformerSpec spec = ReadGptLike(config, 0.0);
  spec.head.tied = config.Flag({"tie_word_embeddings"}, false);
  spec.head.bias = true;
  for (LayerSpec& layer : spec.layers) {
    layer.placement = NormPlacement::kParallelShared;
    layer.attention.rotary = true;
    layer.attention.softmax_fp32 = true;
  }
  return spec;
}

}  // namespace palmist::model
