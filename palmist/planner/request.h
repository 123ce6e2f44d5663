/// What a user asks of the planner.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "palmist/cluster/calibration.h"
#include "palmist/cluster/cluster.h"
#include "palmist/model/config.h"
#include "palmist/model/graph.h"
#include "palmist/model/lower.h"
#include "palmist/plan/plan.h"
#include "palmist/planner/space_rules.h"

namespace palmist::planner {

/// Values that `--fix key=value` pins; an unset one is searched.
struct Fixed {
  std::optional<int> pp, dp, tp, cp, ep, zero, micro_batch, micro_batches;
  std::optional<bool> sp;
  std::optional<std::string> recompute;  ///< none or full
  std::optional<std::string> schedule;   ///< of plan::kSchedules
  std::optional<int> chunks;             ///< of each stage, interleaved only
  std::optional<model::Variant> attention, norm, activation, dropout, loss;
  /// Offload ratios; where any is fixed none is searched.
  std::optional<double> offload_weights, offload_grads, offload_optimizer, offload_activations;

  bool fixes_offload() const {
    return offload_weights || offload_grads || offload_optimizer || offload_activations;
  }
  /// Returns the fixed ratios, and those of `others` that are not fixed.
  plan::OffloadRatios OffloadOver(const plan::OffloadRatios& others = {}) const;
  /// Returns the fixed variants, and those of `others` that are not fixed.
  model::OpVariants OpsOver(const model::OpVariants& others) const;
  /// Fixes all operators.
  void FixOps(const model::OpVariants& ops);
  bool operator==(const Fixed&) const = default;
};

/// Reads one `key=value` into `fixed`. Unknown keys list the known ones; bad values say what is
/// expected; a key that is already fixed to another value is an error. Errors name `option`.
Result<void> ParseFix(std::string_view key_value,
                      Fixed& fixed,
                      const std::string& option = "--fix");

/// Returns the keys `ParseFix` knows.
std::vector<std::string> FixKeys();

/// What a search takes no account of, as tools before Mist did. What it finds is priced in full,
/// and nothing is proven of it.
struct Blindness {
  bool overlap = false;    ///< work on several resources takes the sum of its parts
  bool imbalance = false;  ///< what precedes the first and follows the last micro-batch is spread
                           ///< over all of them
  bool operator==(const Blindness&) const = default;
};

struct PlanRequest {
  model::Model model;
  cluster::Cluster cluster;
  cluster::Calibration calibration;
  std::int64_t seq_len = 0;  ///< 0 for convolutional models
  std::int64_t global_batch = 1;
  std::string dtype = "bf16";       ///< bf16, fp16, fp32
  std::string optimizer = "adamw";  ///< of plan::OptimizerNames
  std::string grad_dtype;           ///< fp32 or as dtype; empty: as the target sums them
  /// Where given, optimizer, gradients, clipping and what is trained are taken from it instead.
  std::optional<plan::Training> training;
  double memory_limit = 1.0;    ///< a share up to 1, or bytes above it
  std::string ops = "auto";     ///< auto, eager, sdpa, fused, tempo, lean
  std::string target = "none";  ///< none, palmist, megatron, deepspeed, torchtitan, accelerate
  Fixed fixed;
  SpaceRules space = RulesOf("uniform");  ///< what is searched
  double gap = 0.01;                      ///< stop once the best is proven this close to the bound
  std::int64_t max_evaluations = 0;       ///< 0: no limit
  double time_limit_s = 150;
  int threads = 1;
  int top = 4;  ///< plans to return: the best, and alternatives of other layouts
  double expert_imbalance = 1.0;
  Blindness blind;
};

}  // namespace palmist::planner
