/// A plan with something changed, without a search.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "palmist/plan/plan.h"
#include "palmist/planner/request.h"

namespace palmist::planner {

/// What `--set key=value` changes; an unset value stays.
struct Change {
  Fixed fixed;  ///< of every stage
  std::optional<std::int64_t> seq_len, global_batch;
  std::optional<std::string> dtype;       ///< bf16, fp16, fp32
  std::optional<double> grad_clip;        ///< 0: none
  std::optional<std::string> optimizer;   ///< of plan::OptimizerNames
  std::optional<model::Variant> all_ops;  ///< of all operators, before `fixed`'s
};

/// Reads one `key=value`: the keys of `ParseFix`, and seq, global_batch, dtype, optimizer,
/// grad_clip, ops and chunks; the schedule may be any that can be priced. Errors name --set.
Result<void> ParseChange(std::string_view key_value, Change& change);

/// Returns the keys `ParseChange` knows.
std::vector<std::string> ChangeKeys();

/// Returns the memory that the plan was made for, in bytes a device, or all of it (1): devices of
/// different memory, and plans without predictions, do not say.
double MemoryLimitOf(const plan::Plan& plan);

/// Returns a plan with the change, validated, without predictions and search.
///
/// What is not set follows: dp from the devices of a stage, or tp where dp is set; the number of
/// micro-batches from the micro-batch of the first stage, or the micro-batches of the stages from
/// their number; sharding over all replicas. With another pp the model is split evenly, and stages
/// recompute the share of layers that they recomputed together. Interleaved stages hold even
/// chunks, and recompute all of their layers or none.
/// @throws Error(kUsage) naming --set where the rest of the plan cannot follow, such as devices
/// that
///   a degree does not divide; Error(kInput) as `plan::Validate`.
plan::Plan WithChange(const plan::Plan& plan, const Change& change, const model::Model& model);

}  // namespace palmist::planner
