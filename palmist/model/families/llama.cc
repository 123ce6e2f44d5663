/// LLaMA (1 to 3.2, and what is stored as such: SmolLM2, TinyLlama, Code Llama), Mistral, Mixtral,
/// Phi-3 and OLMo-2.
#include "palmist/model/families/common.h"
#include "palmist/model/families/families.h"

namespace palmist::model {
namespace {

void SetWindow(std::int64_t window, std::vector<LayerSpec>& layers) {
  for (LayerSpec& layer : layers) layer.attention.window = window;
}

}  // namespace

ModelBody ReadLlama(const ConfigReader& config) {
  TransformerSpec spec = ReadLlamaLike(config);
  const bool bias = config.Flag({"mlp_bias"}, false);
  for (LayerSpec& layer : spec.layers) {
    MlpSpec& mlp = std::get<MlpSpec>(layer.mlp);
    mlp.bias = mlp.output_bias = bias;
  }
  return spec;
}

ModelBody ReadMistral(const ConfigReader& config) {
  TransformerSpec spec = ReadLlamaLike(config);
  SetWindow(config.CountUnlessNull("sliding_window", 4096), spec.layers);
  return spec;
}

ModelBody ReadMixtral(const ConfigReader& config) {
  TransformerSpec spec = ReadLlamaLike(config);
  MoeSpec moe;
  moe.experts = config.Size({"num_local_experts", "num_experts"}, 8);
  moe.top_k = config.Size({"num_experts_per_tok"}, 2);
  moe.expert = std::get<MlpSpec>(spec.layers.front().mlp);
  CheckTopK(config, "num_experts_per_tok", moe);
  for (LayerSpec& layer : spec.layers) layer.mlp = moe;
  SetWindow(config.Count({"sliding_window"}, 0), spec.layers);
  return spec;
}

ModelBody ReadPhi3(const ConfigReader& config) {
  TransformerSpec spec = ReadLlamaLike(config);
  spec.embedding.dropout = config.Dropout({"embd_pdrop"}, 0.0);
  const double dropout = config.Dropout({"resid_pdrop"}, 0.0);
  for (LayerSpec& layer : spec.layers) layer.residual_dropout = dropout;
  SetWindow(config.Count({"sliding_window"}, 0), spec.layers);
  return spec;
}

ModelBody ReadOlmo2(const ConfigReader& config) {
  TransformerSpec spec = ReadLlamaLike(config);
  for (LayerSpec& layer : spec.layers) {
    layer.placement = NormPlacement::kPostOnly;
    layer.attention.qk_norm = QkNormKind::kFullWidth;
    layer.attention.qk_norm_spec = RmsNorm();
  }
  return spec;
}

}  // namespace palmist::model
