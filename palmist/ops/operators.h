/// Operators that keep little for backward, with exact gradients, as functions on tensors.
///
/// Each is the operator `palmist::<name>` of torch's dispatcher too, for CPU, CUDA and Meta
/// tensors, with an autograd rule. What each keeps for backward is said beside it; e is the bytes
/// of an element. Shapes: N tokens or rows (any leading dimensions), H and O features, B batch, A
/// query heads, G key and value heads, S length, D head dimension.
///
/// All throw c10::Error on arguments that do not fit together. Types are float32, float64, bfloat16
/// and float16; arithmetic on halves is in float32.
///
/// `Linear` keeps nothing of an input that `LayerNorm`, `RmsNorm`, `Gelu` or `SiluMul` made: it has
/// the input made again in backward, by the same kernel from what that operator keeps anyway, so
/// that between two products exactly one tensor is kept. See recompute.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

#pragma GCC visibility push(default)  // all else of the shared library is hidden
namespace palmist::ops {

/// Returns input weight^T + bias; input [..., H], weight [O, H], bias [O]. Keeps the input, or
/// nothing where it can be made again.
at::Tensor Linear(const at::Tensor& input,
                  const at::Tensor& weight,
                  const std::optional<at::Tensor>& bias = {});

/// Returns the layer normalisation over the last dimensions, `normalized_shape`. Keeps the input
/// and two statistics a row.
at::Tensor LayerNorm(const at::Tensor& input,
                     at::IntArrayRef normalized_shape,
                     const std::optional<at::Tensor>& weight = {},
                     const std::optional<at::Tensor>& bias = {},
                     double eps = 1e-5);

/// Returns the root-mean-square normalisation over the last dimensions. Keeps the input and one
/// statistic a row. No eps stands for the machine epsilon of the input's type, as in torch.
at::Tensor RmsNorm(const at::Tensor& input,
                   at::IntArrayRef normalized_shape,
                   const std::optional<at::Tensor>& weight = {},
                   std::optional<double> eps = {});

/// Returns GELU; `approximate` is "none" or "tanh". Keeps the input.
at::Tensor Gelu(const at::Tensor& input, std::string_view approximate = "none");

/// Returns silu(gate) up. Keeps both.
at::Tensor SiluMul(const at::Tensor& gate, const at::Tensor& up);

/// Returns the input with elements dropped with probability p and the others scaled by 1 / (1 - p);
/// the input itself where not `training`. Keeps 8 bytes in all: the seed of the mask, which comes
/// from torch's CPU generator.
at::Tensor Dropout(const at::Tensor& input, double p = 0.5, bool training = true);

/// Returns scaled dot-product attention; query [B, A, Sq, D], key and value [B, G, Sk, D] with A a
/// multiple of G, mask broadcastable to [B, A, Sq, Sk]: bool (true is seen) or added. The result
/// [B, A, Sq, D] lies in memory as [B, Sq, A, D]. Keeps the inputs, the result, 4 bytes a query and
/// head, and a seed; no scores.
at::Tensor Attention(const at::Tensor& query,
                     const at::Tensor& key,
                     const at::Tensor& value,
                     const std::optional<at::Tensor>& mask = {},
                     double dropout_p = 0,
                     bool is_causal = false,
                     std::optional<double> scale = {});

/// How per-token losses become the result.
struct LossOptions {
  std::string_view reduction = "mean";  ///< "mean" (over tokens that count), "sum", "none"
  int64_t ignore_index = -100;
  double label_smoothing = 0;  ///< in [0, 1]
  double z_loss = 0;           ///< factor of (log-sum-exp)^2
  int64_t chunk_tokens = 0;    ///< rows of logits that exist at a time; 0: some 32 MiB of them
};

/// Returns the cross-entropy of input weight^T + bias against target; input [..., H], weight [V,
/// H], target [...] of int64. Never holds all logits: gradients of a chunk are made beside its
/// loss, so it keeps e N H bytes and, where the weight trains, one tensor like it.
at::Tensor LinearCrossEntropy(const at::Tensor& input,
                              const at::Tensor& weight,
                              const at::Tensor& target,
                              const std::optional<at::Tensor>& bias = {},
                              const LossOptions& options = {});

/// @name Tempo's trade (M. Andoorveedu et al., NeurIPS 2022), repaired
/// @{

/// Returns GELU. Keeps the output, which the next product keeps anyway, and one bit an element.
at::Tensor TempoGelu(const at::Tensor& input, std::string_view approximate = "none");

/// Returns the layer normalisation. Keeps the output and one statistic a row; where a weight is too
/// small beside its bias to tell the input from the output, keeps what `LayerNorm` keeps.
at::Tensor TempoLayerNorm(const at::Tensor& input,
                          at::IntArrayRef normalized_shape,
                          const std::optional<at::Tensor>& weight = {},
                          const std::optional<at::Tensor>& bias = {},
                          double eps = 1e-5);

/// Returns what `Attention` returns. Keeps the inputs and e A Sq Sk bytes of probabilities a
/// sequence: no scores, no mask, no dropped copy.
at::Tensor TempoAttention(const at::Tensor& query,
                          const at::Tensor& key,
                          const at::Tensor& value,
                          const std::optional<at::Tensor>& mask = {},
                          double dropout_p = 0,
                          bool is_causal = false,
                          std::optional<double> scale = {});
/// @}

}  // namespace palmist::ops
#pragma GCC visibility pop
