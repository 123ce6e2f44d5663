#include "palmist/planner/evaluator.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <utility>

#include "palmist/plan/optimizer.h"

namespace palmist::planner {
namespace {

/// Numbers of recomputed layers tried beyond the fewest that fit, where activations are offloaded.
constexpr int kOffloadSteps = 16;

std::vector<int> StageDevices(const Candidate& candidate, int stage) {
  const int count = candidate.devices / candidate.stages;
  std::vector<int> devices(static_cast<std::size_t>(count));
  std::iota(devices.begin(), devices.end(), stage * count);
  return devices;
}

}  // namespace

plan::Training TrainingOf(const PlanRequest& request, const Candidate& candidate) {
  plan::Training training = request.training.value_or(plan::Training());
  if (!request.training) {
    // Megatron-LM sums half-precision gradients in fp32.
    training.grad_dtype = request.target == "megatron" ? "fp32" : request.dtype;
    if (!request.grad_dtype.empty()) training.grad_dtype = request.grad_dtype;
    training.optimizer = plan::NamedOptimizer(request.optimizer, request.dtype).value();
  }
  training.global_batch = request.global_batch;
  training.micro_batches = candidate.micro_batches;
  training.schedule = request.fixed.schedule.value_or("1f1b");
  training.dtype = request.dtype;
  return training;
}

/// Costs under one layout on the devices of one stage.
struct Evaluator::StageCosts {
  cost::StageRates rates;
  cost::ModelCost<double> layers;
};

/// What evaluating a candidate needs.
struct Evaluator::Work {
  std::vector<std::shared_ptr<const StageCosts>> stages;
  std::unique_ptr<cost::Estimator> estimator;
  cost::Rate embedding_reduce;
  std::vector<double> least_s;   // least time of the layers before each, any stage
  std::vector<double> slowness;  // of each stage against that, at least
  double speed = 0;              // sum over stages of 1 / slowness
  int world = 1;                 // devices of all stages
};

Evaluator::~Evaluator() = default;

Evaluator::Evaluator(const PlanRequest& request,
                     const model::Graph& graph,
                     const std::vector<Candidate>& candidates)
    : request_(request), graph_(graph), candidates_(candidates), solver_(solve::MakeLabelSearch()) {
  const cost::PredictOptions options = PredictOptionsOf(request);
  const double seq_len = static_cast<double>(request.seq_len);

  // Stages on devices that lie alike in their nodes share rates; candidates that differ in nothing
  // a layer sees share layer costs.
  using RateKey = std::tuple<std::vector<int>, int, int, int, int, int, bool>;
  std::map<RateKey, cost::StageRates> rates_of;
  using CostKey = std::pair<int, std::vector<double>>;
  std::map<CostKey, int> row_of;
  std::vector<model::OpVariants> variants;
  std::vector<std::vector<cost::LayoutInputs>> batches;
  struct Use {
    int variant, row;
    cost::StageRates rates;
  };
  std::vector<std::vector<Use>> uses(candidates.size());

  for (std::size_t c = 0; c < candidates.size(); ++c) {
    const Candidate& candidate = candidates[c];
    Work work;
    work.world = candidate.devices;
    work.estimator = std::make_unique<cost::Estimator>(graph,
                                                       request.cluster,
                                                       request.calibration,
                                                       TrainingOf(request, candidate),
                                                       seq_len,
                                                       options);
    const cost::LayoutContext context = work.estimator->layout_context();
    auto variant = std::find(variants.begin(), variants.end(), candidate.ops);
    if (variant == variants.end()) {
      variants.push_back(candidate.ops);
      batches.emplace_back();
      variant = variants.end() - 1;
    }
    const int variant_index = static_cast<int>(variant - variants.begin());
    for (int i = 0; i < candidate.stages; ++i) {
      const std::vector<int> devices = StageDevices(candidate, i);
      std::vector<int> next;
      if (i + 1 < candidate.stages) {
        next = StageDevices(candidate, i + 1);
      } else if (candidate.chunks > 1) {
        next = StageDevices(candidate, 0);  // the next chunk is there
      }
      const cluster::Place front = request.cluster.PlaceOf(devices.front());
      const cluster::Place back = request.cluster.PlaceOf(devices.back());
      std::vector<int> place = {front.group, front.index_in_node, back.group};
      if (!next.empty()) {
        const cluster::Place beyond = request.cluster.PlaceOf(next.back());
        place.insert(place.end(), {beyond.group, beyond.node - back.node});
      }
      if (!request.cluster.slow_devices.empty()) place.push_back(devices.front());
      const cost::Layout& layout = candidate.layout;
      const RateKey key = {
          place, layout.dp, layout.tp, layout.cp, layout.ep, layout.zero_shard, layout.sp};
      auto found = rates_of.find(key);
      if (found == rates_of.end()) {
        found = rates_of.emplace(key, cost::ComputeRates(context, layout, devices, next)).first;
      }
      cost::StageRates rates = found->second;
      rates.inputs.b = layout.micro_batch;
      const CostKey cost_key = {variant_index, rates.inputs.Values()};
      const auto [row, added] = row_of.emplace(
          cost_key, static_cast<int>(batches[static_cast<std::size_t>(variant_index)].size()));
      if (added) batches[static_cast<std::size_t>(variant_index)].push_back(rates.inputs);
      uses[c].push_back({variant_index, row->second, std::move(rates)});
    }
    work.embedding_reduce =
        cost::PairAllReduce(context, 0, StageDevices(candidate, candidate.stages - 1).front());
    work_.push_back(std::move(work));
  }

  std::vector<std::vector<cost::ModelCost<double>>> costs;
  for (std::size_t v = 0; v < variants.size(); ++v) {
    costs.push_back(
        work_.front().estimator->ModelFor(variants[v]).Evaluate(batches[v], request.threads));
  }
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    for (Use& use : uses[c]) {
      work_[c].stages.push_back(std::make_shared<const StageCosts>(StageCosts{
          std::move(use.rates),
          costs[static_cast<std::size_t>(use.variant)][static_cast<std::size_t>(use.row)]}));
    }
    SetLeastTimes(graph, work_[c]);
  }
  layers_before_.assign(graph.kinds.size(), {0});
  for (const int layer_kind : graph.layers) {
    for (std::size_t kind = 0; kind < layers_before_.size(); ++kind) {
      const int before = layers_before_[kind].back();
      layers_before_[kind].push_back(before + (layer_kind == static_cast<int>(kind) ? 1 : 0));
    }
  }
}

