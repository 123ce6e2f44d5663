#include "palmist/planner/uniform_search.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "palmist/base/interrupt.h"
#include "palmist/base/thread_pool.h"

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

}  // namespace

UniformSearch SearchUniform(const PlanRequest& request,
                            const std::vector<Candidate>& candidates,
                            const Pricing& pricing,
                            const Progress& progress,
                            std::chrono::steady_clock::time_point start) {
  UniformSearch state;
  const int count = static_cast<int>(candidates.size());
  std::vector<double> bounds(candidates.size());
  ParallelFor(count, request.threads, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      bounds[static_cast<std::size_t>(i)] = pricing.bound(static_cast<int>(i));
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
    std::vector<std::string> failures(static_cast<std::size_t>(round));
    ParallelFor(round, request.threads, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto at = static_cast<std::size_t>(i);
        // One that cannot be priced does not end the search.
        try {
          evaluations[at] =
              pricing.evaluate(order[static_cast<std::size_t>(done + i)], threshold, stop);
        } catch (const Error& error) {
          failures[at] = error.what();
        }
      }
    });
    for (int i = 0; i < round; ++i) {
      Evaluation& evaluation = evaluations[static_cast<std::size_t>(i)];
      const std::string& failure = failures[static_cast<std::size_t>(i)];
      if (!failure.empty()) ++state.failures[failure];
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

}  // namespace palmist::planner
