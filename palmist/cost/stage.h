/// A stage from its layers: memory by category and times of one rank.
///
/// Written once over a scalar T: with `Expr` it is the formula that explanations print, with
/// `double` the number that a search evaluates.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "palmist/cost/layer_cost.h"

namespace palmist::cost {

/// Scalar helpers that read alike for numbers and expressions.
inline double Max(double a, double b) { return std::max(a, b); }
inline double Select(double condition, double a, double b) { return condition > 0 ? a : b; }
using symbolic::Max;
using symbolic::Select;

/// How states are divided and where they live, and the rates of what moves them.
template <typename T>
struct StateLayout {
  double weight_bytes = 2, grad_bytes = 2, optimizer_bytes = 12;  ///< per parameter
  T weight_shards{1}, grad_shards{1}, optimizer_shards{1};        ///< ZeRO 3, 2, 1
  /// The same for routed experts, which fewer ranks replicate (data parallel over expert parallel).
  T expert_weight_shards{1}, expert_grad_shards{1}, expert_optimizer_shards{1};
  T offload_weights{0}, offload_grads{0}, offload_optimizer{0}, offload_activations{0};
};

/// What a stage holds: numbers of layers of each kind, and of micro-batches in flight.
template <typename T>
struct StageContent {
  std::vector<T> plain;       ///< layers of each kind that keep their activations
  std::vector<T> recomputed;  ///< layers of each kind that are made again
  T in_flight{0};             ///< other micro-batches held while one runs
  T embedding{0}, head{0};    ///< 1 where the stage holds them
  bool tied = false;          ///< the head's matrix is the embedding's
  T chunks{1};                ///< parts the layers lie in, with other stages' layers between them
};

/// Costs of a model's layers under one layout.
template <typename T>
struct ModelCost {
  std::vector<LayerCost<T>> kinds;
  LayerCost<T> embedding, head;
};

/// Bytes on one rank; the categories of a plan file that follow from the model.
template <typename T>
struct StageMemory {
  T weights{}, grads{}, optimizer{}, activations{}, transient{}, buffers{}, logits{};

