/// A model as layers of operators with symbolic shapes.
///
/// Legend: b micro-batch (sequences on a rank), s sequence length, tp tensor-parallel degree,
/// sd sequence-parallel shard (tp where sequence parallel is on, else 1), cp context-parallel
/// degree, ep expert-parallel degree, x expert imbalance (busiest rank over mean, 1 when routing is
/// even). Outside tensor-parallel regions a tensor of width w has b*s/cp/sd*w elements on a rank;
/// between a column-parallel and a row-parallel product it has b*s/cp*w/tp. An encoder's sequence
/// is as long as its decoder's.
///
/// The graph is free of implementation: which tensors an operator keeps for backward depends on
/// its variant and is written in `lower.h`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "palmist/base/result.h"
#include "palmist/model/spec.h"
#include "palmist/symbolic/expr.h"

namespace palmist::model {

using symbolic::Expr;

/// The symbols of the legend, as expressions.
struct Symbols {
  Expr b, s, tp, sd, cp, ep, x;
  Symbols();
};

using TensorId = int;
inline constexpr TensorId kNoTensor = -1;

/// How many bytes an element takes.
enum class Storage {
  kActivation,  ///< the training dtype: 2 bytes in half precision, 4 in fp32
  kFloat32,
  kIndex  ///< int64 token numbers
};

/// A value inside a layer. The layer's input, its memory and tensors that no gradient flows into
/// (token numbers, targets) come from outside; every other one is the output of one operator.
struct Tensor {
  std::string name;
  Expr elements;  ///< on one rank, for one micro-batch
  Storage storage = Storage::kActivation;
  bool differentiable = true;
};

/// How a parameter is spread over the ranks that run a layer.
enum class Sharding {
  kReplicated,  ///< whole on every tensor-parallel rank
  kTensor,      ///< divided by tp
  kKeyValue,    ///< divided by min(tp, kv_heads): replicated where there are fewer KV heads
  kVocabulary,  ///< rows padded, then divided by tp
  kExpert       ///< divided by ep, and by tp inside an expert (not the bias of its output)
};

struct Parameter {
  std::string name;
  std::int64_t elements = 0;  ///< whole
  Sharding sharding = Sharding::kReplicated;
  Expr elements_per_rank;      ///< derived from `sharding`
  double active_fraction = 1;  ///< share that one token uses: top_k / experts for routed experts
  bool trainable = true;       ///< false for buffers that Hugging Face counts as parameters
  bool tied = false;           ///< the same storage as the embedding's table: not counted again
};

enum class OpKind {
  kEmbedding,        ///< ids -> x
  kNorm,             ///< x -> y
  kLinear,           ///< x -> y = x W (+ bias)
  kRotary,           ///< qkv -> qkv
  kAttention,        ///< qkv [, kv of the encoder] -> context
  kActivation,       ///< x -> act(x)
  kGatedActivation,  ///< (gate | up) -> act(gate) * up
  kDropout,          ///< x -> y
  kAdd,              ///< x, y -> x + y
  kRoute,            ///< x -> probabilities over all experts (router's matrix inside)
  kDispatch,         ///< x, probabilities -> tokens of this rank's experts
  kCombine,          ///< expert outputs, probabilities -> x
  kLoss,             ///< logits -> loss
  kConv,             ///< x -> y
  kBatchNorm,
  kPool,
  kScale,   ///< x, factors -> x * sigmoid(factors) (squeeze and excitation, expert gate)
  kReshape  ///< a permutation that copies (pixel shuffle; latent q, kv, rope -> qkv)
};

/// How a matrix product is split over the tensor-parallel ranks.
enum class Parallelism {
  kNone,        ///< every rank computes all of it
  kColumn,      ///< output features are split: backward reduces dx
  kRow,         ///< input features are split: forward reduces y
  kVocabulary,  ///< column over padded vocabulary rows
  kExpert       ///< grouped product over this rank's experts
};

/// One operator. Fields that a kind does not use keep their defaults.
struct Op {
  OpKind kind = OpKind::kAdd;
  std::string name;
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;
  std::vector<Parameter> parameters;
  Parallelism parallelism = Parallelism::kNone;
  /// Multiply-adds times two of the forward pass on one rank; the backward pass has twice that
  /// for products with a weight.
  Expr forward_flops;
  ActivationKind activation = ActivationKind::kGelu;  ///< kActivation, kGatedActivation
  NormSpec norm;                                      ///< kNorm
  Expr rows;                                          ///< kNorm, kLoss: vectors on one rank
  Expr normalised;     ///< kNorm: elements, where the norm covers a part of the tensor; else 0
  double dropout = 0;  ///< kDropout, kAttention
  /// kAttention: (batch, heads on this rank, queries) and keys seen, per rank.
  AttentionSpec attention;
  Expr score_rows;  ///< b * heads/tp * queries
  Expr score_keys;  ///< keys a query row is stored against in an unfused implementation
};

/// What the planner splits and recomputes: one transformer layer or convolutional block.
struct Layer {
  std::string name;
  std::vector<Tensor> tensors;
  std::vector<Op> ops;
  TensorId input = kNoTensor;
  TensorId output = kNoTensor;
  /// The last op is a norm (post-norm layers), so that the next layer's input can be recomputed
  /// from what this layer keeps anyway.
  bool output_is_norm = false;
  /// Encoder output read by cross-attention; kNoTensor where there is none. In the first decoder
  /// layer it is the input as well: that layer also looks up the decoder's tokens.
  TensorId memory = kNoTensor;
};

/// A model's layers: equal layers are stored once.
struct Graph {
  std::vector<Layer> kinds;  ///< distinct layers
  std::vector<int> layers;   ///< for each layer in order (encoder first), its index in `kinds`
  Layer embedding;           ///< runs before the first layer (empty for convolutional models)
  Layer head;                ///< final norm, head and loss (empty for convolutional models)
  bool tied_head = false;
  std::int64_t vocab = 0;
  std::int64_t max_positions = 0;
  bool has_sequence = true;  ///< false for convolutional models
};

/// Rounds the vocabulary up so that every tensor-parallel rank holds the same number of rows:
/// the smallest multiple of `multiple * tp` that is at least `vocab` (Megatron-LM's rule with
/// `--make-vocab-size-divisible-by multiple`). With multiple 1: of tp.
Expr PaddedVocabulary(std::int64_t vocab, const Expr& tp, std::int64_t multiple);

struct GraphOptions {
  std::int64_t vocab_multiple = 1;  ///< see PaddedVocabulary
};

/// Builds the operator graph of a model.
/// @throws Error(kInput) when a size does not fit 64 bits.
Graph BuildGraph(const ModelSpec& spec, const GraphOptions& options = {});

/// Returns nothing where the graph is well-formed: every tensor has one producer or comes from
/// outside, is made before it is read, and is read or the layer's output; else an error (kInternal)
/// that names layer and operator.
Result<void> CheckGraph(const Graph& graph);

/// Returns the number of parameters, each storage counted once (as Hugging Face counts them).
/// @throws Error(kInput) when it does not fit 64 bits.
std::int64_t CountParameters(const Graph& graph);

/// Returns the parameters one token uses: all of them, embeddings, router and shared experts
/// included, but of the routed experts only the share top_k / experts.
/// @throws Error(kInput) when it does not fit 64 bits.
std::int64_t CountActiveParameters(const Graph& graph);

}  // namespace palmist::model
