/// Scaled dot-product attention by tiles, with dropout: scores are never stored.
///
/// Letters of shapes: B batch, A query heads, G key and value heads (A a multiple of G; query head
/// a reads head a / (A / G)), Sq and Sk lengths of queries and keys, D head dimension of all three.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "palmist/kernels/executor.h"
#include "palmist/kernels/philox.h"
#include "palmist/kernels/scalar.h"

namespace palmist::kernels {

/// A tensor of B x heads x S x D with any strides in elements; the D elements lie side by side.
template <typename T>
struct HeadsView {
  T* data = nullptr;
  std::int64_t batch_stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t row_stride = 0;
};

/// What is added to the scaled scores. Strides of B, A, Sq, Sk in elements; 0 where broadcast.
template <typename T>
struct AttentionMask {
  const T* added = nullptr;            ///< added values, -Inf to hide a key
  const std::uint8_t* keep = nullptr;  ///< or: 1 for a key that is seen, 0 for one that is not
  std::array<std::int64_t, 4> strides{};
};

/// Shape and options of one call.
struct AttentionShape {
  std::int64_t batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0, head_dim = 0;
  double scale = 1;     ///< of the scores, usually 1 / sqrt(D)
  bool causal = false;  ///< query i sees keys j <= i (aligned at the first, as torch does)
  /// The score of (b, a, i, j) has index ((b A + a) Sq + i) PaddedRow(Sk) + j.
  DropoutSpec dropout;
};

/// log(sum(exp(score))) of a query that sees no key; its output row is zeros.
inline constexpr float kNoKeys = -std::numeric_limits<float>::infinity();

/// Writes O = dropout(softmax(scale Q K^T + mask)) V and each query's log-sum-exp (B x A x Sq,
/// contiguous). T: float, double, BFloat16, Float16; arithmetic in the compute type.
///
/// Memory beside the outputs: a few tiles a thread. Results depend on shapes alone, never on the
/// executor. Source: T. Dao, "FlashAttention-2", arXiv:2307.08691, algorithm 1.
/// @pre 1 <= head_dim <= 256
template <typename T>
void Attention(const AttentionShape& shape,
               HeadsView<const T> q,
               HeadsView<const T> k,
               HeadsView<const T> v,
               const AttentionMask<T>& mask,
               HeadsView<T> o,
               ComputeType<T>* log_sum_exp,
               Executor& executor) noexcept;

/// Writes the gradients dQ, dK and dV (shapes of Q, K, V) from dO and what the forward kept.
///
/// Same source, algorithm 2, with the dropout's mask made again. Heads that share keys and values
/// are summed in order. Memory beside the outputs: tiles and, for each thread, dK and dV of one
/// head in float; with fewer than 8 pairs of batch and kv head, up to 8 such sets in all.
template <typename T>
void AttentionBackward(const AttentionShape& shape,
                       HeadsView<const T> d_o,
                       HeadsView<const T> q,
                       HeadsView<const T> k,
                       HeadsView<const T> v,
                       const AttentionMask<T>& mask,
                       HeadsView<const T> o,
                       const ComputeType<T>* log_sum_exp,
                       HeadsView<T> d_q,
                       HeadsView<T> d_k,
                       HeadsView<T> d_v,
                       Executor& executor) noexcept;

}  // namespace palmist::kernels
