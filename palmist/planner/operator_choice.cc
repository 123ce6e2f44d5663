#include "palmist/planner/operator_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "palmist/cost/cost_model.h"
#include "palmist/cost/layout.h"
#include "palmist/plan/plan.h"
#include "palmist/solve/frontier.h"

namespace palmist::planner {
namespace {

using cost::LayerCost;
using cost::ModelCost;
using model::OpVariants;
using model::Variant;

/// A chunk of the lean loss, as `palmist::linear_cross_entropy` cuts it.
constexpr double kLossChunkBytes = 32.0 * 1024 * 1024;
constexpr double kLeastChunkTokens = 64;
/// An element of a dropout mask, drawn by torch 2.11's bernoulli_ on one thread of a 2 GHz Xeon.
constexpr double kMaskDrawS = 6e-9;

constexpr double kNever = std::numeric_limits<double>::infinity();

/// One way to run a layer of one kind.
struct Option {
  int variants = 0;  // index in the list of variants
  bool recompute = false;
  bool lean_norm = false;
  double kept = 0;      // bytes
  double boundary = 0;  // bytes that the first such layer keeps besides
  double peak = 0;      // bytes beyond `kept` while it runs
  double time_ns = 0;   // whole, so that sums do not depend on their order
};

/// Layers that are alike, and the ways to run one of them.
struct Kind {
  int count = 0;
  std::vector<Option> options;
};

/// How many layers of a kind run in which way.
struct Share {
  int kind = 0;
  Option option;
  int count = 0;
};
using Mix = std::vector<Share>;

/// The fastest mix of options whose kept bytes are within a capacity: a multiple-choice knapsack.
///
/// States, the kept bytes and time of the layers so far, are extended layer by layer. A state falls
/// where another keeps no more and is no slower, or where its layers and the relaxed rest, in which
/// layers may be divided between options, are slower than a known mix.
class LayerSearch {
 public:
  LayerSearch(const std::vector<Kind>& kinds, double capacity) : capacity_(capacity) {
    for (const Kind& kind : kinds) AddKind(kind);
    std::stable_sort(moves_.begin(), moves_.end(), [](const Move& a, const Move& b) {
      return a.ns * b.bytes < b.ns * a.bytes;
    });
  }

  /// Returns the fastest mix of at most `cutoff_ns`; of equals one that keeps the least. Empty
  /// where there is none.
  Mix Run(double cutoff_ns) {
    std::vector<int> left;
    for (const Kind& kind : kinds_) left.push_back(kind.count);
    if (RelaxedNs(left, capacity_) > cutoff_ns) return {};
    cutoff_ns = std::min(cutoff_ns, RoundedNs(left));
    std::vector<std::vector<State>> levels = {{State{}}};
    for (std::size_t k = 0; k < kinds_.size(); ++k) {
      while (left[k] > 0) {
        --left[k];
        levels.push_back(Extend(levels.back(), kinds_[k], left, cutoff_ns));
      }
    }
    if (levels.back().empty()) return {};
    return MixOf(levels);
  }

 private:
  struct State {
    double kept = 0, time_ns = 0;
    int parent = 0, option = 0;
  };
  /// Gives up time for bytes: one layer goes to the next option of the lower convex hull.
  struct Move {
    std::size_t kind = 0;
    double bytes = 0, ns = 0;
  };

  void AddKind(const Kind& kind) {
    solve::ParetoFrontier<2, Option> frontier;
    for (const Option& option : kind.options) {
      frontier.Insert({option.kept, option.time_ns}, option);
    }
    Kind reduced = {kind.count, {}};
    for (const auto& point : frontier.points()) reduced.options.push_back(point.tag);
    std::sort(reduced.options.begin(), reduced.options.end(), [](const Option& a, const Option& b) {
      return a.kept > b.kept;
    });
    const std::vector<Option>& options = reduced.options;
    const auto slope = [&](std::size_t from, std::size_t to) {
      return (options[to].time_ns - options[from].time_ns) /
             (options[from].kept - options[to].kept);
    };
    for (std::size_t at = 0; at + 1 < options.size();) {
      std::size_t best = at + 1;
      for (std::size_t to = at + 2; to < options.size(); ++to) {
        if (slope(at, to) <= slope(at, best)) best = to;
      }
      moves_.push_back({kinds_.size(),
                        options[at].kept - options[best].kept,
                        options[best].time_ns - options[at].time_ns});
      at = best;
    }
    kinds_.push_back(std::move(reduced));
  }

