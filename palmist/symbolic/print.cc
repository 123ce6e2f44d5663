/// Printing as text and as LaTeX, without recursion.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include "palmist/base/error.h"
#include "palmist/symbolic/expr.h"

namespace palmist::symbolic {
namespace {

/// How tightly the printed form of an expression holds together.
enum Precedence { kAdditive, kMultiplicative, kAtomic };

/// A piece of output still to be written: text, or an expression in a context that calls for
/// parentheses around whatever binds less.
struct Piece {
  std::variant<std::string, Expr> content;
  Precedence context = kAdditive;
};
using Pieces = std::vector<Piece>;

std::string NumberText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0.0 ? "inf" : "-inf";
  char buffer[64];
  const bool integer = std::floor(value) == value && std::abs(value) < 9007199254740992.0;
  const auto end =
      integer ? std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed)
              : std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, end.ptr);
}

/// What a term is made of: sign, factor above and below the line, operands above and below.
struct Fraction {
  double numerator = 1.0;
  double denominator = 1.0;
  std::vector<Expr> above;
  std::vector<Expr> below;
};

Fraction SplitFraction(const Expr& expr) {
  Fraction fraction;
  Expr rest = expr;
  if (expr.kind() == Kind::kScale) {
    fraction.numerator = expr.numerator();
    fraction.denominator = expr.denominator();
    // Small binary fractions read better as such: x/8, 3*x/4.
    const double scaled = fraction.numerator * 1024.0;
    if (std::abs(fraction.numerator) < 1.0 && std::floor(scaled) == scaled) {
      while (std::floor(fraction.numerator) != fraction.numerator) {
        fraction.numerator *= 2.0;
        fraction.denominator *= 2.0;
      }
    }
    rest = expr.operands()[0];
  }
  const auto append = [](std::vector<Expr>& factors, const Expr& product) {
    if (product == Expr(1.0)) return;
    if (product.kind() == Kind::kProduct) {
      factors.insert(factors.end(), product.operands().begin(), product.operands().end());
    } else {
      factors.push_back(product);
    }
  };
  if (rest.kind() == Kind::kQuotient) {
    append(fraction.above, rest.operands()[0]);
    append(fraction.below, rest.operands()[1]);
  } else {
    append(fraction.above, rest);
  }
  return fraction;
}

bool IsFraction(const Expr& expr) {
  return expr.kind() == Kind::kScale || expr.kind() == Kind::kQuotient ||
         expr.kind() == Kind::kProduct;
}

/// Returns whether the printed form begins with a minus sign.
bool IsNegative(const Expr& expr) {
  if (expr.is_constant()) return expr.constant() < 0.0;
  return expr.kind() == Kind::kScale && expr.numerator() < 0.0;
}

Precedence PrecedenceOf(const Expr& expr) {
  if (expr.kind() == Kind::kSum || IsNegative(expr)) return kAdditive;
  return IsFraction(expr) ? kMultiplicative : kAtomic;
}

/// What differs between the two notations.
class Style {
 public:
  virtual ~Style() = default;
  virtual std::string Number(double value) const = 0;
  virtual std::string Name(const std::string& name) const = 0;
  virtual Piece Open() const = 0;
  virtual Piece Close() const = 0;
  virtual Pieces Power(const Expr& base, double exponent) const = 0;
  /// Prints |fraction|.
  virtual Pieces FractionOf(const Fraction& fraction) const = 0;
  virtual Pieces Function(const Expr& expr) const = 0;

  /// Returns numbers and factors with `times` between them, and 1 for none.
  Pieces ProductOf(double number, const std::vector<Expr>& factors, const char* times) const {
    Pieces pieces;
    if (number != 1.0 || factors.empty()) pieces.push_back({Number(number)});
    for (const Expr& factor : factors) {
      if (!pieces.empty()) pieces.push_back({times});
      // A factor that stands alone needs no parentheses here: the caller's context decides.
      pieces.push_back({factor, kMultiplicative});
    }
    return pieces;
  }
};

