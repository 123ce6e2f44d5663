#include "palmist/cost/predict.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "palmist/base/units.h"
#include "palmist/schedule/order.h"

namespace palmist::cost {
namespace {

/// Distinct rank sets a rank of the stage belongs to, each of which costs a communicator.
double CommunicatorBytes(const plan::Stage& stage,
                         const Estimator::Position& position,
                         bool tied_apart,
                         const cluster::MemoryOverheads& overheads) {
  double bytes = 0;
  const auto add = [&](int ranks) { bytes += overheads.CommunicatorBytes(ranks); };
  const int world = position.world;
  add(world);  // the world's own, which every launcher makes
  if (stage.tp > 1 && stage.tp < world) add(stage.tp);
  if (stage.cp > 1 && stage.cp < world) add(stage.cp);
  if (stage.ep > 1 && stage.ep < world) add(stage.ep);
  const int replicas = stage.dp * stage.cp;
  if (replicas > 1 && replicas < world && !(stage.dp == 1 && stage.cp > 1)) add(replicas);
  if (stage.zero > 0 && stage.zero_shard > 1 && stage.zero_shard < replicas) add(stage.zero_shard);
  if (position.most_stages > position.num_stages) {
    add(std::min(position.most_stages, world));
  } else if (position.num_stages > 1 && position.num_stages < world) {
    add(position.num_stages);
  }
  if (tied_apart) add(2);
  return bytes;
}

}  // namespace

Layout LayoutOf(const plan::Stage& stage) {
  return {.micro_batch = stage.micro_batch,
          .dp = stage.dp,
          .tp = stage.tp,
          .cp = stage.cp,
          .ep = stage.ep,
          .sp = stage.sp,
          .zero = stage.zero,
          .zero_shard = stage.zero > 0 ? stage.zero_shard : 1};
}

void SetLayout(const Layout& layout, plan::Stage& stage) {
  stage.micro_batch = layout.micro_batch;
  stage.dp = layout.dp;
  stage.tp = layout.tp;
  stage.sp = layout.sp;
  stage.cp = layout.cp;
  stage.ep = layout.ep;
  stage.zero = layout.zero;
  stage.zero_shard = layout.zero_shard;
}

Estimator::Estimator(const model::Graph& graph,
                     const cluster::Cluster& cluster,
                     const cluster::Calibration& calibration,
                     const plan::Training& training,
                     double seq_len,
                     const PredictOptions& options)
    : graph_(graph),
      cluster_(cluster),
      calibration_(calibration),
      training_(training),
      seq_len_(seq_len),
      options_(options) {}

double Estimator::activation_bytes() const { return training_.dtype == "fp32" ? 4 : 2; }

double Estimator::grad_bytes() const { return training_.grad_dtype == "fp32" ? 4 : 2; }

LayoutContext Estimator::layout_context() const {
  return {.cluster = cluster_,
          .calibration = calibration_,
          .seq_len = graph_.has_sequence ? seq_len_ : 1,
          .dtype = training_.dtype,
          .grad_bytes = grad_bytes(),
          .expert_imbalance = options_.expert_imbalance};
}

const CostModel& Estimator::ModelFor(const model::OpVariants& ops) {
  for (const auto& [variants, model] : models_) {
    if (variants == ops) return *model;
  }
  model::LoweringOptions options;
  options.variants = ops;
  options.activation_bytes = activation_bytes();
  models_.emplace_back(ops, std::make_unique<CostModel>(graph_, options));
  return *models_.back().second;
}

StageContent<double> Estimator::ContentOf(const plan::Stage& stage) const {
  const auto count = [&](int first, int last) {
    std::vector<bool> recomputed;
    for (int layer = first; layer <= last; ++layer) recomputed.push_back(stage.recomputes(layer));
    return CountLayers(graph_, first, last, recomputed);
  };
  if (stage.chunks.empty()) return count(stage.first_layer, stage.last_layer);
  StageContent<double> content;
  for (const plan::LayerRange& chunk : stage.chunks) {
    const StageContent<double> part = count(chunk.first_layer, chunk.last_layer);
    if (content.plain.empty()) {
      content = part;
      continue;
    }
    for (std::size_t k = 0; k < part.plain.size(); ++k) {
      content.plain[k] += part.plain[k];
      content.recomputed[k] += part.recomputed[k];
    }
  }
  content.chunks = static_cast<double>(stage.chunks.size());
  return content;
}

StageTerms Estimator::Terms(const plan::Stage& stage,
                            StageContent<double> content,
                            const Position& position,
                            const ModelCost<double>& layers,
                            const StageRates& rates,
                            const Rate& embedding_reduce,
                            const ModelCost<double>* next) const {
  StageTerms terms;
  const int num_stages = position.num_stages;
  // Passes are of one chunk each. `held` below counts the one that runs as a whole micro-batch.
  const int chunks = stage.num_chunks();
  const int passes = schedule::InFlight(
      training_.schedule, num_stages, position.index, training_.micro_batches, chunks);
  content.in_flight = static_cast<double>(passes + 1) / chunks - 1;
  content.embedding = stage.embedding ? 1 : 0;
  content.head = stage.head ? 1 : 0;

  const int replicas = stage.dp * stage.cp;
  const double shard = stage.zero > 0 ? stage.zero_shard : 1;
  const double expert_shard = std::max(1.0, shard / stage.ep);
  StateLayout<double> states;
  states.weight_bytes = weight_bytes();
  states.grad_bytes = grad_bytes();
  states.optimizer_bytes = training_.optimizer.state_bytes_per_param;
  if (stage.zero >= 1)
    states.optimizer_shards = shard, states.expert_optimizer_shards = expert_shard;
  if (stage.zero >= 2) states.grad_shards = shard, states.expert_grad_shards = expert_shard;
  if (stage.zero >= 3) states.weight_shards = shard, states.expert_weight_shards = expert_shard;

  // Memory.
  const StageMemory<double> memory = ComposeMemory(layers, content, states);
  const StageWeights<double> weights = CountWeights(layers, content);
  const bool tied_somewhere =
      graph_.tied_head || std::any_of(layers.kinds.begin(),
                                      layers.kinds.end(),
                                      [](const auto& kind) { return kind.tied_weights > 0; });
  const bool tied_apart = tied_somewhere && num_stages > 1 && (stage.embedding || weights.tied > 0);
  terms.memory.weights = memory.weights;
  terms.memory.grads = memory.grads;
  terms.memory.optimizer = memory.optimizer;
  terms.memory.activations = memory.activations;
  terms.memory.transient = memory.transient;
  terms.memory.buffers = rates.overheads.allocator_bytes;
  terms.memory.logits = memory.logits;
  terms.weight_buffer = 2 * states.weight_bytes * weights.largest;
  terms.grad_buffer = 2 * states.grad_bytes * weights.largest;
  terms.weights_sharded = states.weight_shards > 1;
  terms.grads_sharded = states.grad_shards > 1;
  terms.reserved_over_allocated = rates.overheads.reserved_over_allocated;
  terms.communicators = CommunicatorBytes(stage, position, tied_apart, rates.overheads);
  terms.context = rates.overheads.context_bytes;
  terms.limit = options_.memory_limit <= 1 ? rates.usable_bytes * options_.memory_limit
                                           : std::min(options_.memory_limit, rates.usable_bytes);
  terms.host_limit_bytes = rates.host_bytes;
  double largest_kept = 0;
  for (std::size_t k = 0; k < layers.kinds.size(); ++k) {
    terms.moved_activation_bytes +=
        content.plain[k] * layers.kinds[k].kept + content.recomputed[k] * layers.kinds[k].input;
    if (content.plain[k] > 0) largest_kept = std::max(largest_kept, layers.kinds[k].kept);
  }
  terms.activation_buffer = 2 * largest_kept;

  // Time of a steady micro-batch.
  const StageTime<double> time = ComposeTime(layers, content);
  // Routed experts are replicated over fewer ranks: over none where ep reaches the replicas.
  const double replicated = weights.dense + (stage.ep < replicas ? weights.expert : 0);
  const double weight_bytes_here = replicated * states.weight_bytes;
  const double grad_bytes_here = replicated * states.grad_bytes;
  const double per_layer = weights.layers;
  const auto shard_seconds = [&](const Rate& rate, double moved) {
    return shard > 1 ? per_layer * rate.alpha_s + moved * rate.s_per_byte : 0;
  };
  // Gradients: sharded ones are reduced after every micro-batch, others once; where several shard
  // groups exist their shards are summed too.
  double reduce_s = 0;
  if (stage.zero >= 1) {
    reduce_s = shard_seconds(rates.shard_scatter, grad_bytes_here);
    if (shard < replicas) reduce_s += rates.data_all_reduce.Seconds(grad_bytes_here / shard);
  } else if (replicas > 1) {
    reduce_s = per_layer * rates.data_all_reduce.alpha_s +
               grad_bytes_here * rates.data_all_reduce.s_per_byte;
  }
  terms.forward_compute_s = time.forward_s;
  terms.backward_compute_s = time.backward_s;
  terms.weight_grad_s = time.weight_grad_s;
  terms.gather_s = stage.zero >= 3 ? shard_seconds(rates.shard_gather, weight_bytes_here) : 0;
  terms.steady_reduce_s = stage.zero >= 2 ? reduce_s : 0;
  terms.last_reduce_s = stage.zero <= 1 ? reduce_s : 0;
  terms.tp_s = time.tp_forward_s + time.tp_backward_s;
  terms.cp_s = time.cp_forward_s + time.cp_backward_s;
  terms.ep_s = time.ep_forward_s + time.ep_backward_s;
  terms.forward_serial_s = time.tp_forward_s + time.cp_forward_s + time.ep_forward_s;
  terms.backward_serial_s = time.tp_backward_s + time.cp_backward_s + time.ep_backward_s;
  terms.host_to_device_s_per_byte = rates.host_to_device_s_per_byte;
  terms.device_to_host_s_per_byte = rates.device_to_host_s_per_byte;
  terms.interference = rates.interference;

  // What crosses a boundary is the input of the layer behind it, and a decoder's encoder output,
  // forward as activations and backward as their gradients. Of two unlike layouts the one whose
  // ranks have more to move sets the pace.
  // Each chunk sends, the last stage's to the first stage's next one.
  const auto add_send = [&](int last_layer) {
    const int kind_behind = graph_.layers[static_cast<std::size_t>(last_layer) + 1];
    const auto boundary_bytes = [&](const ModelCost<double>& costs) {
      const LayerCost<double>& kind = costs.kinds[static_cast<std::size_t>(kind_behind)];
      return kind.input + kind.memory;
    };
    double bytes = boundary_bytes(layers);
    if (next != nullptr) bytes = std::max(bytes, boundary_bytes(*next));
    const double send_s = rates.send.Seconds(bytes);
    terms.forward_serial_s += send_s;
    terms.backward_serial_s += send_s;
    terms.pp_s += 2 * send_s;
  };
  if (stage.chunks.empty()) {
    if (position.index + 1 < num_stages) add_send(stage.last_layer);
  } else {
    for (const plan::LayerRange& chunk : stage.chunks) {
      if (chunk.last_layer + 1 < static_cast<int>(graph_.layers.size())) add_send(chunk.last_layer);
    }
  }
  if (tied_apart) {
    const double table =
        (stage.embedding ? layers.embedding.weights : layers.head.tied_weights) * states.grad_bytes;
    terms.tied_s = embedding_reduce.Seconds(table);
  }

  // The optimizer step: reads gradients and states, writes states and weights. Clipping needs the
  // norm of all gradients first, so its arithmetic follows the last backward on every stage;
  // without it each layer's step runs just before its next forward. What moves runs beside the
  // first forward either way.
  const double state_elements =
      weights.dense / states.optimizer_shards + weights.expert / states.expert_optimizer_shards;
  terms.step_s = state_elements *
                 (states.grad_bytes + 2 * states.optimizer_bytes + states.weight_bytes) *
                 rates.optimizer_s_per_byte;
  terms.is_step_deferred = training_.grad_clip == 0;
  if (stage.zero == 1 || stage.zero == 2) {
    terms.gather_updated_s = shard_seconds(rates.shard_gather, weight_bytes_here);
  }
  return terms;
}

double ModelFlopsPerSample(const model::Graph& graph, double seq_len) {
  const std::map<std::string, double> alone = {
      {"b", 1}, {"s", seq_len}, {"tp", 1}, {"sd", 1}, {"cp", 1}, {"ep", 1}, {"x", 1}};
  const auto forward = [&](const model::Layer& layer) {
    Expr flops = 0;
    for (const model::Op& op : layer.ops) flops += op.forward_flops;
    return symbolic::Evaluate(flops, alone);
  };
  std::vector<double> of_kind;
  for (const model::Layer& kind : graph.kinds) of_kind.push_back(forward(kind));
  double total = forward(graph.embedding) + forward(graph.head);
  for (const int kind : graph.layers) total += of_kind[static_cast<std::size_t>(kind)];
  return 3 * total;
}

plan::Prediction Summarize(const plan::Plan& plan, std::span<const StageEstimate> stages) {
  plan::Prediction prediction;
  std::vector<schedule::StagePoint> points;
  double optimizer_s = 0;
  std::size_t slowest = 0;
  prediction.fits = true;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const StageEstimate& stage = stages[i];
    points.push_back(stage.point);
    optimizer_s = std::max(optimizer_s, stage.optimizer_s);
    if (stage.point.total_s() > stages[slowest].point.total_s()) slowest = i;
    if (stage.ExcessBytes() > 0) prediction.fits = false;
  }
  const int micro_batches = plan.training.micro_batches;
  const int chunks = plan.stages.empty() ? 1 : plan.stages.front().num_chunks();
  const std::string& schedule = plan.training.schedule;
  const double pipeline_s = schedule::IterationSeconds(schedule, points, micro_batches, chunks);
  const double total_s = pipeline_s + optimizer_s;
  prediction.iteration_time_s = total_s;
  const double samples = static_cast<double>(plan.training.global_batch);
  const double tokens = samples * static_cast<double>(std::max<std::int64_t>(plan.seq_len, 1));
  prediction.tokens_per_s = tokens / total_s;

