#include "palmist/symbolic/program.h"

#include <algorithm>
#include <utility>

#include "palmist/base/error.h"
#include "palmist/base/thread_pool.h"

namespace palmist::symbolic {
namespace {

/// Candidates in a block: a buffer is 4 KiB, so that the few live ones stay in the first cache.
constexpr std::size_t kBlock = 512;

/// Operations that are worth a thread of their own: some ten times what starting one costs.
constexpr std::size_t kOperationsPerThread = std::size_t{1} << 20;

void CheckCount(const char* what, std::size_t expected, std::size_t got) {
  if (expected == got) return;
  throw UsageError(
      what, "expected " + std::to_string(expected) + " " + what + ", got " + std::to_string(got));
}

}  // namespace

Program::Program(std::vector<Expr> outputs, std::vector<std::string> inputs)
    : inputs_(std::move(inputs)), code_(internal::Lower(outputs, inputs_)) {
  Allocate();
}

/// Gives every value a slot: inputs first, then outputs, then registers, which are reused as soon
/// as the value in them has been read for the last time.
void Program::Allocate() {
  using internal::Instruction;
  using internal::Op;
  const std::vector<Instruction>& code = code_.instructions;
  const auto index = [](std::int32_t number) { return static_cast<std::size_t>(number); };
  const auto first_output = static_cast<std::int32_t>(inputs_.size());
  const auto first_register = first_output + static_cast<std::int32_t>(code_.outputs.size());

  std::vector<std::int32_t> slots(code.size(), -1);
  std::vector<std::size_t> last_use(code.size(), 0);
  for (std::size_t i = 0; i < code.size(); ++i) {
    if (code[i].op == Op::kInput) {
      slots[i] = code[i].a;
      continue;
    }
    for (const std::int32_t operand : {code[i].a, code[i].b, code[i].c}) {
      if (operand >= 0) last_use[index(operand)] = i;
    }
  }
  for (std::size_t j = 0; j < code_.outputs.size(); ++j) {
    const std::size_t value = index(code_.outputs[j]);
    if (slots[value] < 0 && code[value].op != Op::kConstant) {
      slots[value] = first_output + static_cast<std::int32_t>(j);
    }
  }

  const auto operand_of = [&](std::int32_t number) {
    if (number < 0) return internal::Operand{};
    return internal::Operand{slots[index(number)], code[index(number)].imm};
  };
  std::vector<std::int32_t> free_registers;
  for (std::size_t i = 0; i < code.size(); ++i) {
    const Instruction& instruction = code[i];
    if (instruction.op == Op::kInput || instruction.op == Op::kConstant) continue;
    internal::Step step{instruction.op,
                        -1,
                        operand_of(instruction.a),
                        operand_of(instruction.b),
                        operand_of(instruction.c)};
    std::vector<std::int32_t> released;
    for (const std::int32_t operand : {instruction.a, instruction.b, instruction.c}) {
      if (operand < 0 || last_use[index(operand)] != i) continue;
      const std::int32_t slot = slots[index(operand)];
      if (slot >= first_register &&
          std::find(released.begin(), released.end(), slot) == released.end()) {
        released.push_back(slot);
      }
    }
    free_registers.insert(free_registers.end(), released.begin(), released.end());
    if (slots[i] < 0) {
      if (free_registers.empty()) {
        free_registers.push_back(first_register + static_cast<std::int32_t>(register_count_++));
      }
      slots[i] = free_registers.back();
      free_registers.pop_back();
    }
    step.target = slots[i];
    steps_.push_back(step);
  }

  // Outputs that are inputs, constants, or another output's value are copied.
  for (std::size_t j = 0; j < code_.outputs.size(); ++j) {
    const std::int32_t target = first_output + static_cast<std::int32_t>(j);
    const internal::Operand value = operand_of(code_.outputs[j]);
    if (value.slot != target) steps_.push_back({Op::kInput, target, value, {}, {}});
  }
}

void Program::Run(std::span<const double* const> columns,
                  std::size_t n,
                  std::span<double* const> outs,
                  int threads) const {
  CheckCount("columns", inputs_.size(), columns.size());
  CheckCount("outputs", code_.outputs.size(), outs.size());
  if (threads < 1) {
    throw UsageError("threads", "expected at least 1 thread, got " + std::to_string(threads));
  }
  const std::size_t blocks = (n + kBlock - 1) / kBlock;
  const std::size_t workers = std::min<std::size_t>({static_cast<std::size_t>(threads),
                                                     std::max<std::size_t>(blocks, 1),
                                                     1 + n * steps_.size() / kOperationsPerThread});
  const std::size_t fixed_slots = columns.size() + outs.size();
  std::vector<double> registers(workers * register_count_ * kBlock);
  std::vector<double*> slots(workers * (fixed_slots + register_count_));

  const auto work = [&](std::int64_t begin_block, std::int64_t end_block, int number) {
    const auto worker = static_cast<std::size_t>(number);
    double** const slot = slots.data() + worker * (fixed_slots + register_count_);
    for (std::size_t r = 0; r < register_count_; ++r) {
      slot[fixed_slots + r] = registers.data() + (worker * register_count_ + r) * kBlock;
    }
    for (std::int64_t block = begin_block; block < end_block; ++block) {
      const std::size_t begin = static_cast<std::size_t>(block) * kBlock;
      // Steps never write to an input's slot.
      for (std::size_t i = 0; i < columns.size(); ++i) {
        slot[i] = const_cast<double*>(columns[i]) + begin;
      }
      for (std::size_t j = 0; j < outs.size(); ++j) slot[columns.size() + j] = outs[j] + begin;
      internal::RunBlock(steps_, slot, std::min(kBlock, n - begin));
    }
  };
  ParallelFor(static_cast<std::int64_t>(blocks), static_cast<int>(workers), work);
}

std::vector<Interval> Program::RunBounds(std::span<const Interval> inputs) const {
  CheckCount("inputs", inputs_.size(), inputs.size());
  return internal::InterpretIntervals(code_, inputs, inputs_);
}

}  // namespace palmist::symbolic
