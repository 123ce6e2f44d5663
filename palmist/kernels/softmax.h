/// Softmax over rows, its backward from the output alone, and dropout of its rows.
#pragma once

#include <cstdint>
#include <span>

#include "palmist/kernels/executor.h"
#include "palmist/kernels/philox.h"

namespace palmist::kernels {

/// Writes y = softmax(x) row by row. y may be the same as x. A row of -Inf gives zeros, as in
/// attention with every key masked. T: float, double, BFloat16, Float16.
template <typename T>
void Softmax(std::span<const T> x,
             std::int64_t n_columns,
             std::span<T> y,
             Executor& executor) noexcept;

/// Writes dx = y (dy - sum(dy y)) row by row. dx may be the same as dy.
template <typename T>
void SoftmaxBackward(std::span<const T> dy,
                     std::span<const T> y,
                     std::int64_t n_columns,
                     std::span<T> dx,
                     Executor& executor) noexcept;

/// Writes y = dropout(x) of rows that begin on blocks of their own: element (r, c) has index
/// r PaddedRow(n_columns) + c. The gradient is the same function of dy. y may be the same as x.
template <typename T>
void DropoutRows(std::span<const T> x,
                 std::int64_t n_columns,
                 const DropoutSpec& dropout,
                 std::span<T> y,
                 Executor& executor) noexcept;

}  // namespace palmist::kernels
