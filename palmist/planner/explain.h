/// Why a plan is as it is: what each of its choices buys, and what comes near it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "palmist/planner/planner.h"

namespace palmist::planner {

/// A choice that the plan makes, and the best plan that does without it.
struct Knob {
  std::string name;     ///< such as "tensor parallelism"
  std::string setting;  ///< such as "tp 4"
  /// Seconds an iteration of the best plan found without it; nothing where none fits.
  std::optional<double> without_s;
  std::string instead;       ///< that plan's layout
  bool is_finished = false;  ///< false: the search without it ran out of time
};

struct Explanation {
  /// The shortest iteration that a search finds under the plan's own conditions, and its bound;
  /// nothing where it found none.
  std::optional<double> best_s;
  std::optional<plan::SearchSummary> search;
  std::string binding;                   ///< see PlanResult
  std::vector<plan::Plan> alternatives;  ///< the best plans of other layouts, shortest first
  std::vector<Knob> knobs;
};

struct ExplainOptions {
  int threads = 1;
  double time_limit_s = 30;  ///< of each search
  double gap = 0.01;
  int alternatives = 3;
};

/// Returns the request that a plan answers: its model, cluster, batch and training setup, and the
/// memory that it was made for. The schedule is fixed unless it is 1F1B.
PlanRequest RequestOf(const plan::Plan& plan,
                      const model::Model& model,
                      const cluster::Calibration& calibration);

/// Searches once under the plan's conditions, and once more without each choice that it makes.
/// @param progress called with the number of searches done and of all of them
/// @throws Error as `FindPlan`; kInterrupted after a signal
Explanation Explain(const plan::Plan& plan,
                    const model::Model& model,
                    const cluster::Calibration& calibration,
                    const ExplainOptions& options,
                    const std::function<void(int, int)>& progress = {});

}  // namespace palmist::planner
