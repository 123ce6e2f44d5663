/// What each operator variant saves, allocates and moves: the one place where it is written.
///
/// `Lower` turns a layer of operators (`graph.h`) into steps over buffers. A step names what it
/// reads, writes and keeps for backward, what it overwrites, its scratch, its arithmetic, its
/// memory traffic and its collectives. Memory over time follows from the steps by liveness
/// (`palmist/cost/liveness.h`); no formula of a whole layer is typed in anywhere.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "palmist/base/result.h"
#include "palmist/model/graph.h"

namespace palmist::model {

/// How an operator family is implemented.
enum class Variant {
  kEager,         ///< Hugging Face's default Python composition
  kSdpa,          ///< torch's scaled_dot_product_attention, all else as kEager
  kFused,         ///< fused norm, activation, loss and flash attention (Mist, Megatron, Liger)
  kFusedSoftmax,  ///< attention only: Megatron's masked-softmax kernel between two products
  kTempo,         ///< Tempo's output-only operators, repaired: exact masks, one bit an element
  kLean           ///< one tensor kept between two products, the rest recomputed bitwise
};

/// Returns the name used in plan files: "eager", "sdpa", "fused", "fused_softmax", "tempo", "lean".
std::string_view ToString(Variant variant);

/// Reads a name of `ToString`; an unknown one lists them.
Result<Variant> ParseVariant(std::string_view name);

/// The variant of each operator family (`ops` of a plan file).
struct OpVariants {
  Variant attention = Variant::kFused;
  Variant norm = Variant::kFused;
  Variant activation = Variant::kFused;
  Variant dropout = Variant::kFused;
  Variant loss = Variant::kFused;
  bool operator==(const OpVariants&) const = default;
};

/// Returns what `--ops NAME` means: every family at that variant, where the family has it.
OpVariants UniformVariants(Variant variant);

struct LoweringOptions {
  OpVariants variants;
  /// Bytes of an activation: 2 for bf16 and fp16, 4 for fp32.
  double activation_bytes = 2;
  /// Bytes of an element of a stored dropout mask: 1 on CUDA; the dtype's size in eager on CPU.
  double dropout_mask_bytes = 1;
  /// Bits of an element of the mask that `tempo` stores beside GELU's output: 1 in ours, 8 in the
  /// published code.
  double tempo_mask_bits = 1;
  /// Whether `sdpa` with dropout runs its products apart, in fp32, with a mask of its own: torch's
  /// fused attention on CPU has no dropout.
  bool sdpa_dropout_unfused = false;
  /// Arithmetic that takes as long as drawing one element of a stored dropout mask: torch's CPU
  /// generator draws one after the other, on one thread. 0 where it is lost in the traffic.
  double mask_draw_flops = 0;
  /// Tokens of one chunk of the `lean` loss (linear and cross-entropy in one operator).
  double loss_chunk_tokens = 1024;
  /// Whether that loss makes its gradients, of input and weight, beside each chunk in forward and
  /// keeps them; else backward makes the logits again.
  bool loss_gradients_in_forward = false;
};

/// Memory that a step reads or writes. Buffers with the same `storage` share it.
struct Buffer {
  std::string name;
  Expr bytes;
  bool differentiable = true;
  int storage = 0;  ///< index of the buffer that owns the memory (itself by default)
  std::vector<int>
      recompute_from;       ///< not empty: can be recomputed from these, so need not be kept
  int recompute_step = -1;  ///< the step that makes it again
};

enum class StepClass { kGemm, kAttention, kMemory };

enum class CollectiveKind { kAllReduce, kAllGather, kReduceScatter, kAllToAll };

/// Which ranks take part.
enum class CollectiveGroup { kTensor, kContext, kExpert };

/// A collective that one step waits for. `bytes` is the whole tensor: the reduced tensor of an
/// all-reduce, the gathered one of an all-gather, the unreduced one of a reduce-scatter, what one
/// rank sends in an all-to-all. Zero where the degrees make it vanish.
struct Collective {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  CollectiveGroup group = CollectiveGroup::kTensor;
  Expr bytes;
};

/// One kernel or a few that run as one.
struct Step {
  std::string name;
  StepClass step_class = StepClass::kMemory;
  std::vector<int> inputs;
  std::vector<int> outputs;
  std::vector<int> saved;          ///< buffers kept for this step's backward
  bool in_place = false;           ///< outputs[0] overwrites inputs[0]
  int view_outputs = 0;            ///< so many first outputs are views of inputs[0]
  bool gradient_in_place = false;  ///< the gradient of each input overwrites that of outputs[0]
  int gradient_over = -1;          ///< saved buffer that the gradient of inputs[0] overwrites
  Expr forward_scratch, backward_scratch;  ///< bytes, beside inputs, outputs and gradients
  Expr forward_flops, backward_flops;
  Expr forward_bytes, backward_bytes;  ///< memory traffic
  double forward_kernels = 1, backward_kernels = 1;
  std::vector<Collective> forward_collectives, backward_collectives;
  Expr weight_elements;  ///< trainable parameters of this step on one rank
  Expr expert_elements;  ///< those of them that belong to routed experts
  Expr tied_elements;    ///< parameters that live with the embedding, beside these
  Expr largest_weight;   ///< elements of its largest single parameter on one rank
};

/// A layer as steps.
struct LoweredLayer {
  std::string name;
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
  int input = -1;
  int output = -1;
  int memory = -1;  ///< the encoder's output, where a decoder layer reads it beside its input
};

/// Returns, for each step, the buffers that stay in memory until its backward ran: what it saves,
/// with buffers that can be recomputed replaced by what they are recomputed from.
std::vector<std::vector<int>> KeptBuffers(const LoweredLayer& layer);

/// Lowers one layer.
/// @param input_recomputable whether the layer before ends with a lean norm, from whose input this
/// layer's input can be made again.
LoweredLayer Lower(const Layer& layer,
                   const LoweringOptions& options,
                   bool input_recomputable = false);

}  // namespace palmist::model
