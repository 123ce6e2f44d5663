#include "palmist/symbolic/interval.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

namespace palmist::symbolic {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Returns [lo, hi], where an end that is NaN (infinity minus infinity) is unknown.
Interval FromEnds(double lo, double hi) {
  if (std::isnan(lo)) lo = -kInfinity;
  if (std::isnan(hi)) hi = kInfinity;
  return {lo, hi};
}

/// Returns the least interval that holds `values`, without NaN; everything if there are none.
Interval Hull(std::initializer_list<double> values) {
  Interval hull{kInfinity, -kInfinity};
  for (const double value : values) {
    if (std::isnan(value)) continue;
    hull = {std::min(hull.lo, value), std::max(hull.hi, value)};
  }
  return hull.lo <= hull.hi ? hull : Interval{-kInfinity, kInfinity};
}

/// Returns x * y, where 0 * infinity is 0: an infinite end stands for arbitrarily large values.
double CornerProduct(double x, double y) {
  const double product = x * y;
  return std::isnan(product) ? 0.0 : product;
}

}  // namespace

Interval Add(const Interval& a, const Interval& b) { return FromEnds(a.lo + b.lo, a.hi + b.hi); }

Interval Subtract(const Interval& a, const Interval& b) {
  return FromEnds(a.lo - b.hi, a.hi - b.lo);
}

Interval Multiply(const Interval& a, const Interval& b) {
  return Hull({CornerProduct(a.lo, b.lo),
               CornerProduct(a.lo, b.hi),
               CornerProduct(a.hi, b.lo),
               CornerProduct(a.hi, b.hi)});
}

Interval Divide(const Interval& a, const Interval& b) {
  if (b.lo < 0.0 && b.hi >= 0.0) return {-kInfinity, kInfinity};
  // Adding 0 makes a zero positive, as evaluation does. A corner that is NaN (0 / 0, or infinity
  // over infinity) stands for values that its neighbours bound.
  const double lo = b.lo + 0.0;
  const double hi = b.hi + 0.0;
  return Hull({a.lo / lo, a.lo / hi, a.hi / lo, a.hi / hi});
}

Interval Minimum(const Interval& a, const Interval& b) {
  return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
}

Interval Maximum(const Interval& a, const Interval& b) {
  return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
}

Interval Square(const Interval& a) {
  const double lo = a.lo * a.lo;
  const double hi = a.hi * a.hi;
  if (a.lo <= 0.0 && a.hi >= 0.0) return {0.0, std::max(lo, hi)};
  return {std::min(lo, hi), std::max(lo, hi)};
}

Interval Ceiling(const Interval& a) { return {std::ceil(a.lo), std::ceil(a.hi)}; }

Interval Flooring(const Interval& a) { return {std::floor(a.lo), std::floor(a.hi)}; }

Interval Choose(const Interval& condition, const Interval& if_positive, const Interval& otherwise) {
  if (condition.lo > 0.0) return if_positive;
  if (condition.hi <= 0.0) return otherwise;
  return {std::min(if_positive.lo, otherwise.lo), std::max(if_positive.hi, otherwise.hi)};
}

}  // namespace palmist::symbolic