  const StageEstimate& worst = stages[slowest];
  std::vector<schedule::StagePoint> bare = points;
  for (schedule::StagePoint& point : bare) point.first_extra_s = point.last_extra_s = 0;
  const double bare_s = schedule::IterationSeconds(schedule, bare, micro_batches, chunks);
  const double busy_s = worst.point.total_s() * micro_batches;
  prediction.bubble_fraction = (bare_s - busy_s) / total_s;
  prediction.compute_s = worst.compute_s * micro_batches;
  plan::ExposedSeconds& exposed = prediction.exposed_s;
  exposed.tp = worst.tp_s * micro_batches;
  exposed.cp = worst.cp_s * micro_batches;
  exposed.ep = worst.ep_s * micro_batches;
  exposed.pp = worst.pp_s * micro_batches;
  // What extras add, by the causes of the stage that has the most of them.
  const StageEstimate& extra = *std::max_element(
      stages.begin(), stages.end(), [](const StageEstimate& a, const StageEstimate& b) {
        return a.point.first_extra_s + a.point.last_extra_s <
               b.point.first_extra_s + b.point.last_extra_s;
      });
  const double extra_total_s = extra.point.first_extra_s + extra.point.last_extra_s;
  const double exposed_share = extra_total_s > 0 ? (pipeline_s - bare_s) / extra_total_s : 0;
  exposed.offload = worst.offload_s * micro_batches + exposed_share * extra.extra_offload_s;
  exposed.optimizer = optimizer_s + exposed_share * extra.extra_optimizer_s;
  exposed.dp = worst.dp_s * micro_batches +
               exposed_share * (extra_total_s - extra.extra_offload_s - extra.extra_optimizer_s);

