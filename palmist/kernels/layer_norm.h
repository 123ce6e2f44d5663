/// Layer normalisation of rows. M rows of N elements, contiguous.
#pragma once

#include <cstdint>
#include <span>

#include "palmist/kernels/executor.h"
#include "palmist/kernels/scalar.h"

namespace palmist::kernels {

/// Writes y = (x - mean) rstd gamma + beta row by row, and the rows' mean and rstd.
///
/// rstd = 1 / sqrt(variance + eps), variance with divisor N, by two passes over the row. An empty
/// gamma stands for ones, an empty beta for zeros; an empty mean or rstd is not written. y may be
/// the same as x. T: float, double, BFloat16, Float16; statistics and affine parameters are in the
/// compute type. eps and rstd never pass through a half format, so a constant row stays finite.
/// Source: J. Ba et al., "Layer normalization", arXiv:1607.06450, equation 4.
/// @pre x.size() == y.size(), a multiple of n_columns
template <typename T>
void LayerNorm(std::span<const T> x,
               std::int64_t n_columns,
               std::span<const ComputeType<T>> gamma,
               std::span<const ComputeType<T>> beta,
               double eps,
               std::span<T> y,
               std::span<ComputeType<T>> mean,
               std::span<ComputeType<T>> rstd,
               Executor& executor) noexcept;

/// Writes the gradients: dx = rstd (gamma dy - mean(gamma dy) - xhat mean(gamma dy xhat)),
/// dgamma = sum over rows of dy xhat, dbeta = sum over rows of dy, with xhat = (x - mean) rstd.
///
/// An empty dx, dgamma or dbeta is not computed. dx may be the same as dy. Sums over rows go by
/// blocks whose size depends on the shape alone.
template <typename T>
void LayerNormBackward(std::span<const T> dy,
                       std::span<const T> x,
                       std::int64_t n_columns,
                       std::span<const ComputeType<T>> gamma,
                       std::span<const ComputeType<T>> mean,
                       std::span<const ComputeType<T>> rstd,
                       std::span<T> dx,
                       std::span<ComputeType<T>> dgamma,
                       std::span<ComputeType<T>> dbeta,
                       Executor& executor) noexcept;

/// Returns whether xhat may be taken from the output: every gamma is not 0, finite, and |beta| <= 4
/// |gamma|. Beyond that the rounding of y costs too many bits of xhat = (y - beta) / gamma.
template <typename Compute>
bool CanInvertLayerNorm(std::span<const Compute> gamma, std::span<const Compute> beta) noexcept;

/// Writes the same gradients from the output y and rstd (after Tempo, NeurIPS 2022, without its
/// fp32 copy of xhat). @pre CanInvertLayerNorm(gamma, beta)
template <typename T>
void LayerNormOutputBackward(std::span<const T> dy,
                             std::span<const T> y,
                             std::int64_t n_columns,
                             std::span<const ComputeType<T>> gamma,
                             std::span<const ComputeType<T>> beta,
                             std::span<const ComputeType<T>> rstd,
                             std::span<T> dx,
                             std::span<ComputeType<T>> dgamma,
                             std::span<ComputeType<T>> dbeta,
                             Executor& executor) noexcept;

}  // namespace palmist::kernels
