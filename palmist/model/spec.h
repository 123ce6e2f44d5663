/// A model, described in one vocabulary whatever family its `config.json` came from.
///
/// Families (`families/*.cc`) read a configuration into a `ModelSpec`; `graph.h` turns a
/// `ModelSpec` into layers of operators. Nothing after `ModelSpec` knows a family's name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace palmist::model {

enum class NormKind { kLayerNorm, kRmsNorm };

/// A normalisation over the last dimension. `scale` and `bias` say which parameters exist.
struct NormSpec {
  NormKind kind = NormKind::kLayerNorm;
  bool scale = true;
  bool bias = true;
  bool operator==(const NormSpec&) const = default;
};

enum class ActivationKind { kRelu, kGelu, kGeluTanh, kSilu, kTanh };

/// Normalisation of queries and keys before the product.
enum class QkNormKind {
  kNone,
  kPerHead,   ///< one vector of head_dim for queries, one for keys (Qwen3, Gemma 3)
  kFullWidth  ///< one vector over all heads (OLMo-2)
};

/// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1).
struct LatentSpec {
  std::int64_t query_rank = 0;  ///< q_lora_rank; 0 = queries are projected directly
  std::int64_t kv_rank = 0;     ///< kv_lora_rank
  std::int64_t rope_dim = 0;    ///< qk_rope_head_dim, shared by all heads for keys
  bool operator==(const LatentSpec&) const = default;
};

struct AttentionSpec {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;   ///< of queries and keys (with the rotary part, for latent attention)
  std::int64_t value_dim = 0;  ///< of values
  bool query_bias = false;
  bool key_bias = false;
  bool value_bias = false;
  bool output_bias = false;
  bool causal = true;
  bool rotary = false;
  bool cross = false;                 ///< keys and values come from the encoder's output
  std::int64_t window = 0;            ///< sliding window in tokens; 0 = none
  std::int64_t relative_buckets = 0;  ///< T5: a (buckets, heads) table held by this layer; 0 = none
  bool sinks = false;                 ///< one learned logit a head (gpt-oss)
  bool softcap = false;               ///< tanh soft-capping of the scores (Gemma 2)
  bool softmax_fp32 = false;  ///< the eager path computes the softmax in fp32 and casts back
  QkNormKind qk_norm = QkNormKind::kNone;
  NormSpec qk_norm_spec;  ///< used unless qk_norm is kNone
  std::optional<LatentSpec> latent;
  double dropout = 0.0;  ///< on the attention probabilities
  bool operator==(const AttentionSpec&) const = default;
};

/// A feed-forward block; gated means act(gate(x)) * up(x).
struct MlpSpec {
  std::int64_t width = 0;
  bool gated = false;
  bool bias = false;  ///< on the projections into the block's width
  bool output_bias = false;
  ActivationKind activation = ActivationKind::kGelu;
  double dropout = 0.0;  ///< after the activation (T5), not after the block
  bool operator==(const MlpSpec&) const = default;
};

/// A mixture of experts. `expert` is one routed expert, `shared` runs for every token.
struct MoeSpec {
  std::int64_t experts = 0;
  std::int64_t top_k = 0;
  MlpSpec expert;
  std::optional<MlpSpec> shared;
  bool shared_gate = false;  ///< a (1, hidden) gate on the shared expert's output
  bool router_bias = false;  ///< a learned bias of the router (gpt-oss)
  bool operator==(const MoeSpec&) const = default;
};

/// Where a layer's normalisations stand.
enum class NormPlacement {
  kPre,               ///< x + f(norm(x)) twice (GPT-2, LLaMA)
  kPost,              ///< norm(x + f(x)) twice (BERT)
  kParallelShared,    ///< x + attn(norm(x)) + mlp(norm(x)), one norm (GPT-J, Phi-2, Falcon-7B)
  kParallelSeparate,  ///< the same with two norms (GPT-NeoX, Falcon-40B)
  kSandwich,          ///< x + norm(f(norm(x))) twice, four norms (Gemma 2 and 3)
  kPostOnly           ///< x + norm(f(x)) twice (OLMo-2)
};

/// One transformer layer.
struct LayerSpec {
  NormPlacement placement = NormPlacement::kPre;
  NormSpec norm;
  AttentionSpec attention;
  std::optional<AttentionSpec> cross_attention;  ///< pre-norm, after self-attention (T5 decoder)
  std::variant<MlpSpec, MoeSpec> mlp;
  double residual_dropout = 0.0;  ///< on the output of attention and of the MLP
  bool operator==(const LayerSpec&) const = default;
};