  double price = 0;
  bool priced = true;
  for (const plan::Stage& stage : plan.stages) {
    for (const int device : stage.devices) {
      const auto& hourly = plan.cluster.group_of(device).price_usd_per_device_hour;
      priced = priced && hourly.has_value();
      price += hourly.value_or(0) / 3600;
    }
  }
  if (priced) prediction.cost_usd_per_1e9_tokens = price * 1e9 / prediction.tokens_per_s;
  return prediction;
}

void Predict(plan::Plan& plan,
             const model::Graph& graph,
             const cluster::Calibration& calibration,
             const PredictOptions& options) {
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const plan::Stage& stage = plan.stages[i];
    const std::string field = "stages[" + std::to_string(i) + "]";
    const auto refuse = [&](const std::string& name, const std::string& hint) {
      std::string path = field;
      path.append(".").append(name);
      throw Error(ErrorKind::kUnavailable, "this version cannot price it", std::move(path), hint);
    };
    if (!stage.replicas.empty()) refuse("replicas", "use like replicas (dp)");
    for (const plan::RecomputeRange& range : stage.recompute) {
      if (range.mode != plan::RecomputeMode::kFull) refuse("recompute", "use mode full");
    }
  }
  Estimator estimator(
      graph, plan.cluster, calibration, plan.training, static_cast<double>(plan.seq_len), options);
  const LayoutContext context = estimator.layout_context();
  const int num_stages = static_cast<int>(plan.stages.size());
  const Rate embedding_reduce = PairAllReduce(
      context, plan.stages.front().devices.front(), plan.stages.back().devices.front());
  std::vector<StageRates> rates;
  std::vector<ModelCost<double>> layers;
  int world = 0;
  double peak = 0;
  for (int i = 0; i < num_stages; ++i) {
    const plan::Stage& stage = plan.stages[static_cast<std::size_t>(i)];
    std::vector<int> next;
    if (i + 1 < num_stages) {
      next = plan.stages[static_cast<std::size_t>(i) + 1].devices;
    } else if (num_stages > 1 && !stage.chunks.empty()) {
      next = plan.stages.front().devices;  // the next chunk is there
    }
    rates.push_back(ComputeRates(context, LayoutOf(stage), stage.devices, next));
    layers.push_back(
        estimator.ModelFor(stage.ops).Evaluate(std::span(&rates.back().inputs, 1)).front());
    world += static_cast<int>(stage.devices.size());
    peak += rates.back().peak_flops_per_s;
  }
  std::vector<StageEstimate> estimates;
  plan.closest.clear();
  for (int i = 0; i < num_stages; ++i) {
    const auto at = static_cast<std::size_t>(i);
    plan::Stage& stage = plan.stages[at];
    const ModelCost<double>* behind = nullptr;
    if (i + 1 < num_stages) {
      behind = &layers[at + 1];
    } else if (!stage.chunks.empty()) {
      behind = &layers.front();
    }
    const StageTerms terms = estimator.Terms(stage,
                                             estimator.ContentOf(stage),
                                             {i, num_stages, world},
                                             layers[at],
                                             rates[at],
                                             embedding_reduce,
                                             behind);
    const StageEstimate estimate = Compose(terms, stage.offload);
    stage.predicted = plan::StagePrediction{.forward_s = estimate.point.forward_s,
                                            .backward_s = estimate.point.backward_s,
                                            .weight_grad_s = estimate.point.weight_grad_s,
                                            .first_extra_s = estimate.point.first_extra_s,
                                            .last_extra_s = estimate.point.last_extra_s,
                                            .memory = estimate.memory};
    estimates.push_back(estimate);
  }
  plan.predicted = Summarize(plan, estimates);
  plan.predicted->model_flops_utilization = ModelFlopsPerSample(graph, context.seq_len) *
                                            static_cast<double>(plan.training.global_batch) /
                                            (plan.predicted->iteration_time_s * peak);
  for (int i = 0; i < num_stages; ++i) {
    const StageEstimate& estimate = estimates[static_cast<std::size_t>(i)];
    if (estimate.ExcessBytes() <= 0) continue;
    plan.closest.push_back({.stage = i,
                            .short_bytes = estimate.ExcessBytes(),
                            .change = "free " + FormatBytes(estimate.ExcessBytes()) +
                                      " a device: recompute more layers, raise zero, tp or the "
                                      "number of stages, or lower micro_batch"});
  }
}

}  // namespace palmist::cost
