/// Prices candidates: rates and layer costs in batches, then the best split of each.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "palmist/cost/predict.h"
#include "palmist/planner/space.h"
#include "palmist/solve/pipeline_solver.h"

namespace palmist::planner {

/// A candidate's best split, or how far it is from fitting.
struct Evaluation {
  bool fits = false;
  bool stopped = false;  ///< `stop` ended it: nothing is known of the candidate
  double iteration_s = 0;
  std::vector<int> first_layer;  ///< of each stage
  std::vector<int> recomputed;   ///< layers at the end of each stage that are made again
};

/// Evaluates the candidates of one request. Built once; `Bound` and `Evaluate` may be called from
/// several threads.
class Evaluator {
 public:
  Evaluator(const PlanRequest& request,
            const model::Graph& graph,
            const std::vector<Candidate>& candidates);
  ~Evaluator();

  /// Returns a lower bound of candidate `index`'s iteration time, whatever the split: the work of
  /// all layers, spread evenly, nothing recomputed, nothing exposed but what always is.
  double Bound(int index) const;

  /// Returns the best split of candidate `index` no longer than `cutoff_s`.
  /// @param stop asked now and then; true ends the evaluation.
  Evaluation Evaluate(int index, double cutoff_s, const std::function<bool()>& stop = {}) const;

  /// Returns the bytes by which the candidate's even split exceeds its limit when every layer is
  /// recomputed; at most 0 where it fits.
  double LeastExcess(int index) const;

  /// Writes a candidate and its split as a plan, priced.
  plan::Plan MakePlan(int index, const Evaluation& evaluation) const;

  /// Returns the even split with every layer recomputed (or none, where that is fixed).
  Evaluation EvenSplit(int index) const;

 private:
  struct StageCosts;
  struct Work;

  static void SetLeastTimes(const model::Graph& graph, Work& work);

  cost::StageContent<double> ContentOf(const plan::Stage& stage, int recomputed) const;
  /// Returns the fewest layers of a stage that must be recomputed to fit, as the space allows, with
  /// what they cost; none where it does not fit.
  std::optional<int> FewestRecomputed(const Work& work,
                                      const plan::Stage& stage,
                                      int index,
                                      cost::StageEstimate& estimate) const;
  Evaluation EvaluateEven(int index, double cutoff_s) const;
  plan::Stage StageOf(const Candidate& candidate, int stage) const;
  /// Gives a stage its even part of the layers, in chunks where the candidate has several.
  void PlaceEvenly(const Candidate& candidate, int index, plan::Stage& stage) const;
  cost::StageEstimate Estimate(const Work& work,
                               const plan::Stage& stage,
                               int index,
                               int recomputed) const;

  const PlanRequest& request_;
  const model::Graph& graph_;
  const std::vector<Candidate>& candidates_;
  std::vector<Work> work_;
  std::vector<std::vector<int>> layers_before_;  // [kind][layer]: layers of the kind before it
  std::unique_ptr<solve::PipelineSolver> solver_;
};

/// Returns a plan without stages.
plan::Plan EmptyPlan(const PlanRequest& request,
                     const model::Graph& graph,
                     const Candidate& candidate);

/// Returns a stage's point as the request sees it; see Blindness.
schedule::StagePoint AsSeen(const PlanRequest& request,
                            int micro_batches,
                            const schedule::StagePoint& point);

/// Returns what a request says of predictions.
cost::PredictOptions PredictOptionsOf(const PlanRequest& request);

/// The fewest and the most layers of a stage of `layers` that may be recomputed.
std::pair<int, int> RecomputeRange(const PlanRequest& request, int layers);

/// Has the last `layers` layers of a stage made again in backward, wholly.
void RecomputeLast(int layers, plan::Stage& stage);

/// Returns the training setup of a candidate.
plan::Training TrainingOf(const PlanRequest& request, const Candidate& candidate);

}  // namespace palmist::planner
