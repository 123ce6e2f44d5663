#include "palmist/symbolic/lowering.h"

#include <bit>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "palmist/base/error.h"
#include "palmist/symbolic/node.h"
#include "palmist/symbolic/operations.h"

namespace palmist::symbolic::internal {
namespace {

struct HashInstruction {
  std::size_t operator()(const Instruction& i) const {
    std::uint64_t hash = static_cast<std::uint64_t>(i.op);
    for (const std::uint64_t part : {static_cast<std::uint64_t>(i.a),
                                     static_cast<std::uint64_t>(i.b),
                                     static_cast<std::uint64_t>(i.c),
                                     std::bit_cast<std::uint64_t>(i.imm)}) {
      hash = (hash ^ part) * 0x9e3779b97f4a7c15ULL;
      hash ^= hash >> 32;
    }
    return hash;
  }
};

/// Emits instructions, each distinct one once (local value numbering).
class Lowerer {
 public:
  explicit Lowerer(std::span<const std::string> inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!input_numbers_.try_emplace(inputs[i], static_cast<std::int32_t>(i)).second) {
        throw UsageError("inputs", "expected distinct input names, got '" + inputs[i] + "' twice");
      }
    }
  }

  Code Run(std::span<const Expr> outputs) {
    for (const Expr& expr : PostOrder(outputs)) numbers_.emplace(expr.id(), LowerNode(expr));
    for (const Expr& output : outputs) code_.outputs.push_back(NumberOf(output));
    RemoveDeadCode();
    return std::move(code_);
  }

 private:
  std::int32_t NumberOf(const Expr& expr) const { return numbers_.at(expr.id()); }

  std::int32_t LowerNode(const Expr& expr) {
    const std::span<const Expr> operands = expr.operands();
    switch (expr.kind()) {
      case Kind::kConstant:
        return Constant(expr.constant());
      case Kind::kSymbol:
        return LowerSymbol(expr.name());
      case Kind::kPower:
        return LowerPower(NumberOf(operands[0]), expr.exponent());
      case Kind::kProduct:
        return Fold(Op::kMultiply, operands);
      case Kind::kQuotient:
        return Emit(Op::kDivide, NumberOf(operands[0]), NumberOf(operands[1]));
      case Kind::kScale:
        return LowerScale(expr);
      case Kind::kSum:
        return LowerSum(operands);
      case Kind::kMin:
        return Fold(Op::kMin, operands);
      case Kind::kMax:
        return Fold(Op::kMax, operands);
      case Kind::kCeil:
        return Emit(Op::kCeil, NumberOf(operands[0]));
      case Kind::kFloor:
        return Emit(Op::kFloor, NumberOf(operands[0]));
      case Kind::kSelect:
        return Emit(
            Op::kSelect, NumberOf(operands[0]), NumberOf(operands[1]), NumberOf(operands[2]));
    }
    PALMIST_ASSERT(false);
  }

  std::int32_t LowerSymbol(const std::string& name) {
    const auto found = input_numbers_.find(name);
    if (found == input_numbers_.end()) {
      throw UsageError(name, "expected a value for every symbol, got none for '" + name + "'");
    }
    return Intern({Op::kInput, found->second});
  }

  /// Multiplies by squaring.
  std::int32_t LowerPower(std::int32_t base, double exponent) {
    std::int32_t power = -1;
    while (true) {
      if (std::fmod(exponent, 2.0) == 1.0) {
        power = power < 0 ? base : Emit(Op::kMultiply, power, base);
      }
      exponent = std::floor(exponent / 2.0);
      if (exponent == 0.0) return power;
      base = Emit(Op::kSquare, base);
    }
  }

  /// Multiplies above and below the line before dividing, so that integers stay exact.
  std::int32_t LowerScale(const Expr& expr) {
    const Expr& rest = expr.operands()[0];
    const bool quotient = rest.kind() == Kind::kQuotient;
    std::int32_t above = NumberOf(quotient ? rest.operands()[0] : rest);
    if (expr.numerator() != 1.0) {
      above = Emit(Op::kMultiply, above, Constant(expr.numerator()));
    }
    if (!quotient && expr.denominator() == 1.0) return above;
    std::int32_t below = Constant(expr.denominator());
    if (quotient) {
      const std::int32_t divisor = NumberOf(rest.operands()[1]);
      below = expr.denominator() == 1.0 ? divisor : Emit(Op::kMultiply, divisor, below);
    }
    return Emit(Op::kDivide, above, below);
  }

