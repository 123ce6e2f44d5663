/// BLOOM: linear position biases (ALiBi), which need no parameters and set no limit.
#include "palmist/model/families/common.h"
#include "palmist/model/families/families.h"

namespace palmist::model {

ModelBody ReadBloom(const ConfigReader& config) {
  config.Refuse("apply_residual_connection_post_layernorm", "a residual taken after the norm");
  TransformerSpec spec;
  spec.hidden = config.Size({"hidden_size", "n_embed"});
  spec.embedding.vocab = config.Size({"vocab_size"});
  spec.embedding.width = spec.hidden;
  spec.embedding.norm = LayerNorm();

  LayerSpec layer;
  layer.norm = LayerNorm();
  layer.attention = ReadHeads(config, spec.hidden, {"n_head", "num_attention_heads"});
  SetQkvBias(layer.attention, true);
  layer.attention.output_bias = true;
  layer.attention.softmax_fp32 = true;
  layer.attention.dropout = config.Dropout({"attention_dropout"}, 0.0);
  layer.residual_dropout = config.Dropout({"hidden_dropout"}, 0.0);

  MlpSpec mlp;
  mlp.width = 4 * spec.hidden;
  mlp.bias = mlp.output_bias = true;
  mlp.activation = ActivationKind::kGeluTanh;
  layer.mlp = mlp;

  const std::int64_t layers = ReadLayerCount(config, {"n_layer", "num_hidden_layers"});
  spec.layers.assign(static_cast<std::size_t>(layers), layer);
  spec.head.final_norm = LayerNorm();
  spec.head.tied = config.Flag({"tie_word_embeddings"}, true);
  return spec;
}

}  // namespace palmist::model
