/// Random small pipelines, and the reference that tries every split with every option.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "palmist/base/rng.h"
#include "palmist/solve/pipeline_solver.h"

namespace palmist::solve {

/// Returns Mist's iteration time, written anew from the paper's formula.
inline double MistReference(std::span<const schedule::StagePoint> stages, int micro_batches) {
  double total = 0, longest = 0, exposed = 0;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    double before = 0;
    for (std::size_t j = 0; j < i; ++j) before += stages[j].forward_s + stages[j].backward_s;
    const double t = stages[i].forward_s + stages[i].backward_s;
    total += t;
    longest = std::max(longest, t);
    exposed = std::max(exposed, stages[i].first_extra_s + stages[i].last_extra_s - before);
  }
  return micro_batches * longest - longest + total + exposed;
}

/// Returns the seconds of a pipeline under the problem's objective, the longest tail included.
inline double Price(const PipelineProblem& problem, const std::vector<StageOption>& stages) {
  std::vector<schedule::StagePoint> points;
  double tail = 0;
  for (const StageOption& stage : stages) {
    points.push_back(stage.point);
    tail = std::max(tail, stage.tail_s);
  }
  return tail + (problem.objective == Objective::kMist
                     ? MistReference(points, problem.micro_batches)
                     : schedule::IterationSeconds(problem.schedule, points, problem.micro_batches));
}

/// Returns the shortest iteration of all splits and options, infinity where there is none.
inline double BruteForce(const PipelineProblem& problem) {
  double best = std::numeric_limits<double>::infinity();
  std::vector<StageOption> stages;
  const std::function<void(int, int)> place = [&](int stage, int first) {
    if (stage == problem.stages) {
      if (first == problem.layers) best = std::min(best, Price(problem, stages));
      return;
    }
    const int left = problem.stages - stage - 1;
    for (int last = left == 0 ? problem.layers - 1 : first; last < problem.layers - left; ++last) {
      for (const StageOption& option : problem.options(stage, first, last)) {
        stages.push_back(option);
        place(stage + 1, last + 1);
        stages.pop_back();
      }
    }
  };
  place(0, 0);
  return best;
}

/// Returns the price of the split that a solution names; NaN where it is no split of the problem.
inline double PriceOf(const PipelineProblem& problem, const PipelineSolution& solution) {
  std::vector<StageOption> stages;
  const auto count = static_cast<std::size_t>(problem.stages);
  if (solution.first.size() != count || solution.tag.size() != count || solution.first[0] != 0) {
    return std::nan("");
  }
  for (std::size_t i = 0; i < count; ++i) {
    const int last = i + 1 < count ? solution.first[i + 1] - 1 : problem.layers - 1;
    for (const StageOption& option :
         problem.options(static_cast<int>(i), solution.first[i], last)) {
      if (option.tag == solution.tag[i]) stages.push_back(option);
    }
    if (stages.size() != i + 1) return std::nan("");
  }
  return Price(problem, stages);
}

/// A pipeline of 2 to 5 stages and 4 to 10 layers with 1 to 6 options for each stage and range:
/// faster ones with longer extras among others that are just worse. Ranges that are too long for
/// their stage have no option, so that some problems have no solution.
/// `scale_s` is about the time of a layer.
inline PipelineProblem RandomPipeline(Rng& rng, std::string_view schedule, double scale_s = 1) {
  PipelineProblem problem;
  problem.stages = static_cast<int>(2 + rng.Integer(4));
  problem.layers = static_cast<int>(std::max<std::int64_t>(problem.stages, 4) + rng.Integer(7));
  problem.layers = std::min(problem.layers, 10);
  problem.micro_batches = static_cast<int>(1 + rng.Integer(16));
  problem.schedule = schedule;
  std::vector<double> cost;
  for (int i = 0; i < problem.layers; ++i) cost.push_back(scale_s * (0.5 + rng.Uniform()));
  // Mostly roomy, now and then less than an even share.
  const double longest = problem.layers * scale_s / problem.stages * (0.8 + 1.6 * rng.Uniform());
  const double extra = 4 * scale_s * rng.Uniform();
  const auto most = static_cast<int>(1 + rng.Integer(6));
  using Key = std::tuple<int, int, int>;
  auto table = std::make_shared<std::map<Key, std::vector<StageOption>>>();
  for (int stage = 0; stage < problem.stages; ++stage) {
    for (int first = 0; first < problem.layers; ++first) {
      double sum = 0.1 * stage * scale_s;
      for (int last = first; last < problem.layers; ++last) {
        sum += cost[static_cast<std::size_t>(last)];
        std::vector<StageOption>& options = (*table)[{stage, first, last}];
        if (sum > longest) continue;
        for (int o = 0; o < most; ++o) {
          const double slow = 1 + 0.15 * o + 0.1 * rng.Uniform();
          options.push_back({{slow * sum * (0.3 + 0.05 * rng.Uniform()),
                              slow * sum * 0.65,
                              extra * rng.Uniform() / (1 + o),
                              extra * rng.Uniform() / (1 + o)},
                             0.2 * scale_s * rng.Uniform(),
                             o});
        }
      }
    }
  }
  problem.options = [table](int stage, int first, int last) {
    return table->at({stage, first, last});
  };
  return problem;
}

}  // namespace palmist::solve
