/// GELU in double, for tests.
#pragma once

#include <cmath>
#include <numbers>

#include "palmist/kernels/gelu.h"

namespace palmist::kernels {

inline constexpr GeluKind kGeluKinds[] = {GeluKind::kErf, GeluKind::kTanh};

/// Returns the logistic function of the tanh form's argument doubled: (1 + tanh(z)) / 2.
inline double TanhGate(double x) {
  const double steep = std::sqrt(8 / std::numbers::pi);
  return 1 / (1 + std::exp(-steep * (x + 0.044715 * x * x * x)));
}

/// Returns g(x).
inline double ExactGelu(double x, GeluKind kind) {
  if (x < -40) return -0.0;
  return kind == GeluKind::kErf ? x * 0.5 * std::erfc(-x * std::numbers::sqrt2 / 2)
                                : x * TanhGate(x);
}

/// Returns g'(x).
inline double ExactGeluSlope(double x, GeluKind kind) {
  if (std::abs(x) > 40) return x > 0 ? 1 : 0;
  if (kind == GeluKind::kErf) {
    return 0.5 * std::erfc(-x * std::numbers::sqrt2 / 2) +
           x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
  }
  const double steep = std::sqrt(8 / std::numbers::pi);
  return TanhGate(x) * (1 + x * TanhGate(-x) * steep * (1 + 3 * 0.044715 * x * x));
}

}  // namespace palmist::kernels
