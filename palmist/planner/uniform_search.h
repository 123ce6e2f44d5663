/// The search over candidates: one layout for all stages, with the split of its layers.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "palmist/planner/evaluator.h"
#include "palmist/planner/planner.h"

namespace palmist::planner {

/// A candidate and its best split.
struct Found {
  int index = 0;  ///< of the candidate
  Evaluation evaluation;
};

struct UniformSearch {
  std::vector<Found> best;  ///< of each layout the best, shortest first, `request.top` at most
  plan::SearchSummary summary;
  Outcome outcome = Outcome::kOptimal;  ///< optimal also where nothing fits: all was looked at
  /// Why candidates could not be priced, with how many there were; the search went on without them.
  std::map<std::string, int> failures;
};

/// How candidates are priced, by their index; see `Evaluator`. Called from several threads.
struct Pricing {
  std::function<double(int index)> bound;
  std::function<Evaluation(int index, double cutoff_s, const std::function<bool()>& stop)> evaluate;
};

/// Evaluates candidates by rising lower bound until no other can be better by more than the gap,
/// nor be among the `request.top` plans that are asked for. A candidate whose pricing throws an
/// Error is left out and counted.
UniformSearch SearchUniform(const PlanRequest& request,
                            const std::vector<Candidate>& candidates,
                            const Pricing& pricing,
                            const Progress& progress,
                            std::chrono::steady_clock::time_point start);

}  // namespace palmist::planner
