/// Requests small enough to try every plan.
#pragma once

#include <cstdint>
#include <string>

#include "palmist/planner/planner.h"

namespace palmist::planner::test {

/// Returns a request for a named model and cluster with their defaults.
PlanRequest RequestFor(const std::string& model,
                       const std::string& cluster,
                       std::int64_t seq_len,
                       std::int64_t global_batch);

/// Returns a random request: 2 to 5 layers, dense or with experts, 2 to 8 devices, and as much
/// memory as makes some of its plans need recomputation. Depends on `seed` alone.
PlanRequest SmallRequest(std::uint64_t seed);

}  // namespace palmist::planner::test
