#include "palmist/planner/space.h"

#include <algorithm>
#include <map>
#include <utility>

#include "palmist/plan/plan.h"

namespace palmist::planner {
namespace {

/// How many devices may be left idle before the request counts as contradictory.
constexpr int kMostIdleDevices = 1024;

std::vector<int> Divisors(std::int64_t n) {
  std::vector<int> low, high;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    low.push_back(static_cast<int>(d));
    if (d != n / d && n / d <= 1'048'576) high.push_back(static_cast<int>(n / d));
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

/// Sizes that a tensor-parallel degree must divide.
struct TensorLimits {
  std::vector<std::int64_t> widths;    // heads, feed-forward widths
  std::vector<std::int64_t> kv_heads;  // divide, or be divided
  std::int64_t experts = 0;            // 0: no mixture of experts
  bool splittable = true;              // false for convolutional models

  bool Allows(int tp) const {
    if (tp == 1) return true;
    if (!splittable) return false;
    for (const std::int64_t width : widths) {
      if (width % tp != 0) return false;
    }
    for (const std::int64_t kv : kv_heads) {
      if (kv % tp != 0 && tp % kv != 0) return false;
    }
    return true;
  }
};

TensorLimits LimitsOf(const model::ModelSpec& spec) {
  TensorLimits limits;
  if (!spec.is_transformer()) {
    limits.splittable = false;
    return limits;
  }
  const auto add_mlp = [&](const model::MlpSpec& mlp) { limits.widths.push_back(mlp.width); };
  const auto add_layer = [&](const model::LayerSpec& layer) {
    limits.widths.push_back(layer.attention.heads);
    limits.kv_heads.push_back(layer.attention.kv_heads);
    if (const auto* mlp = std::get_if<model::MlpSpec>(&layer.mlp)) {
      add_mlp(*mlp);
    } else {
      const auto& moe = std::get<model::MoeSpec>(layer.mlp);
      add_mlp(moe.expert);
      if (moe.shared) add_mlp(*moe.shared);
      limits.experts = moe.experts;
    }
  };
  for (const model::LayerSpec& layer : spec.transformer().encoder) add_layer(layer);
  for (const model::LayerSpec& layer : spec.transformer().layers) add_layer(layer);
  return limits;
}

bool Matches(const std::optional<int>& fixed, int value) { return !fixed || *fixed == value; }

/// Whether the space and the target have this stage of ZeRO for a stage with `replicas` replicas.
bool AllowsZero(const PlanRequest& request, int zero, int replicas, bool is_in_pipeline) {
  const SpaceRules& rules = request.space;
  if (zero > rules.most_zero || (zero < rules.least_zero && replicas > 1)) return false;
  // DeepSpeed's pipeline refuses sharded gradients (users of it meet an assertion).
  const int most = request.target == "deepspeed" ? 1 : rules.most_zero_in_pipeline;
  return !is_in_pipeline || zero <= most;
}

/// Counts, for each constraint, how many layouts it alone ruled out last.
class Reasons {
 public:
  void Add(const std::string& reason) { ++count_[reason]; }
  bool empty() const { return count_.empty(); }
  std::string Most() const {
    std::string most = "the fixed degrees do not multiply to a number of devices of the cluster";
    int best = 0;
    for (const auto& [reason, count] : count_) {
      if (count > best) best = count, most = reason;
    }
    return most;
  }

 private:
  std::map<std::string, int> count_;
};

int NodeDevices(const cluster::Cluster& cluster) {
  int node = 1;
  for (const cluster::NodeGroup& group : cluster.groups) {
    node = std::max(node, group.devices_per_node);
  }
  return node;
}

bool IsPowerOfTwo(int count) { return (count & (count - 1)) == 0; }

bool SplitsSequence(const PlanRequest& request, const model::Graph& graph, int cp) {
  return cp == 1 ||
         (graph.has_sequence && request.seq_len % cp == 0 && request.seq_len / cp % 2 == 0);
}

/// Offload ratios of a candidate: those fixed; else none, and where a space moves whole tensors the
/// optimizer's states, and the weights where they are sharded.
std::vector<plan::OffloadRatios> WholeOffloads(const PlanRequest& request, int zero) {
  if (request.fixed.fixes_offload()) return {request.fixed.OffloadOver()};
  std::vector<plan::OffloadRatios> offloads(1);
  if (request.space.offload != OffloadChoice::kWhole || zero == 0) return offloads;
  offloads.push_back({.optimizer = 1});
  if (zero == 3) offloads.push_back({.weights = 1, .optimizer = 1});
  return offloads;
}

/// Every pair of an element of each.
template <typename A, typename B>
std::vector<std::pair<A, B>> Pairs(const std::vector<A>& as, const std::vector<B>& bs) {
  std::vector<std::pair<A, B>> pairs;
  for (const A& a : as) {
    for (const B& b : bs) pairs.emplace_back(a, b);
  }
  return pairs;
}

/// Numbers of chunks of a stage: 1, or under interleaved 1F1B those into which its layers divide.
std::vector<int> ChunkCounts(const PlanRequest& request, int layers_of_stage, int stages) {
  if (!IsInterleaved(request)) return {1};
  std::vector<int> counts;
  if (stages == 1) return counts;
  for (const int count : Divisors(layers_of_stage)) {
    if (count > 1 && Matches(request.fixed.chunks, count)) counts.push_back(count);
  }
  return counts;
}

void AddCandidates(const PlanRequest& request,
                   const model::Graph& graph,
                   const TensorLimits& limits,
                   const std::vector<model::OpVariants>& variants,
                   int devices,
                   std::vector<Candidate>& candidates,
                   Reasons& reasons) {
  const Fixed& fixed = request.fixed;
  const SpaceRules& rules = request.space;
  const int node = NodeDevices(request.cluster);
  const int num_layers = static_cast<int>(graph.layers.size());
  const std::string of_space = "the space " + rules.name;
  for (const int stages : Divisors(devices)) {
    if (!Matches(fixed.pp, stages)) continue;
    if (stages > num_layers) {
      if (fixed.pp) {
        reasons.Add("there are more pipeline stages than the model's " +
                    std::to_string(num_layers) + " layers");
      }
      continue;
    }
    if (IsEvenlySplit(request) && num_layers % stages != 0) {
      reasons.Add((rules.even_split ? of_space : "a search under " + *fixed.schedule) +
                  " has as many layers on every stage: pp must divide " +
                  std::to_string(num_layers));
      continue;
    }
    const std::vector<int> chunk_counts = ChunkCounts(request, num_layers / stages, stages);
    if (chunk_counts.empty()) {
      reasons.Add("interleaved stages, two or more, have chunks of whole layers, two or more");
      continue;
    }
    const int per_stage = devices / stages;
    if (fixed.cp && per_stage % *fixed.cp != 0) {
      reasons.Add("cp does not divide the devices of a stage");
      continue;
    }
    for (const int cp : ContextDegrees(request, graph, per_stage)) {
      if (!SplitsSequence(request, graph, cp)) {
        reasons.Add("context parallelism needs a sequence that 2 * cp divides");
        continue;
      }
      for (const int tp : Divisors(per_stage / cp)) {
        if (!Matches(fixed.tp, tp)) continue;
        if (!limits.Allows(tp)) {
          reasons.Add(
              "tp must divide the attention heads and feed-forward width, and divide or be "
              "divided by the key-value heads");
          continue;
        }
        if (!fixed.tp && tp > node) continue;
        const int dp = per_stage / cp / tp;
        if (!Matches(fixed.dp, dp)) continue;
        if (request.global_batch % dp != 0) {
          reasons.Add("the global batch of " + std::to_string(request.global_batch) +
                      " sequences does not divide over the data-parallel replicas");
          continue;
        }
        bool has_micro_batch = false;
        for (const int micro_batch : Divisors(request.global_batch / dp)) {
          const int micro_batches = static_cast<int>(request.global_batch / dp / micro_batch);
          if (!Matches(fixed.micro_batch, micro_batch) ||
              !Matches(fixed.micro_batches, micro_batches)) {
            continue;
          }
          has_micro_batch = true;
          if (micro_batch > rules.most_micro_batch) {
            reasons.Add(of_space + " has micro-batches of " +
                        std::to_string(rules.most_micro_batch) + " at most");
            continue;
          }
          if (IsInterleaved(request) && micro_batches % stages != 0) {
            reasons.Add("interleaved stages need a multiple of their number of micro-batches");
            continue;
          }
          if (rules.power_of_two_micro_batches && !IsPowerOfTwo(micro_batches)) {
            reasons.Add(of_space + " has a power of two of micro-batches");
            continue;
          }
          for (const bool sp : {false, true}) {
            if (fixed.sp && *fixed.sp != sp) continue;
            if (sp && !rules.sequence_parallel) {
              if (fixed.sp) reasons.Add(of_space + " has no sequence parallelism");
              continue;
            }
            if (sp && (tp == 1 || !graph.has_sequence || (request.seq_len / cp) % tp != 0)) {
              if (fixed.sp)
                reasons.Add("sequence parallelism needs tp > 1 and a sequence that tp divides");
              continue;
            }
            for (const int ep : Divisors(limits.experts > 0 ? dp * cp : 1)) {
              if (!Matches(fixed.ep, ep)) {
                reasons.Add("ep must divide the number of experts and dp * cp");
                continue;
              }
              if (limits.experts % ep != 0) continue;
              if (ep > 1 && !rules.expert_parallel) {
                if (fixed.ep) reasons.Add(of_space + " has no expert parallelism");
                continue;
              }
              for (int zero = 0; zero <= (dp * cp > 1 ? 3 : 0); ++zero) {
                if (!Matches(fixed.zero, zero)) continue;
                if (!AllowsZero(request, zero, dp * cp, stages > 1)) {
                  if (fixed.zero) {
                    reasons.Add((request.target == "deepspeed" ? "DeepSpeed" : of_space) +
                                " has no ZeRO-" + std::to_string(zero) + " here");
                  }
                  continue;
                }
                for (const plan::OffloadRatios& offload : WholeOffloads(request, zero)) {
                  for (const auto& [ops, chunks] : Pairs(variants, chunk_counts)) {
                    candidates.push_back({.ops = ops,
                                          .layout = {.micro_batch = micro_batch,
                                                     .dp = dp,
                                                     .tp = tp,
                                                     .cp = cp,
                                                     .ep = ep,
                                                     .sp = sp,
                                                     .zero = zero,
                                                     .zero_shard = zero > 0 ? dp * cp : 1},
                                          .stages = stages,
                                          .micro_batches = micro_batches,
                                          .devices = devices,
                                          .offload = offload,
                                          .chunks = chunks});
                  }
                }
              }
            }
          }
        }
        if (!has_micro_batch) {
          reasons.Add("micro_batch * micro_batches * dp must be the global batch of " +
                      std::to_string(request.global_batch));
        }
      }
    }
  }
}

}  // namespace

bool IsInterleaved(const PlanRequest& request) { return request.fixed.schedule == "interleaved"; }

bool IsEvenlySplit(const PlanRequest& request) {
  return request.space.even_split || request.fixed.schedule == "zb-h1" || IsInterleaved(request);
}

std::vector<int> ContextDegrees(const PlanRequest& request,
                                const model::Graph& graph,
                                int devices) {
  if (request.fixed.cp) return {*request.fixed.cp};
  const bool is_long = graph.has_sequence && request.seq_len >= kLeastContextParallel;
  if (!is_long || !request.space.context_parallel) return {1};
  std::vector<int> degrees;
  for (const int cp : Divisors(devices)) {
    if (cp <= NodeDevices(request.cluster) && SplitsSequence(request, graph, cp)) {
      degrees.push_back(cp);
    }
  }
  return degrees;
}

std::vector<cost::Layout> StageLayouts(const PlanRequest& request,
                                       const model::Graph& graph,
                                       int devices,
                                       std::int64_t samples) {
  const TensorLimits limits = LimitsOf(request.model.spec);
  const Fixed& fixed = request.fixed;
  const SpaceRules& rules = request.space;
  const int node = NodeDevices(request.cluster);
  std::vector<cost::Layout> layouts;
  for (const int cp : ContextDegrees(request, graph, devices)) {
    if (devices % cp != 0 || !SplitsSequence(request, graph, cp)) continue;
    for (const int tp : Divisors(devices / cp)) {
      if (!Matches(fixed.tp, tp) || !limits.Allows(tp) || (!fixed.tp && tp > node)) continue;
      const int dp = devices / cp / tp;
      if (!Matches(fixed.dp, dp) || samples % dp != 0) continue;
      const int micro_batch = static_cast<int>(samples / dp);
      if (!Matches(fixed.micro_batch, micro_batch)) continue;
      if (micro_batch > rules.most_micro_batch) continue;
      for (const bool sp : {false, true}) {
        if (fixed.sp && *fixed.sp != sp) continue;
        if (sp && !rules.sequence_parallel) continue;
        if (sp && (tp == 1 || !graph.has_sequence || request.seq_len / cp % tp != 0)) continue;
        for (const int ep : Divisors(limits.experts > 0 ? dp * cp : 1)) {
          if (!Matches(fixed.ep, ep) || limits.experts % ep != 0) continue;
          if (ep > 1 && !rules.expert_parallel) continue;
          cost::Layout layout;
          layout.micro_batch = micro_batch;
          layout.dp = dp;
          layout.tp = tp;
          layout.cp = cp;
          layout.ep = ep;
          layout.sp = sp;
          layouts.push_back(layout);
        }
      }
    }
  }
  return layouts;
}

std::vector<cost::Layout> ZeroVariants(const PlanRequest& request,
                                       const cost::Layout& layout,
                                       int node_devices,
                                       bool has_others) {
  std::vector<cost::Layout> variants;
  const int replicas = layout.dp * layout.cp;
  const int in_node = node_devices / layout.tp;
  for (int zero = 0; zero <= (replicas > 1 ? 3 : 0); ++zero) {
    if (!Matches(request.fixed.zero, zero)) continue;
    if (!AllowsZero(request, zero, replicas, has_others)) continue;
    cost::Layout variant = layout;
    variant.zero = zero;
    variant.zero_shard = zero > 0 ? replicas : 1;
    variants.push_back(variant);
    const bool is_apart = in_node > 1 && in_node < replicas && replicas % in_node == 0;
    if (request.space.hybrid_zero && zero > 0 && is_apart && layout.ep <= in_node) {
      variant.zero_shard = in_node;
      variants.push_back(variant);
    }
  }
  return variants;
}

std::vector<int> MicroBatchCounts(const PlanRequest& request) {
  std::vector<int> counts;
  for (const int count : Divisors(request.global_batch)) {
    if (request.space.power_of_two_micro_batches && !IsPowerOfTwo(count)) continue;
    if (Matches(request.fixed.micro_batches, count)) counts.push_back(count);
  }
  return counts;
}

std::vector<model::OpVariants> CandidateVariants(const PlanRequest& request) {
  using model::Variant;
  std::vector<model::OpVariants> variants;
  if (request.ops != "auto") {
    variants.push_back(model::UniformVariants(model::ParseVariant(request.ops).value()));
  } else if (request.target == "torchtitan" || request.target == "accelerate") {
    variants.push_back(model::UniformVariants(Variant::kSdpa));
  } else {
    variants.push_back(model::UniformVariants(Variant::kFused));
    if (request.space.lean_ops && (request.target == "none" || request.target == "palmist")) {
      variants.push_back(model::UniformVariants(Variant::kLean));
    }
  }
  for (model::OpVariants& ops : variants) ops = request.fixed.OpsOver(ops);
  std::vector<model::OpVariants> distinct;
  for (const model::OpVariants& ops : variants) {
    if (std::find(distinct.begin(), distinct.end(), ops) == distinct.end()) distinct.push_back(ops);
  }
  return distinct;
}

std::vector<Candidate> EnumerateCandidates(const PlanRequest& request, const model::Graph& graph) {
  const TensorLimits limits = LimitsOf(request.model.spec);
  const std::vector<model::OpVariants> variants = CandidateVariants(request);
  std::vector<Candidate> candidates;
  Reasons reasons;  // with the most devices that the fixed degrees can use
  const int all = request.cluster.num_devices();
  for (int idle = 0; idle < std::min(all, kMostIdleDevices) && candidates.empty(); ++idle) {
    Reasons here;
    AddCandidates(request, graph, limits, variants, all - idle, candidates, here);
    if (reasons.empty()) reasons = std::move(here);
  }
  if (candidates.empty()) {
    const bool fixed = request.fixed != Fixed{};
    throw Error(ErrorKind::kUsage,
                "no layout is left: " + reasons.Most(),
                fixed ? "--fix" : "--global-batch",
                fixed ? "drop a --fix, or change the global batch or the number of devices"
                      : "change the global batch or the number of devices");
  }
  return candidates;
}

}  // namespace palmist::planner
