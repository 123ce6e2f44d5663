/// GELU and its derivative.
#pragma once

#include <cstdint>
#include <span>

#include "palmist/kernels/executor.h"

namespace palmist::kernels {

/// Which function is called GELU.
enum class GeluKind {
  kErf,  ///< x Phi(x), Phi the normal distribution function: D. Hendrycks, K. Gimpel, "Gaussian
         ///< error linear units", arXiv:1606.08415, section 2
  kTanh  ///< x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))): same place
};

/// Writes y = g(x). T: float, double, BFloat16, Float16. x and y have one size and may be the same.
///
/// g(-Inf) is -0 and g(+Inf) is +Inf; NaN gives NaN.
template <typename T>
void Gelu(std::span<const T> x, std::span<T> y, GeluKind kind, Executor& executor) noexcept;

/// Writes dx = dy g'(x). dx may be the same as dy or x.
///
/// g' is within 2e-6 of the exact derivative for float; it is 0 at -Inf and 1 at +Inf.
template <typename T>
void GeluBackward(std::span<const T> dy,
                  std::span<const T> x,
                  std::span<T> dx,
                  GeluKind kind,
                  Executor& executor) noexcept;

/// @name GELU whose backward needs its output only
/// After Tempo (M. Andoorveedu et al., NeurIPS 2022), with an inverse of our own: g has one minimum
/// (x*, y*), so y and the bit [x >= x*] tell x. The derivative as a function of y is fitted in
/// variables that take away its branch point at y* and its singularity at 0; coefficients and their
/// script: palmist/kernels/testdata/gelu_inverse.py.
/// @{

/// Bytes of the bits of n elements: bit i % 8 of byte i / 8.
constexpr std::int64_t GeluBitBytes(std::int64_t n) { return (n + 7) / 8; }

/// Writes y = g(x), the same bits as `Gelu`, and one bit an element. y may be the same as x.
/// @pre bits.size() == GeluBitBytes(x.size())
template <typename T>
void GeluWithBits(std::span<const T> x,
                  std::span<T> y,
                  std::span<std::uint8_t> bits,
                  GeluKind kind,
                  Executor& executor) noexcept;

/// Writes dx = dy g'(x) from y = g(x) and its bits. dx may be the same as dy.
///
/// g' is off by at most 2e-4 (float), 7.1e-3 (Float16), 2e-2 (BFloat16) where |x - x*| <= 0.25, and
/// 5e-6, 4e-4, 3e-3 elsewhere: what the rounding of y leaves. To that comes the rounding of dx.
template <typename T>
void GeluOutputBackward(std::span<const T> dy,
                        std::span<const T> y,
                        std::span<const std::uint8_t> bits,
                        std::span<T> dx,
                        GeluKind kind,
                        Executor& executor) noexcept;
/// @}

}  // namespace palmist::kernels
