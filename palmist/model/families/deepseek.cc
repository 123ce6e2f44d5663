/// DeepSeek-V2 and V3: latent attention, shared and routed experts behind some dense layers.
///
/// The layers for multi-token prediction (`num_nextn_predict_layers`) are not part of the model
/// that Hugging Face builds, nor of this one.
#include "palmist/model/families/common.h"
#include "palmist/model/families/families.h"

namespace palmist::model {
namespace {

AttentionSpec LatentAttention(const ConfigReader& config, const AttentionSpec& base) {
  LatentSpec latent;
  latent.query_rank = config.CountUnlessNull("q_lora_rank", 1536);
  latent.kv_rank = config.Size({"kv_lora_rank"}, 512);
  latent.rope_dim = config.Size({"qk_rope_head_dim"}, 64);
  AttentionSpec attention = base;
  attention.kv_heads = attention.heads;
  attention.head_dim = config.Size({"qk_nope_head_dim"}, 128) + latent.rope_dim;
  attention.value_dim = config.Size({"v_head_dim"}, 128);
  attention.latent = latent;
  return attention;
}

TransformerSpec Read(const ConfigReader& config, std::int64_t default_dense_layers) {
  // Heads are not hidden / heads wide here: any head_dim will do until LatentAttention sets it.
  static const nlohmann::json kDefaults = {{"head_dim", 1}};
  TransformerSpec spec = ReadLlamaLike(config.WithDefaults(kDefaults));
  for (LayerSpec& layer : spec.layers) layer.attention = LatentAttention(config, layer.attention);
  if (config.Count({"n_routed_experts"}, 0) == 0) return spec;

  MoeSpec moe;
  moe.experts = config.Size({"n_routed_experts"});
  moe.top_k = config.Size({"num_experts_per_tok"});
  moe.expert = std::get<MlpSpec>(spec.layers.front().mlp);
  moe.expert.width = config.Size({"moe_intermediate_size"});
  const std::int64_t shared = config.Count({"n_shared_experts"}, 0);
  if (shared > 0) {
    moe.shared = moe.expert;
    moe.shared->width *= shared;
  }
  CheckTopK(config, "num_experts_per_tok", moe);
  const std::int64_t dense = config.Count({"first_k_dense_replace"}, default_dense_layers);
  const std::int64_t period = config.Size({"moe_layer_freq"}, 1);
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    if (index >= dense && index % period == 0) spec.layers[i].mlp = moe;
  }
  return spec;
}

}  // namespace

ModelBody ReadDeepseekV2(const ConfigReader& config) { return Read(config, 0); }

ModelBody ReadDeepseekV3(const ConfigReader& config) { return Read(config, 3); }

}  // namespace palmist::model
