#include "palmist/cost/predict.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "palmist/base/units.h"

namespace palmist::cost {
namespace {

/// Distinct rank sets a rank of the stage belongs to, each of which costs a communicator.
double CommunicatorBytes(const plan::Stage& stage,
                         int num_stages,
                         bool tied_apart,
                         const cluster::MemoryOverheads& overheads) {
  double bytes = 0;
  const auto add = [&](int ranks) { bytes += overheads.CommunicatorBytes(ranks); };
  const int world = static_cast<int>(stage.devices.size()) * num_stages;
  add(world);  // the world's own, which every launcher makes
  if (stage.tp > 1 && stage.tp < world) add(stage.tp);
  if (stage.cp > 1 && stage.cp < world) add(stage.cp);
  if (stage.ep > 1 && stage.ep < world) add(stage.ep);
  const int replicas = stage.dp * stage.cp;
  if (replicas > 1 && replicas < world && !(stage.dp == 1 && stage.cp > 1)) add(replicas);
  if (stage.zero > 0 && stage.zero_shard > 1 && stage.zero_shard < replicas) add(stage.zero_shard);
  if (num_stages > 1 && num_stages < world) add(num_stages);
  if (tied_apart) add(2);
  return bytes;
}

}  // namespace

double StageEstimate::ExcessBytes() const {
  return std::max(memory.needed() - memory.limit, host_bytes - host_limit_bytes);
}

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

StageEstimate Estimator::Estimate(const plan::Stage& stage,
                                  int index,
                                  int num_stages,
                                  const ModelCost<double>& layers,
                                  const StageRates& rates,
                                  const Rate& embedding_reduce,
                                  const Rate& previous_send) const {
  std::vector<bool> recomputed;
  for (int layer = stage.first_layer; layer <= stage.last_layer; ++layer) {
    recomputed.push_back(stage.recomputes(layer));
  }
  return Estimate(stage,
                  CountLayers(graph_, stage.first_layer, stage.last_layer, recomputed),
                  index,
                  num_stages,
                  layers,
                  rates,
                  embedding_reduce,
                  previous_send);
}

StageEstimate Estimator::Estimate(const plan::Stage& stage,
                                  StageContent<double> content,
                                  int index,
                                  int num_stages,
                                  const ModelCost<double>& layers,
                                  const StageRates& rates,
                                  const Rate& embedding_reduce,
                                  const Rate& previous_send) const {
  StageEstimate estimate;
  content.in_flight =
      schedule::InFlight(training_.schedule, num_stages, index, training_.micro_batches);
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
  states.offload_weights = stage.offload.weights;
  states.offload_grads = stage.offload.grads;
  states.offload_optimizer = stage.offload.optimizer;
  states.offload_activations = stage.offload.activations;

  // Memory.
  const StageMemory<double> memory = ComposeMemory(layers, content, states);
  const StageWeights<double> weights = CountWeights(layers, content);
  const bool tied_somewhere =
      graph_.tied_head || std::any_of(layers.kinds.begin(),
                                      layers.kinds.end(),
                                      [](const auto& kind) { return kind.tied_weights > 0; });
  const bool tied_apart = tied_somewhere && num_stages > 1 && (stage.embedding || weights.tied > 0);
  plan::MemoryBytes& bytes = estimate.memory;
  bytes.weights = memory.weights;
  bytes.grads = memory.grads;
  bytes.optimizer = memory.optimizer;
  bytes.activations = memory.activations;
  bytes.transient = memory.transient;
  bytes.buffers = memory.buffers + rates.overheads.allocator_bytes;
  bytes.logits = memory.logits;
  bytes.allocated_peak = memory.Sum() + rates.overheads.allocator_bytes;
  bytes.reserved_peak = bytes.allocated_peak * rates.overheads.reserved_over_allocated;
  bytes.communicators = CommunicatorBytes(stage, num_stages, tied_apart, rates.overheads);
  bytes.context = rates.overheads.context_bytes;
  bytes.limit = options_.memory_limit <= 1 ? rates.usable_bytes * options_.memory_limit
                                           : std::min(options_.memory_limit, rates.usable_bytes);
  double activations_on_host = 0;
  if (states.offload_activations > 0) {
    StateLayout<double> all_here = states;
    all_here.offload_activations = 0;
    activations_on_host =
        states.offload_activations * ComposeMemory(layers, content, all_here).activations;
  }
  const double state_elements =
      weights.dense / states.optimizer_shards + weights.expert / states.expert_optimizer_shards;
  const double weight_elements =
      weights.dense / states.weight_shards + weights.expert / states.expert_weight_shards;
  const double grad_elements =
      weights.dense / states.grad_shards + weights.expert / states.expert_grad_shards;
  estimate.host_bytes = states.offload_weights * states.weight_bytes * weight_elements +
                        states.offload_grads * states.grad_bytes * grad_elements +
                        states.offload_optimizer * states.optimizer_bytes * state_elements +
                        activations_on_host;
  estimate.host_limit_bytes = rates.host_bytes;

  // Time of a steady micro-batch: the phases of the overlap-centric schedule.
  const StageTime<double> time = ComposeTime(layers, content);
  // Routed experts are replicated over fewer ranks: over none where ep reaches the replicas.
  const double replicated = weights.dense + (stage.ep < replicas ? weights.expert : 0);
  const double weight_bytes_here = replicated * states.weight_bytes;
  const double grad_bytes_here = replicated * states.grad_bytes;
  const double per_layer = weights.layers;
  const auto shard_seconds = [&](const Rate& rate, double moved) {
    return shard > 1 ? per_layer * rate.alpha_s + moved * rate.s_per_byte : 0;
  };
  const double gather_s =
      stage.zero >= 3 ? shard_seconds(rates.shard_gather, weight_bytes_here) : 0;
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
  double activation_total = 0;
  for (std::size_t k = 0; k < layers.kinds.size(); ++k) {
    activation_total +=
        content.plain[k] * layers.kinds[k].kept + content.recomputed[k] * layers.kinds[k].input;
  }
  const double weights_in_s = states.offload_weights * states.weight_bytes * weight_elements *
                              rates.host_to_device_s_per_byte;
  const double grads_move = states.offload_grads * states.grad_bytes * grad_elements;
  const double activations_move = states.offload_activations * activation_total;
  const double steady_reduce_s = stage.zero >= 2 ? reduce_s : 0;

  const double forward_serial = time.tp_forward_s + time.cp_forward_s + time.ep_forward_s;
  const double backward_serial = time.tp_backward_s + time.cp_backward_s + time.ep_backward_s;
  const ResourceSeconds forward_work = {
      .compute = time.forward_s,
      .device_to_device = gather_s,
      .host_to_device = weights_in_s,
      .device_to_host = activations_move * rates.device_to_host_s_per_byte};
  const ResourceSeconds backward_work = {
      .compute = time.backward_s,
      .device_to_device = gather_s + steady_reduce_s,
      .host_to_device =
          weights_in_s + (grads_move + activations_move) * rates.host_to_device_s_per_byte,
      .device_to_host = grads_move * rates.device_to_host_s_per_byte};
  const auto overlapped = [&](const ResourceSeconds& work) {
    return OverlappedSeconds(work, rates.interference);
  };
  const auto without_host = [](ResourceSeconds work) {
    work.host_to_device = work.device_to_host = 0;
    return work;
  };
  const double forward_s = overlapped(forward_work);
  const double backward_s = overlapped(backward_work);
  const double on_device_s =
      overlapped(without_host(forward_work)) + overlapped(without_host(backward_work));

  // What crosses a boundary is the input of the layer behind it, and a decoder's encoder output.
  const auto boundary_bytes = [&](int layer) {
    const LayerCost<double>& kind =
        layers.kinds[static_cast<std::size_t>(graph_.layers[static_cast<std::size_t>(layer)])];
    return kind.input + kind.memory;
  };
  const double send_forward_s =
      index + 1 < num_stages ? rates.send.Seconds(boundary_bytes(stage.last_layer + 1)) : 0;
  const double send_backward_s =
      index > 0 ? previous_send.Seconds(boundary_bytes(stage.first_layer)) : 0;
  estimate.point.forward_s = forward_s + forward_serial + send_forward_s;
  estimate.point.backward_s = backward_s + backward_serial + send_backward_s;
  estimate.compute_s = time.forward_s + time.backward_s;
  estimate.tp_s = time.tp_forward_s + time.tp_backward_s;
  estimate.cp_s = time.cp_forward_s + time.cp_backward_s;
  estimate.ep_s = time.ep_forward_s + time.ep_backward_s;
  estimate.dp_s = on_device_s - estimate.compute_s;
  estimate.offload_s = forward_s + backward_s - on_device_s;
  estimate.pp_s = send_forward_s + send_backward_s;

  // After the last backward: what the reduction of unsharded gradients leaves exposed.
  if (stage.zero <= 1 && reduce_s > 0) {
    ResourceSeconds last = backward_work;
    last.device_to_device += reduce_s;
    estimate.point.last_extra_s = overlapped(last) - backward_s;
  }
  if (tied_apart) {
    const double table =
        (stage.embedding ? layers.embedding.weights : layers.head.tied_weights) * states.grad_bytes;
    estimate.point.last_extra_s += embedding_reduce.Seconds(table);
  }

  // The optimizer step: reads gradients and states, writes states and weights.
  const double step_bytes =
      state_elements * (states.grad_bytes + 2 * states.optimizer_bytes + states.weight_bytes);
  const double host_states = states.offload_optimizer * states.optimizer_bytes * state_elements;
  const double gather_updated_s =
      stage.zero == 1 || stage.zero == 2 ? shard_seconds(rates.shard_gather, weight_bytes_here) : 0;
  // Clipping needs the norm of all gradients first, so its arithmetic follows the last backward on
  // every stage; without it each layer's step runs just before its next forward. What moves runs
  // beside the first forward either way.
  const double step_s = step_bytes * rates.optimizer_s_per_byte;
  const bool deferred = training_.grad_clip == 0;
  ResourceSeconds first = forward_work;
  first.compute += deferred ? step_s : 0;
  first.device_to_device += gather_updated_s;
  first.host_to_device += host_states * rates.host_to_device_s_per_byte;
  first.device_to_host += host_states * rates.device_to_host_s_per_byte;
  estimate.point.first_extra_s = overlapped(first) - forward_s;
  const double first_on_device_s =
      overlapped(without_host(first)) - overlapped(without_host(forward_work));
  estimate.extra_offload_s = std::max(0.0, estimate.point.first_extra_s - first_on_device_s);
  estimate.extra_optimizer_s = deferred ? std::min(step_s, first_on_device_s) : 0;
  estimate.optimizer_s = deferred ? 0 : step_s;
  return estimate;
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
  const double pipeline_s =
      schedule::IterationSeconds(plan.training.schedule, points, micro_batches);
  const double total_s = pipeline_s + optimizer_s;
  prediction.iteration_time_s = total_s;
  const double samples = static_cast<double>(plan.training.global_batch);
  const double tokens = samples * static_cast<double>(std::max<std::int64_t>(plan.seq_len, 1));
  prediction.tokens_per_s = tokens / total_s;

  const StageEstimate& worst = stages[slowest];
  std::vector<schedule::StagePoint> bare = points;
  for (schedule::StagePoint& point : bare) point.first_extra_s = point.last_extra_s = 0;
  const double bare_s = schedule::IterationSeconds(plan.training.schedule, bare, micro_batches);
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
    if (!stage.chunks.empty()) refuse("chunks", "use one chunk a stage");
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
  std::vector<StageEstimate> estimates;
  double peak = 0;
  Rate previous_send;
  plan.closest.clear();
  for (int i = 0; i < num_stages; ++i) {
    plan::Stage& stage = plan.stages[static_cast<std::size_t>(i)];
    const std::vector<int> next = i + 1 < num_stages
                                      ? plan.stages[static_cast<std::size_t>(i) + 1].devices
                                      : std::vector<int>();
    const StageRates rates = ComputeRates(context, LayoutOf(stage), stage.devices, next);
    const ModelCost<double> layers =
        estimator.ModelFor(stage.ops).Evaluate(std::span(&rates.inputs, 1)).front();
    StageEstimate estimate =
        estimator.Estimate(stage, i, num_stages, layers, rates, embedding_reduce, previous_send);
    previous_send = rates.send;
    peak += rates.peak_flops_per_s;
    stage.predicted = plan::StagePrediction{.forward_s = estimate.point.forward_s,
                                            .backward_s = estimate.point.backward_s,
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
