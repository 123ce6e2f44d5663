/// The node behind an expression, its table, and what can be proven about signs (internal).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "palmist/symbolic/expr.h"

namespace palmist::symbolic::internal {

/// A set of signs a value may have: an or of the three bits.
using SignSet = std::uint8_t;
inline constexpr SignSet kNegativeBit = 1;
inline constexpr SignSet kZeroBit = 2;
inline constexpr SignSet kPositiveBit = 4;
inline constexpr SignSet kAnySign = 7;

SignSet SignOf(double value);
SignSet AddSigns(SignSet a, SignSet b);
SignSet MultiplySigns(SignSet a, SignSet b);

struct Node {
  Kind kind = Kind::kConstant;
  Domain domain = Domain::kPositive;
  SignSet signs = 0;
  bool integral = false;    ///< provably an integer
  std::uint32_t depth = 0;  ///< longest path to a leaf
  double value = 0.0;       ///< constant, exponent, or numerator of a scale
  double divisor = 1.0;     ///< denominator of a scale
  std::string name;
  std::vector<Expr> operands;

  std::uint64_t hash = 0;
  std::uint64_t id = 0;
  mutable std::atomic<std::uint32_t> references{0};
  mutable const Node* next_dead = nullptr;  ///< list of nodes being destroyed
};

struct NodeAccess {
  static const Node& Get(const Expr& expr) { return *expr.node_; }
  static const Node* Release(Expr& expr) { return std::exchange(expr.node_, nullptr); }
  /// Returns the one node of this structure. `operands` must be simplified and in canonical order.
  static Expr Intern(Kind kind,
                     std::vector<Expr> operands,
                     double value = 0.0,
                     double divisor = 1.0,
                     std::string_view name = {},
                     Domain domain = Domain::kPositive);
};

inline const Node& Get(const Expr& expr) { return NodeAccess::Get(expr); }

/// Orders expressions by structure: shallow before deep, then by kind, then by content.
///
/// Returns a negative number, 0 (only for the same node) or a positive number. Since equal
/// structure is one node, only the first unlike operand is looked into: the cost is at most one
/// path down the tree.
int Compare(const Expr& a, const Expr& b);

/// Returns every node reachable from `roots` once, operands before their users. Not recursive.
std::vector<Expr> PostOrder(std::span<const Expr> roots);

/// Returns a node of the kind of `expr` over other operands, simplified.
Expr Rebuild(const Expr& expr, std::span<const Expr> operands);

}  // namespace palmist::symbolic::internal
