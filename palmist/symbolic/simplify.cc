/// The constructors of expressions: every expression is simplified as it is built.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "palmist/base/error.h"
#include "palmist/symbolic/expr.h"
#include "palmist/symbolic/node.h"
#include "palmist/symbolic/ratio.h"

namespace palmist::symbolic {
namespace internal {
namespace {

constexpr double kMaxExponent = 2147483648.0;

bool Less(const Expr& a, const Expr& b) { return Compare(a, b) < 0; }

/// Splits an expression into coefficient * rest; a constant is coefficient * 1.
struct Term {
  Ratio coefficient;
  Expr rest;
};

Term SplitTerm(const Expr& expr) {
  switch (expr.kind()) {
    case Kind::kConstant:
      return {{expr.constant(), 1.0}, 1.0};
    case Kind::kScale:
      return {{expr.numerator(), expr.denominator()}, expr.operands()[0]};
    default:
      return {{}, expr};
  }
}

/// Returns coefficient * rest. @pre rest has coefficient 1
Expr Scale(const Ratio& coefficient, const Expr& rest) {
  if (rest.is_constant()) return coefficient.value() * rest.constant();
  if (coefficient.IsZero()) return 0.0;
  if (coefficient.IsOne()) return rest;
  if (std::isnan(coefficient.num)) return coefficient.num;
  if (rest.kind() == Kind::kSum && coefficient.IsUnit()) {
    // -(a - b) is b - a: one form for a sum and its negative.
    std::vector<Expr> terms;
    for (const Expr& term : rest.operands()) terms.push_back(-term);
    return Sum(terms);
  }
  return NodeAccess::Intern(Kind::kScale, {rest}, coefficient.num, coefficient.den);
}

/// Collects like terms of a sum.
class SumBuilder {
 public:
  void Add(const Expr& expr, const Ratio& factor) {
    const Term term = SplitTerm(expr);
    const Ratio coefficient = term.coefficient * factor;
    if (term.rest.is_constant()) {
      constant_ += coefficient.value();
      return;
    }
    const auto [place, is_new] = index_.try_emplace(term.rest.id(), terms_.size());
    if (is_new) {
      terms_.push_back({coefficient, term.rest});
    } else {
      Ratio& total = terms_[place->second].coefficient;
      total = total + coefficient;
    }
  }

  Expr Build() {
    FlattenSums();
    std::erase_if(terms_, [](const Term& term) { return term.coefficient.IsZero(); });
    if (std::isnan(constant_) || terms_.empty()) return constant_;
    std::sort(terms_.begin(), terms_.end(), [](const Term& a, const Term& b) {
      return Less(a.rest, b.rest);
    });
    std::vector<Expr> operands;
    operands.reserve(terms_.size() + 1);
    for (const Term& term : terms_) operands.push_back(Scale(term.coefficient, term.rest));
    if (constant_ != 0.0) operands.emplace_back(constant_);
    if (operands.size() == 1) return operands[0];
    return NodeAccess::Intern(Kind::kSum, std::move(operands));
  }

 private:
  /// Merges sums with coefficient 1 or -1 into this one. Done after collection, so that for a sum S
  /// 2 * S + S is 3 * S.
  void FlattenSums() {
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t i = 0; i < terms_.size(); ++i) {
        if (terms_[i].rest.kind() != Kind::kSum || !terms_[i].coefficient.IsUnit()) continue;
        const Term sum = terms_[i];
        terms_[i].coefficient = {0.0, 1.0};
        for (const Expr& term : sum.rest.operands()) Add(term, sum.coefficient);
        changed = true;
      }
    }
  }

  std::vector<Term> terms_;
  std::unordered_map<std::uint64_t, std::size_t> index_;
  double constant_ = 0.0;
};

/// Collects the powers of each base of a product, above and below the line apart.
class ProductBuilder {
 public:
  void Multiply(const Expr& expr, double exponent, bool below) {
    switch (expr.kind()) {
      case Kind::kConstant:
        MultiplyCoefficient({expr.constant(), 1.0}, exponent, below);
        return;
      case Kind::kScale:
        MultiplyCoefficient({expr.numerator(), expr.denominator()}, exponent, below);
        Multiply(expr.operands()[0], exponent, below);
        return;
      case Kind::kProduct:
        for (const Expr& factor : expr.operands()) Multiply(factor, exponent, below);
        return;
      case Kind::kQuotient:
        Multiply(expr.operands()[0], exponent, below);
        Multiply(expr.operands()[1], exponent, !below);
        return;
      case Kind::kPower:
        Multiply(expr.operands()[0], exponent * expr.exponent(), below);
        return;
      default:
        break;
    }
    const auto [place, is_new] = index_.try_emplace(expr.id(), factors_.size());
    if (is_new) factors_.push_back({expr});
    Factor& factor = factors_[place->second];
    (below ? factor.below : factor.above) += exponent;
  }

