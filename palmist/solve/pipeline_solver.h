/// Splits layers into pipeline stages so that the iteration is shortest: the seam of the solvers.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "palmist/schedule/pipeline.h"

namespace palmist::solve {

/// One way to run a stage. `tail_s` is what follows the whole pipeline on this stage, such as an
/// optimizer step that waits for the gradient norm: the longest one is added to the iteration.
struct StageOption {
  schedule::StagePoint point;
  double tail_s = 0;
  int tag = 0;  ///< the caller's, returned with the solution
};

/// What is minimised. The longest tail is added in each.
enum class Objective {
  kExact,  ///< `schedule::IterationSeconds` of the problem's schedule
  kMist,   ///< `MistIterationSeconds`, whatever the schedule
};

/// A pipeline to be split.
struct PipelineProblem {
  int layers = 1;
  int stages = 1;
  int micro_batches = 1;
  std::string_view schedule = "1f1b";
  Objective objective = Objective::kExact;
  /// Returns the ways to run layers first..last (inclusive) as stage `stage`, empty where none
  /// fits. Called at most once for each triple. Times are finite and not negative.
  std::function<std::vector<StageOption>(int stage, int first, int last)> options;
  /// A lower bound of the time of the first i layers, any stage and option, for i = 0..layers.
  /// Optional; with it partial pipelines that cannot end below the cut-off are dropped early.
  std::vector<double> least_s;
  /// With `least_s`: how much slower than that each stage is at least, 1 where left out.
  std::vector<double> slowness;
  /// Asked now and then; true ends the search.
  std::function<bool()> stop;
  /// Solutions longer than this are not wanted.
  double cutoff_s = std::numeric_limits<double>::infinity();
};

/// How a search ended. Apart from it, a call may fail: then there is no outcome but an error.
enum class Outcome {
  kOptimal,      ///< the solution is the shortest, within the gap that was asked for
  kInfeasible,   ///< no split has an option for each stage, or none within the cut-off
  kTimeLimit,    ///< the time was up; a solution may have been found, not proven the shortest
  kInterrupted,  ///< `stop` ended the search; as kTimeLimit
};

/// Returns the stable lower-case name, such as "time_limit".
std::string_view ToString(Outcome outcome);

/// A split: stage i runs layers first[i]..first[i + 1] - 1 with the option tagged tag[i].
struct PipelineSolution {
  bool found = false;
  bool stopped = false;  ///< `stop` ended the search
  double iteration_s = 0;
  std::vector<int> first;
  std::vector<int> tag;
  Outcome outcome = Outcome::kInfeasible;
  /// No split within the cut-off takes less; the cut-off itself where the outcome is kInfeasible.
  double lower_bound_s = 0;
};

/// An exact solver of `PipelineProblem`.
class PipelineSolver {
 public:
  virtual ~PipelineSolver() = default;
  virtual std::string_view name() const = 0;
  /// Returns whether this build has the solver.
  virtual bool available() const = 0;
  /// Returns the shortest split; among equals the one found first in a fixed order.
  /// @pre problem.layers >= problem.stages >= 1
  virtual PipelineSolution Solve(const PipelineProblem& problem) const = 0;
};

/// Returns the exact label search over partial pipelines (see label_search.cc).
std::unique_ptr<PipelineSolver> MakeLabelSearch();

/// Returns Mist's iteration time in seconds, with G = `micro_batches`, t = f + b and d the sum of
/// both extras of a stage:
///   T = (G-1) max_i t_i + sum_i t_i + max(0, max_i(d_i - sum_{j<i} t_j)).
/// Source: Mist (EuroSys'25), section 5, the objective of its inter-stage search.
/// @pre micro_batches >= 1
double MistIterationSeconds(std::span<const schedule::StagePoint> stages, int micro_batches);

/// Returns the seconds that `problem.objective` gives to a pipeline with one option for each stage,
/// the longest tail included.
/// @pre stages has problem.stages elements
double ObjectiveSeconds(const PipelineProblem& problem, std::span<const StageOption> stages);

}  // namespace palmist::solve
