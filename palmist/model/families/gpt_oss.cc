/// gpt-oss: experts in every layer, attention sinks, windows on every second layer.
#include "palmist/model/families/common.h"
#include "palmist/model/families/families.h"

namespace palmist::model {

ModelBody ReadGptOss(const ConfigReader& config) {
  TransformerSpec spec = ReadLlamaLike(config, {.head_dim = 64, .attention_bias = true});
  MoeSpec moe;
  moe.experts = config.Size({"num_local_experts", "num_experts"});
  moe.top_k = config.Size({"num_experts_per_tok", "experts_per_token"}, 4);
  moe.expert = std::get<MlpSpec>(spec.layers.front().mlp);
  moe.expert.bias = moe.expert.output_bias = true;
  moe.router_bias = true;
  CheckTopK(config, "num_experts_per_tok", moe);
  for (LayerSpec& layer : spec.layers) {
    layer.mlp = moe;
    layer.attention.sinks = true;
    layer.attention.softmax_fp32 = false;
  }
  SetWindows(
      config,
      config.CountUnlessNull("sliding_window", 128),
      [](std::size_t i) { return i % 2 == 0; },
      spec.layers);
  return spec;
}

}  // namespace palmist::model