  Expr Build() {
    if (coefficient_.IsZero()) return 0.0;
    std::sort(factors_.begin(), factors_.end(), [](const Factor& a, const Factor& b) {
      return Less(a.base, b.base);
    });
    std::vector<Expr> above;
    std::vector<Expr> below;
    for (Factor& factor : factors_) {
      if ((Get(factor.base).signs & kZeroBit) == 0) {
        const double common = std::min(factor.above, factor.below);
        factor.above -= common;
        factor.below -= common;
      }
      if (factor.above > 0.0) above.push_back(PowerOf(factor.base, factor.above));
      if (factor.below > 0.0) below.push_back(PowerOf(factor.base, factor.below));
    }
    Expr rest = ProductOf(std::move(above));
    if (!below.empty()) {
      rest = NodeAccess::Intern(Kind::kQuotient, {rest, ProductOf(std::move(below))});
    }
    return Scale(coefficient_, rest);
  }

 private:
  struct Factor {
    Expr base;
    double above = 0.0;
    double below = 0.0;
  };

  static Expr PowerOf(const Expr& base, double exponent) {
    if (exponent > kMaxExponent) {
      throw UsageError("exponent", "expected a power of at most 2^31, got a higher one");
    }
    return exponent == 1.0 ? base : NodeAccess::Intern(Kind::kPower, {base}, exponent);
  }

  static Expr ProductOf(std::vector<Expr> factors) {
    if (factors.empty()) return 1.0;
    if (factors.size() == 1) return factors[0];
    return NodeAccess::Intern(Kind::kProduct, std::move(factors));
  }

  void MultiplyCoefficient(const Ratio& ratio, double exponent, bool below) {
    Ratio power = ratio;
    if (exponent != 1.0) {
      power = MakeRatio(std::pow(ratio.num, exponent), std::pow(ratio.den, exponent));
    }
    coefficient_ = below ? coefficient_ / power : coefficient_ * power;
  }

  std::vector<Factor> factors_;
  std::unordered_map<std::uint64_t, std::size_t> index_;
  Ratio coefficient_;
};

/// Returns the signs a - b may have, term by term.
SignSet SignsOfDifference(const Expr& a, const Expr& b) {
  const auto terms_of = [](const Expr& e) -> std::span<const Expr> {
    return e.kind() == Kind::kSum ? e.operands() : std::span<const Expr>(&e, 1);
  };
  const std::span<const Expr> x = terms_of(a);
  const std::span<const Expr> y = terms_of(b);
  SignSet signs = kZeroBit;
  const auto add = [&signs](const Ratio& coefficient, const Expr& rest) {
    signs = AddSigns(signs, MultiplySigns(SignOf(coefficient.value()), Get(rest).signs));
  };
  const Ratio minus{-1.0, 1.0};
  std::size_t i = 0;
  std::size_t j = 0;
  // Both lists are in the order of their rests, the constant last.
  while ((i < x.size() || j < y.size()) && signs != kAnySign) {
    const Term left = i < x.size() ? SplitTerm(x[i]) : Term{};
    const Term right = j < y.size() ? SplitTerm(y[j]) : Term{};
    int order = 0;
    if (i == x.size()) {
      order = 1;
    } else if (j == y.size()) {
      order = -1;
    } else if (left.rest.is_constant() != right.rest.is_constant()) {
      order = left.rest.is_constant() ? 1 : -1;
    } else {
      order = Compare(left.rest, right.rest);
    }
    if (order < 0) {
      add(left.coefficient, left.rest);
    } else if (order > 0) {
      add(right.coefficient * minus, right.rest);
    } else {
      add(left.coefficient + right.coefficient * minus, left.rest);
    }
    i += order <= 0 ? 1 : 0;
    j += order >= 0 ? 1 : 0;
  }
  return signs;
}

/// Returns whether a <= b follows from the signs of their terms, or of those of one operand of a
/// minimum `a` or a maximum `b`.
bool ProvablyAtMost(const Expr& a, const Expr& b) {
  const auto at_most = [](const Expr& x, const Expr& y) {
    return (SignsOfDifference(x, y) & kPositiveBit) == 0;
  };
  const auto any = [](const Expr& e, Kind kind, auto predicate) {
    return e.kind() == kind && std::any_of(e.operands().begin(), e.operands().end(), predicate);
  };
  return at_most(a, b) || any(a, Kind::kMin, [&](const Expr& x) { return at_most(x, b); }) ||
         any(b, Kind::kMax, [&](const Expr& y) { return at_most(a, y); });
}

/// Builds a minimum or maximum: flat, without operands that another one provably beats.
Expr Extreme(Kind kind, std::span<const Expr> operands) {
  if (operands.empty()) {
    throw UsageError("operands", "expected at least one operand of a minimum or maximum, got none");
  }
  const auto beats = [kind](const Expr& winner, const Expr& loser) {
    return kind == Kind::kMax ? ProvablyAtMost(loser, winner) : ProvablyAtMost(winner, loser);
  };
  std::vector<Expr> kept;
  const auto insert = [&](const Expr& candidate) {
    for (auto it = kept.begin(); it != kept.end();) {
      if (beats(*it, candidate)) return;
      it = beats(candidate, *it) ? kept.erase(it) : it + 1;
    }
    kept.push_back(candidate);
  };
  for (const Expr& operand : operands) {
    if (operand.kind() == kind) {
      for (const Expr& inner : operand.operands()) insert(inner);
    } else {
      insert(operand);
    }
  }
  if (kept.size() == 1) return kept[0];
  std::sort(kept.begin(), kept.end(), Less);
  return NodeAccess::Intern(kind, std::move(kept));
}

Expr Round(Kind kind, const Expr& a) {
  if (a.is_constant()) {
    return kind == Kind::kCeil ? std::ceil(a.constant()) : std::floor(a.constant());
  }
  return Get(a).integral ? a : NodeAccess::Intern(kind, {a});
}

}  // namespace

