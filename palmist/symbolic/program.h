/// Expressions compiled for batches of candidates in structure-of-arrays form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "palmist/symbolic/expr.h"
#include "palmist/symbolic/lowering.h"

namespace palmist::symbolic {

/// Expressions compiled to straight-line code over blocks of candidates.
///
/// Values equal those of `Evaluate` bit for bit (but for the payload of a NaN), whatever the
/// number of candidates and threads. Immutable: one program may run on several threads at once.
class Program {
 public:
  /// Compiles `outputs`; parts they share are computed once.
  /// @throws Error (kUsage) on a symbol that is not in `inputs`, or an input named twice.
  Program(std::vector<Expr> outputs, std::vector<std::string> inputs);

  /// Computes outs[j][k] = outputs[j] at (columns[0][k], columns[1][k], ...) for k < n.
  ///
  /// @pre columns[i] and outs[j] have n values; no output overlaps an input or another output.
  /// @param threads at most this many threads work; few candidates use fewer.
  /// @throws Error (kUsage) if the number of columns or outputs is wrong, or threads < 1.
  void Run(std::span<const double* const> columns,
           std::size_t n,
           std::span<double* const> outs,
           int threads = 1) const;

  /// Returns bounds of each output over one box, as `Bounds` does.
  /// @throws Error (kUsage) on a wrong number of intervals, or one with NaN or lo > hi.
  std::vector<Interval> RunBounds(std::span<const Interval> inputs) const;

  const std::vector<std::string>& inputs() const { return inputs_; }
  std::size_t output_count() const { return code_.outputs.size(); }
  /// Returns the number of operations per candidate.
  std::size_t operation_count() const { return steps_.size(); }
  /// Returns the number of block buffers each thread needs.
  std::size_t register_count() const { return register_count_; }

 private:
  void Allocate();

  std::vector<std::string> inputs_;
  internal::Code code_;
  std::vector<internal::Step> steps_;
  std::size_t register_count_ = 0;
};

}  // namespace palmist::symbolic
