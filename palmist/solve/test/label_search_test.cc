#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "palmist/base/rng.h"
#include "palmist/solve/frontier.h"
#include "palmist/solve/pipeline_solver.h"

namespace palmist::solve {
namespace {

/// Tries every split and every option; the reference.
double BruteForce(const PipelineProblem& problem) {
  double best = std::numeric_limits<double>::infinity();
  std::vector<schedule::StagePoint> points;
  const std::function<void(int, int, double)> place = [&](int stage, int first, double tail) {
    if (stage == problem.stages) {
      if (first < problem.layers) return;
      best = std::min(
          best, schedule::IterationSeconds(problem.schedule, points, problem.micro_batches) + tail);
      return;
    }
    for (int last = first; last < problem.layers; ++last) {
      for (const StageOption& option : problem.options(stage, first, last)) {
        points.push_back(option.point);
        place(stage + 1, last + 1, std::max(tail, option.tail_s));
        points.pop_back();
      }
    }
  };
  place(0, 0, 0);
  return best;
}

/// A random pipeline: layers of their own cost, two options a stage (fast and long, slow and
/// short extras), some infeasible.
PipelineProblem RandomProblem(Rng& rng, std::string_view schedule) {
  PipelineProblem problem;
  problem.layers = static_cast<int>(2 + rng.Integer(6));
  problem.stages = static_cast<int>(1 + rng.Integer(std::min(problem.layers, 4)));
  problem.micro_batches = static_cast<int>(1 + rng.Integer(12));
  problem.schedule = schedule;
  std::vector<double> cost;
  for (int i = 0; i < problem.layers; ++i) cost.push_back(0.5 + rng.Uniform());
  const double extra = 4 * rng.Uniform(), longest = 1.5 + 3 * rng.Uniform();
  problem.options = [cost, extra, longest](int stage, int first, int last) {
    double sum = 0.1 * stage;
    for (int i = first; i <= last; ++i) sum += cost[static_cast<std::size_t>(i)];
    std::vector<StageOption> options;
    if (sum < longest) options.push_back({{sum, 2 * sum, extra, 0.3 * extra}, 0.2 * sum, 0});
    options.push_back({{1.1 * sum, 2.2 * sum, 0.1, extra / (1 + stage)}, 0.1, 1});
    return options;
  };
  return problem;
}

TEST(LabelSearchTest, EqualsBruteForce) {
  const auto solver = MakeLabelSearch();
  Rng rng(11, 0);
  for (int trial = 0; trial < 400; ++trial) {
    const PipelineProblem problem = RandomProblem(rng, trial % 4 == 3 ? "gpipe" : "1f1b");
    const PipelineSolution solution = solver->Solve(problem);
    ASSERT_TRUE(solution.found);
    EXPECT_NEAR(solution.iteration_s, BruteForce(problem), 1e-9) << "trial " << trial;
    // The split that comes with the number has that number.
    std::vector<schedule::StagePoint> points;
    double tail = 0;
    for (int i = 0; i < problem.stages; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const int last = i + 1 < problem.stages ? solution.first[at + 1] - 1 : problem.layers - 1;
      for (const StageOption& option : problem.options(i, solution.first[at], last)) {
        if (option.tag != solution.tag[at]) continue;
        points.push_back(option.point);
        tail = std::max(tail, option.tail_s);
      }
    }
    EXPECT_NEAR(schedule::IterationSeconds(problem.schedule, points, problem.micro_batches) + tail,
                solution.iteration_s,
                1e-9);
  }
}

TEST(LabelSearchTest, CutoffHidesLongerSolutionsOnly) {
  const auto solver = MakeLabelSearch();
  Rng rng(12, 0);
  for (int trial = 0; trial < 100; ++trial) {
    PipelineProblem problem = RandomProblem(rng, "1f1b");
    const double best = solver->Solve(problem).iteration_s;
    problem.cutoff_s = best;
    EXPECT_DOUBLE_EQ(solver->Solve(problem).iteration_s, best);
    problem.cutoff_s = best * 0.999;
    EXPECT_FALSE(solver->Solve(problem).found);
  }
}

TEST(LabelSearchTest, NoOptionIsNoSolution) {
  PipelineProblem problem;
  problem.layers = 3;
  problem.stages = 2;
  problem.options = [](int, int, int) { return std::vector<StageOption>(); };
  EXPECT_FALSE(MakeLabelSearch()->Solve(problem).found);
}

TEST(ParetoFrontierTest, KeepsExactlyTheUndominatedPoints) {
  Rng rng(13, 0);
  ParetoFrontier<3, int> frontier;
  std::vector<std::array<double, 3>> all;
  for (int i = 0; i < 300; ++i) {
    all.push_back({rng.Uniform(), rng.Uniform(), rng.Uniform()});
    frontier.Insert(all.back(), i);
  }
  std::size_t undominated = 0;
  for (const auto& point : all) {
    undominated += std::none_of(all.begin(), all.end(), [&](const auto& other) {
      return other != point && other[0] <= point[0] && other[1] <= point[1] && other[2] <= point[2];
    });
  }
  EXPECT_EQ(frontier.points().size(), undominated);
}

}  // namespace
}  // namespace palmist::solve
