/// Memory and time of a given plan.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "palmist/cost/cost_model.h"
#include "palmist/cost/layout.h"
#include "palmist/cost/stage_terms.h"
#include "palmist/plan/plan.h"
#include "palmist/schedule/pipeline.h"

namespace palmist::cost {

struct PredictOptions {
  /// What a rank may use: a share of the device's memory up to 1, or bytes above it.
  double memory_limit = 1.0;
  double expert_imbalance = 1.0;
};

/// Prices the stages of one model, cluster and training setup. Compiled cost models are kept by
/// operator variants, so that a search pays for each once. Not for use by several threads at once.
class Estimator {
 public:
  /// The references must outlive the estimator.
  Estimator(const model::Graph& graph,
            const cluster::Cluster& cluster,
            const cluster::Calibration& calibration,
            const plan::Training& training,
            double seq_len,
            const PredictOptions& options = {});

  const model::Graph& graph() const { return graph_; }
  const plan::Training& training() const { return training_; }
  LayoutContext layout_context() const;

  /// Returns the cost model of a choice of variants, derived at first use.
  const CostModel& ModelFor(const model::OpVariants& ops);

  /// Where a stage stands: `index` of `num_stages`, which have `world` devices together.
  struct Position {
    int index = 0;
    int num_stages = 1;
    int world = 1;
    /// Stages that there may be in the end, where that is not known: communicators are counted for
    /// as many. 0: `num_stages` is known.
    int most_stages = 0;
  };

  /// Returns what a stage costs, with its offload ratios left open.
  /// @param content the counts of layers; ends and micro-batches in flight are filled in.
  /// @param layers the model's costs under this stage's layout (`ModelFor(stage.ops).Evaluate`).
  /// @param embedding_reduce the all-reduce of tied embeddings, where the ends lie apart.
  /// @param next the costs under the next stage's layout; null where there is none or it is alike.
  StageTerms Terms(const plan::Stage& stage,
                   StageContent<double> content,
                   const Position& position,
                   const ModelCost<double>& layers,
                   const StageRates& rates,
                   const Rate& embedding_reduce,
                   const ModelCost<double>* next = nullptr) const;

  /// Returns the content of a plan's stage.
  StageContent<double> ContentOf(const plan::Stage& stage) const;

  /// Bytes an activation takes in the training dtype.
  double activation_bytes() const;
  double weight_bytes() const { return activation_bytes(); }
  double grad_bytes() const;

 private:
  const model::Graph& graph_;
  const cluster::Cluster& cluster_;
  const cluster::Calibration& calibration_;
  plan::Training training_;
  double seq_len_;
  PredictOptions options_;
  std::vector<std::pair<model::OpVariants, std::unique_ptr<CostModel>>> models_;
};

/// Returns the layout of a plan's stage.
Layout LayoutOf(const plan::Stage& stage);

/// Gives a stage a layout: the inverse of LayoutOf.
void SetLayout(const Layout& layout, plan::Stage& stage);

/// Returns the arithmetic of one sample, forward and backward, without recomputation, padding or
/// what ranks repeat: the model's own FLOPs.
double ModelFlopsPerSample(const model::Graph& graph, double seq_len);

/// Sums up an iteration from its stages; leaves the utilization to the caller, who knows the model.
plan::Prediction Summarize(const plan::Plan& plan, std::span<const StageEstimate> stages);

/// Prices a plan: fills `predicted` of the plan and of each stage, and `closest` where it does not
/// fit. The plan is taken as valid (`plan::Validate`).
/// @throws Error(kUnavailable) where this version cannot price what the plan asks for.
void Predict(plan::Plan& plan,
             const model::Graph& graph,
             const cluster::Calibration& calibration,
             const PredictOptions& options = {});

}  // namespace palmist::cost
