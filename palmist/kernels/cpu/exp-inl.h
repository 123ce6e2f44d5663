// The exponential function of vectors, for code that foreach_target.h compiles once per instruction
// set. Included inside no namespace, after "hwy/highway.h"; use it within
// palmist::kernels::HWY_NAMESPACE.
#if defined(PALMIST_KERNELS_EXP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PALMIST_KERNELS_EXP_INL_H
#undef PALMIST_KERNELS_EXP_INL_H
#else
#define PALMIST_KERNELS_EXP_INL_H
#endif

#include <bit>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace palmist::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// What `Exp` knows of a type. ln 2 is kLn2High + kLn2Low, where n kLn2High is exact for every
/// exponent n; outside [kLowest, kHighest] the result is 0 or Inf.
template <typename C>
struct ExpConstants;
template <>
struct ExpConstants<float> {
  using Bits = std::uint32_t;
  static constexpr int kMantissaBits = 23;
  static constexpr int kBias = 127;
  static constexpr int kDegree = 7;
  static constexpr float kLn2High = 0x1.63p-1f;
  static constexpr float kLn2Low = -0x1.bd0106p-13f;
  static constexpr float kLowest = -104;
  static constexpr float kHighest = 89;
};
template <>
struct ExpConstants<double> {
  using Bits = std::uint64_t;
  static constexpr int kMantissaBits = 52;
  static constexpr int kBias = 1023;
  static constexpr int kDegree = 13;
  static constexpr double kLn2High = 0x1.62e42feep-1;
  static constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  static constexpr double kLowest = -746;
  static constexpr double kHighest = 710;
};

/// Returns the larger, or smaller, of the two, but x where x is NaN.
template <class V>
HWY_INLINE V AtLeast(V bound, V x) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  return hn::IfThenElse(hn::Lt(x, bound), bound, x);
#else
  // Vector instructions return their second operand, or NaN, where an operand is NaN.
  return hn::Max(bound, x);
#endif
}
template <class V>
HWY_INLINE V AtMost(V bound, V x) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  return hn::IfThenElse(hn::Gt(x, bound), bound, x);
#else
  return hn::Min(bound, x);
#endif
}

/// Returns e^x within 2 ulp, subnormal results included; 0 at -Inf, Inf at +Inf, NaN for NaN.
///
/// x = n ln 2 + r with |r| <= ln(2)/2, and e^r by its Taylor polynomial, whose error is below 2^-27
/// (float) and 2^-56 (double) there. Source of the reduction: W. Cody, W. Waite, "Software manual
/// for the elementary functions", 1980, chapter 6.
template <class D>
HWY_INLINE hn::Vec<D> Exp(D d, hn::Vec<D> x) {
  using C = hn::TFromD<D>;
  using K = ExpConstants<C>;
  using Bits = typename K::Bits;
  const hn::RebindToSigned<D> di;
  using Signed = hn::TFromD<decltype(di)>;
  x = AtMost(hn::Set(d, K::kHighest), AtLeast(hn::Set(d, K::kLowest), x));

  // Adding 1.5 2^mantissa bits rounds to an integer and leaves it in the low bits of the sum.
  constexpr C kShift = static_cast<C>(Bits{3} << (K::kMantissaBits - 1));
  constexpr C kLog2E = static_cast<C>(1.4426950408889634);
  const auto shifted = hn::MulAdd(x, hn::Set(d, kLog2E), hn::Set(d, kShift));
  const auto n = hn::Sub(shifted, hn::Set(d, kShift));
  const auto r =
      hn::NegMulAdd(n, hn::Set(d, K::kLn2Low), hn::NegMulAdd(n, hn::Set(d, K::kLn2High), x));

  constexpr auto kReciprocals = [] {
    struct {
      C of[K::kDegree + 1] = {1};  // 1 / k!
    } reciprocals;
    double factorial = 1;
    for (int k = 1; k <= K::kDegree; ++k) {
      factorial *= k;
      reciprocals.of[k] = static_cast<C>(1 / factorial);
    }
    return reciprocals;
  }();
  auto sum = hn::Set(d, kReciprocals.of[K::kDegree]);
  HWY_UNROLL(16)
  for (int k = K::kDegree - 1; k >= 0; --k) {
    sum = hn::MulAdd(sum, r, hn::Set(d, kReciprocals.of[k]));
  }

  // 2^n as two factors, since n may be out of the range of exponents while the result is not. Their
  // exponents, bias included, add up to n + 2 kBias.
  const auto exponents =
      hn::Sub(hn::BitCast(di, shifted),
              hn::Set(di, static_cast<Signed>(std::bit_cast<Bits>(kShift) - Bits{2 * K::kBias})));
  const auto half = hn::ShiftRight<1>(exponents);
  const auto factor = [&](auto exponent) {
    return hn::BitCast(d, hn::ShiftLeft<K::kMantissaBits>(exponent));
  };
  return hn::Mul(hn::Mul(sum, factor(half)), factor(hn::Sub(exponents, half)));
}

}  // namespace HWY_NAMESPACE
}  // namespace palmist::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
