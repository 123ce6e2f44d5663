#include "palmist/planner/planner.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <tuple>

#include "palmist/base/interrupt.h"
#include "palmist/base/thread_pool.h"
#include "palmist/base/units.h"
#include "palmist/plan/summary.h"
#include "palmist/plan/targets.h"
#include "palmist/planner/evaluator.h"
#include "palmist/planner/full_search.h"

namespace palmist::planner {
namespace {

/// Candidates evaluated between two looks at the clock and the gap. Fixed, so that a stop by gap
/// is the same for every number of threads.
constexpr int kRound = 32;

/// How much longer than the best plan an alternative may take.
constexpr double kWorstAlternative = 4;

/// Plans of the same key differ in details only; alternatives have other keys.
using LayoutKey = std::tuple<int, int, int, int>;

LayoutKey KeyOf(const Candidate& candidate) {
  return {candidate.stages, candidate.layout.tp, candidate.layout.dp, candidate.layout.ep};
}

struct Found {
  int index = 0;
  Evaluation evaluation;
};

bool Better(const Found& a, const Found& b) {
  return std::tie(a.evaluation.iteration_s, a.index) < std::tie(b.evaluation.iteration_s, b.index);
}

/// The best of each layout, shortest first.
class Best {
 public:
  explicit Best(int count) : count_(count) {}

  void Add(const LayoutKey& key, Found found) {
    const auto [at, added] = by_key_.emplace(key, found);
    if (!added && Better(found, at->second)) at->second = std::move(found);
  }

  std::vector<Found> Sorted() const {
    std::vector<Found> sorted;
    for (const auto& [key, found] : by_key_) sorted.push_back(found);
    std::sort(sorted.begin(), sorted.end(), Better);
    if (static_cast<int>(sorted.size()) > count_) sorted.resize(static_cast<std::size_t>(count_));
    return sorted;
  }

  /// What a plan must beat to be among those returned.
  double Threshold() const {
    const std::vector<Found> sorted = Sorted();
    return static_cast<int>(sorted.size()) < count_ ? std::numeric_limits<double>::infinity()
                                                    : sorted.back().evaluation.iteration_s;
  }

 private:
  int count_;
  std::map<LayoutKey, Found> by_key_;
};

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

struct SearchState {
  std::vector<Found> best;
  plan::SearchSummary summary;
  Outcome outcome = Outcome::kOptimal;
};

SearchState Search(const PlanRequest& request,
                   const Evaluator& evaluator,
                   const std::vector<Candidate>& candidates,
                   const Progress& progress,
                   std::chrono::steady_clock::time_point start) {
  SearchState state;
  const int count = static_cast<int>(candidates.size());
  std::vector<double> bounds(candidates.size());
  ParallelFor(count, request.threads, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      bounds[static_cast<std::size_t>(i)] = evaluator.Bound(static_cast<int>(i));
    }
  });
  std::vector<int> order(candidates.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return bounds[static_cast<std::size_t>(a)] < bounds[static_cast<std::size_t>(b)];
  });

  std::set<LayoutKey> keys;
  for (const Candidate& candidate : candidates) keys.insert(KeyOf(candidate));
  Best best(std::min(request.top, static_cast<int>(keys.size())));
  double shortest = std::numeric_limits<double>::infinity();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  // Long evaluations look at the clock too; what stops by gap or proof never gets that far.
  const std::function<bool()> stop = [&] {
    return InterruptRequested() || elapsed() > request.time_limit_s;
  };
  int done = 0;
  while (done < count) {
    const double next_bound =
        bounds[static_cast<std::size_t>(order[static_cast<std::size_t>(done)])];
    // An alternative that takes several times as long is none.
    const double threshold = std::min(best.Threshold(), kWorstAlternative * shortest);
    if (next_bound > threshold) break;  // nothing left can be among the plans returned
    // Nothing left can be better by more than the gap, and the alternatives are there.
    if (std::isfinite(best.Threshold()) && next_bound >= shortest * (1 - request.gap)) break;
    if (InterruptRequested()) {
      state.outcome = Outcome::kInterrupted;
      break;
    }
    if ((request.max_evaluations > 0 && state.summary.evaluated >= request.max_evaluations) ||
        elapsed() > request.time_limit_s) {
      state.outcome = Outcome::kTimeLimit;
      break;
    }
    const int round = std::min(kRound, count - done);
    bool stopped = false;
    std::vector<Evaluation> evaluations(static_cast<std::size_t>(round));
    ParallelFor(round, request.threads, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        evaluations[static_cast<std::size_t>(i)] =
            evaluator.Evaluate(order[static_cast<std::size_t>(done + i)], threshold, stop);
      }
    });
    for (int i = 0; i < round; ++i) {
      Evaluation& evaluation = evaluations[static_cast<std::size_t>(i)];
      if (evaluation.stopped) stopped = true;
      if (!evaluation.stopped) ++state.summary.evaluated;
      if (!evaluation.fits) continue;
      const int index = order[static_cast<std::size_t>(done) + static_cast<std::size_t>(i)];
      shortest = std::min(shortest, evaluation.iteration_s);
      best.Add(KeyOf(candidates[static_cast<std::size_t>(index)]), {index, std::move(evaluation)});
    }
    if (stopped) {
      state.outcome = InterruptRequested() ? Outcome::kInterrupted : Outcome::kTimeLimit;
      break;  // `done` stays: the bound must hold for what was cut off
    }
    done += round;
    if (progress) {
      progress(static_cast<double>(done) / count, std::isinf(shortest) ? 0 : shortest);
    }
  }
  state.best = best.Sorted();
  state.summary.candidates = count;
  state.summary.pruned = count - state.summary.evaluated;
  state.summary.space = request.space.has_free_stages() ? "uniform" : request.space.name;
  if (!state.best.empty()) {
    // What was not evaluated is no better than the next bound.
    const double left =
        done < count ? bounds[static_cast<std::size_t>(order[static_cast<std::size_t>(done)])]
                     : std::numeric_limits<double>::infinity();
    state.summary.lower_bound_s = std::min(shortest, left);
    state.summary.gap = 1 - state.summary.lower_bound_s / shortest;
  }
  state.summary.seconds = elapsed();
  return state;
}

