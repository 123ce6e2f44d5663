/// Gemma, Gemma 2 and the text part of Gemma 3.
#include "palmist/model/families/common.h"
#include "palmist/model/families/families.h"

namespace palmist::model {
namespace {

constexpr std::int64_t kHeadDim = 256;

/// Reads what the three share. Files that say "gelu" mean its tanh form, as transformers does.
TransformerSpec ReadGemmaLike(const ConfigReader& config) {
  TransformerSpec spec = ReadLlamaLike(config, {.tied = true, .head_dim = kHeadDim});
  ActivationKind activation =
      config.Activation({"hidden_activation", "hidden_act"}, ActivationKind::kGeluTanh);
  if (activation == ActivationKind::kGelu) activation = ActivationKind::kGeluTanh;
  for (LayerSpec& layer : spec.layers) std::get<MlpSpec>(layer.mlp).activation = activation;
  return spec;
}

}  // namespace

ModelBody ReadGemma(const ConfigReader& config) { return ReadGemmaLike(config); }

ModelBody ReadGemma2(const ConfigReader& config) {
  TransformerSpec spec = ReadGemmaLike(config);
  spec.head.softcap = !config.IsNull("final_logit_softcapping");
  for (LayerSpec& layer : spec.layers) {
    layer.placement = NormPlacement::kSandwich;
    layer.attention.softcap = !config.IsNull("attn_logit_softcapping");
  }
  SetWindows(
      config,
      config.CountUnlessNull("sliding_window", 4096),
      [](std::size_t i) { return i % 2 == 0; },
      spec.layers);
  return spec;
}

ModelBody ReadGemma3Text(const ConfigReader& file) {
  // A multimodal file leaves out of its text_config what transformers has as a default.
  static const nlohmann::json kDefaults = {
      {"vocab_size", 262208},
      {"hidden_size", 2304},
      {"intermediate_size", 9216},
      {"num_hidden_layers", 26},
      {"num_attention_heads", 8},
      {"num_key_value_heads", 4},
  };
  const ConfigReader config = file.WithDefaults(kDefaults);
  TransformerSpec spec = ReadGemmaLike(config);
  spec.head.softcap = config.IsNumber("final_logit_softcapping");
  for (LayerSpec& layer : spec.layers) {
    layer.placement = NormPlacement::kSandwich;
    layer.attention.qk_norm = QkNormKind::kPerHead;
    layer.attention.qk_norm_spec = RmsNorm();
    layer.attention.softcap = config.IsNumber("attn_logit_softcapping");
  }
  const auto pattern = static_cast<std::size_t>(config.Size({"sliding_window_pattern"}, 6));
  SetWindows(
      config,
      config.CountUnlessNull("sliding_window", 4096),
      [pattern](std::size_t i) { return (i + 1) % pattern != 0; },
      spec.layers);
  return spec;
}

ModelBody ReadGemma3(const ConfigReader& config) {
  const auto text = config.Child("text_config");
  if (!text) {
    config.Fail("text_config",
                "expected an object, but the field is missing",
                "for a model without a vision tower use model_type \"gemma3_text\"");
  }
  return ReadGemma3Text(*text);
}

}  // namespace palmist::model
