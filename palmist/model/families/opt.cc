/// OPT. Its position table has two rows more than there are positions.
#include "palmist/model/families/common.h"
#include "palmist/model/families/families.h"

namespace palmist::model {
namespace {

constexpr std::int64_t kPositionOffset = 2;

}  // namespace

ModelBody ReadOpt(const ConfigReader& config) {
  TransformerSpec spec;
  spec.hidden = config.Size({"hidden_size"});
  spec.max_positions = config.Size({"max_position_embeddings"});
  spec.embedding.vocab = config.Size({"vocab_size"});
  spec.embedding.width = config.Size({"word_embed_proj_dim"}, spec.hidden);
  spec.embedding.project = spec.embedding.width != spec.hidden;
  spec.embedding.positions = spec.max_positions + kPositionOffset;

  const bool pre_norm = config.Flag({"do_layer_norm_before"}, true);
  const bool bias = config.Flag({"enable_bias"}, true);
  LayerSpec layer;
  layer.placement = pre_norm ? NormPlacement::kPre : NormPlacement::kPost;
  layer.norm = LayerNorm();
  layer.norm.scale = layer.norm.bias = config.Flag({"layer_norm_elementwise_affine"}, true);
  layer.attention = ReadHeads(config, spec.hidden, {"num_attention_heads"});
  SetQkvBias(layer.attention, bias);
  layer.attention.output_bias = bias;
  layer.attention.softmax_fp32 = true;
  layer.attention.dropout = config.Dropout({"attention_dropout"}, 0.0);
  layer.residual_dropout = config.Dropout({"dropout"}, 0.1);

  MlpSpec mlp;
  mlp.width = config.Size({"ffn_dim"});
  mlp.bias = mlp.output_bias = bias;
  mlp.activation = config.Activation({"activation_function"}, ActivationKind::kRelu);
  layer.mlp = mlp;

  spec.layers.assign(static_cast<std::size_t>(ReadLayerCount(config, {"num_hidden_layers"})),
                     layer);
  if (pre_norm && !config.Flag({"_remove_final_layer_norm"}, false)) {
    spec.head.final_norm = layer.norm;
  }
  spec.head.project = spec.embedding.project;
  spec.head.tied = config.Flag({"tie_word_embeddings"}, true);
  return spec;
}

}  // namespace palmist::model
