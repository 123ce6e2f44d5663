/// Rewriting of whole expressions: substitution and expansion.
#include <unordered_map>

#include "palmist/symbolic/expr.h"
#include "palmist/symbolic/node.h"

namespace palmist::symbolic {
namespace {

/// Returns `root` with every node replaced, bottom up, by rewrite(node, replaced operands).
template <typename Rewrite>
Expr Transform(const Expr& root, Rewrite rewrite) {
  std::unordered_map<std::uint64_t, Expr> replaced;
  std::vector<Expr> operands;
  const std::vector<Expr> order = internal::PostOrder({&root, 1});
  for (const Expr& node : order) {
    operands.clear();
    for (const Expr& operand : node.operands()) operands.push_back(replaced.at(operand.id()));
    replaced.emplace(node.id(), rewrite(node, std::span<const Expr>(operands)));
  }
  return replaced.at(root.id());
}

std::span<const Expr> TermsOf(const Expr& expr) {
  return expr.kind() == Kind::kSum ? expr.operands() : std::span<const Expr>(&expr, 1);
}

/// Returns a * b, term by term. @pre both are expanded
Expr MultiplyOut(const Expr& a, const Expr& b) {
  std::vector<Expr> terms;
  for (const Expr& x : TermsOf(a)) {
    for (const Expr& y : TermsOf(b)) terms.push_back(x * y);
  }
  return Sum(terms);
}

/// Returns expr over expanded operands, expanded.
Expr ExpandNode(const Expr& expr, std::span<const Expr> operands) {
  switch (expr.kind()) {
    case Kind::kScale: {
      std::vector<Expr> terms;
      for (const Expr& term : TermsOf(operands[0])) {
        terms.push_back(expr.numerator() * term / expr.denominator());
      }
      return Sum(terms);
    }
    case Kind::kProduct: {
      Expr product = 1.0;
      for (const Expr& factor : operands) product = MultiplyOut(product, factor);
      return product;
    }
    case Kind::kPower: {
      if (operands[0].kind() != Kind::kSum) return internal::Rebuild(expr, operands);
      Expr product = 1.0;
      for (double i = 0.0; i < expr.exponent(); ++i) product = MultiplyOut(product, operands[0]);
      return product;
    }
    case Kind::kQuotient:
      return MultiplyOut(operands[0], 1.0 / operands[1]);
    default:
      return internal::Rebuild(expr, operands);
  }
}

}  // namespace

Expr Substitute(const Expr& expr, const std::map<std::string, Expr>& replacements) {
  return Transform(expr, [&](const Expr& node, std::span<const Expr> operands) {
    if (node.kind() != Kind::kSymbol) return internal::Rebuild(node, operands);
    const auto found = replacements.find(node.name());
    return found == replacements.end() ? node : found->second;
  });
}

Expr Expand(const Expr& expr) {
  return Transform(expr, [](const Expr& node, std::span<const Expr> operands) {
    switch (node.kind()) {
      case Kind::kCeil:
      case Kind::kFloor:
        return node;
      case Kind::kSelect:
        return Select(node.operands()[0], operands[1], operands[2]);
      default:
        return ExpandNode(node, operands);
    }
  });
}

}  // namespace palmist::symbolic