/// Sets the least time of each layer on any stage, arithmetic and the collectives it waits for, and
/// how much slower each stage is.
void Evaluator::SetLeastTimes(const model::Graph& graph, Work& work) {
  const auto least_of = [](const cost::LayerCost<double>& layer) {
    return layer.forward_s + layer.backward_s + layer.tp_forward_s + layer.tp_backward_s +
           layer.cp_forward_s + layer.cp_backward_s + layer.ep_forward_s + layer.ep_backward_s;
  };
  std::vector<double> fastest(graph.kinds.size(), std::numeric_limits<double>::infinity());
  for (const auto& stage : work.stages) {
    for (std::size_t kind = 0; kind < fastest.size(); ++kind) {
      fastest[kind] = std::min(fastest[kind], least_of(stage->layers.kinds[kind]));
    }
  }
  for (const auto& stage : work.stages) {
    double slowness = std::numeric_limits<double>::infinity();
    for (std::size_t kind = 0; kind < fastest.size(); ++kind) {
      slowness = std::min(slowness, least_of(stage->layers.kinds[kind]) / fastest[kind]);
    }
    work.slowness.push_back(slowness);
    work.speed += 1 / slowness;
  }
  work.least_s.push_back(0);
  for (const int kind : graph.layers) {
    work.least_s.push_back(work.least_s.back() + fastest[static_cast<std::size_t>(kind)]);
  }
}

double Evaluator::Bound(int index) const {
  const auto at = static_cast<std::size_t>(index);
  const Candidate& candidate = candidates_[at];
  return candidate.micro_batches * work_[at].least_s.back() / work_[at].speed;
}

plan::Stage Evaluator::StageOf(const Candidate& candidate, int index) const {
  plan::Stage stage;
  stage.devices = StageDevices(candidate, index);
  stage.embedding = index == 0;
  stage.head = index + 1 == candidate.stages;
  cost::SetLayout(candidate.layout, stage);
  stage.ops = candidate.ops;
  stage.offload = candidate.offload;
  return stage;
}

