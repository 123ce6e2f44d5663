#include "palmist/plan/targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "palmist/base/nearest.h"
#include "palmist/base/text.h"

namespace palmist::plan {
namespace {

constexpr std::pair<Target, std::string_view> kNames[] = {
    {Target::kNone, "none"},
    {Target::kPalmist, "palmist"},
    {Target::kMegatron, "megatron"},
    {Target::kDeepSpeed, "deepspeed"},
    {Target::kTorchtitan, "torchtitan"},
    {Target::kAccelerate, "accelerate"},
};

/// Returns the path of the first place where a plan uses a feature.
using Finder = std::optional<std::string> (*)(const Plan&);

/// Returns the path of `field` in the first stage for which `uses` holds.
template <typename Uses>
std::optional<std::string> FirstStage(const Plan& plan, const char* field, Uses uses) {
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    if (uses(plan.stages[i])) return fmt::format("stages[{}].{}", i, field);
  }
  return std::nullopt;
}

/// Returns the path of `field` in the first stage that differs in it from stage 0.
template <auto member>
std::optional<std::string> Differs(const Plan& plan, const char* field) {
  return FirstStage(plan, field, [&](const Stage& stage) {
    return stage.*member != plan.stages.front().*member;
  });
}

std::optional<std::string> DiffersInDegrees(const Plan& plan) {
  for (const auto& path : {Differs<&Stage::dp>(plan, "dp"),
                           Differs<&Stage::tp>(plan, "tp"),
                           Differs<&Stage::cp>(plan, "cp"),
                           Differs<&Stage::ep>(plan, "ep"),
                           Differs<&Stage::sp>(plan, "sp"),
                           Differs<&Stage::micro_batch>(plan, "micro_batch")}) {
    if (path) return path;
  }
  return std::nullopt;
}

std::optional<std::string> Pipeline(const Plan& plan) {
  if (plan.stages.size() < 2) return std::nullopt;
  return "stages";
}

std::optional<std::string> Schedule(const Plan& plan, std::string_view schedule) {
  if (plan.stages.size() < 2 || plan.training.schedule != schedule) return std::nullopt;
  return "training.schedule";
}

std::optional<std::string> ZeroInPipeline(const Plan& plan) {
  if (plan.stages.size() < 2) return std::nullopt;
  return FirstStage(plan, "zero", [](const Stage& stage) { return stage.zero >= 2; });
}

bool IsPartial(double ratio) { return ratio > 0 && ratio < 1; }

std::optional<std::string> PartialOptimizerOffload(const Plan& plan) {
  const bool in_pipeline = plan.stages.size() > 1;
  return FirstStage(plan, "offload.optimizer", [&](const Stage& stage) {
    return IsPartial(stage.offload.optimizer) && (in_pipeline || stage.zero < 3);
  });
}

/// Weights, gradients and states move together, or not at all.
std::optional<std::string> MixedOffload(const Plan& plan) {
  return FirstStage(plan, "offload", [](const Stage& stage) {
    const OffloadRatios& offload = stage.offload;
    return IsPartial(offload.weights) || offload.weights != offload.grads ||
           offload.weights != offload.optimizer;
  });
}

bool UsesVariant(const model::OpVariants& ops, model::Variant variant) {
  return ops.attention == variant || ops.norm == variant || ops.activation == variant ||
         ops.dropout == variant || ops.loss == variant;
}

constexpr unsigned Bit(Target target) { return 1U << static_cast<unsigned>(target); }
constexpr unsigned kM = Bit(Target::kMegatron);
constexpr unsigned kD = Bit(Target::kDeepSpeed);
constexpr unsigned kT = Bit(Target::kTorchtitan);
constexpr unsigned kA = Bit(Target::kAccelerate);

/// A feature, and the targets that cannot express it.
struct Rule {
  unsigned targets;
  Finder find;
  const char* cannot;  ///< follows the target's name
  const char* hint;
};

// Source: the programs' own argument checks, run on Megatron-core 0.19.2, DeepSpeed 0.19.8,
// torchtitan 0.2.2 and 0.3.0, accelerate 1.15.0. What may differ from stage to stage with a
// configuration for each stage's processes (recompute, offload, and ZeRO where not listed) is
// expressible.
constexpr Rule kRules[] = {
    {kM | kD | kT | kA,
     [](const Plan& plan) {
       return FirstStage(plan, "replicas", [](const Stage& s) { return !s.replicas.empty(); });
     },
     "has alike replicas only",
     "use --target palmist"},
    {kA, Pipeline, "has no pipeline", "use --fix pp=1"},
    {kM | kD | kT,
     DiffersInDegrees,
     "has the same degrees and micro-batch on every stage",
     "search with --space megatron, or use --target palmist"},
    {kM,
     [](const Plan& plan) { return Differs<&Stage::zero>(plan, "zero"); },
     "has one sharding of states for all stages",
     "use --fix zero=0 or zero=1"},
    {kD, ZeroInPipeline, "refuses ZeRO 2 and 3 in a pipeline", "use --fix zero=1"},
    {kT,
     [](const Plan& plan) {
       return FirstStage(plan, "zero", [](const Stage& s) { return s.zero == 1 && s.dp > 1; });
     },
     "shards gradients wherever it shards optimizer states",
     "use --fix zero=2"},
    {kM | kD | kT,
     [](const Plan& plan) { return Schedule(plan, "zb-h1"); },
     "has no schedule zb-h1",
     "use --fix schedule=1f1b"},
    {kM | kD,
     [](const Plan& plan) { return Schedule(plan, "gpipe"); },
     "has no schedule gpipe",
     "use --fix schedule=1f1b"},
    {kD,
     [](const Plan& plan) { return Schedule(plan, "interleaved"); },
     "has no interleaved schedule",
     "use --fix schedule=1f1b"},
    {kD,
     [](const Plan& plan) {
       return FirstStage(plan, "cp", [](const Stage& s) { return s.cp > 1; });
     },
     "has no context parallelism",
     "use --fix cp=1"},
    {kT | kA,
     [](const Plan& plan) {
       return FirstStage(
           plan, "cp_kind", [](const Stage& s) { return s.cp > 1 && s.cp_kind != "ring"; });
     },
     "has context parallelism of kind ring only",
     "set cp_kind to ring"},
    {kD | kA,
     [](const Plan& plan) {
       return FirstStage(plan, "sp", [](const Stage& s) { return s.sp && s.tp > 1; });
     },
     "has no sequence parallelism beside tensor parallelism",
     "use --fix sp=false"},
    {kA,
     [](const Plan& plan) {
       return FirstStage(plan, "ep", [](const Stage& s) { return s.ep > 1; });
     },
     "has no expert parallelism",
     "use --fix ep=1"},
    {kT,
     [](const Plan& plan) -> std::optional<std::string> {
       if (plan.training.dtype != "fp16") return std::nullopt;
       return "training.dtype";
     },
     "has no fp16",
     "use --dtype bf16"},
    {kM,
     [](const Plan& plan) {
       return FirstStage(
           plan, "offload.weights", [](const Stage& s) { return s.offload.weights > 0; });
     },
     "keeps weights on the device",
     "offload optimizer states or activations instead"},
    {kM,
     [](const Plan& plan) {
       return FirstStage(plan, "offload.grads", [](const Stage& s) { return s.offload.grads > 0; });
     },
     "keeps gradients on the device",
     "offload optimizer states or activations instead"},
    {kD | kA,
     PartialOptimizerOffload,
     "offloads a part of the optimizer states with ZeRO 3 only, and without a pipeline",
     "use --fix offload.optimizer=0 or offload.optimizer=1"},
    {kD,
     [](const Plan& plan) {
       return FirstStage(plan, "offload.optimizer", [](const Stage& s) {
         return s.offload.optimizer > 0 && s.zero == 0;
       });
     },
     "offloads optimizer states with ZeRO only",
     "use --fix zero=1"},
    {kD | kA,
     [](const Plan& plan) {
       return FirstStage(plan, "offload.weights", [](const Stage& s) {
         return IsPartial(s.offload.weights) || (s.offload.weights > 0 && s.zero < 3);
       });
     },
     "offloads weights with ZeRO 3 only, and all of them",
     "use --fix offload.weights=0 or zero=3 with offload.weights=1"},
    {kT,
     MixedOffload,
     "offloads weights, gradients and optimizer states together or not at all",
     "use --fix offload.weights=0, grads and optimizer likewise"},
    {kT,
     [](const Plan& plan) {
       return FirstStage(
           plan, "offload.activations", [](const Stage& s) { return s.offload.activations > 0; });
     },
     "keeps activations on the device",
     "use --fix offload.activations=0"},
    {kD | kA,
     [](const Plan& plan) {
       return FirstStage(plan, "offload.activations", [](const Stage& s) {
         return IsPartial(s.offload.activations);
       });
     },
     "offloads all activations or none",
     "use --fix offload.activations=0 or offload.activations=1"},
    {kM | kD | kT | kA,
     [](const Plan& plan) {
       return FirstStage(plan, "ops", [](const Stage& s) {
         return UsesVariant(s.ops, model::Variant::kLean) ||
                UsesVariant(s.ops, model::Variant::kTempo);
       });
     },
     "has no operators of the variants lean and tempo",
     "use --ops fused"},
};

}  // namespace

std::string_view ToString(Target target) { return kNames[static_cast<std::size_t>(target)].second; }

Result<Target> ParseTarget(std::string_view name) {
  std::vector<std::string> known;
  for (const auto& [target, target_name] : kNames) {
    if (target_name == name) return target;
    known.emplace_back(target_name);
  }
  const std::string nearest = DidYouMean(name, known);
  return UsageError("target",
                    fmt::format("expected one of {}, got {}", fmt::join(known, ", "), Quote(name)),
                    nearest);
}

std::vector<Unsupported> FindUnsupported(const Plan& plan, Target target) {
  std::vector<Unsupported> all;
  for (const Rule& rule : kRules) {
    if ((rule.targets & Bit(target)) == 0) continue;
    if (auto field = rule.find(plan)) {
      all.push_back(
          {*std::move(field), fmt::format("{} {}", ToString(target), rule.cannot), rule.hint});
    }
  }
  return all;
}

Result<void> CheckTarget(const Plan& plan, Target target) {
  const std::vector<Unsupported> all = FindUnsupported(plan, target);
  if (all.empty()) return {};
  return Error(ErrorKind::kInfeasible, all.front().message, all.front().field, all.front().hint);
}

}  // namespace palmist::plan
