#include "palmist/symbolic/ratio.h"

#include <cmath>
#include <cstdint>
#include <numeric>

namespace palmist::symbolic::internal {
namespace {

constexpr double kIntegerLimit = 9007199254740992.0;  // 2^53

/// Returns whether x is an integer that no rounding can have produced.
bool IsExactInteger(double x) { return std::abs(x) < kIntegerLimit && std::floor(x) == x; }

bool IsPowerOfTwo(double x) {
  int exponent = 0;
  return std::frexp(x, &exponent) == 0.5;
}

/// Returns the greatest common divisor of two exact integers, not both 0.
double CommonDivisor(double a, double b) {
  return static_cast<double>(std::gcd(static_cast<std::int64_t>(a), static_cast<std::int64_t>(b)));
}

}  // namespace

Ratio MakeRatio(double num, double den) {
  if (den == 1.0 || den == 0.0) return {num / den, 1.0};
  // Binary fractions of few digits become integers: 0.5 / 3 is 1 / 6.
  double n = num;
  double d = den;
  for (int shift = 0; shift < 20 && !(IsExactInteger(n) && IsExactInteger(d)); ++shift) {
    n *= 2.0;
    d *= 2.0;
  }
  if (!IsExactInteger(n) || !IsExactInteger(d)) return {num / den, 1.0};
  const double divisor = std::copysign(CommonDivisor(n, d), d);
  n /= divisor;
  d /= divisor;
  return IsPowerOfTwo(d) ? Ratio{n / d, 1.0} : Ratio{n, d};
}

Ratio operator+(const Ratio& a, const Ratio& b) {
  if (a.den == b.den) return MakeRatio(a.num + b.num, a.den);
  const double num = a.num * b.den + b.num * a.den;
  if (!std::isfinite(num)) return {a.value() + b.value(), 1.0};
  return MakeRatio(num, a.den * b.den);
}

Ratio operator*(const Ratio& a, const Ratio& b) {
  // Cross-reducing first keeps the products small.
  const Ratio x = MakeRatio(a.num, b.den);
  const Ratio y = MakeRatio(b.num, a.den);
  return MakeRatio(x.num * y.num, x.den * y.den);
}

Ratio operator/(const Ratio& a, const Ratio& b) { return a * MakeRatio(b.den, b.num); }

}  // namespace palmist::symbolic::internal
