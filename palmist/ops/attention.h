/// What the two attention operators share: checks, masks, and the formula by torch's operators.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace palmist::ops {

struct AttentionOptions {
  double dropout_p = 0;
  bool is_causal = false;
  double scale = 1;
};

/// Throws where the arguments do not fit together; returns the scale, 1 / sqrt(D) where not given.
double CheckAttention(const char* name,
                      const at::Tensor& query,
                      const at::Tensor& key,
                      const at::Tensor& value,
                      const std::optional<at::Tensor>& mask,
                      double dropout_p,
                      std::optional<double> scale);

/// Returns a new seed for the mask of a call; none without dropout.
std::optional<at::Tensor> SeedOf(const at::Tensor& query, double dropout_p);

/// Returns an uninitialised [B, A, S, D] that lies in memory as [B, S, A, D], as projections do.
at::Tensor EmptyHeads(const at::Tensor& like);

/// Returns keys or values [B, G, S, D] repeated for A query heads.
at::Tensor RepeatHeads(const at::Tensor& tensor, c10::SymInt heads);

/// Sums [B, A, S, D] over the query heads of each of G key heads.
at::Tensor SumHeads(const at::Tensor& tensor, c10::SymInt kv_heads);

/// Returns the scaled and masked scores [B, A, Sq, Sk]; keys are repeated already.
at::Tensor Scores(const at::Tensor& query,
                  const at::Tensor& key,
                  const std::optional<at::Tensor>& mask,
                  const AttentionOptions& options);

/// Returns the attention of torch, which has a rule for every device and a gradient for the mask.
at::Tensor TorchAttention(const at::Tensor& query,
                          const at::Tensor& key,
                          const at::Tensor& value,
                          const std::optional<at::Tensor>& mask,
                          const AttentionOptions& options);

}  // namespace palmist::ops
