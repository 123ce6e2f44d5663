/// Properties of expressions on random trees.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <bit>
#include <cstdlib>

#include "palmist/base/error.h"
#include "palmist/symbolic/expr.h"
#include "palmist/symbolic/program.h"
#include "palmist/symbolic/test/random_tree.h"

namespace palmist::symbolic {
namespace {

using test::Generator;
using test::Names;
using test::Tree;

// RapidCheck reads its parameters from here at the first check.
[[maybe_unused]] const int kFixedSeed = setenv("RC_PARAMS", "seed=20240601 max_success=400", 1);

/// Returns whether a and b have the same bits, or are both NaN.
bool SameBits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

/// Returns whether `got` is within 1e-12 of `expected`, relative.
bool IsClose(long double expected, double got) {
  return std::abs(expected - got) <= 1e-12L * std::abs(expected);
}

/// Returns whether 1e-12 may be asked of `naive`: not where nearly equal terms cancel.
bool IsWellConditioned(const test::Naive& naive) {
  return naive.defined && naive.error <= 2e-13L * std::abs(naive.value);
}

TEST(ExpressionProperty, SimplifiedEqualsNaiveEvaluation) {
  int checked = 0;
  EXPECT_TRUE(rc::check([&checked](std::uint64_t seed) {
    Generator generator(seed);
    const Tree tree = generator.Draw(5);
    const Expr expr = test::Build(tree);
    for (int i = 0; i < 20; ++i) {
      const auto point = generator.DrawPoint();
      const test::Naive naive = test::EvaluateNaively(tree, point);
      if (!IsWellConditioned(naive)) continue;
      RC_ASSERT(IsClose(naive.value, Evaluate(expr, point)));
      ++checked;
    }
  }));
  EXPECT_GT(checked, 2000);
}

TEST(ExpressionProperty, ExpandedEqualsNaiveEvaluation) {
  EXPECT_TRUE(rc::check([](std::uint64_t seed) {
    Generator generator(seed, /*divisions=*/false);
    const Tree tree = generator.Draw(3);
    const Expr expanded = Expand(test::Build(tree));
    RC_ASSERT(expanded == Expand(expanded));
    for (int i = 0; i < 20; ++i) {
      const auto point = generator.DrawPoint();
      RC_ASSERT(test::EvaluateNaively(tree, point).value == Evaluate(expanded, point));
    }
  }));
}

TEST(ExpressionProperty, BoundsEncloseValues) {
  int narrow = 0;
  EXPECT_TRUE(rc::check([&narrow](std::uint64_t seed) {
    Generator generator(seed);
    const Program program({test::Build(generator.Draw(5))}, Names());
    constexpr std::size_t kPoints = 1000;
    std::vector<Interval> box;
    std::vector<std::vector<double>> points;
    std::vector<const double*> columns;
    for (const std::string& name : Names()) {
      const double lo = name == "r" ? static_cast<double>(generator.Below(3)) / 4.0
                                    : 0.25 * static_cast<double>(1 + generator.Below(30));
      const double width = 0.25 * static_cast<double>(generator.Below(12));
      box.push_back({lo, lo + width});
      std::vector<double> column;
      for (std::size_t i = 0; i < kPoints; ++i) {
        column.push_back(lo + width * static_cast<double>(generator.Below(65)) / 64.0);
      }
      points.push_back(std::move(column));
    }
    for (const auto& column : points) columns.push_back(column.data());
    std::vector<double> values(kPoints);
    double* const outs[] = {values.data()};
    program.Run(columns, kPoints, outs);
    const Interval bounds = program.RunBounds(box)[0];
    for (const double value : values) {
      if (!std::isnan(value)) RC_ASSERT(bounds.Contains(value));
    }
    narrow += std::isfinite(bounds.hi - bounds.lo) ? 1 : 0;
  }));
  EXPECT_GT(narrow, 200);  // the whole line encloses everything, and proves nothing
}

TEST(ExpressionProperty, ProgramEqualsEvaluateBitForBit) {
  EXPECT_TRUE(rc::check([](std::uint64_t seed) {
    Generator generator(seed);
    std::vector<Expr> outputs;
    for (int i = 0; i < 4; ++i) outputs.push_back(test::Build(generator.Draw(5)));
    outputs.push_back(outputs[0]);  // an output named twice, an input and a constant
    outputs.push_back(test::SymbolNamed("b"));
    outputs.emplace_back(7.0);
    const Program program(outputs, Names());
    const std::size_t n = 1 + generator.Below(1100);
    std::vector<std::vector<double>> points(Names().size());
    for (auto& column : points) {
      // Zeros and fractions too: rounding and division by zero must agree as well.
      for (std::size_t k = 0; k < n; ++k) {
        column.push_back(static_cast<double>(generator.Below(40)) / 7.0);
      }
    }
    std::vector<const double*> columns;
    for (const auto& column : points) columns.push_back(column.data());
    std::vector<std::vector<double>> results(outputs.size(), std::vector<double>(n));
    std::vector<double*> outs;
    for (auto& result : results) outs.push_back(result.data());
    program.Run(columns, n, outs, 1 + static_cast<int>(generator.Below(2)));
    for (int trial = 0; trial < 30; ++trial) {
      const std::size_t k = trial == 0 ? n - 1 : generator.Below(n);
      std::map<std::string, double> point;
      for (std::size_t i = 0; i < Names().size(); ++i) point[Names()[i]] = points[i][k];
      for (std::size_t j = 0; j < outputs.size(); ++j) {
        RC_ASSERT(SameBits(Evaluate(outputs[j], point), results[j][k]));
      }
    }
  }));
}

TEST(ExpressionProperty, SubstituteCommutesWithEvaluate) {
  int checked = 0;
  EXPECT_TRUE(rc::check([&checked](std::uint64_t seed) {
    Generator generator(seed);
    const Tree tree = generator.Draw(4);
    const Expr a = 2 * test::SymbolNamed("b") + 1;
    const Expr substituted = Substitute(test::Build(tree), {{"a", a}});
    for (int i = 0; i < 20; ++i) {
      auto point = generator.DrawPoint();
      point["a"] = 2 * point["b"] + 1;
      const test::Naive naive = test::EvaluateNaively(tree, point);
      if (!IsWellConditioned(naive)) continue;
      point.erase("a");
      RC_ASSERT(IsClose(naive.value, Evaluate(substituted, point)));
      ++checked;
    }
  }));
  EXPECT_GT(checked, 2000);
}

TEST(ExpressionProperty, OrderOfOperandsDoesNotMatter) {
  EXPECT_TRUE(rc::check([](std::uint64_t seed) {
    Generator generator(seed, /*divisions=*/false);  // exact constants add up in any order
    std::vector<Expr> operands;
    for (int i = 0; i < 6; ++i) operands.push_back(test::Build(generator.Draw(2)));
    const Expr sum = Sum(operands);
    const Expr product = Product(operands);
    const Expr max = Max(operands);
    for (std::size_t i = operands.size(); i > 1; --i) {
      std::swap(operands[i - 1], operands[generator.Below(i)]);
    }
    RC_ASSERT(sum == Sum(operands));
    RC_ASSERT(product == Product(operands));
    RC_ASSERT(max == Max(operands));
    RC_ASSERT(ToText(max) == ToText(Max(operands)));
  }));
}

}  // namespace
}  // namespace palmist::symbolic
