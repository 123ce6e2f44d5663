/// Qwen2, Qwen2.5, Qwen3 and their mixtures of experts.
#include <vector>

#include "palmist/model/families/common.h"
#include "palmist/model/families/families.h"

namespace palmist::model {
namespace {

/// Sets the window, which Qwen uses only on request and only above `max_window_layers`.
void SetQwenWindows(const ConfigReader& config, std::vector<LayerSpec>& layers) {
  if (!config.Flag({"use_sliding_window"}, false)) return;
  const auto first = static_cast<std::size_t>(config.Count({"max_window_layers"}, 28));
  SetWindows(
      config,
      config.Count({"sliding_window"}, 4096),
      [first](std::size_t i) { return i >= first; },
      layers);
}

/// Sets what Qwen2 fixes: a bias on queries, keys and values, none on the output.
void SetQwen2Bias(const ConfigReader& config, std::vector<LayerSpec>& layers) {
  const bool bias = config.Flag({"qkv_bias"}, true);
  for (LayerSpec& layer : layers) {
    SetQkvBias(layer.attention, bias);
    layer.attention.output_bias = false;
  }
}

void SetQwen3Norms(std::vector<LayerSpec>& layers) {
  for (LayerSpec& layer : layers) {
    layer.attention.qk_norm = QkNormKind::kPerHead;
    layer.attention.qk_norm_spec = RmsNorm();
  }
}

/// Turns every `decoder_sparse_step`-th layer that `mlp_only_layers` does not name into a mixture.
void SetExperts(const ConfigReader& config, const MoeSpec& moe, std::vector<LayerSpec>& layers) {
  CheckTopK(config, "num_experts_per_tok", moe);
  const std::int64_t step = config.Size({"decoder_sparse_step"}, 1);
  std::vector<bool> is_dense(layers.size(), false);
  for (const std::int64_t layer : config.Sizes("mlp_only_layers", 0)) {
    const auto i = static_cast<std::size_t>(layer);
    if (i < is_dense.size()) is_dense[i] = true;
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!is_dense[i] && (static_cast<std::int64_t>(i) + 1) % step == 0) layers[i].mlp = moe;
  }
}

MoeSpec ReadExperts(const ConfigReader& config, const TransformerSpec& spec) {
  MoeSpec moe;
  moe.experts = config.Size({"num_experts", "num_local_experts"});
  moe.top_k = config.Size({"num_experts_per_tok"});
  moe.expert = std::get<MlpSpec>(spec.layers.front().mlp);
  moe.expert.width = config.Size({"moe_intermediate_size"});
  return moe;
}

}  // namespace

ModelBody ReadQwen2(const ConfigReader& config) {
  TransformerSpec spec = ReadLlamaLike(config);
  SetQwen2Bias(config, spec.layers);
  SetQwenWindows(config, spec.layers);
  return spec;
}

ModelBody ReadQwen2Moe(const ConfigReader& config) {
  TransformerSpec spec = ReadLlamaLike(config);
  SetQwen2Bias(config, spec.layers);
  SetQwenWindows(config, spec.layers);
  MoeSpec moe = ReadExperts(config, spec);
  moe.shared = moe.expert;
  moe.shared->width = config.Size({"shared_expert_intermediate_size"});
  moe.shared_gate = true;
  SetExperts(config, moe, spec.layers);
  return spec;
}

ModelBody ReadQwen3(const ConfigReader& config) {
  TransformerSpec spec = ReadLlamaLike(config, {.head_dim = 128});
  SetQwen3Norms(spec.layers);
  SetQwenWindows(config, spec.layers);
  return spec;
}

ModelBody ReadQwen3Moe(const ConfigReader& config) {
  TransformerSpec spec = ReadLlamaLike(config);
  SetQwen3Norms(spec.layers);
  SetQwenWindows(config, spec.layers);
  SetExperts(config, ReadExperts(config, spec), spec.layers);
  return spec;
}

}  // namespace palmist::model
