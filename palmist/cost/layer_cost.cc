#include "palmist/cost/layer_cost.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace palmist::cost {
namespace {

using model::Collective;
using model::CollectiveGroup;
using model::Step;
using model::StepClass;
using symbolic::Domain;

constexpr std::array<std::string_view, 3> kGroups = {"tp", "cp", "ep"};
constexpr std::array<std::string_view, 4> kKinds = {
    "all_reduce", "gather", "scatter", "all_to_all"};

std::string GroupSymbol(std::size_t group, std::size_t kind, std::string_view unit) {
  return std::string(kGroups[group]) + "_" + std::string(kKinds[kind]) + std::string(unit);
}

Expr Rate(std::string_view name) { return Expr::Symbol(name, Domain::kNonnegative); }

/// Seconds of arithmetic, traffic and launches.
Expr ComputeSeconds(StepClass step_class, const Expr& flops, const Expr& bytes, double kernels) {
  switch (step_class) {
    case StepClass::kGemm:
      // A small product is bound by its traffic, a large one by its arithmetic.
      return Max(flops * Rate("gemm_s_per_flop"), bytes * Rate("memory_s_per_byte")) +
             kernels * Rate("gemm_launch_s");
    case StepClass::kAttention:
      return Max(flops * Rate("attention_s_per_flop"), bytes * Rate("memory_s_per_byte")) +
             kernels * Rate("launch_s");
    case StepClass::kMemory:
      return flops * Rate("gemm_s_per_flop") + bytes * Rate("memory_s_per_byte") +
             kernels * Rate("launch_s");
  }
  PALMIST_ASSERT(false);
  return {};
}

Expr CollectiveSeconds(const Collective& collective) {
  const auto group = static_cast<std::size_t>(collective.group);
  const auto kind = static_cast<std::size_t>(collective.kind);
  return Select(collective.bytes,
                Rate(GroupSymbol(group, kind, "_s")) +
                    collective.bytes * Rate(GroupSymbol(group, kind, "_s_per_byte")),
                0);
}

void AddCollectives(std::span<const Collective> collectives, bool forward, LayerCost<Expr>& cost) {
  for (const Collective& collective : collectives) {
    const Expr seconds = CollectiveSeconds(collective);
    switch (collective.group) {
      case CollectiveGroup::kTensor:
        (forward ? cost.tp_forward_s : cost.tp_backward_s) += seconds;
        break;
      case CollectiveGroup::kContext:
        (forward ? cost.cp_forward_s : cost.cp_backward_s) += seconds;
        break;
      case CollectiveGroup::kExpert:
        (forward ? cost.ep_forward_s : cost.ep_backward_s) += seconds;
        break;
    }
  }
}

}  // namespace

std::vector<std::string> LayoutInputs::Names() {
  std::vector<std::string> names = {"b",
                                    "s",
                                    "tp",
                                    "sd",
                                    "cp",
                                    "ep",
                                    "x",
                                    "grad_bytes",
                                    "gemm_s_per_flop",
                                    "gemm_launch_s",
                                    "attention_s_per_flop",
                                    "memory_s_per_byte",
                                    "launch_s"};
  for (std::size_t group = 0; group < kGroups.size(); ++group) {
    for (std::size_t kind = 0; kind < kKinds.size(); ++kind) {
      names.push_back(GroupSymbol(group, kind, "_s"));
      names.push_back(GroupSymbol(group, kind, "_s_per_byte"));
    }
  }
  return names;
}

std::vector<double> LayoutInputs::Values() const {
  std::vector<double> values = {b,
                                s,
                                tp,
                                sd,
                                cp,
                                ep,
                                x,
                                grad_bytes,
                                gemm_s_per_flop,
                                gemm_launch_s,
                                attention_s_per_flop,
                                memory_s_per_byte,
                                launch_s};
  for (const Group* group : {&tp_group, &cp_group, &ep_group}) {
    values.insert(values.end(),
                  {group->all_reduce_s,
                   group->all_reduce_s_per_byte,
                   group->gather_s,
                   group->gather_s_per_byte,
                   group->scatter_s,
                   group->scatter_s_per_byte,
                   group->all_to_all_s,
                   group->all_to_all_s_per_byte});
  }
  return values;
}

LayerCost<Expr> DeriveLayerCost(const model::LoweredLayer& layer) {
  LayerCost<Expr> cost;
  if (layer.steps.empty()) return cost;
  const LayerMemory memory = AnalyzeMemory(layer);
  cost.input = memory.input;
  cost.kept = memory.kept;
  cost.boundary = memory.boundary;
  cost.memory = memory.memory;
  cost.forward_peak = memory.forward_peak;
  cost.backward_peak = memory.backward_peak;
  std::set<int> made_again;
  for (const Step& step : layer.steps) {
    cost.weights += step.weight_elements;
    cost.expert_weights += step.expert_elements;
    cost.tied_weights += step.tied_elements;
    cost.forward_s += ComputeSeconds(
        step.step_class, step.forward_flops, step.forward_bytes, step.forward_kernels);
    cost.backward_s += ComputeSeconds(
        step.step_class, step.backward_flops, step.backward_bytes, step.backward_kernels);
    if (step.step_class == StepClass::kGemm) {
      cost.weight_grad_s += Select(
          step.weight_elements + step.tied_elements,
          ComputeSeconds(
              step.step_class, step.backward_flops, step.backward_bytes, step.backward_kernels) /
              2,
          0);
    }
    AddCollectives(step.forward_collectives, true, cost);
    AddCollectives(step.backward_collectives, false, cost);
    for (const int buffer : step.saved) {
      const int source = layer.buffers[buffer].recompute_step;
      if (source >= 0) made_again.insert(source);
    }
  }
  for (const int index : made_again) {
    const Step& step = layer.steps[index];
    cost.backward_s += ComputeSeconds(
        step.step_class, step.forward_flops, step.forward_bytes, step.forward_kernels);
  }
  return cost;
}

}  // namespace palmist::cost