/// What turns token numbers into the first activations.
struct EmbeddingSpec {
  std::int64_t vocab = 0;
  std::int64_t width = 0;        ///< of the table; differs from hidden in OPT-350M
  std::int64_t positions = 0;    ///< rows of a learned position table; 0 = none
  std::int64_t token_types = 0;  ///< rows of a segment table (BERT); 0 = none
  bool project = false;          ///< a (width, hidden) projection without bias (OPT-350M)
  std::optional<NormSpec> norm;  ///< after the sum (BERT, BLOOM)
  double dropout = 0.0;
  bool operator==(const EmbeddingSpec&) const = default;
};

/// What turns the last activations into logits and a loss.
struct HeadSpec {
  std::optional<NormSpec> final_norm;
  bool project = false;  ///< a (hidden, width) projection without bias before the head (OPT-350M)
  std::optional<ActivationKind> transform;  ///< BERT: dense + activation + norm before the head
  std::optional<NormSpec> transform_norm;
  bool tied = false;     ///< the head's matrix is the embedding's
  bool bias = false;     ///< one bias a vocabulary entry
  bool present = true;   ///< false: the counted model ends at the last hidden state
  bool pooler = false;   ///< a (hidden, hidden) dense with bias on the first token (BERT's base)
  bool softcap = false;  ///< tanh soft-capping of the logits (Gemma 2)
  bool operator==(const HeadSpec&) const = default;
};

/// A language model or encoder.
struct TransformerSpec {
  std::int64_t hidden = 0;
  std::int64_t max_positions = 0;  ///< longest sequence (learned positions); 0 = no limit
  EmbeddingSpec embedding;
  std::vector<LayerSpec> encoder;        ///< encoder-decoder models only (T5)
  std::optional<NormSpec> encoder_norm;  ///< after the encoder
  double stack_dropout = 0.0;            ///< after the encoder's and the decoder's final norm (T5)
  std::vector<LayerSpec> layers;         ///< all layers, or the decoder's
  HeadSpec head;
  bool operator==(const TransformerSpec&) const = default;
};

/// One convolution; `groups` is 1 for a dense one. Spatial sizes are of the output.
struct ConvSpec {
  std::int64_t in_channels = 0, out_channels = 0;
  std::int64_t kernel = 1, stride = 1, groups = 1;
  std::int64_t out_height = 0, out_width = 0;
  bool bias = false;
  bool operator==(const ConvSpec&) const = default;
};

enum class ConvOpKind {
  kConv,
  kBatchNorm,
  kRelu,
  kMaxPool,
  kGlobalPool,
  kLinear,
  kSigmoidScale,
  kAddResidual,
  kPixelShuffle,
  kMseLoss,
  kCrossEntropy
};

/// One operator of a convolutional network; sizes are of its output (channels, height, width).
/// kSigmoidScale multiplies its second input by the sigmoid of its first, channel by channel.
struct ConvOp {
  ConvOpKind kind = ConvOpKind::kConv;
  std::string name;
  ConvSpec conv;  ///< for kConv and kLinear (1 x 1)
  std::int64_t channels = 0, height = 0, width = 0;
  /// Index of the operator (in the same block) whose output is read; -1 = the one before,
  /// -2 = the block's input.
  int input = -1;
  int residual = -1;  ///< for kAddResidual and kSigmoidScale: second input, as above
  bool operator==(const ConvOp&) const = default;
};

/// A block of a convolutional network: the unit the planner splits and recomputes.
struct ConvBlock {
  std::string name;
  std::int64_t in_channels = 0, in_height = 0, in_width = 0;
  std::vector<ConvOp> ops;
  bool operator==(const ConvBlock&) const = default;
};

/// A convolutional network; its first block reads the image, its last one holds the loss.
struct ConvNetSpec {
  std::vector<ConvBlock> blocks;
  bool operator==(const ConvNetSpec&) const = default;
};

using ModelBody = std::variant<TransformerSpec, ConvNetSpec>;

/// A model in one vocabulary.
struct ModelSpec {
  std::string family;  ///< the configuration's model_type
  ModelBody body;

  bool is_transformer() const { return std::holds_alternative<TransformerSpec>(body); }
  /// @pre is_transformer()
  const TransformerSpec& transformer() const { return std::get<TransformerSpec>(body); }
  /// @pre !is_transformer()
  const ConvNetSpec& conv_net() const { return std::get<ConvNetSpec>(body); }
};

}  // namespace palmist::model