  /// Calls `use(move, bytes still needed)`, which returns the bytes gained, in the order of what
  /// they cost, until all of the layers that are left fit `capacity`. Returns whether they do.
  template <typename Use>
  bool Fit(const std::vector<int>& left, double capacity, double& ns, const Use& use) const {
    ns = 0;
    double needed = -capacity;
    for (std::size_t k = 0; k < kinds_.size(); ++k) {
      needed += left[k] * kinds_[k].options.front().kept;
      ns += left[k] * kinds_[k].options.front().time_ns;
    }
    for (const Move& move : moves_) {
      if (needed <= 0) break;
      needed -= use(move, needed);
    }
    return needed <= 0;
  }

  /// A lower bound of the time of the layers that are left, within `capacity` bytes.
  double RelaxedNs(const std::vector<int>& left, double capacity) const {
    double ns = 0;
    const bool fits = Fit(left, capacity, ns, [&](const Move& move, double needed) {
      const double gained = std::min(needed, move.bytes * left[move.kind]);
      ns += gained / move.bytes * move.ns;
      return gained;
    });
    // The bound is a sum of fractions; what it is held against is whole.
    return fits ? ns * (1 - 1e-12) : kNever;
  }

  /// The time of a mix that fits: the relaxed one, with whole layers.
  double RoundedNs(const std::vector<int>& left) const {
    double ns = 0;
    const bool fits = Fit(left, capacity_, ns, [&](const Move& move, double needed) {
      const double layers = std::min<double>(left[move.kind], std::ceil(needed / move.bytes));
      ns += layers * move.ns;
      return layers * move.bytes;
    });
    return fits ? ns : kNever;
  }

  std::vector<State> Extend(const std::vector<State>& states,
                            const Kind& kind,
                            const std::vector<int>& left,
                            double cutoff_ns) const {
    std::vector<State> next;
    for (std::size_t s = 0; s < states.size(); ++s) {
      for (std::size_t o = 0; o < kind.options.size(); ++o) {
        const Option& option = kind.options[o];
        const State state = {states[s].kept + option.kept,
                             states[s].time_ns + option.time_ns,
                             static_cast<int>(s),
                             static_cast<int>(o)};
        if (state.time_ns + RelaxedNs(left, capacity_ - state.kept) > cutoff_ns) continue;
        next.push_back(state);
      }
    }
    std::stable_sort(next.begin(), next.end(), [](const State& a, const State& b) {
      return std::tie(a.kept, a.time_ns) < std::tie(b.kept, b.time_ns);
    });
    double fastest = kNever;
    std::erase_if(next, [&](const State& state) {
      if (state.time_ns >= fastest) return true;
      fastest = state.time_ns;
      return false;
    });
    return next;
  }

  Mix MixOf(const std::vector<std::vector<State>>& levels) const {
    Mix mix;
    std::size_t level = levels.size() - 1;
    // States are sorted by rising bytes and falling time.
    std::size_t at = levels.back().size() - 1;
    for (std::size_t k = kinds_.size(); k-- > 0;) {
      std::vector<int> counts(kinds_[k].options.size());
      for (int i = 0; i < kinds_[k].count; ++i, --level) {
        const State& state = levels[level][at];
        ++counts[static_cast<std::size_t>(state.option)];
        at = static_cast<std::size_t>(state.parent);
      }
      for (std::size_t o = 0; o < counts.size(); ++o) {
        if (counts[o] > 0) mix.push_back({static_cast<int>(k), kinds_[k].options[o], counts[o]});
      }
    }
    return mix;
  }

