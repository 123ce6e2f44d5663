/// What one operation computes, for every evaluator (internal).
#pragma once

#include <cmath>

#include "palmist/symbolic/lowering.h"

#if defined(__GNUC__)
#define PALMIST_ALWAYS_INLINE __attribute__((always_inline)) inline
#define PALMIST_INLINE_LAMBDA __attribute__((always_inline))
#else
#define PALMIST_ALWAYS_INLINE inline
#define PALMIST_INLINE_LAMBDA
#endif

namespace palmist::symbolic::internal {

/// Computes one operation. NaN operands give NaN, so that what is undefined never turns into a
/// number; adding 0 to a divisor makes a negative zero positive.
template <Op op>
PALMIST_ALWAYS_INLINE double Apply(double a, double b, double c) {
  if constexpr (op == Op::kAdd) {
    return a + b;
  } else if constexpr (op == Op::kSubtract) {
    return a - b;
  } else if constexpr (op == Op::kMultiply) {
    return a * b;
  } else if constexpr (op == Op::kDivide) {
    return a / (b + 0.0);
  } else if constexpr (op == Op::kMin) {
    const double least = a < b ? a : b;
    return a == a ? least : a;
  } else if constexpr (op == Op::kMax) {
    const double greatest = a > b ? a : b;
    return a == a ? greatest : a;
  } else if constexpr (op == Op::kSquare) {
    return a * a;
  } else if constexpr (op == Op::kCeil) {
    return std::ceil(a);
  } else if constexpr (op == Op::kFloor) {
    return std::floor(a);
  } else if constexpr (op == Op::kSelect) {
    const double chosen = a > 0.0 ? b : c;
    return a == a ? chosen : a;
  } else {
    return a;
  }
}

/// Calls action.template operator()<op>() for an op known at run time only.
template <typename Action>
PALMIST_ALWAYS_INLINE auto Dispatch(Op op, Action&& action) {
  switch (op) {
    case Op::kAdd:
      return action.template operator()<Op::kAdd>();
    case Op::kSubtract:
      return action.template operator()<Op::kSubtract>();
    case Op::kMultiply:
      return action.template operator()<Op::kMultiply>();
    case Op::kDivide:
      return action.template operator()<Op::kDivide>();
    case Op::kMin:
      return action.template operator()<Op::kMin>();
    case Op::kMax:
      return action.template operator()<Op::kMax>();
    case Op::kSquare:
      return action.template operator()<Op::kSquare>();
    case Op::kCeil:
      return action.template operator()<Op::kCeil>();
    case Op::kFloor:
      return action.template operator()<Op::kFloor>();
    case Op::kSelect:
      return action.template operator()<Op::kSelect>();
    case Op::kConstant:
    case Op::kInput:
      break;
  }
  return action.template operator()<Op::kInput>();
}

}  // namespace palmist::symbolic::internal
