// GELU and its derivative as functions of vectors, for code that foreach_target.h compiles once per
// instruction set. Included inside no namespace, after "hwy/highway.h"; use it within
// palmist::kernels::HWY_NAMESPACE.
#if defined(PALMIST_KERNELS_GELU_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PALMIST_KERNELS_GELU_INL_H
#undef PALMIST_KERNELS_GELU_INL_H
#else
#define PALMIST_KERNELS_GELU_INL_H
#endif

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "palmist/kernels/cpu/exp-inl.h"
#include "palmist/kernels/cpu/gelu_inverse_coefficients.h"
#include "palmist/kernels/cpu/rows-inl.h"
#include "palmist/kernels/cpu/vector-inl.h"
#include "palmist/kernels/gelu.h"

HWY_BEFORE_NAMESPACE();
namespace palmist::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Returns the polynomial with ascending coefficients at x.
template <class D, std::size_t kSize>
HWY_INLINE hn::Vec<D> Polynomial(D d, hn::Vec<D> x, const float (&coefficients)[kSize]) {
  auto sum = hn::Set(d, coefficients[kSize - 1]);
#pragma GCC unroll 16
  for (int k = static_cast<int>(kSize) - 2; k >= 0; --k) {
    sum = hn::MulAdd(sum, x, hn::Set(d, coefficients[k]));
  }
  return sum;
}

// Both forms are written as g(x) = max(x, 0) - P(|x|), and g'(x) = T(|x|) for x < 0 and 1 - T(|x|)
// for x >= 0. P and T have an exponential as a factor, so that for negative x they keep their
// relative accuracy: no near numbers are subtracted.

/// What P and T have in common; both are 0 beyond an end, from where on float has nothing smaller.
template <class D>
struct GeluParts {
  hn::Vec<D> a;    ///< |x|; 0 beyond the end, which keeps slow subnormal numbers and Inf out
  hn::Vec<D> exp;  ///< the exponential of the form; 0 beyond the end
};

/// Returns the parts of a form whose exponential is exp_of(a).
template <class D, class ExpOf>
HWY_INLINE GeluParts<D> PartsUpTo(D d, float end, hn::Vec<D> x, const ExpOf& exp_of) {
  const auto distance = hn::Abs(x);
  const auto over = hn::Gt(distance, hn::Set(d, end));
  const auto a = hn::IfThenZeroElse(over, distance);
  return {a, hn::IfThenZeroElse(over, exp_of(a))};
}

/// The erf form: P(a) = a Phi(-a) and T(a) = Phi(-a) - a phi(a), with Phi(-a) = exp(-a^2/2) M(a).
template <class D>
struct ErfGelu {
  using V = hn::Vec<D>;

  static HWY_INLINE GeluParts<D> Parts(D d, V x) {
    return PartsUpTo(d, kErfEnd, x, [d](V a) HWY_ATTR {
      // a^2 goes up to 174, of which a float has too few digits after the point. What its rounding
      // leaves is a factor of almost 1; without fused arithmetic it is lost.
      const auto square = hn::Mul(a, a);
      const auto rest = hn::MulSub(a, a, square);
      const auto exp = Exp(d, hn::Mul(square, hn::Set(d, -0.5f)));
      return hn::MulAdd(exp, hn::Mul(rest, hn::Set(d, -0.5f)), exp);
    });
  }
  /// M(a), half of erfcx(a / sqrt(2)).
  static HWY_INLINE V M(D d, V a) {
    const auto shift = hn::Set(d, kMillsShift);
    const auto inverse = hn::Div(hn::Set(d, 1.0f), hn::Add(a, shift));
    return hn::Mul(Polynomial(d, hn::Mul(hn::Sub(a, shift), inverse), kMillsCoefficients), inverse);
  }
  static HWY_INLINE V P(D d, const GeluParts<D>& parts) {
    return hn::Mul(hn::Mul(parts.a, M(d, parts.a)), parts.exp);
  }
  static HWY_INLINE V T(D d, const GeluParts<D>& parts) {
    constexpr float kInverseRoot2Pi = 0.398942280401432678f;
    const auto slope = hn::NegMulAdd(parts.a, hn::Set(d, kInverseRoot2Pi), M(d, parts.a));
    return hn::Mul(slope, parts.exp);
  }
};

/// The tanh form: with v = 2 sqrt(2/pi) (a + 0.044715 a^3) and s = exp(-v) / (1 + exp(-v)),
/// P(a) = a s and T(a) = s (1 - a (1 - s) v').
template <class D>
struct TanhGelu {
  using V = hn::Vec<D>;
  static constexpr float kLinear = 1.59576912160573071f;  // 2 sqrt(2/pi)
  static constexpr float kCubic = 0.0713548162726009f;    // that times 0.044715
  static constexpr float kTanhEnd = 10.8f;                // v = 107

