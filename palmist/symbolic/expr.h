/// Symbolic expressions over named quantities: build, simplify, evaluate, bound, print.
///
/// Expressions are simplified while they are built, as real algebra over the domains of their
/// symbols. A symbol is a *positive* real unless declared otherwise (degrees, sizes, bandwidths);
/// declare what may be zero, such as an offload ratio, `Domain::kNonnegative`, so that it is never
/// cancelled from a quotient. `0 * e` is 0 and `e - e` is 0 for every e, also where e divides by
/// zero.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "palmist/symbolic/interval.h"

namespace palmist::symbolic {

/// The values a symbol may take.
enum class Domain : std::uint8_t {
  kPositive,     ///< > 0
  kNonnegative,  ///< >= 0
  kReal,
};

/// What a node computes from its operands.
enum class Kind : std::uint8_t {
  kConstant,
  kSymbol,
  kPower,     ///< operand ^ exponent(), an integer >= 2
  kProduct,   ///< product of two or more non-constant operands
  kQuotient,  ///< operand 0 / operand 1; operand 0 may be the constant 1
  kScale,     ///< numerator() * operand / denominator()
  kSum,       ///< sum of two or more operands; a constant comes last
  kMin,       ///< least of two or more operands
  kMax,       ///< greatest of two or more operands
  kCeil,
  kFloor,
  kSelect,  ///< operand 0 > 0 ? operand 1 : operand 2
};

namespace internal {
struct Node;
struct NodeAccess;
void Ref(const Node* node);
void Unref(const Node* node);
}  // namespace internal

/// An immutable expression: a value type, one counted pointer to a shared DAG node.
///
/// Nodes are hash-consed: expressions of equal structure share one node, so equality is identity.
/// All functions may be called from several threads at once.
class Expr {
 public:
  /// Creates the constant 0.
  Expr();
  /// Creates a constant.
  Expr(double constant);  // NOLINT(google-explicit-constructor)
  /// Creates a constant; exact up to 2^53, beyond that the nearest double.
  template <std::integral T>
  Expr(T constant) : Expr(static_cast<double>(constant)) {}  // NOLINT(google-explicit-constructor)

  Expr(const Expr& other) : node_(other.node_) { internal::Ref(node_); }
  Expr(Expr&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  Expr& operator=(Expr other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~Expr() {
    if (node_ != nullptr) internal::Unref(node_);
  }

  /// Returns the symbol called `name`; the same name and domain give the same symbol.
  ///
  /// Declare a name with one domain only: symbols that differ in domain alone are bound to the
  /// same value, but are not collected with each other.
  /// @throws Error (kUsage) if `name` is empty.
  static Expr Symbol(std::string_view name, Domain domain = Domain::kPositive);

  Kind kind() const;
  bool is_constant() const { return kind() == Kind::kConstant; }
  /// @pre is_constant()
  double constant() const;
  /// Returns the symbol's name. @pre kind() == kSymbol
  const std::string& name() const;
  /// Returns the symbol's domain. @pre kind() == kSymbol
  Domain domain() const;
  /// Returns the exponent. @pre kind() == kPower
  double exponent() const;
  /// Returns the factor above and below the line, in lowest terms. @pre kind() == kScale
  double numerator() const;
  double denominator() const;
  /// Returns the operands in canonical order, which depends on structure alone.
  std::span<const Expr> operands() const;
  /// Returns a number that no other live expression of another structure has.
  std::uint64_t id() const;

  /// Returns what is provable from the domains of the symbols.
  bool IsProvablyPositive() const;
  bool IsProvablyNonnegative() const;

  Expr& operator+=(const Expr& other);
  Expr& operator-=(const Expr& other);
  Expr& operator*=(const Expr& other);
  Expr& operator/=(const Expr& other);

  friend bool operator==(const Expr& a, const Expr& b) { return a.node_ == b.node_; }

 private:
  friend struct internal::NodeAccess;
  explicit Expr(const internal::Node* node) : node_(node) {}  // takes over one reference

  const internal::Node* node_;
};

Expr operator+(const Expr& a, const Expr& b);
Expr operator-(const Expr& a, const Expr& b);
Expr operator*(const Expr& a, const Expr& b);
/// Divides. A zero divisor counts as +0: the value is an infinity with the sign of `a`, or NaN.
Expr operator/(const Expr& a, const Expr& b);
Expr operator-(const Expr& a);

/// Returns the sum of `terms`, 0 if there are none. Linear, where repeated `+=` is quadratic.
Expr Sum(std::span<const Expr> terms);
/// Returns the product of `factors`, 1 if there are none.
Expr Product(std::span<const Expr> factors);
/// Returns base^exponent; 1 for exponent 0.
Expr Power(const Expr& base, int exponent);

/// Returns the least or greatest operand; NaN if any operand is NaN.
Expr Min(const Expr& a, const Expr& b);
Expr Max(const Expr& a, const Expr& b);
/// @throws Error (kUsage) if there are no operands.
Expr Min(std::span<const Expr> operands);
Expr Max(std::span<const Expr> operands);

Expr Ceil(const Expr& a);
Expr Floor(const Expr& a);
/// Returns Ceil(a / b); exact for integers a, b up to 2^53.
Expr CeilDiv(const Expr& a, const Expr& b);
/// Returns condition > 0 ? if_positive : otherwise; NaN where `condition` is NaN.
Expr Select(const Expr& condition, const Expr& if_positive, const Expr& otherwise);

/// Returns `expr` with each named symbol replaced, simplified anew. All at once: replacements are
/// not searched for symbols again.
Expr Substitute(const Expr& expr, const std::map<std::string, Expr>& replacements);

/// Returns `expr` with products, powers and numerators distributed over sums, everywhere.
/// Building alone keeps factored form. What is rounded or compared with 0 stays as it is: adding
/// fractions instead of dividing a sum could carry it past a jump. Size can grow exponentially in
/// the number of factors.
Expr Expand(const Expr& expr);

/// Returns the value of `expr`.
/// @throws Error (kUsage) on a symbol without a value.
double Evaluate(const Expr& expr, const std::map<std::string, double>& values);

/// Returns an interval that holds every value, other than NaN, that `Evaluate` gives for symbol
/// values in `box`.
/// @throws Error (kUsage) on a symbol without an interval, or an interval with NaN or lo > hi.
Interval Bounds(const Expr& expr, const std::map<std::string, Interval>& box);

/// Returns the names of all symbols, sorted, each once.
std::vector<std::string> Symbols(const Expr& expr);

/// Returns the number of distinct nodes reachable from `roots`.
std::size_t NodeCount(std::span<const Expr> roots);

/// Returns `expr` as text, such as `2*h + 4*h^2/tp`. Depends on structure alone; shared parts are
/// written out at each use.
std::string ToText(const Expr& expr);

/// Returns `expr` in LaTeX math, such as `2 \, h + \frac{4 \, h^{2}}{\mathrm{tp}}`.
std::string ToLatex(const Expr& expr);

}  // namespace palmist::symbolic
