/// Root-mean-square normalisation of rows. M rows of N elements, contiguous.
#pragma once

#include <cstdint>
#include <span>

#include "palmist/kernels/executor.h"
#include "palmist/kernels/scalar.h"

namespace palmist::kernels {

/// Writes y = x rstd gamma row by row with rstd = 1 / sqrt(mean(x^2) + eps), and the rows' rstd.
///
/// An empty gamma stands for ones; an empty rstd is not written. y may be the same as x. For halves
/// x rstd is rounded to T before the product with gamma, as Hugging Face's modules do.
/// Source: B. Zhang, R. Sennrich, "Root mean square layer normalization", arXiv:1910.07467, eq. 4.
template <typename T>
void RmsNorm(std::span<const T> x,
             std::int64_t n_columns,
             std::span<const ComputeType<T>> gamma,
             double eps,
             std::span<T> y,
             std::span<ComputeType<T>> rstd,
             Executor& executor) noexcept;

/// Writes dx = rstd (gamma dy - xhat mean(gamma dy xhat)) and dgamma = sum over rows of dy xhat,
/// with xhat = x rstd. An empty dx or dgamma is not computed. dx may be the same as dy.
template <typename T>
void RmsNormBackward(std::span<const T> dy,
                     std::span<const T> x,
                     std::int64_t n_columns,
                     std::span<const ComputeType<T>> gamma,
                     std::span<const ComputeType<T>> rstd,
                     std::span<T> dx,
                     std::span<ComputeType<T>> dgamma,
                     Executor& executor) noexcept;

}  // namespace palmist::kernels
