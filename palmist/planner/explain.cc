#include "palmist/planner/explain.h"

#include <fmt/format.h>

#include <algorithm>

#include "palmist/base/interrupt.h"
#include "palmist/plan/summary.h"
#include "palmist/planner/whatif.h"

namespace palmist::planner {
namespace {

using plan::Plan;
using plan::Stage;

/// A choice that a plan may make.
struct KnobKind {
  const char* name;
  /// Returns how a stage sets it; empty where it does not use it.
  std::string (*setting)(const Stage& stage);
  void (*forbid)(PlanRequest& request);
};

std::string Degree(const char* name, int degree) {
  return degree > 1 ? fmt::format("{} {}", name, degree) : "";
}

std::string Ratios(const plan::OffloadRatios& ratios) {
  std::string text;
  const auto add = [&](const char* name, double ratio) {
    if (ratio > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, ratio);
  };
  add("weights", ratios.weights);
  add("grads", ratios.grads);
  add("optimizer", ratios.optimizer);
  add("activations", ratios.activations);
  return text;
}

bool IsLean(const model::OpVariants& ops) {
  const auto is_lean = [](model::Variant variant) { return variant == model::Variant::kLean; };
  return is_lean(ops.attention) || is_lean(ops.norm) || is_lean(ops.activation) ||
         is_lean(ops.dropout) || is_lean(ops.loss);
}

const std::vector<KnobKind>& KnobKinds() {
  static const std::vector<KnobKind> kinds = {
      {"tensor parallelism",
       [](const Stage& stage) { return Degree("tp", stage.tp); },
       [](PlanRequest& request) { request.fixed.tp = 1; }},
      {"sequence parallelism",
       [](const Stage& stage) { return std::string(stage.sp ? "sp" : ""); },
       [](PlanRequest& request) { request.space.sequence_parallel = false; }},
      {"context parallelism",
       [](const Stage& stage) { return Degree("cp", stage.cp); },
       [](PlanRequest& request) { request.space.context_parallel = false; }},
      {"expert parallelism",
       [](const Stage& stage) { return Degree("ep", stage.ep); },
       [](PlanRequest& request) { request.space.expert_parallel = false; }},
      {"ZeRO",
       [](const Stage& stage) {
         return stage.zero > 0 ? fmt::format("ZeRO-{}", stage.zero) : std::string();
       },
       [](PlanRequest& request) { request.space.most_zero = 0; }},
      {"sharding within nodes",
       [](const Stage& stage) {
         return stage.zero > 0 && stage.zero_shard < stage.dp * stage.cp
                    ? fmt::format(
                          "states over {} of {} ranks", stage.zero_shard, stage.dp * stage.cp)
                    : std::string();
       },
       [](PlanRequest& request) { request.space.hybrid_zero = false; }},
      {"recomputation",
       [](const Stage& stage) {
         return stage.num_recomputed() > 0
                    ? fmt::format("{} of {} layers", stage.num_recomputed(), stage.num_layers())
                    : std::string();
       },
       [](PlanRequest& request) { request.space.recompute = false; }},
      {"offload",
       [](const Stage& stage) { return Ratios(stage.offload); },
       [](PlanRequest& request) { request.space.offload = OffloadChoice::kNone; }},
      {"lean operators",
       [](const Stage& stage) { return IsLean(stage.ops) ? plan::Describe(stage.ops) : ""; },
       [](PlanRequest& request) { request.space.lean_ops = false; }},
  };
  return kinds;
}

/// Returns how the plan's stages set a knob, each way once; empty where none uses it.
std::string SettingOf(const Plan& plan, const KnobKind& kind) {
  std::vector<std::string> ways;
  bool is_used = false;
  for (const Stage& stage : plan.stages) {
    const std::string way = kind.setting(stage);
    is_used = is_used || !way.empty();
    const std::string shown = way.empty() ? "none" : way;
    if (std::find(ways.begin(), ways.end(), shown) == ways.end()) ways.push_back(shown);
  }
  if (!is_used) return "";
  constexpr std::size_t kMostWays = 3;
  if (ways.size() > kMostWays) return fmt::format("{} and {} others", ways[0], ways.size() - 1);
  return fmt::format("{}", fmt::join(ways, "; "));
}

bool AreStagesUnlike(const Plan& plan) {
  const Stage& front = plan.stages.front();
  return std::any_of(plan.stages.begin(), plan.stages.end(), [&](const Stage& stage) {
    return stage.devices.size() != front.devices.size() || stage.tp != front.tp ||
           stage.dp != front.dp || stage.sp != front.sp || stage.zero != front.zero ||
           stage.ops != front.ops || stage.offload != front.offload;
  });
}

struct Trial {
  Knob knob;
  PlanRequest request;
};

std::vector<Trial> TrialsOf(const Plan& plan, const PlanRequest& request) {
  std::vector<Trial> trials;
  const auto add = [&](std::string name, std::string setting) -> PlanRequest& {
    trials.push_back({{std::move(name), std::move(setting), std::nullopt, "", false}, request});
    trials.back().request.top = 1;
    return trials.back().request;
  };
  if (plan.stages.size() > 1) {
    add("pipeline", fmt::format("pp {}", plan.stages.size())).fixed.pp = 1;
  }
  for (const KnobKind& kind : KnobKinds()) {
    const std::string setting = SettingOf(plan, kind);
    if (!setting.empty()) kind.forbid(add(kind.name, setting));
  }
  if (AreStagesUnlike(plan)) {
    SpaceRules& space = add("stages of their own", "degrees or states differ").space;
    space.likeness = Likeness::kAll;
    space.offload = OffloadChoice::kNone;
  }
  return trials;
}

}  // namespace

PlanRequest RequestOf(const Plan& plan,
                      const model::Model& model,
                      const cluster::Calibration& calibration) {
  PlanRequest request;
  request.model = model;
  request.cluster = plan.cluster;
  request.calibration = calibration;
  request.seq_len = plan.seq_len;
  request.global_batch = plan.training.global_batch;
  request.dtype = plan.training.dtype;
  request.training = plan.training;
  request.memory_limit = MemoryLimitOf(plan);
  request.space = RulesOf("full");
  if (plan.training.schedule != "1f1b") request.fixed.schedule = plan.training.schedule;
  return request;
}

Explanation Explain(const Plan& plan,
                    const model::Model& model,
                    const cluster::Calibration& calibration,
                    const ExplainOptions& options,
                    const std::function<void(int, int)>& progress) {
  PlanRequest request = RequestOf(plan, model, calibration);
  request.threads = options.threads;
  request.time_limit_s = options.time_limit_s;
  request.gap = options.gap;
  request.top = options.alternatives + 1;
  std::vector<Trial> trials = TrialsOf(plan, request);
  const int count = static_cast<int>(trials.size()) + 1;
  const auto done = [&](int searches) {
    if (InterruptRequested()) throw Error(ErrorKind::kInterrupted, "interrupted");
    if (progress) progress(searches, count);
  };
  Explanation explanation;
  PlanResult base = FindPlan(request);
  done(1);
  explanation.binding = base.binding;
  if (!base.plans.empty()) {
    explanation.best_s = base.plans.front().predicted->iteration_time_s;
    explanation.search = base.search;
    explanation.alternatives.assign(base.plans.begin() + 1, base.plans.end());
  }
  for (std::size_t i = 0; i < trials.size(); ++i) {
    Trial& trial = trials[i];
    // Without it there may be no layout at all.
    try {
      const PlanResult result = FindPlan(trial.request);
      trial.knob.is_finished =
          result.outcome == Outcome::kOptimal || result.outcome == Outcome::kInfeasible;
      if (!result.plans.empty()) {
        trial.knob.without_s = result.plans.front().predicted->iteration_time_s;
        trial.knob.instead = plan::DescribeLayout(result.plans.front());
      }
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUsage) throw;
      trial.knob.is_finished = true;
    }
    done(static_cast<int>(i) + 2);
    explanation.knobs.push_back(std::move(trial.knob));
  }
  return explanation;
}

}  // namespace palmist::planner