  double capacity_;
  std::vector<Kind> kinds_;  // options by falling bytes, none dominated
  std::vector<Move> moves_;
};

/// One batch under one variant of the loss: what is to be chosen, and what is given.
struct Problem {
  int loss = 0;
  std::vector<Kind> kinds;
  double fixed_bytes = 0;  // states, and what embedding and encoder hold
  double head_peak = 0;
  double fixed_ns = 0;

  double Bytes(const Mix& mix) const {
    double kept = 0, boundary = 0, peak = head_peak;
    for (const Share& share : mix) {
      kept += share.count * share.option.kept;
      boundary = std::max(boundary, share.option.boundary);
      peak = std::max(peak, share.option.peak);
    }
    return fixed_bytes + kept + boundary + peak;
  }

  double Ns(const Mix& mix) const {
    double ns = fixed_ns;
    for (const Share& share : mix) ns += share.count * share.option.time_ns;
    return ns;
  }

  /// Calls `visit(kinds, bytes)` for every pair of the largest terms, a peak and a boundary, with
  /// the options that stay below both, and with all bytes but those that layers keep. Below a pair
  /// the bytes of layers only add up.
  template <typename Visit>
  void ForEachLimit(const Visit& visit) const {
    std::set<double> peaks, boundaries;
    for (const Kind& kind : kinds) {
      for (const Option& option : kind.options) {
        peaks.insert(std::max(option.peak, head_peak));
        boundaries.insert(option.boundary);
      }
    }
    for (const double peak : peaks) {
      for (const double boundary : boundaries) {
        std::vector<Kind> below = kinds;
        bool possible = true;
        for (Kind& kind : below) {
          std::erase_if(kind.options, [&](const Option& option) {
            return option.peak > peak || option.boundary > boundary;
          });
          possible = possible && !kind.options.empty();
        }
        if (possible) visit(below, fixed_bytes + peak + boundary);
      }
    }
  }
};

/// The best mix so far of one of the problems of a batch.
struct Solution {
  int loss = 0;
  Mix mix;
  double bytes = kNever, ns = kNever;

  void ConsiderFaster(const Problem& problem, Mix other) {
    const double other_bytes = problem.Bytes(other), other_ns = problem.Ns(other);
    if (std::tie(other_ns, other_bytes) >= std::tie(ns, bytes)) return;
    *this = {problem.loss, std::move(other), other_bytes, other_ns};
  }
  void ConsiderLeaner(const Problem& problem, Mix other) {
    const double other_bytes = problem.Bytes(other), other_ns = problem.Ns(other);
    if (std::tie(other_bytes, other_ns) >= std::tie(bytes, ns)) return;
    *this = {problem.loss, std::move(other), other_bytes, other_ns};
  }
};

/// The problems of a batch, priced.
struct PricedBatch {
  cost::StageRates rates;
  std::vector<ModelCost<double>> costs;   // by variants; the first one is the baseline's
  std::vector<ModelCost<double>> losses;  // by variants of the loss
};

/// What one training step costs; the time in seconds.
struct StepCost {
  cost::StageMemory<double> memory;
  cost::StageTime<double> time;
  double optimizer_s = 0;
};

class Chooser {
 public:
  explicit Chooser(const OperatorRequest& request);

  OperatorAnswer Choose() const;

 private:
  cost::StageRates Rates(std::int64_t batch) const;
  PricedBatch Price(std::int64_t batch) const;
  std::vector<Problem> Problems(const PricedBatch& priced) const;
  Option OptionOf(const PricedBatch& priced, int kind, int variants, bool recompute) const;
  Mix BaselineMix(const PricedBatch& priced) const;
  StepCost CostOf(const PricedBatch& priced, const Mix& mix, int loss) const;
  OperatorChoice Describe(const PricedBatch& priced, const Mix& mix, int loss) const;

  double bytes_per_element() const { return request_.dtype == "fp32" ? 4 : 2; }
  bool on_cpu() const { return request_.cluster.DeviceAt(0).is_cpu; }

