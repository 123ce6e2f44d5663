/// Plans to predict in tests: like stages that share the cluster's first devices.
#pragma once

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "palmist/cluster/presets.h"
#include "palmist/cost/predict.h"
#include "palmist/model/config.h"

namespace palmist::cost::test {

/// A model, a cluster and a layout, with defaults that a test overrides.
struct PlanShape {
  std::string model = "gpt2";  ///< a name of the zoo, or the text of a configuration
  cluster::Cluster cluster = cluster::PresetCluster("a100-sxm4-80gb-1x8").value();
  std::int64_t seq_len = 1024;
  std::vector<int> layers = {};  ///< of each stage; empty: one stage with all
  int dp = 1, tp = 1, micro_batch = 1, micro_batches = 4;
};

inline model::Model ModelOf(const std::string& name_or_config) {
  return name_or_config.front() == '{' ? model::ParseConfig(name_or_config, "custom").value()
                                       : model::LoadModel(name_or_config).value();
}

/// Returns a plan that is not predicted yet: no ZeRO, nothing recomputed or offloaded.
inline plan::Plan MakePlan(const PlanShape& shape) {
  const model::Model model = ModelOf(shape.model);
  const model::Graph graph = model::BuildGraph(model.spec);
  plan::Plan plan;
  plan.model_name = model.name;
  plan.model_config = model.config_json;
  plan.seq_len = graph.has_sequence ? shape.seq_len : 0;
  plan.params = model::CountParameters(graph);
  plan.cluster_name = shape.cluster.name;
  plan.cluster = shape.cluster;
  plan.training.global_batch = std::int64_t{shape.micro_batch} * shape.dp * shape.micro_batches;
  plan.training.micro_batches = shape.micro_batches;
  std::vector<int> layers = shape.layers;
  if (layers.empty()) layers.push_back(static_cast<int>(graph.layers.size()));
  int layer = 0, device = 0;
  for (const int count : layers) {
    plan::Stage stage;
    stage.devices.resize(static_cast<std::size_t>(shape.dp * shape.tp));
    std::iota(stage.devices.begin(), stage.devices.end(), device);
    device += shape.dp * shape.tp;
    stage.first_layer = layer;
    layer += count;
    stage.last_layer = layer - 1;
    stage.micro_batch = shape.micro_batch;
    stage.dp = shape.dp;
    stage.tp = shape.tp;
    plan.stages.push_back(std::move(stage));
  }
  plan.stages.front().embedding = true;
  plan.stages.back().head = true;
  return plan;
}

/// Sets ZeRO on every stage, over all of its replicas.
inline void SetZero(plan::Plan& plan, int zero) {
  for (plan::Stage& stage : plan.stages) {
    stage.zero = zero;
    stage.zero_shard = zero > 0 ? stage.dp * stage.cp : 1;
  }
}

/// Recomputes the last `count` layers of a stage.
inline void Recompute(plan::Stage& stage, int count) {
  stage.recompute.clear();
  if (count == 0) return;
  stage.recompute.push_back({.first_layer = stage.last_layer - count + 1,
                             .last_layer = stage.last_layer,
                             .mode = plan::RecomputeMode::kFull,
                             .modules = {}});
}

/// Validates a plan, then prices it with the defaults of its cluster.
inline plan::Plan Predicted(plan::Plan plan, const PredictOptions& options = {}) {
  const model::Model model = ModelOf(plan.model_config);
  const model::Graph graph = model::BuildGraph(model.spec);
  plan::Validate(plan, graph, model.spec).value();
  Predict(plan, graph, cluster::DefaultCalibration(plan.cluster), options);
  return plan;
}

inline const plan::MemoryBytes& MemoryOf(const plan::Plan& plan, std::size_t stage = 0) {
  return plan.stages.at(stage).predicted.value().memory;
}

}  // namespace palmist::cost::test
