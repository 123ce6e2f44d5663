/// Closed intervals with outward-safe arithmetic, for bounds of expressions over boxes.
#pragma once

namespace palmist::symbolic {

/// The closed interval [lo, hi]; an infinite end means unbounded on that side.
struct Interval {
  double lo = 0.0;
  double hi = 0.0;

  /// Returns whether `value` lies in the interval; false for NaN.
  bool Contains(double value) const { return lo <= value && value <= hi; }

  friend bool operator==(const Interval&, const Interval&) = default;
};

/// Returns an enclosure of {x op y : x in a, y in b}, left out the pairs whose value is NaN.
///
/// Round-to-nearest is monotone, so each result encloses every *floating-point* value of the same
/// operation on members of the operands. By induction the bounds of an expression enclose every
/// value `Evaluate` can give in the box, with no directed rounding.
Interval Add(const Interval& a, const Interval& b);
Interval Subtract(const Interval& a, const Interval& b);
Interval Multiply(const Interval& a, const Interval& b);
Interval Divide(const Interval& a, const Interval& b);
Interval Minimum(const Interval& a, const Interval& b);
Interval Maximum(const Interval& a, const Interval& b);

/// Returns an enclosure of {x * x : x in a}.
Interval Square(const Interval& a);
Interval Ceiling(const Interval& a);
Interval Flooring(const Interval& a);

/// Returns an enclosure of {c > 0 ? x : y}; only the reachable branches count.
Interval Choose(const Interval& condition, const Interval& if_positive, const Interval& otherwise);

}  // namespace palmist::symbolic
