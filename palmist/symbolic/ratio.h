/// Coefficients of terms: doubles, kept as a fraction of integers while that is exact (internal).
#pragma once

namespace palmist::symbolic::internal {

/// The number num / den. In normal form den is 1, or num and den are coprime integers below 2^53
/// with den > 1 no power of two; so that x / 3 is evaluated as a division, exact where it can be.
struct Ratio {
  double num = 1.0;
  double den = 1.0;

  bool IsZero() const { return num == 0.0; }
  bool IsOne() const { return num == 1.0 && den == 1.0; }
  bool IsUnit() const { return (num == 1.0 || num == -1.0) && den == 1.0; }
  double value() const { return num / den; }
};

/// Returns num / den in normal form.
Ratio MakeRatio(double num, double den = 1.0);
Ratio operator+(const Ratio& a, const Ratio& b);
Ratio operator*(const Ratio& a, const Ratio& b);
Ratio operator/(const Ratio& a, const Ratio& b);

}  // namespace palmist::symbolic::internal
