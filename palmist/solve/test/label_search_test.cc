#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "palmist/solve/pipeline_solver.h"
#include "palmist/solve/test/random_pipelines.h"

namespace palmist::solve {
namespace {

struct Case {
  Objective objective;
  std::string schedule;
};

class LabelSearchTest : public testing::TestWithParam<Case> {};

TEST_P(LabelSearchTest, EqualsBruteForce) {
  const auto solver = MakeLabelSearch();
  Rng rng(11, 0);
  int infeasible = 0;
  for (int trial = 0; trial < 300; ++trial) {
    PipelineProblem problem = RandomPipeline(rng, GetParam().schedule);
    problem.objective = GetParam().objective;
    const double best = BruteForce(problem);
    const PipelineSolution solution = solver->Solve(problem);
    ASSERT_EQ(solution.found, std::isfinite(best)) << "trial " << trial;
    if (!solution.found) {
      ++infeasible;
      EXPECT_EQ(solution.outcome, Outcome::kInfeasible);
      EXPECT_EQ(solution.lower_bound_s, problem.cutoff_s);
      continue;
    }
    EXPECT_EQ(solution.outcome, Outcome::kOptimal);
    EXPECT_EQ(solution.lower_bound_s, solution.iteration_s);
    EXPECT_NEAR(solution.iteration_s, best, 1e-9 * best) << "trial " << trial;
    // The split that comes with the number has that number.
    EXPECT_NEAR(PriceOf(problem, solution), solution.iteration_s, 1e-9 * best);
  }
  EXPECT_GT(infeasible, 10);
  EXPECT_LT(infeasible, 150);
}

TEST_P(LabelSearchTest, CutoffHidesLongerSolutionsOnly) {
  const auto solver = MakeLabelSearch();
  Rng rng(12, 0);
  for (int trial = 0; trial < 100; ++trial) {
    PipelineProblem problem = RandomPipeline(rng, GetParam().schedule);
    problem.objective = GetParam().objective;
    const PipelineSolution free = solver->Solve(problem);
    if (!free.found) continue;
    problem.cutoff_s = free.iteration_s;
    const PipelineSolution tight = solver->Solve(problem);
    EXPECT_DOUBLE_EQ(tight.iteration_s, free.iteration_s);
    EXPECT_EQ(tight.first, free.first);
    EXPECT_EQ(tight.tag, free.tag);
    problem.cutoff_s = free.iteration_s * 0.999;
    const PipelineSolution hidden = solver->Solve(problem);
    EXPECT_FALSE(hidden.found);
    EXPECT_EQ(hidden.lower_bound_s, problem.cutoff_s);
  }
}

TEST_P(LabelSearchTest, StopEndsTheSearchWithoutASolution) {
  Rng rng(14, 0);
  for (const int after : {0, 1, 3}) {
    PipelineProblem problem = RandomPipeline(rng, GetParam().schedule);
    problem.objective = GetParam().objective;
    int asked = 0;
    problem.stop = [&] { return asked++ >= after; };
    const PipelineSolution solution = MakeLabelSearch()->Solve(problem);
    EXPECT_FALSE(solution.found);
    EXPECT_TRUE(solution.stopped);
    EXPECT_EQ(solution.outcome, Outcome::kInterrupted);
    EXPECT_EQ(solution.lower_bound_s, 0);
    EXPECT_EQ(asked, after + 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Objectives,
                         LabelSearchTest,
                         testing::Values(Case{Objective::kExact, "1f1b"},
                                         Case{Objective::kExact, "gpipe"},
                                         Case{Objective::kMist, "1f1b"}),
                         [](const auto& test) {
                           return (test.param.objective == Objective::kMist ? "Mist" : "Exact") +
                                  test.param.schedule;
                         });

TEST(LabelSearchEdgeTest, NoOptionIsNoSolution) {
  PipelineProblem problem;
  problem.layers = 3;
  problem.stages = 2;
  problem.options = [](int, int, int) { return std::vector<StageOption>(); };
  EXPECT_FALSE(MakeLabelSearch()->Solve(problem).found);
}

// Options that tie in everything: the first of them is taken, and the split that was found first.
TEST(LabelSearchEdgeTest, AmongEqualsTheFirstStays) {
  for (const Objective objective : {Objective::kExact, Objective::kMist}) {
    PipelineProblem problem;
    problem.layers = 6;
    problem.stages = 3;
    problem.micro_batches = 4;
    problem.objective = objective;
    problem.options = [](int, int first, int last) {
      const double t = last - first + 1;
      return std::vector<StageOption>{{{t, t, 0, 0}, 0, 7}, {{t, t, 0, 0}, 0, 8}};
    };
    const PipelineSolution solution = MakeLabelSearch()->Solve(problem);
    EXPECT_EQ(solution.first, (std::vector<int>{0, 2, 4}));
    EXPECT_EQ(solution.tag, (std::vector<int>{7, 7, 7}));
  }
}

TEST(MistIterationSecondsTest, WorkedByHand) {
  // t = 3, 5, 2; d = 1, 9, 4: (4 - 1) 5 + 10 + max(1, 9 - 3, 4 - 8).
  const std::vector<schedule::StagePoint> stages = {{1, 2, 0.5, 0.5}, {2, 3, 4, 5}, {1, 1, 4, 0}};
  EXPECT_DOUBLE_EQ(MistIterationSeconds(stages, 4), 31);
  PipelineProblem problem;
  problem.stages = 3;
  problem.micro_batches = 4;
  problem.objective = Objective::kMist;
  EXPECT_DOUBLE_EQ(
      ObjectiveSeconds(problem,
                       std::vector<StageOption>{{stages[0], 1, 0}, {stages[1]}, {stages[2]}}),
      32);
}

}  // namespace
}  // namespace palmist::solve
