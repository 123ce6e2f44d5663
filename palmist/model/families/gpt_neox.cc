/// GPT-NeoX and Pythia.
#include "palmist/model/families/common.h"
#include "palmist/model/families/families.h"

namespace palmist::model {

ModelBody ReadGptNeox(const ConfigReader& config) {
  TransformerSpec spec;
  spec.hidden = config.Size({"hidden_size"});
  spec.embedding.vocab = config.Size({"vocab_size"});
  spec.embedding.width = spec.hidden;
  spec.embedding.dropout = config.Dropout({"hidden_dropout"}, 0.0);

  LayerSpec layer;
  layer.placement = config.Flag({"use_parallel_residual"}, true) ? NormPlacement::kParallelSeparate
                                                                 : NormPlacement::kPre;
  layer.norm = LayerNorm();
  layer.attention = ReadHeads(config, spec.hidden, {"num_attention_heads"});
  const bool bias = config.Flag({"attention_bias"}, true);
  SetQkvBias(layer.attention, bias);
  layer.attention.output_bias = bias;
  layer.attention.rotary = true;
  layer.attention.softmax_fp32 = true;
  layer.attention.dropout = config.Dropout({"attention_dropout"}, 0.0);
  layer.residual_dropout = spec.embedding.dropout;

  MlpSpec mlp;
  mlp.width = config.Size({"intermediate_size"});
  mlp.bias = mlp.output_bias = true;
  mlp.activation = config.Activation({"hidden_act"}, ActivationKind::kGelu);
  layer.mlp = mlp;

  spec.layers.assign(static_cast<std::size_t>(ReadLayerCount(config, {"num_hidden_layers"})),
                     layer);
  spec.head.final_norm = LayerNorm();
  spec.head.tied = config.Flag({"tie_word_embeddings"}, false);
  return spec;
}

}  // namespace palmist::model
