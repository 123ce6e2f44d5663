/// Falcon in both architectures, also under its first names RefinedWeb (40B) and RefinedWebModel.
#include "palmist/model/families/common.h"
#include "palmist/model/families/families.h"

namespace palmist::model {
namespace {

/// @param new_architecture grouped KV heads, and two norms in front of parallel branches.
TransformerSpec Read(const ConfigReader& config, bool new_architecture) {
  TransformerSpec spec;
  spec.hidden = config.Size({"hidden_size", "n_embed"});
  spec.embedding.vocab = config.Size({"vocab_size"});
  spec.embedding.width = spec.hidden;

  const bool bias = config.Flag({"bias"}, false);
  const bool alibi = config.Flag({"alibi"}, false);
  LayerSpec layer;
  layer.norm = LayerNorm();
  if (config.Flag({"parallel_attn"}, true)) {
    const std::int64_t norms = config.Size({"num_ln_in_parallel_attn"}, new_architecture ? 2 : 1);
    layer.placement =
        norms == 2 ? NormPlacement::kParallelSeparate : NormPlacement::kParallelShared;
  }
  if (new_architecture) {
    layer.attention = ReadHeads(
        config, spec.hidden, {"num_attention_heads", "n_head"}, {"num_kv_heads", "n_head_kv"});
  } else {
    layer.attention = ReadHeads(config, spec.hidden, {"num_attention_heads", "n_head"});
    if (config.Flag({"multi_query"}, true)) layer.attention.kv_heads = 1;
  }
  SetQkvBias(layer.attention, bias);
  layer.attention.output_bias = bias;
  layer.attention.rotary = !alibi;
  layer.attention.softmax_fp32 = alibi;
  layer.attention.dropout = config.Dropout({"attention_dropout"}, 0.0);
  layer.residual_dropout = config.Dropout({"hidden_dropout"}, 0.0);

  MlpSpec mlp;
  mlp.width = config.Size({"ffn_hidden_size"}, 4 * spec.hidden);
  mlp.bias = mlp.output_bias = bias;
  mlp.activation = config.Activation({"activation"}, ActivationKind::kGelu);
  layer.mlp = mlp;

  const std::int64_t layers = ReadLayerCount(config, {"num_hidden_layers", "n_layer"});
  spec.layers.assign(static_cast<std::size_t>(layers), layer);
  spec.head.final_norm = LayerNorm();
  spec.head.tied = config.Flag({"tie_word_embeddings"}, true);
  return spec;
}

}  // namespace

ModelBody ReadFalcon(const ConfigReader& config) {
  return Read(config, config.Flag({"new_decoder_architecture"}, false));
}

ModelBody ReadRefinedWeb(const ConfigReader& config) {
  return Read(config, config.Has({"n_head_kv"}));
}

}  // namespace palmist::model