  T Sum() const { return weights + grads + optimizer + activations + transient + buffers + logits; }
};

/// Parameters of a stage on one rank, in elements.
template <typename T>
struct StageWeights {
  T dense{}, expert{};
  T largest{};  ///< of the largest layer
  T layers{};   ///< layers and ends that hold parameters
  T tied{};     ///< of `dense`: copies of the embedding's table away from it
};

/// Counts a stage's parameters. A table tied to the embedding's is held again where the embedding
/// is on another stage, once, by the head or by a decoder's first layer.
template <typename T>
StageWeights<T> CountWeights(const ModelCost<T>& model, const StageContent<T>& content) {
  StageWeights<T> weights;
  const auto add = [&](const LayerCost<T>& cost, const T& count) {
    weights.dense = weights.dense + count * (cost.weights - cost.expert_weights);
    weights.expert = weights.expert + count * cost.expert_weights;
    weights.largest = Max(weights.largest, Select(count, cost.weights, T{0}));
    weights.layers = weights.layers + count;
  };
  T tied{0};
  for (std::size_t k = 0; k < model.kinds.size(); ++k) {
    const T count = content.plain[k] + content.recomputed[k];
    add(model.kinds[k], count);
    tied = Max(tied, Select(count, model.kinds[k].tied_weights, T{0}));
  }
  add(model.embedding, content.embedding);
  add(model.head, content.head);
  if (content.tied) tied = Max(tied, content.head * model.head.tied_weights);
  weights.tied = Select(content.embedding, T{0}, tied);
  weights.dense = weights.dense + weights.tied;
  return weights;
}

/// Returns a stage's memory by category.
///
/// Layers hold what they keep, for each micro-batch in flight; the layer that runs holds its peak.
/// A recomputed layer that is run again holds all that a plain one would. Sharded or offloaded
/// weights and gradients pass through two buffers of the largest layer. `logits` is what the head
/// adds while it runs, `transient` what a layer's run adds beyond that.
template <typename T>
StageMemory<T> ComposeMemory(const ModelCost<T>& model,
                             const StageContent<T>& content,
                             const StateLayout<T>& states) {
  StageMemory<T> memory;
  const StageWeights<T> weights = CountWeights(model, content);
  const T &dense = weights.dense, &expert = weights.expert, &largest = weights.largest;
  T kept{0}, extra{0}, largest_kept{0}, boundary{0}, encoder_output{0};
  for (std::size_t k = 0; k < model.kinds.size(); ++k) {
    const LayerCost<T>& cost = model.kinds[k];
    const T& plain = content.plain[k];
    const T& recomputed = content.recomputed[k];
    boundary = Max(boundary, Select(plain, cost.boundary, T{0}));
    encoder_output = Max(encoder_output, Select(plain + recomputed, cost.memory, T{0}));
    kept = kept + plain * cost.kept + recomputed * cost.input;
    largest_kept = Max(largest_kept, Select(plain, cost.kept, T{0}));
    const T peak = Max(cost.forward_peak, cost.backward_peak);
    extra = Max(extra, Select(plain, peak - cost.kept, T{0}));
    extra = Max(extra, Select(recomputed, peak - cost.input, T{0}));
  }
  kept = kept + content.chunks * boundary + encoder_output;
  const T ends = content.embedding * model.embedding.kept + content.head * model.head.kept;
  const T held = kept + content.embedding * model.embedding.kept;

  memory.weights = states.weight_bytes * (1 - states.offload_weights) *
                   (dense / states.weight_shards + expert / states.expert_weight_shards);
  memory.grads = states.grad_bytes * (1 - states.offload_grads) *
                 (dense / states.grad_shards + expert / states.expert_grad_shards);
  memory.optimizer = states.optimizer_bytes * (1 - states.offload_optimizer) *
                     (dense / states.optimizer_shards + expert / states.expert_optimizer_shards);
  memory.activations =
      (content.in_flight * (kept + ends) + held) * (1 - states.offload_activations) +
      Select(states.offload_activations, 2 * largest_kept, T{0});
  memory.logits = content.head * Max(model.head.forward_peak, model.head.backward_peak);
  memory.transient = Max(extra - memory.logits, T{0});
  memory.buffers =
      Select(states.weight_shards - 1 + states.offload_weights,
             2 * states.weight_bytes * largest,
             T{0}) +
      Select(states.grad_shards - 1 + states.offload_grads, 2 * states.grad_bytes * largest, T{0});
  return memory;
}

/// Seconds of one micro-batch on one rank, by cause.
template <typename T>
struct StageTime {
  T forward_s{}, backward_s{};  ///< compute, with what recomputation adds to backward
  T weight_grad_s{};            ///< of `backward_s`: what only gradients of weights need
  T tp_forward_s{}, tp_backward_s{};
  T cp_forward_s{}, cp_backward_s{};
  T ep_forward_s{}, ep_backward_s{};
};

/// Returns a stage's times for one micro-batch.
template <typename T>
StageTime<T> ComposeTime(const ModelCost<T>& model, const StageContent<T>& content) {
  StageTime<T> time;
  const auto add = [&](const LayerCost<T>& cost, const T& count, const T& again) {
    time.forward_s = time.forward_s + count * cost.forward_s;
    time.tp_forward_s = time.tp_forward_s + count * cost.tp_forward_s;
    time.cp_forward_s = time.cp_forward_s + count * cost.cp_forward_s;
    time.ep_forward_s = time.ep_forward_s + count * cost.ep_forward_s;
    time.backward_s = time.backward_s + count * cost.backward_s + again * cost.forward_s;
    time.weight_grad_s = time.weight_grad_s + count * cost.weight_grad_s;
    time.tp_backward_s =
        time.tp_backward_s + count * cost.tp_backward_s + again * cost.tp_forward_s;
    time.cp_backward_s =
        time.cp_backward_s + count * cost.cp_backward_s + again * cost.cp_forward_s;
    time.ep_backward_s =
        time.ep_backward_s + count * cost.ep_backward_s + again * cost.ep_forward_s;
  };
  for (std::size_t k = 0; k < model.kinds.size(); ++k) {
    add(model.kinds[k], content.plain[k] + content.recomputed[k], content.recomputed[k]);
  }
  add(model.embedding, content.embedding, T{0});
  add(model.head, content.head, T{0});
  return time;
}

}  // namespace palmist::cost
