/// What people read of a plan: its layout in a line, its fullest stage, where its time goes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "palmist/plan/plan.h"

namespace palmist::plan {

/// Returns "lean", or "attention fused_softmax, rest fused", or each family's variant.
std::string Describe(const model::OpVariants& ops);

/// Returns "pp 2, dp 4, tp 1, ZeRO-1, micro-batch 2, lean", after the first stage.
/// @pre the plan has a stage
std::string DescribeLayout(const Plan& plan);

/// Returns the stage that needs the largest share of its limit; the first of equals.
/// @pre every stage has its prediction
std::size_t FullestStage(const Plan& plan);

/// Returns the stage that takes longest for a micro-batch; the first of equals.
/// @pre every stage has its prediction
std::size_t SlowestStage(const Plan& plan);

/// A named part of an iteration, in seconds.
struct TimeShare {
  std::string_view name;
  double seconds = 0;
};

/// Returns the parts of an iteration on its slowest stage, all of them, in a fixed order: compute,
/// each cause of exposed time, the pipeline bubble.
std::vector<TimeShare> SplitTime(const Prediction& prediction);

}  // namespace palmist::plan
