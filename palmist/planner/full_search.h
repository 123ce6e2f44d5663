/// The search with every stage's freedom: its devices, layout, operators, ZeRO, recomputation and
/// offload are its own.
///
/// For each number of micro-batches a pipeline is built from its last stage backwards. A partial
/// pipeline is a label under the key (stages, layers left, devices left, shape of its front stage);
/// dominated labels are dropped, as in solve/label_search.cc, and so are those that cannot end
/// below the cut-off: what is left to do takes its devices at least as long as the fastest layout
/// of all.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "palmist/model/graph.h"
#include "palmist/planner/request.h"
#include "palmist/planner/stage_choices.h"

namespace palmist::planner {

/// A stage of a pipeline that was found.
struct FoundStage {
  StageShape shape;
  StageChoice choice;
  int first_device = 0, first_layer = 0, last_layer = 0;
};

struct FoundPipeline {
  int micro_batches = 1;
  double iteration_s = 0;
  std::vector<FoundStage> stages;
};

/// What all searches together may hold in labels and choices.
inline constexpr std::int64_t kMaxSearchBytes = std::int64_t{4} << 30;

struct FullSearchOptions {
  double cutoff_s = 0;  ///< only shorter ones are looked for
  double gap = 0.01;    ///< the answer is proven this close to the best of the space
  std::function<bool()> stop;
  std::int64_t most_bytes = kMaxSearchBytes;  ///< more of labels and choices end the search
  /// Told the share done in [0, 1] and the shortest iteration so far (0 if none).
  std::function<void(double done, double best_s)> progress;
};

struct FullSearchResult {
  bool is_complete = true;          ///< neither `stop` nor a lack of memory ended it
  bool is_out_of_memory = false;    ///< `most_bytes` ended it
  std::int64_t peak_bytes = 0;      ///< the most that labels and choices took
  std::vector<FoundPipeline> best;  ///< the shortest, or none below the cut-off
  double lower_bound_s = 0;         ///< of all pipelines of the space
  std::int64_t evaluated = 0;       ///< stage configurations
  std::int64_t labels = 0;
};

/// Searches the space; the answer is the same for any number of threads. Memory of communicators is
/// counted as though all devices took part, in as many stages as there can be.
/// @pre the request's target can run stages that differ
FullSearchResult SearchFullSpace(const PlanRequest& request,
                                 const model::Graph& graph,
                                 const FullSearchOptions& options);

/// Writes a pipeline as a plan, priced.
plan::Plan MakePlan(const PlanRequest& request,
                    const model::Graph& graph,
                    const FoundPipeline& found);

}  // namespace palmist::planner