void Evaluator::PlaceEvenly(const Candidate& candidate, int index, plan::Stage& stage) const {
  const int layers = static_cast<int>(graph_.layers.size());
  const int each = layers / (candidate.stages * candidate.chunks);
  stage.chunks.clear();
  for (int chunk = 0; chunk < candidate.chunks; ++chunk) {
    const int first = (chunk * candidate.stages + index) * each;
    stage.chunks.push_back({first, first + each - 1});
  }
  stage.first_layer = stage.chunks.front().first_layer;
  stage.last_layer = stage.chunks.back().last_layer;
  if (candidate.chunks == 1) stage.chunks.clear();
}

cost::StageEstimate Evaluator::Estimate(const Work& work,
                                        const plan::Stage& stage,
                                        int index,
                                        int recomputed) const {
  const StageCosts& costs = *work.stages[static_cast<std::size_t>(index)];
  const int num_stages = static_cast<int>(work.stages.size());
  return cost::Compose(work.estimator->Terms(stage,
                                             ContentOf(stage, recomputed),
                                             {index, num_stages, work.world},
                                             costs.layers,
                                             costs.rates,
                                             work.embedding_reduce),
                       stage.offload);
}

cost::StageContent<double> Evaluator::ContentOf(const plan::Stage& stage, int recomputed) const {
  cost::StageContent<double> content;
  content.tied = graph_.tied_head;
  if (!stage.chunks.empty()) {
    for (const std::vector<int>& before : layers_before_) {
      int count = 0;
      for (const plan::LayerRange& chunk : stage.chunks) {
        count += before[static_cast<std::size_t>(chunk.last_layer) + 1] -
                 before[static_cast<std::size_t>(chunk.first_layer)];
      }
      content.plain.push_back(recomputed > 0 ? 0 : count);
      content.recomputed.push_back(recomputed > 0 ? count : 0);
    }
    content.chunks = static_cast<double>(stage.chunks.size());
    return content;
  }
  const auto first = static_cast<std::size_t>(stage.first_layer);
  const auto end = static_cast<std::size_t>(stage.last_layer) + 1;
  const std::size_t kept_end = end - static_cast<std::size_t>(recomputed);
  for (const std::vector<int>& before : layers_before_) {
    content.plain.push_back(before[kept_end] - before[first]);
    content.recomputed.push_back(before[end] - before[kept_end]);
  }
  return content;
}

Evaluation Evaluator::EvenSplit(int index) const {
  const Candidate& candidate = candidates_[static_cast<std::size_t>(index)];
  const int layers = static_cast<int>(graph_.layers.size());
  Evaluation split;
  for (int i = 0; i < candidate.stages; ++i) {
    const int first = static_cast<int>(static_cast<std::int64_t>(layers) * i / candidate.stages);
    const int next =
        static_cast<int>(static_cast<std::int64_t>(layers) * (i + 1) / candidate.stages);
    split.first_layer.push_back(first);
    split.recomputed.push_back(RecomputeRange(request_, next - first).second);
  }
  return split;
}

double Evaluator::LeastExcess(int index) const {
  const Work& work = work_[static_cast<std::size_t>(index)];
  const Candidate& candidate = candidates_[static_cast<std::size_t>(index)];
  const Evaluation split = EvenSplit(index);
  double excess = -std::numeric_limits<double>::infinity();
  for (int i = 0; i < candidate.stages; ++i) {
    const auto at = static_cast<std::size_t>(i);
    plan::Stage stage = StageOf(candidate, i);
    stage.first_layer = split.first_layer[at];
    stage.last_layer = (i + 1 < candidate.stages ? split.first_layer[at + 1]
                                                 : static_cast<int>(graph_.layers.size())) -
                       1;
    if (candidate.chunks > 1) PlaceEvenly(candidate, i, stage);
    excess = std::max(excess, Estimate(work, stage, i, split.recomputed[at]).ExcessBytes());
  }
  return excess;
}

