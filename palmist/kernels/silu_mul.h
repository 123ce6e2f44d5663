/// The gated activation of SwiGLU.
#pragma once

#include <span>

#include "palmist/kernels/executor.h"

namespace palmist::kernels {

/// Writes y = silu(gate) up with silu(x) = x / (1 + exp(-x)). T: float, double, BFloat16, Float16.
///
/// Spans have one size; y may be the same as gate or up. For halves, silu(gate) is rounded to T
/// before the product, as two operators would.
/// Source: N. Shazeer, "GLU variants improve transformer", arXiv:2002.05202, equation 6.
template <typename T>
void SiluMul(std::span<const T> gate,
             std::span<const T> up,
             std::span<T> y,
             Executor& executor) noexcept;

/// Writes dgate = dy up silu'(gate) and dup = dy silu(gate). Outputs may be the same as inputs.
template <typename T>
void SiluMulBackward(std::span<const T> dy,
                     std::span<const T> gate,
                     std::span<const T> up,
                     std::span<T> dgate,
                     std::span<T> dup,
                     Executor& executor) noexcept;

}  // namespace palmist::kernels
