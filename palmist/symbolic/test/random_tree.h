/// Random expression trees with an evaluation of their own, for property tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "palmist/symbolic/expr.h"

namespace palmist::symbolic::test {

/// An expression as it was written down, before any simplification.
struct Tree {
  enum Op { kNumber, kName, kAdd, kSub, kMul, kDiv, kMin, kMax, kCeil, kFloor, kSelect };
  Op op = kNumber;
  double number = 0.0;
  std::string name;
  std::vector<Tree> operands;
};

inline const std::vector<std::string>& Names() {
  static const std::vector<std::string> names{"a", "b", "c", "r"};
  return names;
}

/// Returns the symbol `name`: "r" may be zero, the others are positive.
inline Expr SymbolNamed(const std::string& name) {
  return Expr::Symbol(name, name == "r" ? Domain::kNonnegative : Domain::kPositive);
}

/// Draws trees and points; the same seed draws the same ones on every platform.
class Generator {
 public:
  /// Without divisions every value is a binary fraction, and double arithmetic is exact.
  explicit Generator(std::uint64_t seed, bool divisions = true)
      : engine_(seed), divisions_(divisions) {}

  std::uint64_t Below(std::uint64_t n) { return engine_() % n; }

  Tree Draw(int depth) {
    if (depth == 0 || Below(6) == 0) {
      if (Below(3) == 0) {
        static const double numbers[] = {-3, -2, -1, 0, 0.5, 1, 2, 3, 5, 8};
        return {Tree::kNumber, numbers[Below(10)], "", {}};
      }
      return {Tree::kName, 0.0, Names()[Below(Names().size())], {}};
    }
    static const Tree::Op ops[] = {Tree::kAdd,
                                   Tree::kAdd,
                                   Tree::kAdd,
                                   Tree::kSub,
                                   Tree::kSub,
                                   Tree::kMul,
                                   Tree::kMul,
                                   Tree::kMul,
                                   Tree::kDiv,
                                   Tree::kDiv,
                                   Tree::kMin,
                                   Tree::kMax,
                                   Tree::kCeil,
                                   Tree::kFloor,
                                   Tree::kSelect};
    Tree::Op op = ops[Below(15)];
    if (op == Tree::kDiv && !divisions_) op = Tree::kMul;
    const int arity = op == Tree::kSelect ? 3 : op == Tree::kCeil || op == Tree::kFloor ? 1 : 2;
    Tree tree{op, 0.0, "", {}};
    for (int i = 0; i < arity; ++i) tree.operands.push_back(Draw(depth - 1));
    return tree;
  }

  /// Draws whole numbers for positive symbols and quarters, often 0, for the others.
  std::map<std::string, double> DrawPoint() {
    std::map<std::string, double> point;
    for (const std::string& name : Names()) {
      point[name] =
          name == "r" ? static_cast<double>(Below(5)) / 4.0 : static_cast<double>(1 + Below(12));
    }
    return point;
  }

 private:
  std::mt19937_64 engine_;
  bool divisions_;
};

inline Expr Build(const Tree& tree) {
  std::vector<Expr> x;
  for (const Tree& operand : tree.operands) x.push_back(Build(operand));
  switch (tree.op) {
    case Tree::kNumber:
      return tree.number;
    case Tree::kName:
      return SymbolNamed(tree.name);
    case Tree::kAdd:
      return x[0] + x[1];
    case Tree::kSub:
      return x[0] - x[1];
    case Tree::kMul:
      return x[0] * x[1];
    case Tree::kDiv:
      return x[0] / x[1];
    case Tree::kMin:
      return Min(x[0], x[1]);
    case Tree::kMax:
      return Max(x[0], x[1]);
    case Tree::kCeil:
      return Ceil(x[0]);
    case Tree::kFloor:
      return Floor(x[0]);
    case Tree::kSelect:
      return Select(x[0], x[1], x[2]);
  }
  return 0.0;
}

/// The value of a tree as written, in extended precision, and how far it may be trusted.
struct Naive {
  long double value = 0.0L;
  long double error = 0.0L;  ///< bound on the rounding error of any double evaluation order
  bool exact = true;         ///< every double evaluation gives exactly this
  bool defined = true;       ///< nothing divides by zero, no jump is closer than rounding errors
};

inline Naive EvaluateNaively(const Tree& tree, const std::map<std::string, double>& point) {
  std::vector<Naive> x;
  Naive result;
  for (const Tree& operand : tree.operands) {
    x.push_back(EvaluateNaively(operand, point));
    result.exact = result.exact && x.back().exact;
    result.defined = result.defined && x.back().defined;
  }
  if (!result.defined) return result;
  const auto near = [](const Naive& v, long double jump) {
    return !v.exact && std::abs(v.value - jump) < 1e-9L * std::max(1.0L, std::abs(v.value));
  };
  constexpr long double kRounding = 4.5e-16L;
  switch (tree.op) {
    case Tree::kNumber:
      result.value = tree.number;
      return result;
    case Tree::kName:
      result.value = point.at(tree.name);
      return result;
    case Tree::kAdd:
    case Tree::kSub:
      result.value = tree.op == Tree::kAdd ? x[0].value + x[1].value : x[0].value - x[1].value;
      result.error = x[0].error + x[1].error;
      if (!result.exact) result.error += kRounding * (std::abs(x[0].value) + std::abs(x[1].value));
      return result;
    case Tree::kMul:
      result.value = x[0].value * x[1].value;
      result.error = x[0].error * std::abs(x[1].value) + x[1].error * std::abs(x[0].value);
      if (!result.exact) result.error += kRounding * std::abs(result.value);
      return result;
    case Tree::kDiv:
      if (x[1].value == 0.0L || near(x[1], 0.0L)) {
        result.defined = false;
        return result;
      }
      result.value = x[0].value / x[1].value;
      result.exact = result.exact && std::fmod(x[0].value, x[1].value) == 0.0L;
      result.error = (x[0].error + std::abs(result.value) * x[1].error) / std::abs(x[1].value);
      if (!result.exact) result.error += kRounding * std::abs(result.value);
      return result;
    case Tree::kMin:
    case Tree::kMax:
      result.value = tree.op == Tree::kMin ? std::min(x[0].value, x[1].value)
                                           : std::max(x[0].value, x[1].value);
      result.error = std::max(x[0].error, x[1].error);
      return result;
    case Tree::kCeil:
    case Tree::kFloor:
      result.value = tree.op == Tree::kCeil ? std::ceil(x[0].value) : std::floor(x[0].value);
      result.defined = !near(x[0], std::round(x[0].value));
      result.exact = true;
      return result;
    case Tree::kSelect: {
      const Naive& chosen = x[0].value > 0.0L ? x[1] : x[2];
      result.value = chosen.value;
      result.error = chosen.error;
      result.defined = !near(x[0], 0.0L);
      return result;
    }
  }
  return result;
}

}  // namespace palmist::symbolic::test
