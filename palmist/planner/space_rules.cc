#include "palmist/planner/space_rules.h"

#include "palmist/base/error.h"

namespace palmist::planner {
namespace {

SpaceRules Uniform() {
  SpaceRules rules;
  rules.name = "uniform";
  rules.likeness = Likeness::kAll;
  rules.hybrid_zero = false;
  rules.offload = OffloadChoice::kNone;
  return rules;
}

SpaceRules Mist() {
  SpaceRules rules;
  rules.name = "mist";
  rules.likeness = Likeness::kShape;
  rules.layers_around_mean = 2;
  rules.sequence_parallel = false;
  rules.expert_parallel = false;
  rules.power_of_two_micro_batches = true;
  rules.most_micro_batch = 4;
  rules.least_zero = 1;
  rules.hybrid_zero = false;
  rules.lean_ops = false;
  rules.context_parallel = false;
  return rules;
}

SpaceRules Megatron() {
  SpaceRules rules = Uniform();
  rules.name = "megatron";
  rules.even_split = true;
  rules.most_zero = 1;
  rules.lean_ops = false;
  return rules;
}

SpaceRules DeepSpeed() {
  SpaceRules rules = Uniform();
  rules.name = "deepspeed";
  rules.even_split = true;
  rules.partial_recompute = false;
  rules.sequence_parallel = false;
  rules.most_zero_in_pipeline = 1;
  rules.offload = OffloadChoice::kWhole;
  rules.lean_ops = false;
  rules.context_parallel = false;
  return rules;
}

SpaceRules Sailor() {
  SpaceRules rules;
  rules.name = "sailor";
  rules.likeness = Likeness::kSamples;
  rules.recompute = false;
  rules.sequence_parallel = false;
  rules.expert_parallel = false;
  rules.most_zero = 0;
  rules.hybrid_zero = false;
  rules.offload = OffloadChoice::kNone;
  rules.lean_ops = false;
  rules.context_parallel = false;
  return rules;
}

const std::vector<SpaceRules>& Spaces() {
  static const std::vector<SpaceRules> spaces = {
      SpaceRules(), Uniform(), Mist(), Megatron(), DeepSpeed(), Sailor()};
  return spaces;
}

}  // namespace

SpaceRules RulesOf(std::string_view space) {
  for (const SpaceRules& rules : Spaces()) {
    if (rules.name == space) return rules;
  }
  std::string names;
  for (const std::string& name : SpaceNames()) names += (names.empty() ? "" : ", ") + name;
  throw UsageError(
      "--space", "expected one of " + names + ", got '" + std::string(space) + "'", "use full");
}

std::vector<std::string> SpaceNames() {
  std::vector<std::string> names;
  for (const SpaceRules& rules : Spaces()) names.push_back(rules.name);
  return names;
}

}  // namespace palmist::planner