  const OperatorRequest& request_;
  model::Graph graph_;
  std::vector<int> counts_;  // layers of each kind
  std::vector<OpVariants> variants_;
  std::vector<std::unique_ptr<cost::CostModel>> models_;
  std::vector<Variant> losses_;
  std::vector<std::unique_ptr<cost::CostModel>> loss_models_;
};

/// Families of which every operator in the layers has a tempo or a lean implementation.
struct Available {
  bool attention = true, norm_tempo = true, activation_tempo = true, activation = true;
};

Available AvailableIn(const model::Graph& graph) {
  Available available;
  for (const model::Layer& layer : graph.kinds) {
    for (const model::Op& op : layer.ops) {
      const model::AttentionSpec& attention = op.attention;
      switch (op.kind) {
        case model::OpKind::kAttention:
          // A learned bias of the scores needs a gradient that the tiles do not make.
          available.attention &= !attention.softcap && !attention.sinks && !attention.latent &&
                                 attention.relative_buckets == 0 && !attention.cross &&
                                 attention.head_dim == attention.value_dim &&
                                 attention.head_dim <= 256;
          break;
        case model::OpKind::kNorm:
          available.norm_tempo &= op.norm.kind == model::NormKind::kLayerNorm;
          break;
        case model::OpKind::kActivation:
          available.activation &= op.activation == model::ActivationKind::kGelu ||
                                  op.activation == model::ActivationKind::kGeluTanh;
          break;
        case model::OpKind::kGatedActivation:
          available.activation_tempo = false;
          available.activation &= op.activation == model::ActivationKind::kSilu;
          break;
        case model::OpKind::kDispatch:  // a mixture of experts
          available.activation = false;
          break;
        default:
          break;
      }
    }
  }
  return available;
}

void CheckRequest(const OperatorRequest& request) {
  if (!request.model.is_transformer()) {
    throw UsageError("config",
                     "expected a transformer, got a convolutional model",
                     "choose operators for a transformer");
  }
  const auto check = [](const std::string& field, std::int64_t value, std::int64_t high) {
    if (value >= 1 && value <= high) return;
    throw InputError(field,
                     "expected 1 to " + std::to_string(high) + ", got " + std::to_string(value),
                     "choose a value in that range");
  };
  check("seq", request.seq_len, plan::kMaxSequence);
  check("batch", request.batch, kMaxChosenBatch);
  const std::int64_t positions = request.model.transformer().max_positions;
  if (request.model.transformer().embedding.positions > 0 && request.seq_len > positions) {
    throw InputError("seq",
                     "expected at most the model's " + std::to_string(positions) +
                         " learned positions, got " + std::to_string(request.seq_len),
                     "use a shorter sequence");
  }
  constexpr std::string_view kKnown[] = {"fp32", "bf16", "fp16"};
  if (std::find(std::begin(kKnown), std::end(kKnown), request.dtype) == std::end(kKnown)) {
    throw InputError("dtype",
                     "expected fp32, bf16 or fp16, got '" + request.dtype + "'",
                     "name the type of weights and activations");
  }
  const auto amount = [](const std::string& field, double value) {
    if (value >= 0 && value < kNever) return;
    throw InputError(
        field,
        "expected a finite number of bytes, not negative, got " + std::to_string(value),
        "state it in bytes");
  };
  amount("budget_bytes", request.budget_bytes);
  amount("optimizer_bytes_per_param", request.optimizer_bytes_per_param);
  amount("grad_bytes_per_param", request.grad_bytes_per_param.value_or(0));
  if (request.baseline_attention != Variant::kEager &&
      request.baseline_attention != Variant::kSdpa) {
    throw InputError("baseline_attention",
                     "expected eager or sdpa, got '" +
                         std::string(model::ToString(request.baseline_attention)) + "'",
                     "name what the model's attn_implementation is");
  }
}

Chooser::Chooser(const OperatorRequest& request) : request_(request) {
  CheckRequest(request);
  graph_ = model::BuildGraph(request.model);
  if (graph_.layers.size() > static_cast<std::size_t>(kMaxChosenLayers)) {
    throw InputError("config",
                     "expected at most " + std::to_string(kMaxChosenLayers) + " layers, got " +
                         std::to_string(graph_.layers.size()),
                     "choose operators for one part of the model");
  }
  counts_.resize(graph_.kinds.size());
  for (const int kind : graph_.layers) ++counts_[static_cast<std::size_t>(kind)];

  model::LoweringOptions options;
  options.activation_bytes = bytes_per_element();
  options.loss_gradients_in_forward = true;
  options.loss_chunk_tokens = std::max(
      kLeastChunkTokens,
      std::floor(kLossChunkBytes / (bytes_per_element() * static_cast<double>(graph_.vocab))));
  if (on_cpu()) {
    options.dropout_mask_bytes = bytes_per_element();
    options.sdpa_dropout_unfused = true;
    options.mask_draw_flops = kMaskDrawS / Rates(1).inputs.gemm_s_per_flop;
  }
  const Available available = AvailableIn(graph_);
  const Techniques& techniques = request.techniques;
  const bool tempo = request.allow_tempo;
  const auto choices = [](Variant baseline, bool has_tempo, bool has_lean) {
    std::vector<Variant> variants = {baseline};
    if (has_tempo) variants.push_back(Variant::kTempo);
    if (has_lean) variants.push_back(Variant::kLean);
    return variants;
  };
  OpVariants ops = {.attention = request.baseline_attention,
                    .norm = Variant::kEager,
                    .activation = Variant::kEager,
                    .dropout = Variant::kEager,
                    .loss = Variant::kEager};
  losses_ = choices(ops.loss, false, techniques.loss && request.model.transformer().head.present);
  for (const Variant loss : losses_) {
    options.variants = ops;
    options.variants.loss = loss;
    loss_models_.push_back(std::make_unique<cost::CostModel>(graph_, options));
  }
  const bool attention = techniques.attention && available.attention;
  const bool activation = techniques.activation && available.activation;
  const auto norms =
      choices(ops.norm, techniques.norm && tempo && available.norm_tempo, techniques.norm);
  const auto activations =
      choices(ops.activation, activation && tempo && available.activation_tempo, activation);
  const auto dropouts = choices(ops.dropout, false, techniques.dropout);
  for (const Variant of_attention : choices(ops.attention, attention && tempo, attention)) {
    for (const Variant of_norm : norms) {
      for (const Variant of_activation : activations) {
        for (const Variant of_dropout : dropouts) {
          variants_.push_back({of_attention, of_norm, of_activation, of_dropout, ops.loss});
          options.variants = variants_.back();
          models_.push_back(std::make_unique<cost::CostModel>(graph_, options));
        }
      }
    }
  }
}

cost::StageRates Chooser::Rates(std::int64_t batch) const {
  const cost::LayoutContext context = {
      .cluster = request_.cluster,
      .calibration = request_.calibration,
      .seq_len = static_cast<double>(request_.seq_len),
      .dtype = request_.dtype,
      .grad_bytes = request_.grad_bytes_per_param.value_or(bytes_per_element()),
      .expert_imbalance = 1};
  return cost::ComputeRates(context, {.micro_batch = static_cast<int>(batch)}, {0}, {});
}

PricedBatch Chooser::Price(std::int64_t batch) const {
  PricedBatch priced;
  priced.rates = Rates(batch);
  const auto evaluate = [&](const std::vector<std::unique_ptr<cost::CostModel>>& models) {
    std::vector<ModelCost<double>> costs;
    for (const auto& model : models) {
      costs.push_back(model->Evaluate(std::span(&priced.rates.inputs, 1)).front());
    }
    return costs;
  };
  priced.costs = evaluate(models_);
  priced.losses = evaluate(loss_models_);
  return priced;
}

Option Chooser::OptionOf(const PricedBatch& priced, int kind, int variants, bool recompute) const {
  const LayerCost<double>& cost =
      priced.costs[static_cast<std::size_t>(variants)].kinds[static_cast<std::size_t>(kind)];
  Option option;
  option.variants = variants;
  option.recompute = recompute;
  option.lean_norm = variants_[static_cast<std::size_t>(variants)].norm == Variant::kLean;
  option.kept = recompute ? cost.input : cost.kept;
  option.boundary = recompute ? 0 : cost.boundary;
  option.peak = std::max(cost.forward_peak, cost.backward_peak) - option.kept;
  option.time_ns = std::round(1e9 * (cost.forward_s * (recompute ? 2 : 1) + cost.backward_s));
  return option;
}

Mix Chooser::BaselineMix(const PricedBatch& priced) const {
  Mix mix;
  for (std::size_t k = 0; k < counts_.size(); ++k) {
    const int kind = static_cast<int>(k);
    mix.push_back({kind, OptionOf(priced, kind, 0, false), counts_[k]});
  }
  return mix;
}

/// Adds a mix up as a stage whose kinds of layers are its shares.
StepCost Chooser::CostOf(const PricedBatch& priced, const Mix& mix, int loss) const {
  ModelCost<double> model = priced.losses[static_cast<std::size_t>(loss)];
  cost::StageContent<double> content;
  model.kinds.clear();
  for (const Share& share : mix) {
    model.kinds.push_back(priced.costs[static_cast<std::size_t>(share.option.variants)]
                              .kinds[static_cast<std::size_t>(share.kind)]);
    content.plain.push_back(share.option.recompute ? 0 : share.count);
    content.recomputed.push_back(share.option.recompute ? share.count : 0);
  }
  content.embedding = content.head = 1;
  content.tied = graph_.tied_head;
  cost::StateLayout<double> states;
  states.weight_bytes = bytes_per_element();
  states.grad_bytes = request_.grad_bytes_per_param.value_or(bytes_per_element());
  states.optimizer_bytes = request_.optimizer_bytes_per_param;

  StepCost step;
  step.memory = cost::ComposeMemory(model, content, states);
  // On CPU libraries take their workspaces past torch's allocator.
  step.memory.buffers += on_cpu() ? 0 : priced.rates.overheads.allocator_bytes;
  step.time = cost::ComposeTime(model, content);
  const cost::StageWeights<double> weights = cost::CountWeights(model, content);
  // Reads gradients and states, writes states and weights.
  step.optimizer_s = (weights.dense + weights.expert) * priced.rates.optimizer_s_per_byte *
                     (states.grad_bytes + 2 * states.optimizer_bytes + states.weight_bytes);
  return step;
}

OperatorChoice Chooser::Describe(const PricedBatch& priced, const Mix& mix, int loss) const {
  const StepCost step = CostOf(priced, mix, loss);
  OperatorChoice choice;
  choice.loss = losses_[static_cast<std::size_t>(loss)];
  choice.memory = step.memory;
  choice.step_time_s = step.time.forward_s + step.time.backward_s + step.optimizer_s;
  // A lean norm's output is made again by the next layer, so layers that have one stand together;
  // recomputed layers free what that would need, so they stand last.
  Mix order = mix;
  std::stable_sort(order.begin(), order.end(), [](const Share& a, const Share& b) {
    return std::tuple(a.option.recompute, a.option.lean_norm, -a.option.kept) <
           std::tuple(b.option.recompute, b.option.lean_norm, -b.option.kept);
  });
  for (const int kind : graph_.layers) {
    const auto share = std::find_if(order.begin(), order.end(), [&](const Share& candidate) {
      return candidate.kind == kind && candidate.count > 0;
    });
    PALMIST_ASSERT(share != order.end());
    --share->count;
    choice.layers.push_back(
        {variants_[static_cast<std::size_t>(share->option.variants)], share->option.recompute});
  }
  return choice;
}

std::vector<Problem> Chooser::Problems(const PricedBatch& priced) const {
  std::vector<Kind> kinds;
  for (std::size_t k = 0; k < counts_.size(); ++k) {
    solve::ParetoFrontier<4, Option> frontier;
    for (const bool recompute : {false, true}) {
      if (recompute && !request_.techniques.recompute) continue;
      for (std::size_t v = 0; v < variants_.size(); ++v) {
        const Option option = OptionOf(priced, static_cast<int>(k), static_cast<int>(v), recompute);
        frontier.Insert({option.kept, option.peak, option.boundary, option.time_ns}, option);
      }
    }
    kinds.push_back({counts_[k], {}});
    for (const auto& point : frontier.points()) kinds.back().options.push_back(point.tag);
  }
  const Mix baseline = BaselineMix(priced);
  std::vector<Problem> problems;
  for (std::size_t l = 0; l < losses_.size(); ++l) {
    const LayerCost<double>& head = priced.losses[l].head;
    Problem problem;
    problem.loss = static_cast<int>(l);
    problem.kinds = kinds;
    problem.head_peak = std::max(head.forward_peak, head.backward_peak);
    // What is left of the baseline's step without what depends on the mix.
    const StepCost step = CostOf(priced, baseline, problem.loss);
    problem.fixed_bytes = step.memory.Sum() - problem.Bytes(baseline);
    const double total_s = step.time.forward_s + step.time.backward_s + step.optimizer_s;
    problem.fixed_ns = std::round(1e9 * total_s) - problem.Ns(baseline);
    problems.push_back(std::move(problem));
  }
  return problems;
}

/// Returns the fastest mix within the budget, which `best`, the leanest one, is.
Solution Fastest(const std::vector<Problem>& problems, double budget_bytes, Solution best) {
  for (const Problem& problem : problems) {
    problem.ForEachLimit([&](const std::vector<Kind>& kinds, double other_bytes) {
      if (other_bytes > budget_bytes) return;
      LayerSearch search(kinds, budget_bytes - other_bytes);
      Mix mix = search.Run(best.ns - problem.fixed_ns);
      if (!mix.empty()) best.ConsiderFaster(problem, std::move(mix));
    });
  }
  return best;
}

/// Returns the mix of the smallest peak: below each pair of limits the options that keep the least.
Solution Leanest(const std::vector<Problem>& problems) {
  Solution best;
  for (const Problem& problem : problems) {
    problem.ForEachLimit([&](const std::vector<Kind>& kinds, double) {
      Mix mix;
      for (std::size_t k = 0; k < kinds.size(); ++k) {
        const auto least = std::min_element(
            kinds[k].options.begin(), kinds[k].options.end(), [](const Option& a, const Option& b) {
              return std::tie(a.kept, a.time_ns) < std::tie(b.kept, b.time_ns);
            });
        mix.push_back({static_cast<int>(k), *least, kinds[k].count});
      }
      best.ConsiderLeaner(problem, std::move(mix));
    });
  }
  return best;
}

/// Returns the largest batch that `fits`, 0 where not even one sequence does.
/// @pre where a batch does not fit no larger one does
template <typename Fits>
std::int64_t LargestBatch(const Fits& fits) {
  std::int64_t low = 0, high = 1;
  while (fits(high)) {
    low = high;
    if (high == kMaxChosenBatch) return high;
    high *= 2;
  }
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

OperatorAnswer Chooser::Choose() const {
  const double budget = request_.budget_bytes;
  const PricedBatch priced = Price(request_.batch);
  const std::vector<Problem> problems = Problems(priced);
  const auto describe = [&](const Solution& solution) {
    return Describe(priced, solution.mix, solution.loss);
  };
  OperatorAnswer answer;
  answer.baseline = Describe(priced, BaselineMix(priced), 0);
  const Solution leanest = Leanest(problems);
  answer.leanest = describe(leanest);
  answer.fits = leanest.bytes <= budget;
  answer.best = answer.fits ? describe(Fastest(problems, budget, leanest)) : answer.leanest;
  answer.missing_bytes = answer.fits ? 0 : leanest.bytes - budget;
  answer.largest_batch = LargestBatch(
      [&](std::int64_t batch) { return Leanest(Problems(Price(batch))).bytes <= budget; });
  answer.baseline_largest_batch = LargestBatch([&](std::int64_t batch) {
    const PricedBatch of_batch = Price(batch);
    return CostOf(of_batch, BaselineMix(of_batch), 0).memory.Sum() <= budget;
  });
  return answer;
}

}  // namespace

OperatorAnswer ChooseOperators(const OperatorRequest& request) { return Chooser(request).Choose(); }

}  // namespace palmist::planner