/// Returns `open`, the operands with commas between, and `close`.
Pieces Listed(std::string open, std::span<const Expr> operands, std::string close) {
  Pieces pieces{{std::move(open)}};
  for (const Expr& operand : operands) {
    if (pieces.size() > 1) pieces.push_back({", "});
    pieces.push_back({operand, kAdditive});
  }
  pieces.push_back({std::move(close)});
  return pieces;
}

class TextStyle : public Style {
 public:
  std::string Number(double value) const override { return NumberText(value); }
  std::string Name(const std::string& name) const override { return name; }
  Piece Open() const override { return {"("}; }
  Piece Close() const override { return {")"}; }

  Pieces Power(const Expr& base, double exponent) const override {
    return {{base, kAtomic}, {"^" + Number(exponent)}};
  }

  Pieces FractionOf(const Fraction& fraction) const override {
    Pieces pieces = ProductOf(std::abs(fraction.numerator), fraction.above, "*");
    if (fraction.denominator == 1.0 && fraction.below.empty()) return pieces;
    pieces.push_back({"/"});
    Pieces below = ProductOf(fraction.denominator, fraction.below, "*");
    const bool several = below.size() > 1;
    if (several) pieces.push_back(Open());
    pieces.insert(pieces.end(), below.begin(), below.end());
    if (several) pieces.push_back(Close());
    return pieces;
  }

  Pieces Function(const Expr& expr) const override {
    const auto name = [&] {
      switch (expr.kind()) {
        case Kind::kMin:
          return "min(";
        case Kind::kMax:
          return "max(";
        case Kind::kCeil:
          return "ceil(";
        case Kind::kFloor:
          return "floor(";
        default:
          return "select(";
      }
    };
    return Listed(name(), expr.operands(), ")");
  }
};

class LatexStyle : public Style {
 public:
  std::string Number(double value) const override {
    if (std::isinf(value)) return value > 0.0 ? "\\infty" : "-\\infty";
    std::string text = NumberText(value);
    const std::size_t e = text.find('e');
    if (e == std::string::npos) return std::isnan(value) ? "\\mathrm{nan}" : text;
    const int exponent = std::stoi(text.substr(e + 1));
    return text.substr(0, e) + " \\times 10^{" + std::to_string(exponent) + "}";
  }

  /// Sets words upright and what follows the first underscore as a subscript.
  std::string Name(const std::string& name) const override {
    const std::size_t underscore = name.find('_');
    if (underscore == 0 || underscore == std::string::npos || underscore + 1 == name.size()) {
      return Word(name);
    }
    return Word(name.substr(0, underscore)) + "_{" + Word(name.substr(underscore + 1)) + "}";
  }

  Piece Open() const override { return {"\\left("}; }
  Piece Close() const override { return {"\\right)"}; }

  Pieces Power(const Expr& base, double exponent) const override {
    return {{base, kAtomic}, {"^{" + Number(exponent) + "}"}};
  }

  Pieces FractionOf(const Fraction& fraction) const override {
    const double number = std::abs(fraction.numerator);
    if (fraction.denominator == 1.0 && fraction.below.empty()) {
      return ProductOf(number, fraction.above, " \\, ");
    }
    Pieces pieces{{"\\frac{"}};
    Append(pieces, number, fraction.above);
    pieces.push_back({"}{"});
    Append(pieces, fraction.denominator, fraction.below);
    pieces.push_back({"}"});
    return pieces;
  }

