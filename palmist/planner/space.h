/// The search space: every way to lay a model out that is structurally sound.
#pragma once

#include <string>
#include <vector>

#include "palmist/cost/layout.h"
#include "palmist/model/graph.h"
#include "palmist/planner/request.h"

namespace palmist::planner {

/// One point of the space: the same layout for every stage. How layers are split over the stages
/// and which of them are recomputed is decided when it is evaluated.
struct Candidate {
  model::OpVariants ops;
  cost::Layout layout;
  int stages = 1;
  int micro_batches = 1;
  int devices = 1;  ///< used; the rest of the cluster stays idle
};

/// Returns all candidates in a fixed order. Uses all devices where any candidate can, else the
/// largest number that some candidate can use.
/// @throws Error(kUsage) where the request contradicts itself; the message names the constraint
/// that emptied the space.
std::vector<Candidate> EnumerateCandidates(const PlanRequest& request, const model::Graph& graph);

/// Returns the operator variants that `request.ops`, `target` and fixes leave.
std::vector<model::OpVariants> CandidateVariants(const PlanRequest& request);

}  // namespace palmist::planner
