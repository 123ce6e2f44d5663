#include "palmist/planner/planner.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>

#include "palmist/base/interrupt.h"
#include "palmist/base/units.h"
#include "palmist/plan/summary.h"
#include "palmist/plan/targets.h"
#include "palmist/planner/evaluator.h"
#include "palmist/planner/full_search.h"
#include "palmist/planner/uniform_search.h"

namespace palmist::planner {
namespace {

std::vector<plan::ClosestMiss> DescribeMiss(const plan::Plan& nearest, const std::string& change) {
  std::vector<plan::ClosestMiss> closest = nearest.closest;
  for (plan::ClosestMiss& miss : closest) miss.change = change;
  return closest;
}

/// Returns whether anything fits, without searching for the best.
bool AnythingFits(const PlanRequest& request, const model::Graph& graph) {
  std::vector<Candidate> candidates;
  try {
    candidates = EnumerateCandidates(request, graph);
  } catch (const Error&) {
    return false;  // what is fixed leaves no layout after the change
  }
  const Evaluator evaluator(request, graph, candidates);
  for (int i = 0; i < static_cast<int>(candidates.size()); ++i) {
    if (evaluator.LeastExcess(i) <= 0) return true;
  }
  return false;
}

/// The cheapest single change after which something fits.
std::string WhatWouldFit(const PlanRequest& request, const model::Graph& graph) {
  std::string changes;
  const auto add = [&](const std::string& change) {
    changes += (changes.empty() ? "" : "; or ") + change;
  };
  if (request.cluster.groups.size() == 1) {
    PlanRequest more = request;
    more.fixed.dp = std::nullopt;
    cluster::NodeGroup& group = more.cluster.groups.front();
    for (int tries = 0; tries < 10; ++tries) {
      group.nodes *= 2;
      more.global_batch = std::max<std::int64_t>(request.global_batch, 1);
      if (more.cluster.num_devices() > 16384 || InterruptRequested()) break;
      if (!AnythingFits(more, graph)) continue;
      add("use " + std::to_string(more.cluster.num_devices()) + " such devices (" +
          std::to_string(group.nodes) + " nodes of " + std::to_string(group.devices_per_node) +
          ")");
      break;
    }
  }
  if (graph.has_sequence && request.seq_len > 128) {
    PlanRequest shorter = request;
    while (shorter.seq_len > 128) {
      shorter.seq_len /= 2;
      if (!AnythingFits(shorter, graph)) continue;
      add("shorten the sequence to " + std::to_string(shorter.seq_len));
      break;
    }
  }
  if (changes.empty()) changes = "use devices with more memory, or a smaller model";
  return changes;
}

/// Names what binds: memory if more of it would help, else the largest share of the time.
std::string DescribeBinding(const plan::Plan& best, double unlimited_s) {
  const plan::Prediction& predicted = *best.predicted;
  const double total = predicted.iteration_time_s;
  const std::size_t fullest = plan::FullestStage(best);
  const plan::MemoryBytes& memory = best.stages[fullest].predicted->memory;
  if (unlimited_s < 0.99 * total) {
    return "memory of stage " + std::to_string(fullest) + " (" +
           FormatPercent(memory.needed() / memory.limit) +
           " of the limit in use): with unlimited memory the iteration would take " +
           FormatSeconds(unlimited_s) + ", " + FormatPercent(1 - unlimited_s / total) + " less";
  }
  const std::vector<plan::TimeShare> shares = plan::SplitTime(predicted);
  const auto largest = std::max_element(
      shares.begin(), shares.end(), [](const plan::TimeShare& a, const plan::TimeShare& b) {
        return a.seconds < b.seconds;
      });
  return std::string(largest->name) + " (" + FormatPercent(largest->seconds / total) +
         " of the iteration); more memory would not help";
}

Pricing PricingBy(const Evaluator& evaluator) {
  return {[&evaluator](int index) { return evaluator.Bound(index); },
          [&evaluator](int index, double cutoff_s, const std::function<bool()>& stop) {
            return evaluator.Evaluate(index, cutoff_s, stop);
          }};
}

std::string StatusName(Outcome outcome, double gap, double wanted) {
  switch (outcome) {
    case Outcome::kOptimal:
      return "optimal";
    case Outcome::kMemoryLimit:
      return gap <= wanted ? "optimal" : "feasible";
    case Outcome::kTimeLimit:
      return gap <= wanted ? "optimal" : "time_limit";
    case Outcome::kInterrupted:
      return "interrupted";
    case Outcome::kInfeasible:
      return "infeasible";
  }
  return {};
}

/// Whether the request's target and fixes leave stages free to differ.
bool MayStagesDiffer(const PlanRequest& request) {
  return (request.target == "none" || request.target == "palmist") &&
         request.fixed.schedule.value_or("1f1b") == "1f1b" && request.max_evaluations == 0;
}

/// Of the progress of a search in two parts, the first one's share.
constexpr double kUniformShare = 0.2;

/// Searches a space for what beats `shortest_s`, or for anything where that is infinite.
FullSearchResult SearchBelow(const PlanRequest& request,
                             const model::Graph& graph,
                             double shortest_s,
                             double bound_s,
                             FullSearchOptions options) {
  if (std::isfinite(shortest_s)) {
    options.cutoff_s = shortest_s;
    return SearchFullSpace(request, graph, options);
  }
  FullSearchResult result;
  for (const double slack : {1.5, 3.0, 6.0, 12.0, 100.0}) {
    options.cutoff_s = bound_s * slack;
    const std::int64_t evaluated = result.evaluated, peak = result.peak_bytes;
    result = SearchFullSpace(request, graph, options);
    result.evaluated += evaluated;
    result.peak_bytes = std::max(result.peak_bytes, peak);
    if (!result.best.empty() || !result.is_complete) break;
  }
  return result;
}

/// The part of a request's space that Mist's artifact searches: small, and often near the best, so
/// that the whole is then searched below a lower cut-off.
PlanRequest Narrowed(const PlanRequest& request) {
  const SpaceRules mist = RulesOf("mist");
  PlanRequest narrow = request;
  SpaceRules& space = narrow.space;
  space.likeness = mist.likeness;
  space.layers_around_mean = std::min(mist.layers_around_mean, space.layers_around_mean);
  space.most_micro_batch = std::min(mist.most_micro_batch, space.most_micro_batch);
  space.power_of_two_micro_batches = true;
  space.sequence_parallel = space.expert_parallel = space.hybrid_zero = false;
  return narrow;
}

/// Searches the full space for what beats `shortest_s`, or for anything where that is infinite.
/// @param left_s seconds that are left
FullSearchResult SearchFull(const PlanRequest& request,
                            const model::Graph& graph,
                            double shortest_s,
                            double bound_s,
                            const std::function<double()>& left_s,
                            const Progress& progress) {
  FullSearchOptions options;
  options.gap = request.gap;
  options.stop = [&] { return InterruptRequested() || left_s() < 0; };
  if (progress) {
    options.progress = [&](double done, double best_s) {
      const double known_s = std::isfinite(shortest_s) ? shortest_s : 0;
      progress(kUniformShare + (1 - kUniformShare) * done, best_s > 0 ? best_s : known_s);
    };
  }
  const bool is_narrow = request.space.likeness <= Likeness::kShape;
  if (is_narrow) return SearchBelow(request, graph, shortest_s, bound_s, options);
  FullSearchOptions first = options;
  first.progress = {};
  // A part of the time, so that most of it is left for the whole.
  constexpr double kShare = 0.25;
  const double until_s = left_s() * (1 - kShare);
  first.stop = [&] { return InterruptRequested() || left_s() < until_s; };
  FullSearchResult narrow = SearchBelow(Narrowed(request), graph, shortest_s, bound_s, first);
  if (!narrow.best.empty()) shortest_s = narrow.best.front().iteration_s;
  FullSearchResult whole = SearchBelow(request, graph, shortest_s, bound_s, options);
  whole.evaluated += narrow.evaluated;
  whole.peak_bytes = std::max(whole.peak_bytes, narrow.peak_bytes);
  if (whole.best.empty()) whole.best = std::move(narrow.best);
  return whole;
}

PlanResult FindBest(const PlanRequest& request, const Progress& progress) {
  const auto start = std::chrono::steady_clock::now();
  PlanResult result;
  const model::Graph graph = model::BuildGraph(request.model.spec);
  const std::vector<Candidate> candidates = EnumerateCandidates(request, graph);
  const Evaluator evaluator(request, graph, candidates);
  const bool is_full = request.space.has_free_stages() && MayStagesDiffer(request);
  Progress of_uniform = progress;
  if (progress && is_full) {
    of_uniform = [&](double done, double best_s) { progress(kUniformShare * done, best_s); };
  }
  UniformSearch state = SearchUniform(request, candidates, PricingBy(evaluator), of_uniform, start);
  result.search = state.summary;
  result.outcome = state.outcome;
  for (const auto& [reason, count] : state.failures) {
    result.notes.push_back(std::to_string(count) + " of " + std::to_string(candidates.size()) +
                           " layouts could not be priced and were left out: " + reason);
  }
  std::vector<plan::Plan> of_full_space;
  if (is_full && state.outcome == Outcome::kOptimal) {
    double shortest_s = std::numeric_limits<double>::infinity(), bound_s = shortest_s;
    if (!state.best.empty()) shortest_s = state.best.front().evaluation.iteration_s;
    for (int i = 0; i < static_cast<int>(candidates.size()); ++i) {
      bound_s = std::min(bound_s, evaluator.Bound(i));
    }
    const auto left_s = [&] {
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      return request.time_limit_s - took.count();
    };
    const FullSearchResult full = SearchFull(request, graph, shortest_s, bound_s, left_s, progress);
    for (const FoundPipeline& found : full.best) {
      plan::Plan plan = MakePlan(request, graph, found);
      if (plan.predicted->fits) of_full_space.push_back(std::move(plan));
    }
    result.search.space = request.space.name;
    result.search_bytes = full.peak_bytes;
    if (full.is_out_of_memory) {
      result.notes.push_back("the search ended at its bound of " +
                             FormatBytes(static_cast<double>(kMaxSearchBytes)) +
                             ": a --space with fewer choices, or a --fix, can be searched whole");
    }
    result.search.candidates += full.evaluated;
    result.search.evaluated += full.evaluated;
    if (!full.is_complete) {
      result.outcome = InterruptRequested()    ? Outcome::kInterrupted
                       : full.is_out_of_memory ? Outcome::kMemoryLimit
                                               : Outcome::kTimeLimit;
    }
    if (!of_full_space.empty()) {
      shortest_s = std::min(shortest_s, of_full_space.front().predicted->iteration_time_s);
    }
    if (std::isfinite(shortest_s)) {
      result.search.lower_bound_s = std::min(full.lower_bound_s, shortest_s);
      result.search.gap = 1 - result.search.lower_bound_s / shortest_s;
    }
  }

  const int idle = request.cluster.num_devices() - candidates.front().devices;
  if (idle > 0) {
    result.notes.push_back(std::to_string(idle) +
                           " devices stay idle: no layout of this batch "
                           "and model uses all of them");
  }
  if (state.best.empty() && of_full_space.empty()) {
    if (state.outcome == Outcome::kOptimal) result.outcome = Outcome::kInfeasible;
    // The candidate nearest to fitting; where some fit and there was no time, the most promising.
    int nearest = 0;
    double least = std::numeric_limits<double>::infinity();
    double bound = std::numeric_limits<double>::infinity(), least_bound = bound;
    for (int i = 0; i < static_cast<int>(candidates.size()); ++i) {
      const double excess = std::max(0.0, evaluator.LeastExcess(i));
      least_bound = std::min(least_bound, evaluator.Bound(i));
      if (std::pair(excess, evaluator.Bound(i)) < std::pair(least, bound)) {
        least = excess;
        bound = evaluator.Bound(i);
        nearest = i;
      }
    }
    result.nearest = evaluator.MakePlan(nearest, evaluator.EvenSplit(nearest));
    if (result.outcome != Outcome::kInfeasible && result.nearest.predicted->fits) {
      // No time to search, but this one fits: an even split is an answer too.
      result.search.lower_bound_s = least_bound;
      result.search.gap = 1 - least_bound / result.nearest.predicted->iteration_time_s;
      result.search.status = StatusName(result.outcome, result.search.gap, request.gap);
      result.nearest.search = result.search;
      result.plans.push_back(std::move(result.nearest));
      return result;
    }
    result.closest = DescribeMiss(result.nearest,
                                  result.outcome == Outcome::kInfeasible
                                      ? WhatWouldFit(request, graph)
                                      : "raise --time-limit or --max-evaluations");
    result.search.status = StatusName(result.outcome, 1, request.gap);
    return result;
  }

  result.search.status = StatusName(result.outcome, result.search.gap, request.gap);
  result.plans = std::move(of_full_space);
  for (const Found& found : state.best) {
    result.plans.push_back(evaluator.MakePlan(found.index, found.evaluation));
  }
  plan::Plan& best = result.plans.front();
  if (best.stages.front().ops.attention == model::Variant::kLean) {
    result.notes.push_back(
        "the plan uses Palmist's lean operators, which other trainers lack: pass "
        "--target to plan for one of them");
  }
  for (std::string& note : plan::Notes(best, graph, request.model.spec)) {
    result.notes.push_back(std::move(note));
  }
  for (const plan::Unsupported& unsupported :
       plan::FindUnsupported(best, plan::ParseTarget(request.target).value())) {
    result.notes.push_back(request.target + " cannot express " + unsupported.field + ": " +
                           unsupported.message + "; " + unsupported.hint);
  }
  double unlimited_s = best.predicted->iteration_time_s;
  if (result.outcome == Outcome::kOptimal && std::isfinite(request.memory_limit)) {
    PlanRequest unlimited = request;
    for (cluster::NodeGroup& group : unlimited.cluster.groups) {
      group.device.memory_bytes = 1e18;
      group.host_memory_bytes = 1e18;
    }
    unlimited.memory_limit = 1.0;
    unlimited.top = 1;
    const Evaluator free_evaluator(unlimited, graph, candidates);
    const UniformSearch free_state =
        SearchUniform(unlimited, candidates, PricingBy(free_evaluator), {}, start);
    if (free_state.outcome == Outcome::kOptimal && !free_state.best.empty()) {
      unlimited_s = free_state.best.front().evaluation.iteration_s;
    }
  }
  result.binding = DescribeBinding(best, unlimited_s);
  result.search.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (plan::Plan& plan : result.plans) plan.search = result.search;
  return result;
}

/// Returns a calibration by which what overlaps takes as long as its parts one after the other.
cluster::Calibration WithoutOverlap(cluster::Calibration calibration) {
  cluster::Interference serial;
  for (unsigned active = 0; active < serial.factor.size(); ++active) {
    for (int i = 0; i < cluster::kNumResources; ++i) {
      if ((active & (1U << i)) != 0) {
        serial.factor[active][static_cast<std::size_t>(i)] = std::popcount(active);
      }
    }
  }
  for (auto& [name, device] : calibration.devices) {
    device.interference = device.interference_inter_node = serial;
  }
  return calibration;
}

}  // namespace

PlanResult FindPlan(const PlanRequest& request, const Progress& progress) {
  if (request.blind == Blindness()) return FindBest(request, progress);
  PlanRequest assumed = request;
  if (request.blind.overlap) assumed.calibration = WithoutOverlap(request.calibration);
  PlanResult result = FindBest(assumed, progress);
  const model::Graph graph = model::BuildGraph(request.model.spec);
  result.search.status = "feasible";
  result.search.lower_bound_s = 0;
  result.search.gap = 1;
  for (plan::Plan& plan : result.plans) {
    cost::Predict(plan, graph, request.calibration, PredictOptionsOf(request));
    plan.search = result.search;
  }
  return result;
}

}  // namespace palmist::planner
