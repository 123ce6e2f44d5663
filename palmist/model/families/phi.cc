/// Phi-1, Phi-1.5 and Phi-2.
#include "palmist/model/families/common.h"
#include "palmist/model/families/families.h"

namespace palmist::model {

ModelBody ReadPhi(const ConfigReader& config) {
  TransformerSpec spec = ReadLlamaLike(config);
  spec.embedding.dropout = config.Dropout({"embd_pdrop"}, 0.0);
  const bool qk_norm = config.Flag({"qk_layernorm"}, false);
  for (LayerSpec& layer : spec.layers) {
    layer.placement = NormPlacement::kParallelShared;
    layer.norm = LayerNorm();
    SetQkvBias(layer.attention, true);
    layer.attention.output_bias = true;
    if (qk_norm) {
      layer.attention.qk_norm = QkNormKind::kPerHead;
      layer.attention.qk_norm_spec = LayerNorm();
    }
    layer.residual_dropout = config.Dropout({"resid_pdrop"}, 0.0);
    MlpSpec& mlp = std::get<MlpSpec>(layer.mlp);
    mlp.gated = false;
    mlp.bias = mlp.output_bias = true;
    mlp.activation = config.Activation({"hidden_act"}, ActivationKind::kGeluTanh);
  }
  spec.head.final_norm = LayerNorm();
  spec.head.bias = true;
  return spec;
}

}  // namespace palmist::model
