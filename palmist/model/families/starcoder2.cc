/// StarCoder2.
#include "palmist/model/families/common.h"
#include "palmist/model/families/families.h"

namespace palmist::model {

ModelBody ReadStarcoder2(const ConfigReader& config) {
  TransformerSpec spec = ReadLlamaLike(config, {.tied = true});
  spec.embedding.dropout = config.Dropout({"embedding_dropout"}, 0.0);
  const bool bias = config.Flag({"use_bias"}, true);
  for (LayerSpec& layer : spec.layers) {
    layer.norm = LayerNorm();
    SetQkvBias(layer.attention, bias);
    layer.attention.output_bias = bias;
    layer.attention.window = config.Count({"sliding_window"}, 0);
    layer.residual_dropout = config.Dropout({"residual_dropout"}, 0.0);
    MlpSpec& mlp = std::get<MlpSpec>(layer.mlp);
    mlp.gated = false;
    mlp.bias = mlp.output_bias = bias;
    mlp.activation = config.Activation({"hidden_act"}, ActivationKind::kGeluTanh);
  }
  spec.head.final_norm = LayerNorm();
  return spec;
}

}  // namespace palmist::model