  static HWY_INLINE GeluParts<D> Parts(D d, V x) {
    return PartsUpTo(d, kTanhEnd, x, [d](V a) HWY_ATTR {
      const auto factor = hn::MulAdd(hn::Mul(a, a), hn::Set(d, kCubic), hn::Set(d, kLinear));
      return Exp(d, hn::Neg(hn::Mul(a, factor)));
    });
  }
  static HWY_INLINE V P(D d, const GeluParts<D>& parts) {
    const auto sum = hn::Add(hn::Set(d, 1.0f), parts.exp);
    return hn::Div(hn::Mul(parts.a, parts.exp), sum);
  }
  static HWY_INLINE V T(D d, const GeluParts<D>& parts) {
    const auto& [a, exp] = parts;
    const auto one = hn::Set(d, 1.0f);
    const auto inverse = hn::Div(one, hn::Add(one, exp));  // 1 - s
    const auto steep = hn::MulAdd(hn::Mul(a, a), hn::Set(d, 3.0f * kCubic), hn::Set(d, kLinear));
    return hn::Mul(hn::Mul(exp, inverse), hn::NegMulAdd(hn::Mul(a, inverse), steep, one));
  }
};

/// Returns g(x).
template <template <class> class Form, class D>
HWY_INLINE hn::Vec<D> GeluValue(D d, hn::Vec<D> x) {
  const auto positive = hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
  const auto y = hn::Sub(positive, Form<D>::P(d, Form<D>::Parts(d, x)));
  // g has the sign of x, also where it is 0.
  return hn::Or(y, hn::And(x, hn::SignBit(d)));
}

/// Returns g'(x).
template <template <class> class Form, class D>
HWY_INLINE hn::Vec<D> GeluSlope(D d, hn::Vec<D> x) {
  const auto t = Form<D>::T(d, Form<D>::Parts(d, x));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), t, hn::Sub(hn::Set(d, 1.0f), t));
}

/// The same in double, one number at a time: for checks of gradients.
/// @{
template <template <class> class Form>
inline constexpr bool kIsErf =
    std::is_same_v<Form<hn::ScalableTag<float>>, ErfGelu<hn::ScalableTag<float>>>;

/// Beyond it g and g' have their limits.
inline constexpr double kFar = 40;
inline constexpr double k2Root2ByPi = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;

inline double TanhSigmoid(double x) {
  return 1 / (1 + std::exp(-k2Root2ByPi * x * (1 + 0.044715 * x * x)));
}

/// Returns g(x).
template <template <class> class Form>
double GeluValue(double x) {
  if (x < -kFar) return -0.0;
  return x * (kIsErf<Form> ? 0.5 * std::erfc(-x / std::numbers::sqrt2) : TanhSigmoid(x));
}

/// Returns g'(x).
template <template <class> class Form>
double GeluSlope(double x) {
  if (std::abs(x) > kFar) return x > 0;
  if constexpr (kIsErf<Form>) {
    const double density = std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
    return 0.5 * std::erfc(-x / std::numbers::sqrt2) + x * density;
  } else {
    const double s = TanhSigmoid(x);
    return s + x * s * TanhSigmoid(-x) * k2Root2ByPi * (1 + 3 * 0.044715 * x * x);
  }
}
/// @}

/// Fetches what lies 1 KiB behind each pointer, or nothing where no memory is.
///
/// The arithmetic of a vector is so long that a core looks only a few vectors ahead, and its own
/// prefetching stops at each page. Takes a quarter off the time of large arrays.
template <typename... T>
HWY_INLINE void PrefetchAhead(const T*... p) {
  (hwy::Prefetch(reinterpret_cast<const char*>(reinterpret_cast<std::uintptr_t>(p) + 1024)), ...);
}

/// Calls loop(begin, end) over [0, n) on threads; begin is a multiple of 8.
template <class Loop>
void ForEachRange(std::size_t n, Executor& executor, const Loop& loop) {
  constexpr std::int64_t kBlock = 8;
  const auto size = static_cast<std::int64_t>(n);
  executor.ParallelFor(
      (size + kBlock - 1) / kBlock, GrainOf(kBlock), [&](std::int64_t first, std::int64_t last) {
        loop(static_cast<std::size_t>(first * kBlock),
             static_cast<std::size_t>(std::min(last * kBlock, size)));
      });
}

}  // namespace HWY_NAMESPACE
}  // namespace palmist::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
