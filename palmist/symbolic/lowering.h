/// The one lowering of expressions to operations that all evaluators share (internal).
///
/// `Evaluate`, `Bounds` and `Program` interpret the same code over doubles, intervals and blocks,
/// so they agree on the order of every operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "palmist/symbolic/expr.h"

namespace palmist::symbolic::internal {

enum class Op : std::uint8_t {
  kConstant,  ///< imm
  kInput,     ///< value number a of the inputs
  kAdd,       ///< a + b
  kSubtract,  ///< a - b
  kMultiply,  ///< a * b
  kDivide,    ///< a / b
  kMin,
  kMax,
  kSquare,  ///< a * a
  kCeil,
  kFloor,
  kSelect,  ///< a > 0 ? b : c
};

/// One operation in static single assignment form; a, b, c number earlier operations.
struct Instruction {
  Op op = Op::kConstant;
  std::int32_t a = -1;
  std::int32_t b = -1;
  std::int32_t c = -1;
  double imm = 0.0;

  friend bool operator==(const Instruction&, const Instruction&) = default;
};

/// Straight-line code: every instruction comes after its operands.
struct Code {
  std::vector<Instruction> instructions;
  std::vector<std::int32_t> outputs;  ///< the instruction that computes each output
};

/// Lowers `outputs`, computing shared parts once.
/// @throws Error (kUsage) on a symbol that is not in `inputs`, or an input named twice.
Code Lower(std::span<const Expr> outputs, std::span<const std::string> inputs);

/// Runs `code` over intervals; `names` are those of the inputs, for messages.
/// @throws Error (kUsage) on an interval with NaN or lo > hi.
std::vector<Interval> InterpretIntervals(const Code& code,
                                         std::span<const Interval> inputs,
                                         std::span<const std::string> names);

/// One operand of a step: a slot (input column, output column or register) or a constant.
struct Operand {
  std::int32_t slot = -1;  ///< -1: the constant
  double constant = 0.0;
};

/// One block operation: slots[target] = op(a, b, c), element by element. A step whose op is
/// kConstant or kInput copies operand a.
struct Step {
  Op op = Op::kConstant;
  std::int32_t target = -1;
  Operand a;
  Operand b;
  Operand c;
};

/// Runs `steps` on one block of n values; slots[s] is where slot s of the block begins.
void RunBlock(std::span<const Step> steps, double* const* slots, std::size_t n) noexcept;

}  // namespace palmist::symbolic::internal
