/// Memory and time of a given plan.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "palmist/cost/cost_model.h"
#include "palmist/cost/layout.h"
#include "palmist/plan/plan.h"
#include "palmist/schedule/pipeline.h"

namespace palmist::cost {

struct PredictOptions {
  /// What a rank may use: a share of the device's memory up to 1, or bytes above it.
  double memory_limit = 1.0;
  double expert_imbalance = 1.0;
};

/// Everything a stage costs; the plan file's `predicted` and what explains it.
struct StageEstimate {
  schedule::StagePoint point;  ///< as the pipeline formula takes it
  plan::MemoryBytes memory;
  double host_bytes = 0;  ///< host memory a rank needs
  double host_limit_bytes = 0;
  double optimizer_s = 0;  ///< the step with what it moves, where it is not deferred
  /// Seconds of a steady micro-batch, by cause; together `point.forward_s + backward_s`.
  double compute_s = 0, tp_s = 0, cp_s = 0, ep_s = 0, dp_s = 0, pp_s = 0, offload_s = 0;
  /// Of `point.first_extra_s`: transfers to and from the host, and a deferred optimizer step.
  double extra_offload_s = 0, extra_optimizer_s = 0;

  /// Bytes by which the stage exceeds the device's or the host's limit; at most 0 where it fits.
  double ExcessBytes() const;
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

  /// Prices stage `index` of a pipeline of `num_stages`.
  /// @param layers the model's costs under this stage's layout (`ModelFor(stage.ops).Evaluate`).
  /// @param previous_send the send of the stage before: gradients go back over the same link.
  /// @param embedding_reduce the all-reduce of tied embeddings, where the ends lie apart.
  StageEstimate Estimate(const plan::Stage& stage,
                         int index,
                         int num_stages,
                         const ModelCost<double>& layers,
                         const StageRates& rates,
                         const Rate& embedding_reduce,
                         const Rate& previous_send = {}) const;

  /// The same for a caller who has counted the stage's layers: a search. `content` holds the counts
  /// of layers; ends and micro-batches in flight are filled in.
  StageEstimate Estimate(const plan::Stage& stage,
                         StageContent<double> content,
                         int index,
                         int num_stages,
                         const ModelCost<double>& layers,
                         const StageRates& rates,
                         const Rate& embedding_reduce,
                         const Rate& previous_send = {}) const;

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
