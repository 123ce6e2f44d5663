/// Storage types of kernels: float, double, and the two half formats. Arithmetic on a half is done
/// in float.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace palmist::kernels {

/// bfloat16: the upper half of a float.
struct BFloat16 {
  std::uint16_t bits = 0;
};

/// IEEE 754 binary16.
struct Float16 {
  std::uint16_t bits = 0;
};

/// The type that arithmetic on `T` is done in: double for double, float for all else.
template <typename T>
using ComputeType = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Returns the exact value.
constexpr float ToFloat(BFloat16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}
constexpr float ToFloat(Float16 x) {
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = x.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) {  // Inf and NaN
    return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  }
  if (magnitude < 0x400u) {  // zero and subnormal: a multiple of 2^-24
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
  }
  return std::bit_cast<float>(sign | ((magnitude + 0x1c000u) << 13));
}
constexpr float ToFloat(float x) { return x; }

/// Returns the nearest value, ties to even; NaN stays NaN, and what is too large becomes Inf.
constexpr BFloat16 ToBFloat16(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return {static_cast<std::uint16_t>(bits >> 16 | 0x40u)};
  }
  return {static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}
constexpr Float16 ToFloat16(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<std::uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 0x477ff000u) return {static_cast<std::uint16_t>(sign | 0x7c00u)};
  if (magnitude < 0x38800000u) {
    // Below 2^-14 the spacing is 2^-24: adding 0.5 makes the float unit do the rounding.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    const std::uint32_t rounded = std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u;
    return {static_cast<std::uint16_t>(sign | rounded)};
  }
  const std::uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u) - 0x38000000u;
  return {static_cast<std::uint16_t>(sign | rounded >> 13)};
}

}  // namespace palmist::kernels