  std::int32_t LowerSum(std::span<const Expr> terms) {
    std::int32_t sum = NumberOf(terms[0]);
    for (const Expr& term : terms.subspan(1)) {
      const bool negative = term.kind() == Kind::kScale && term.numerator() == -1.0 &&
                            term.denominator() == 1.0 &&
                            term.operands()[0].kind() != Kind::kQuotient;
      sum = negative ? Emit(Op::kSubtract, sum, NumberOf(term.operands()[0]))
                     : Emit(Op::kAdd, sum, NumberOf(term));
    }
    return sum;
  }

  std::int32_t Fold(Op op, std::span<const Expr> operands) {
    std::int32_t result = NumberOf(operands[0]);
    for (const Expr& operand : operands.subspan(1)) result = Emit(op, result, NumberOf(operand));
    return result;
  }

  std::int32_t Constant(double value) { return Intern({Op::kConstant, -1, -1, -1, value}); }

  bool IsConstant(std::int32_t number) const {
    return number < 0 || code_.instructions[static_cast<std::size_t>(number)].op == Op::kConstant;
  }

  double ConstantValue(std::int32_t number) const {
    return number < 0 ? 0.0 : code_.instructions[static_cast<std::size_t>(number)].imm;
  }

  std::int32_t Emit(Op op, std::int32_t a, std::int32_t b = -1, std::int32_t c = -1) {
    if (IsConstant(a) && IsConstant(b) && IsConstant(c)) {
      return Constant(Dispatch(op, [&]<Op kOp>() {
        return Apply<kOp>(ConstantValue(a), ConstantValue(b), ConstantValue(c));
      }));
    }
    return Intern({op, a, b, c});
  }

  std::int32_t Intern(const Instruction& instruction) {
    const auto [place, is_new] = value_numbers_.try_emplace(
        instruction, static_cast<std::int32_t>(code_.instructions.size()));
    if (is_new) code_.instructions.push_back(instruction);
    return place->second;
  }

  void RemoveDeadCode() {
    std::vector<Instruction>& code = code_.instructions;
    std::vector<std::int32_t> moved(code.size(), -1);
    const auto mark = [&moved](std::int32_t number) {
      if (number >= 0) moved[static_cast<std::size_t>(number)] = 0;
    };
    for (const std::int32_t output : code_.outputs) mark(output);
    for (std::size_t i = code.size(); i-- > 0;) {
      if (moved[i] < 0 || code[i].op == Op::kInput) continue;
      mark(code[i].a);
      mark(code[i].b);
      mark(code[i].c);
    }
    const auto renumber = [&moved](std::int32_t& number) {
      if (number >= 0) number = moved[static_cast<std::size_t>(number)];
    };
    std::int32_t live = 0;
    for (std::size_t i = 0; i < code.size(); ++i) {
      if (moved[i] < 0) continue;
      moved[i] = live;
      Instruction instruction = code[i];
      if (instruction.op != Op::kInput) {
        renumber(instruction.a);
        renumber(instruction.b);
        renumber(instruction.c);
      }
      code[static_cast<std::size_t>(live++)] = instruction;
    }
    code.resize(static_cast<std::size_t>(live));
    for (std::int32_t& output : code_.outputs) renumber(output);
  }

  std::unordered_map<std::string, std::int32_t> input_numbers_;
  std::unordered_map<std::uint64_t, std::int32_t> numbers_;
  std::unordered_map<Instruction, std::int32_t, HashInstruction> value_numbers_;
  Code code_;
};

}  // namespace

Code Lower(std::span<const Expr> outputs, std::span<const std::string> inputs) {
  return Lowerer(inputs).Run(outputs);
}

}  // namespace palmist::symbolic::internal
