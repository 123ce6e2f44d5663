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
  plan::OffloadRatios offload;
  int chunks = 1;  ///< of each stage; two or more where the schedule is interleaved
};

/// Returns all candidates in a fixed order. Uses all devices where any candidate can, else the
/// largest number that some candidate can use.
/// @throws Error(kUsage) where the request contradicts itself; the message names the constraint
/// that emptied the space.
std::vector<Candidate> EnumerateCandidates(const PlanRequest& request, const model::Graph& graph);

/// Returns the layouts of a stage on `devices` devices that hold a micro-batch of `samples`
/// together, ZeRO left at 0, in a fixed order; those that the request's fixes allow.
std::vector<cost::Layout> StageLayouts(const PlanRequest& request,
                                       const model::Graph& graph,
                                       int devices,
                                       std::int64_t samples);

/// Returns how ZeRO may shard the states of a layout, with `zero` and `zero_shard` set: over all of
/// its replicas, or those of a node of `node_devices`.
std::vector<cost::Layout> ZeroVariants(const PlanRequest& request,
                                       const cost::Layout& layout,
                                       int node_devices,
                                       bool has_others);

/// Returns the degrees of context parallelism that the request allows on `devices` devices: the one
/// that is fixed, else 1, and for sequences of kLeastContextParallel tokens or more every divisor
/// within a node.
std::vector<int> ContextDegrees(const PlanRequest& request, const model::Graph& graph, int devices);

/// Shorter sequences gain nothing from context parallelism that tensor parallelism does not give.
inline constexpr std::int64_t kLeastContextParallel = 16'384;

/// Returns the numbers of micro-batches that the request allows: divisors of the global batch.
std::vector<int> MicroBatchCounts(const PlanRequest& request);

/// Returns the operator variants that `request.ops`, `target` and fixes leave.
std::vector<model::OpVariants> CandidateVariants(const PlanRequest& request);

/// Whether the schedule is interleaved 1F1B: stages of several chunks.
bool IsInterleaved(const PlanRequest& request);

/// Whether all stages hold as many layers and recompute as many: by the space's rules, or under
/// zb-h1 and interleaved 1F1B, whose searches have no better bound.
bool IsEvenlySplit(const PlanRequest& request);

}  // namespace palmist::planner
