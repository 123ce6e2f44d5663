/// Splits layers into pipeline stages so that the iteration is shortest: the seam of the solvers.
#pragma once

#include <functional>
#include <limits>
#include <memory>
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

/// A pipeline to be split.
struct PipelineProblem {
  int layers = 1;
  int stages = 1;
  int micro_batches = 1;
  std::string_view schedule = "1f1b";
  /// Returns the ways to run layers first..last (inclusive) as stage `stage`, empty where none
  /// fits. Called at most once for each triple.
  std::function<std::vector<StageOption>(int stage, int first, int last)> options;
  /// A lower bound of the time of the first i layers, any stage and option, for i = 0..layers.
  /// Optional; with it partial pipelines that cannot end below the cut-off are dropped early.
  std::vector<double> least_s;
  /// With `least_s`: how much slower than that each stage is at least, 1 where left out.
  std::vector<double> slowness;
  /// Asked now and then; true ends the search without a solution.
  std::function<bool()> stop;
  /// Solutions longer than this are not wanted.
  double cutoff_s = std::numeric_limits<double>::infinity();
};

/// A split: stage i runs layers first[i]..first[i + 1] - 1 with the option tagged tag[i].
struct PipelineSolution {
  bool found = false;
  bool stopped = false;  ///< `stop` ended the search
  double iteration_s = 0;
  std::vector<int> first;
  std::vector<int> tag;
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

}  // namespace palmist::solve
