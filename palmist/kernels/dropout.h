/// Dropout without a stored mask.
#pragma once

#include <span>

#include "palmist/kernels/executor.h"
#include "palmist/kernels/philox.h"

namespace palmist::kernels {

/// Writes y_i = x_i / (1 - p) where element i is kept, else 0. The gradient is the same function of
/// dy. y may be the same as x. T: float, double, BFloat16, Float16.
template <typename T>
void Dropout(std::span<const T> x,
             const DropoutSpec& dropout,
             std::span<T> y,
             Executor& executor) noexcept;

}  // namespace palmist::kernels