  Pieces Function(const Expr& expr) const override {
    const std::span<const Expr> operands = expr.operands();
    switch (expr.kind()) {
      case Kind::kMin:
        return Listed("\\min\\left(", operands, "\\right)");
      case Kind::kMax:
        return Listed("\\max\\left(", operands, "\\right)");
      case Kind::kCeil:
        return Listed("\\left\\lceil ", operands, " \\right\\rceil");
      case Kind::kFloor:
        return Listed("\\left\\lfloor ", operands, " \\right\\rfloor");
      default:
        return {{"\\begin{cases} "},
                {operands[1], kAdditive},
                {" & "},
                {operands[0], kAdditive},
                {" > 0 \\\\ "},
                {operands[2], kAdditive},
                {" & \\text{otherwise} \\end{cases}"}};
    }
  }

 private:
  static std::string Word(const std::string& word) {
    std::string escaped;
    for (const char c : word) {
      if (c == '\\' || c == '^' || c == '~') {
        escaped += c == '\\' ? "\\backslash " : c == '^' ? "\\hat{}" : "\\sim ";
      } else {
        if (std::string_view("_%$&#{}").find(c) != std::string_view::npos) escaped += '\\';
        escaped += c;
      }
    }
    const bool number =
        std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
    return word.size() == 1 || number ? escaped : "\\mathrm{" + escaped + "}";
  }

  /// Appends one side of a fraction; a sum alone needs no parentheses between the braces.
  void Append(Pieces& pieces, double number, const std::vector<Expr>& factors) const {
    if (number == 1.0 && factors.size() == 1) {
      pieces.push_back({factors[0], kAdditive});
      return;
    }
    for (Piece& piece : ProductOf(number, factors, " \\, ")) pieces.push_back(std::move(piece));
  }
};

/// Returns `terms` with the first positive one, if any, in front: 1 - r rather than -r + 1.
std::vector<Expr> PositiveFirst(std::span<const Expr> terms) {
  std::vector<Expr> ordered(terms.begin(), terms.end());
  const auto positive = std::find_if_not(ordered.begin(), ordered.end(), IsNegative);
  if (positive != ordered.end()) std::rotate(ordered.begin(), positive, positive + 1);
  return ordered;
}

/// Returns the pieces of `expr`, without its sign if it is negative and not a sum.
Pieces Unsigned(const Expr& expr, const Style& style) {
  switch (expr.kind()) {
    case Kind::kConstant:
      return {{style.Number(std::abs(expr.constant()))}};
    case Kind::kSymbol:
      return {{style.Name(expr.name())}};
    case Kind::kPower:
      return style.Power(expr.operands()[0], expr.exponent());
    case Kind::kProduct:
    case Kind::kQuotient:
    case Kind::kScale:
      return style.FractionOf(SplitFraction(expr));
    case Kind::kSum: {
      Pieces pieces;
      for (const Expr& term : PositiveFirst(expr.operands())) {
        const bool negative = IsNegative(term);
        if (!pieces.empty()) pieces.push_back({negative ? " - " : " + "});
        if (pieces.empty() && negative) pieces.push_back({"-"});
        for (Piece& piece : Unsigned(term, style)) pieces.push_back(std::move(piece));
      }
      return pieces;
    }
    default:
      return style.Function(expr);
  }
}

std::string Print(const Expr& expr, const Style& style) {
  std::string out;
  Pieces stack{{expr, kAdditive}};
  while (!stack.empty()) {
    const Piece piece = std::move(stack.back());
    stack.pop_back();
    if (const auto* text = std::get_if<std::string>(&piece.content)) {
      out += *text;
      continue;
    }
    const Expr& part = std::get<Expr>(piece.content);
    const bool parentheses = PrecedenceOf(part) < piece.context;
    if (parentheses) stack.push_back(style.Close());
    Pieces pieces = Unsigned(part, style);
    std::move(pieces.rbegin(), pieces.rend(), std::back_inserter(stack));
    if (IsNegative(part)) stack.push_back({"-"});
    if (parentheses) stack.push_back(style.Open());
  }
  return out;
}

}  // namespace

std::string ToText(const Expr& expr) { return Print(expr, TextStyle()); }

std::string ToLatex(const Expr& expr) { return Print(expr, LatexStyle()); }

}  // namespace palmist::symbolic
