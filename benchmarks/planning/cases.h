/// The training runs that the studies plan, and how they print.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "palmist/planner/planner.h"

namespace palmist::studies {

/// Returns a request for a built-in model on a named cluster.
/// @param seq_len 0 for convolutional models
/// @throws Error where a name is unknown
planner::PlanRequest RequestFor(const std::string& model,
                                const std::string& cluster,
                                std::int64_t seq_len,
                                std::int64_t global_batch);

/// Returns a request for each built-in model on nodes of eight A100 of 80 GB, and for those up to
/// 30 billion parameters on nodes of eight L4, too: as few nodes, a power of two of them, as hold
/// 20 bytes a parameter; up to 4096 tokens, 16 sequences a device, and 40 seconds a search.
std::vector<planner::PlanRequest> ZooRequests();

/// Returns the best plan, or nothing where none fits or none was found in time.
std::optional<plan::Plan> BestPlan(const planner::PlanRequest& request);

/// Returns the geometric mean. @pre values are positive, and there is one
double GeometricMean(const std::vector<double>& values);

/// Runs a study; an Error is printed. Returns the exit code.
int RunStudy(const std::function<void()>& study);

/// Prints a row of a Markdown table.
void PrintRow(const std::vector<std::string>& cells);

/// Prints the header of a Markdown table.
void PrintHeader(const std::vector<std::string>& cells);

}  // namespace palmist::studies
