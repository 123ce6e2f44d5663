/// The pipeline split as a mixed-integer linear program: the seam of MILP solvers.
#pragma once

#include <limits>
#include <memory>
#include <string_view>

#include "palmist/base/result.h"
#include "palmist/solve/pipeline_solver.h"

namespace palmist::solve {

/// How long and how closely to solve.
struct MilpOptions {
  /// Seconds for the whole call, asking for the options of stages included. Overrun: a call of
  /// `options`, or one step of the solver, which is seconds for tens of thousands of binaries;
  /// `stop` is heard as late.
  double time_limit_s = std::numeric_limits<double>::infinity();
  /// Threads of the solver. One gives the same split on every machine.
  int threads = 1;
  /// Stop at a solution at most this share of itself above the lower bound.
  double gap = 0;
};

/// Solves `PipelineProblem` under `Objective::kMist`, which is linear, with
///   binaries z[i, first, last, option], one for each stage, whose layers join without a hole:
///     sum z[0, 0, ., .] = 1,  sum z[i, ., j - 1, .] = sum z[i + 1, j, ., .] at each boundary j,
///   Max_t >= t_i,  Max_d >= d_i - sum_{j<i} t_j,  Max_tail >= tail_i,  all >= 0,
///   minimising (G-1) Max_t + sum_i t_i + Max_d + Max_tail.
/// Source: Mist (EuroSys'25), section 5; covering layers by a flow over boundaries is ours.
class MilpSolver {
 public:
  virtual ~MilpSolver() = default;
  virtual std::string_view name() const = 0;
  /// Returns whether this build has the solver.
  virtual bool available() const = 0;
  /// Returns what was found, with an `outcome` of its own. `iteration_s` is `ObjectiveSeconds` of
  /// the split; the cut-off holds to a share of 1e-9. Deterministic unless the time limit or `stop`
  /// ends it; among equals any may come.
  ///
  /// Size: stages * layers^2 / 2 * options binaries. `stop` may be called from other threads, by
  /// one at a time, where threads > 1; what it throws comes out of this call.
  ///
  /// Errors: kUnavailable where the build lacks the solver; kUsage for another objective or bad
  /// options; kInput for times that are negative or not finite; kRuntime where the solver fails.
  /// @pre problem.layers >= problem.stages >= 1
  virtual Result<PipelineSolution> Solve(const PipelineProblem& problem,
                                         const MilpOptions& options) const = 0;
};

/// Returns the solver on HiGHS, or where the build has none a stand-in that is not available.
std::unique_ptr<MilpSolver> MakeMilpSolver();

}  // namespace palmist::solve
