/// What the readers of several families share.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "palmist/model/families/reader.h"
#include "palmist/model/spec.h"

namespace palmist::model {

/// The most layers a configuration may ask for.
inline constexpr std::int64_t kMaxLayers = 10'000;

NormSpec LayerNorm(bool bias = true);
NormSpec RmsNorm();

/// Reads a number of layers, at most `kMaxLayers`.
std::int64_t ReadLayerCount(const ConfigReader& config, Names names);
std::int64_t ReadLayerCount(const ConfigReader& config, Names names, std::int64_t fallback);

/// Reads heads, KV heads (absent: as many as heads) and `head_dim` (absent: `fallback_head_dim`, or
/// hidden / heads where that is 0), and checks that they divide.
/// @param kv_heads names of the number of KV heads; empty where the family has none.
AttentionSpec ReadHeads(const ConfigReader& config,
                        std::int64_t hidden,
                        Names heads,
                        Names kv_heads = {},
                        std::int64_t fallback_head_dim = 0);

/// Sets whether the projections of queries, keys and values have a bias.
void SetQkvBias(AttentionSpec& attention, bool bias);

/// What differs between the decoders with LLaMA's field names.
struct LlamaLikeDefaults {
  bool tied = false;            ///< `tie_word_embeddings`, where absent
  std::int64_t head_dim = 0;    ///< where absent; 0: hidden / heads
  bool attention_bias = false;  ///< of all four projections, where absent
};

/// Reads a pre-norm decoder with RMS norms, rotary positions and a gated MLP, with LLaMA's field
/// names. Families change what differs afterwards.
TransformerSpec ReadLlamaLike(const ConfigReader& config, const LlamaLikeDefaults& defaults = {});

/// Sets a window on the layers that `layer_types` calls "sliding_attention"; where that field is
/// absent, on every layer i with `is_sliding(i)`. A window of 0 sets nothing.
template <typename IsSliding>
void SetWindows(const ConfigReader& config,
                std::int64_t window,
                const IsSliding& is_sliding,
                std::vector<LayerSpec>& layers);

/// Returns, for each layer, whether `layer_types` calls it sliding; nothing where it is absent.
std::optional<std::vector<bool>> ReadLayerTypes(const ConfigReader& config, std::size_t layers);

/// Checks that a token is sent to no more experts than there are.
void CheckTopK(const ConfigReader& config, const char* name, const MoeSpec& moe);

template <typename IsSliding>
void SetWindows(const ConfigReader& config,
                std::int64_t window,
                const IsSliding& is_sliding,
                std::vector<LayerSpec>& layers) {
  const auto types = ReadLayerTypes(config, layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (types ? (*types)[i] : is_sliding(i)) layers[i].attention.window = window;
  }
}

}  // namespace palmist::model