Expr Rebuild(const Expr& expr, std::span<const Expr> operands) {
  switch (expr.kind()) {
    case Kind::kConstant:
    case Kind::kSymbol:
      return expr;
    case Kind::kPower: {
      ProductBuilder builder;
      builder.Multiply(operands[0], expr.exponent(), false);
      return builder.Build();
    }
    case Kind::kProduct:
      return Product(operands);
    case Kind::kQuotient:
      return operands[0] / operands[1];
    case Kind::kScale:
      return expr.numerator() * operands[0] / expr.denominator();
    case Kind::kSum:
      return Sum(operands);
    case Kind::kMin:
      return Min(operands);
    case Kind::kMax:
      return Max(operands);
    case Kind::kCeil:
      return Ceil(operands[0]);
    case Kind::kFloor:
      return Floor(operands[0]);
    case Kind::kSelect:
      return Select(operands[0], operands[1], operands[2]);
  }
  PALMIST_ASSERT(false);
}

}  // namespace internal

using internal::Extreme;
using internal::Get;
using internal::NodeAccess;
using internal::ProductBuilder;
using internal::SumBuilder;

Expr Sum(std::span<const Expr> terms) {
  SumBuilder builder;
  for (const Expr& term : terms) builder.Add(term, {});
  return builder.Build();
}

Expr Product(std::span<const Expr> factors) {
  ProductBuilder builder;
  for (const Expr& factor : factors) builder.Multiply(factor, 1.0, false);
  return builder.Build();
}

Expr Power(const Expr& base, int exponent) {
  ProductBuilder builder;
  if (exponent != 0) builder.Multiply(base, std::abs(static_cast<double>(exponent)), exponent < 0);
  return builder.Build();
}

Expr operator+(const Expr& a, const Expr& b) {
  SumBuilder builder;
  builder.Add(a, {});
  builder.Add(b, {});
  return builder.Build();
}

Expr operator-(const Expr& a, const Expr& b) {
  SumBuilder builder;
  builder.Add(a, {});
  builder.Add(b, {-1.0, 1.0});
  return builder.Build();
}

Expr operator*(const Expr& a, const Expr& b) {
  ProductBuilder builder;
  builder.Multiply(a, 1.0, false);
  builder.Multiply(b, 1.0, false);
  return builder.Build();
}

Expr operator/(const Expr& a, const Expr& b) {
  ProductBuilder builder;
  builder.Multiply(a, 1.0, false);
  builder.Multiply(b, 1.0, true);
  return builder.Build();
}

Expr operator-(const Expr& a) { return -1.0 * a; }

Expr& Expr::operator+=(const Expr& other) { return *this = *this + other; }
Expr& Expr::operator-=(const Expr& other) { return *this = *this - other; }
Expr& Expr::operator*=(const Expr& other) { return *this = *this * other; }
Expr& Expr::operator/=(const Expr& other) { return *this = *this / other; }

Expr Min(std::span<const Expr> operands) { return Extreme(Kind::kMin, operands); }
Expr Max(std::span<const Expr> operands) { return Extreme(Kind::kMax, operands); }

Expr Min(const Expr& a, const Expr& b) { return Extreme(Kind::kMin, std::vector<Expr>{a, b}); }
Expr Max(const Expr& a, const Expr& b) { return Extreme(Kind::kMax, std::vector<Expr>{a, b}); }

Expr Ceil(const Expr& a) { return internal::Round(Kind::kCeil, a); }
Expr Floor(const Expr& a) { return internal::Round(Kind::kFloor, a); }
Expr CeilDiv(const Expr& a, const Expr& b) { return Ceil(a / b); }

Expr Select(const Expr& condition, const Expr& if_positive, const Expr& otherwise) {
  if (if_positive == otherwise) return if_positive;
  if (condition.is_constant() && std::isnan(condition.constant())) return condition;
  const internal::SignSet signs = Get(condition).signs;
  if (signs == internal::kPositiveBit) return if_positive;
  if ((signs & internal::kPositiveBit) == 0) return otherwise;
  return NodeAccess::Intern(Kind::kSelect, {condition, if_positive, otherwise});
}

}  // namespace palmist::symbolic
