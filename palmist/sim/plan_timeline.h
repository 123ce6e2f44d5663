/// The simulated iteration of a plan.
#pragma once

#include <string>

#include "palmist/plan/plan.h"
#include "palmist/sim/simulate.h"

namespace palmist::sim {

/// Returns the pipeline of a plan from the times that each stage is predicted to take: what crosses
/// to the next stage is part of them. The tail is what the iteration takes beyond the schedule's
/// closed form: an optimizer step that waits for the gradients' norm.
/// @pre the plan and its stages have predictions
Pipeline PipelineOf(const plan::Plan& plan);

/// Returns how many slots the simulation of a plan has.
std::int64_t CountSlots(const plan::Plan& plan);

/// Slots that `WriteTrace` simulates at most, and those that it writes.
inline constexpr std::int64_t kMaxSimulatedSlots = 8'000'000;
inline constexpr std::int64_t kMaxTracedSlots = 200'000;

/// Writes the simulated iteration of a plan as a Chrome trace, whole or not at all. Of a very long
/// pipeline it holds the first micro-batches: `otherData` says how many.
/// @throws Error(kUsage) for more than kMaxSimulatedSlots slots, and as `WriteFileAtomic`
/// @returns the simulated iteration in seconds
double WriteTrace(const plan::Plan& plan, const std::string& path);

}  // namespace palmist::sim
