/// Finds the fastest plan that fits.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "palmist/planner/request.h"

namespace palmist::planner {

/// What came of a search. The call's own failure is an Error; these are outcomes.
enum class Outcome {
  kOptimal,      ///< proven within `gap` of the best of the space
  kTimeLimit,    ///< best so far when time or evaluations ran out
  kMemoryLimit,  ///< best so far when the search held as much as it may
  kInterrupted,  ///< best so far when a signal came
  kInfeasible    ///< nothing fits
};

struct PlanResult {
  Outcome outcome = Outcome::kInfeasible;
  /// The best plan first, then the best of other layouts; all predicted. Empty if infeasible.
  std::vector<plan::Plan> plans;
  /// kInfeasible: what keeps the nearest plan from fitting, stage by stage.
  std::vector<plan::ClosestMiss> closest;
  plan::Plan nearest;  ///< kInfeasible: that plan, predicted
  plan::SearchSummary search;
  std::int64_t search_bytes = 0;  ///< the most that the full search held
  /// One sentence: the constraint that binds, with what lifting it would buy.
  std::string binding;
  /// Notes for the reader, such as idle devices or operators that only our executor has.
  std::vector<std::string> notes;
};

/// Reports progress: the share done in [0, 1] and the best iteration time so far (0 if none).
using Progress = std::function<void(double done, double best_s)>;

/// Searches. The same request gives the same plans whatever the number of threads, unless time
/// ran out.
/// @throws Error(kInput, kUsage) for requests that contradict themselves.
PlanResult FindPlan(const PlanRequest& request, const Progress& progress = {});

}  // namespace palmist::planner
