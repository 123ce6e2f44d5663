#include "palmist/model/families/common.h"

#include <fmt/format.h>

#include "palmist/base/text.h"

namespace palmist::model {
namespace {

std::int64_t CheckedLayerCount(const ConfigReader& config, Names names, std::int64_t layers) {
  if (layers > kMaxLayers) {
    config.Fail(*names.begin(),
                fmt::format("expected at most {} layers, got {}", kMaxLayers, layers));
  }
  return layers;
}

}  // namespace

NormSpec LayerNorm(bool bias) { return {NormKind::kLayerNorm, true, bias}; }

NormSpec RmsNorm() { return {NormKind::kRmsNorm, true, false}; }

std::int64_t ReadLayerCount(const ConfigReader& config, Names names) {
  return CheckedLayerCount(config, names, config.Size(names));
}

std::int64_t ReadLayerCount(const ConfigReader& config, Names names, std::int64_t fallback) {
  return CheckedLayerCount(config, names, config.Size(names, fallback));
}

AttentionSpec ReadHeads(const ConfigReader& config,
                        std::int64_t hidden,
                        Names heads,
                        Names kv_heads,
                        std::int64_t fallback_head_dim) {
  AttentionSpec attention;
  attention.heads = config.Size(heads);
  attention.kv_heads =
      kv_heads.size() == 0 ? attention.heads : config.Size(kv_heads, attention.heads);
  if (attention.heads % attention.kv_heads != 0) {
    config.Fail(*kv_heads.begin(),
                fmt::format("expected a divisor of the {} attention heads, got {}",
                            attention.heads,
                            attention.kv_heads));
  }
  attention.head_dim = config.Count({"head_dim"}, fallback_head_dim);
  if (attention.head_dim == 0) {
    if (hidden % attention.heads != 0) {
      config.Fail(
          *heads.begin(),
          fmt::format("expected a divisor of the hidden size {}, got {}", hidden, attention.heads),
          "give \"head_dim\" where a head is not hidden / heads wide");
    }
    attention.head_dim = hidden / attention.heads;
  }
  attention.value_dim = attention.head_dim;
  return attention;
}

void SetQkvBias(AttentionSpec& attention, bool bias) {
  attention.query_bias = attention.key_bias = attention.value_bias = bias;
}

TransformerSpec ReadLlamaLike(const ConfigReader& config, const LlamaLikeDefaults& defaults) {
  TransformerSpec spec;
  spec.hidden = config.Size({"hidden_size"});
  spec.embedding.vocab = config.Size({"vocab_size"});
  spec.embedding.width = spec.hidden;

  LayerSpec layer;
  layer.norm = RmsNorm();
  layer.attention = ReadHeads(
      config, spec.hidden, {"num_attention_heads"}, {"num_key_value_heads"}, defaults.head_dim);
  layer.attention.rotary = true;
  layer.attention.softmax_fp32 = true;
  layer.attention.dropout = config.Dropout({"attention_dropout"}, 0.0);
  const bool bias = config.Flag({"attention_bias"}, defaults.attention_bias);
  SetQkvBias(layer.attention, bias);
  layer.attention.output_bias = bias;

  MlpSpec mlp;
  mlp.width = config.Size({"intermediate_size"});
  mlp.gated = true;
  mlp.activation = config.Activation({"hidden_act"}, ActivationKind::kSilu);
  layer.mlp = mlp;

  spec.layers.assign(static_cast<std::size_t>(ReadLayerCount(config, {"num_hidden_layers"})),
                     layer);
  spec.head.final_norm = RmsNorm();
  spec.head.tied = config.Flag({"tie_word_embeddings"}, defaults.tied);
  return spec;
}

std::optional<std::vector<bool>> ReadLayerTypes(const ConfigReader& config, std::size_t layers) {
  if (!config.Has({"layer_types"})) return std::nullopt;
  const std::vector<std::string> types = config.Texts("layer_types");
  if (types.size() != layers) {
    config.Fail(
        "layer_types",
        fmt::format("expected one entry for each of the {} layers, got {}", layers, types.size()));
  }
  std::vector<bool> sliding;
  for (const std::string& type : types) {
    if (type != "sliding_attention" && type != "full_attention") {
      config.Fail(fmt::format("layer_types[{}]", sliding.size()),
                  "expected \"sliding_attention\" or \"full_attention\", got " + Quote(type));
    }
    sliding.push_back(type == "sliding_attention");
  }
  return sliding;
}

void CheckTopK(const ConfigReader& config, const char* name, const MoeSpec& moe) {
  if (moe.top_k > moe.experts) {
    config.Fail(name,
                fmt::format("expected at most the {} experts, got {}", moe.experts, moe.top_k));
  }
}

}  // namespace palmist::model
