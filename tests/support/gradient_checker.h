/// Checks gradients against central differences.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace palmist::test {

struct GradientTolerance {
  double step = 1e-5;      ///< h of (f(x + h) - f(x - h)) / 2h, whose error is of order h^2
  double relative = 1e-6;  ///< of the gradient's largest element
  double absolute = 1e-8;
};

/// Returns success where `gradient` is that of f at x: every element within the tolerance of its
/// central difference. x is changed and put back; f is called twice an element.
///
/// The message names the worst element, what was expected there and what came.
inline ::testing::AssertionResult GradientIs(const std::function<double()>& f,
                                             std::span<double> x,
                                             std::span<const double> gradient,
                                             const GradientTolerance& tolerance = {}) {
  if (x.size() != gradient.size()) {
    return ::testing::AssertionFailure()
           << "expected a gradient of " << x.size() << " elements, got " << gradient.size();
  }
  std::vector<double> expected(x.size());
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double middle = x[i];
    x[i] = middle + tolerance.step;
    const double above = f();
    x[i] = middle - tolerance.step;
    const double below = f();
    x[i] = middle;
    expected[i] = (above - below) / (2 * tolerance.step);
    largest = std::max(largest, std::abs(expected[i]));
  }
  const double allowed = tolerance.absolute + tolerance.relative * largest;
  std::size_t worst = 0;
  double worst_error = -1;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = std::abs(gradient[i] - expected[i]);
    if (error > worst_error || std::isnan(error)) {
      worst = i;
      worst_error = error;
    }
    if (std::isnan(error)) break;
  }
  if (worst_error <= allowed) return ::testing::AssertionSuccess();
  if (x.empty()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "gradient[" << worst << "]: expected " << expected[worst]
         << " by central differences, got " << gradient[worst] << " (off by " << worst_error
         << ", allowed " << allowed << ")";
}

}  // namespace palmist::test
