/// Evaluation of one point and of one box.
#include <cmath>
#include <limits>

#include "palmist/base/error.h"
#include "palmist/symbolic/expr.h"
#include "palmist/symbolic/lowering.h"
#include "palmist/symbolic/operations.h"

namespace palmist::symbolic {
namespace internal {
namespace {

Interval ApplyToIntervals(Op op, const Interval& a, const Interval& b, const Interval& c) {
  switch (op) {
    case Op::kAdd:
      return Add(a, b);
    case Op::kSubtract:
      return Subtract(a, b);
    case Op::kMultiply:
      return Multiply(a, b);
    case Op::kDivide:
      return Divide(a, b);
    case Op::kMin:
      return Minimum(a, b);
    case Op::kMax:
      return Maximum(a, b);
    case Op::kSquare:
      return Square(a);
    case Op::kCeil:
      return Ceiling(a);
    case Op::kFloor:
      return Flooring(a);
    case Op::kSelect:
      return Choose(a, b, c);
    case Op::kConstant:
    case Op::kInput:
      break;
  }
  return a;
}

/// Runs `code` over values of type T; apply(op, a, b, c) computes one operation.
template <typename T, typename FromConstant, typename ApplyOp>
std::vector<T> Interpret(const Code& code,
                         std::span<const T> inputs,
                         FromConstant from_constant,
                         ApplyOp apply) {
  std::vector<T> values;
  values.reserve(code.instructions.size());
  const auto value = [&](std::int32_t number) {
    return number < 0 ? T{} : values[static_cast<std::size_t>(number)];
  };
  for (const Instruction& i : code.instructions) {
    if (i.op == Op::kConstant) {
      values.push_back(from_constant(i.imm));
    } else if (i.op == Op::kInput) {
      values.push_back(inputs[static_cast<std::size_t>(i.a)]);
    } else {
      values.push_back(apply(i.op, value(i.a), value(i.b), value(i.c)));
    }
  }
  std::vector<T> outputs;
  for (const std::int32_t output : code.outputs) outputs.push_back(value(output));
  return outputs;
}

template <typename T>
void Split(const std::map<std::string, T>& map,
           std::vector<std::string>& names,
           std::vector<T>& values) {
  for (const auto& [name, value] : map) {
    names.push_back(name);
    values.push_back(value);
  }
}

}  // namespace

std::vector<Interval> InterpretIntervals(const Code& code,
                                         std::span<const Interval> inputs,
                                         std::span<const std::string> names) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!(inputs[i].lo <= inputs[i].hi)) {
      throw UsageError(names[i],
                       "expected an interval with lo <= hi, got [" + std::to_string(inputs[i].lo) +
                           ", " + std::to_string(inputs[i].hi) + "]");
    }
  }
  // A constant NaN is no number: nothing needs to be enclosed, and the whole line does no harm.
  const auto from_constant = [](double x) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return std::isnan(x) ? Interval{-kInfinity, kInfinity} : Interval{x, x};
  };
  return Interpret<Interval>(code, inputs, from_constant, ApplyToIntervals);
}

}  // namespace internal

double Evaluate(const Expr& expr, const std::map<std::string, double>& values) {
  std::vector<std::string> names;
  std::vector<double> inputs;
  internal::Split(values, names, inputs);
  const internal::Code code = internal::Lower({&expr, 1}, names);
  const auto apply = [](internal::Op op, double a, double b, double c) {
    return internal::Dispatch(op,
                              [&]<internal::Op kOp>() { return internal::Apply<kOp>(a, b, c); });
  };
  return internal::Interpret<double>(
      code, inputs, [](double x) { return x; }, apply)[0];
}

Interval Bounds(const Expr& expr, const std::map<std::string, Interval>& box) {
  std::vector<std::string> names;
  std::vector<Interval> inputs;
  internal::Split(box, names, inputs);
  return internal::InterpretIntervals(internal::Lower({&expr, 1}, names), inputs, names)[0];
}

}  // namespace palmist::symbolic