std::optional<int> Evaluator::FewestRecomputed(const Work& work,
                                               const plan::Stage& stage,
                                               int index,
                                               cost::StageEstimate& estimate) const {
  const auto [least, most] = RecomputeRange(request_, stage.num_layers());
  int low = least, high = most;
  estimate = Estimate(work, stage, index, low);
  if (estimate.ExcessBytes() <= 0) return low;
  if (low == high) return std::nullopt;
  estimate = Estimate(work, stage, index, high);
  if (estimate.ExcessBytes() > 0) return std::nullopt;
  // Stages of several chunks recompute all of them or none.
  if (!request_.space.partial_recompute || !stage.chunks.empty()) return high;
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (Estimate(work, stage, index, middle).ExcessBytes() > 0 ? low : high) = middle;
  }
  estimate = Estimate(work, stage, index, high);
  return high;
}

/// As many layers on every stage, and as many recomputed.
Evaluation Evaluator::EvaluateEven(int index, double cutoff_s) const {
  const auto at = static_cast<std::size_t>(index);
  const Candidate& candidate = candidates_[at];
  const Work& work = work_[at];
  const int count = static_cast<int>(graph_.layers.size()) / candidate.stages;
  std::vector<plan::Stage> stages;
  int recomputed = 0;
  for (int i = 0; i < candidate.stages; ++i) {
    plan::Stage& stage = stages.emplace_back(StageOf(candidate, i));
    PlaceEvenly(candidate, i, stage);
    cost::StageEstimate estimate;
    const std::optional<int> fewest = FewestRecomputed(work, stage, i, estimate);
    if (!fewest) return {};
    recomputed = std::max(recomputed, *fewest);
  }
  Evaluation evaluation;
  std::vector<schedule::StagePoint> points;
  double tail_s = 0;
  for (int i = 0; i < candidate.stages; ++i) {
    const cost::StageEstimate estimate =
        Estimate(work, stages[static_cast<std::size_t>(i)], i, recomputed);
    points.push_back(AsSeen(request_, candidate.micro_batches, estimate.point));
    tail_s = std::max(tail_s, estimate.optimizer_s);
    evaluation.first_layer.push_back(i * count);
    evaluation.recomputed.push_back(recomputed);
  }
  evaluation.iteration_s = schedule::IterationSeconds(request_.fixed.schedule.value_or("1f1b"),
                                                      points,
                                                      candidate.micro_batches,
                                                      candidate.chunks) +
                           tail_s;
  evaluation.fits = evaluation.iteration_s <= cutoff_s;
  return evaluation;
}

Evaluation Evaluator::Evaluate(int index,
                               double cutoff_s,
                               const std::function<bool()>& stop) const {
  const auto at = static_cast<std::size_t>(index);
  const Candidate& candidate = candidates_[at];
  const Work& work = work_[at];
  if (IsEvenlySplit(request_)) return EvaluateEven(index, cutoff_s);
  const int layers = static_cast<int>(graph_.layers.size());
  // Beyond the model's own depth it does not bind.
  const int around = std::min(request_.space.layers_around_mean, layers);
  std::vector<plan::Stage> stages;
  for (int i = 0; i < candidate.stages; ++i) stages.push_back(StageOf(candidate, i));

  solve::PipelineProblem problem;
  problem.layers = layers;
  problem.stages = candidate.stages;
  problem.micro_batches = candidate.micro_batches;
  const std::string schedule = request_.fixed.schedule.value_or("1f1b");
  problem.schedule = schedule;
  problem.least_s = work.least_s;
  problem.slowness = work.slowness;
  problem.stop = stop;
  problem.options = [&](int i, int first, int last) {
    plan::Stage& stage = stages[static_cast<std::size_t>(i)];
    stage.first_layer = first;
    stage.last_layer = last;
    const int count = last - first + 1;
    std::vector<solve::StageOption> options;
    if (std::abs(count * candidate.stages - layers) > around * candidate.stages) return options;
    cost::StageEstimate estimate;
    const std::optional<int> fewest = FewestRecomputed(work, stage, i, estimate);
    if (!fewest) return options;
    const int low = *fewest;
    const auto add = [&](int recomputed) {
      options.push_back({.point = AsSeen(request_, candidate.micro_batches, estimate.point),
                         .tail_s = estimate.optimizer_s,
                         .tag = recomputed});
    };
    add(low);
    if (candidate.offload.activations > 0 && RecomputeRange(request_, count).second > 0) {
      // What is recomputed need not travel to the host and back, so more of it can be faster.
      const int step = std::max(1, (count - low) / kOffloadSteps);
      for (int recomputed = low + step; recomputed <= count; recomputed += step) {
        estimate = Estimate(work, stage, i, recomputed);
        add(recomputed);
      }
    }
    return options;
  };

  // Tight cut-offs first: they keep the search near even splits, and what they find is exact.
  const double bound = Bound(index);
  Evaluation evaluation;
  for (const double slack : {1.1, 1.4, 2.0, 4.0, std::numeric_limits<double>::infinity()}) {
    problem.cutoff_s = std::min(bound * slack, cutoff_s);
    const solve::PipelineSolution solution = solver_->Solve(problem);
    if (solution.found) {
      evaluation.fits = true;
      evaluation.iteration_s = solution.iteration_s;
      evaluation.first_layer = solution.first;
      evaluation.recomputed = solution.tag;
      break;
    }
    evaluation.stopped = solution.stopped;
    if (solution.stopped || problem.cutoff_s >= cutoff_s) break;
  }
  return evaluation;
}