std::string StatusName(Outcome outcome, double gap, double wanted) {
  switch (outcome) {
    case Outcome::kOptimal:
      return "optimal";
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

/// Searches the full space for what beats `shortest_s`, or for anything where that is infinite.
FullSearchResult SearchFull(const PlanRequest& request,
                            const model::Graph& graph,
                            double shortest_s,
                            double bound_s,
                            const std::function<bool()>& stop) {
  FullSearchOptions options;
  options.gap = request.gap;
  options.stop = stop;
  if (std::isfinite(shortest_s)) {
    options.cutoff_s = shortest_s;
    return SearchFullSpace(request, graph, options);
  }
  FullSearchResult result;
  for (const double slack : {1.5, 3.0, 6.0, 12.0, 100.0}) {
    options.cutoff_s = bound_s * slack;
    const std::int64_t evaluated = result.evaluated;
    result = SearchFullSpace(request, graph, options);
    result.evaluated += evaluated;
    if (!result.best.empty() || !result.is_complete) break;
  }
  return result;
}

}  // namespace

namespace {

PlanResult FindBest(const PlanRequest& request, const Progress& progress) {
  const auto start = std::chrono::steady_clock::now();
  PlanResult result;
  const model::Graph graph = model::BuildGraph(request.model.spec);
  const std::vector<Candidate> candidates = EnumerateCandidates(request, graph);
  const Evaluator evaluator(request, graph, candidates);
  SearchState state = Search(request, evaluator, candidates, progress, start);
  result.search = state.summary;
  result.outcome = state.outcome;
  std::vector<plan::Plan> of_full_space;
  if (request.space.has_free_stages() && MayStagesDiffer(request) &&
      state.outcome == Outcome::kOptimal) {
    double shortest_s = std::numeric_limits<double>::infinity(), bound_s = shortest_s;
    if (!state.best.empty()) shortest_s = state.best.front().evaluation.iteration_s;
    for (int i = 0; i < static_cast<int>(candidates.size()); ++i) {
      bound_s = std::min(bound_s, evaluator.Bound(i));
    }
    const auto stop = [&] {
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      return InterruptRequested() || took.count() > request.time_limit_s;
    };
    const FullSearchResult full = SearchFull(request, graph, shortest_s, bound_s, stop);
    for (const FoundPipeline& found : full.best) {
      of_full_space.push_back(MakePlan(request, graph, found));
    }
    result.search.space = request.space.name;
    result.search.candidates += full.evaluated;
    result.search.evaluated += full.evaluated;
    if (!full.is_complete) {
      result.outcome = InterruptRequested() ? Outcome::kInterrupted : Outcome::kTimeLimit;
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
    const SearchState free_state = Search(unlimited, free_evaluator, candidates, {}, start);
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
