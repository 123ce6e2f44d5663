/// Cross-entropy of rows of logits, with the gradient written over them.
#pragma once

#include <cstdint>
#include <span>

#include "palmist/kernels/executor.h"
#include "palmist/kernels/scalar.h"

namespace palmist::kernels {

struct CrossEntropyOptions {
  std::int64_t ignore_index = -100;  ///< rows with this target cost nothing
  double label_smoothing = 0;        ///< in [0, 1): the part of the target spread over all classes
  double z_loss = 0;                 ///< factor of (log-sum-exp)^2, PaLM's regulariser
};

/// Writes each row's loss and, where asked, its gradient over the logits.
///
/// M rows of V logits. loss_r = (1 - s) (lse - x_t) + s (lse - mean(x)) + z lse^2 with s the
/// smoothing; 0 where the target is ignored. With `write_gradient` the logits become
/// d loss_r / d x: (1 + 2 z lse) softmax - (1 - s) [j = t] - s / V; zeros where ignored.
/// Sources: C. Szegedy et al., arXiv:1512.00567, section 7 (smoothing); A. Chowdhery et al.,
/// arXiv:2204.02311, section 5 (z-loss). T: float, double, BFloat16, Float16.
/// @pre every target is ignore_index or in [0, n_classes)
template <typename T>
void CrossEntropy(std::span<T> logits,
                  std::int64_t n_classes,
                  std::span<const std::int64_t> targets,
                  const CrossEntropyOptions& options,
                  bool write_gradient,
                  std::span<ComputeType<T>> loss,
                  Executor& executor) noexcept;

}  // namespace palmist::kernels