plan::Plan EmptyPlan(const PlanRequest& request,
                     const model::Graph& graph,
                     const Candidate& candidate) {
  plan::Plan plan;
  plan.model_name = request.model.name;
  plan.model_config = request.model.config_json;
  plan.seq_len = graph.has_sequence ? request.seq_len : 0;
  plan.params = model::CountParameters(graph);
  plan.cluster_name = request.cluster.name;
  plan.cluster = request.cluster;
  plan.training = TrainingOf(request, candidate);
  return plan;
}

schedule::StagePoint AsSeen(const PlanRequest& request,
                            int micro_batches,
                            const schedule::StagePoint& point) {
  if (!request.blind.imbalance) return point;
  schedule::StagePoint seen = point;
  seen.forward_s += point.first_extra_s / micro_batches;
  seen.backward_s += point.last_extra_s / micro_batches;
  seen.first_extra_s = seen.last_extra_s = 0;
  return seen;
}

cost::PredictOptions PredictOptionsOf(const PlanRequest& request) {
  cost::PredictOptions options;
  options.memory_limit = request.memory_limit;
  options.expert_imbalance = request.expert_imbalance;
  return options;
}

std::pair<int, int> RecomputeRange(const PlanRequest& request, int layers) {
  const bool may = request.space.recompute && request.fixed.recompute != "none";
  return {request.fixed.recompute == "full" ? layers : 0,
          may || request.fixed.recompute == "full" ? layers : 0};
}

void RecomputeLast(int layers, plan::Stage& stage) {
  if (layers == 0) return;
  stage.recompute.push_back({.first_layer = stage.last_layer - layers + 1,
                             .last_layer = stage.last_layer,
                             .mode = plan::RecomputeMode::kFull,
                             .modules = {}});
}

plan::Plan Evaluator::MakePlan(int index, const Evaluation& evaluation) const {
  const Candidate& candidate = candidates_[static_cast<std::size_t>(index)];
  plan::Plan plan = EmptyPlan(request_, graph_, candidate);
  for (int i = 0; i < candidate.stages; ++i) {
    const auto at = static_cast<std::size_t>(i);
    plan::Stage stage = StageOf(candidate, i);
    stage.first_layer = evaluation.first_layer[at];
    stage.last_layer = (i + 1 < candidate.stages ? evaluation.first_layer[at + 1]
                                                 : static_cast<int>(graph_.layers.size())) -
                       1;
    const int recomputed = evaluation.recomputed[at];
    if (candidate.chunks == 1) {
      RecomputeLast(recomputed, stage);
    } else {
      PlaceEvenly(candidate, i, stage);
      for (const plan::LayerRange& chunk : stage.chunks) {
        if (recomputed > 0) {
          stage.recompute.push_back({chunk.first_layer, chunk.last_layer, {}, {}});
        }
      }
    }
    plan.stages.push_back(std::move(stage));
  }
  cost::Predict(plan, graph_, request_.calibration, PredictOptionsOf(request_));
  return plan;
}

}  // namespace palmist::planner
