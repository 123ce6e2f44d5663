// Label search, MILP and brute force must agree under Mist's objective.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "palmist/solve/milp.h"
#include "palmist/solve/test/random_pipelines.h"

namespace palmist::solve {
namespace {

TEST(MilpEqualityTest, EqualsLabelSearchAndBruteForce) {
  const auto solver = MakeMilpSolver();
  if (!solver->available()) GTEST_SKIP() << "this build has no HiGHS";
  const auto label = MakeLabelSearch();
  Rng rng(21, 0);
  int infeasible = 0;
  for (int trial = 0; trial < 240; ++trial) {
    // From microseconds to minutes a layer.
    const double scale_s = std::array{1.0, 1e-6, 3e-3, 100.0}[static_cast<std::size_t>(trial % 4)];
    PipelineProblem problem = RandomPipeline(rng, "1f1b", scale_s);
    problem.objective = Objective::kMist;
    const double best = BruteForce(problem);
    const Result<PipelineSolution> result = solver->Solve(problem, {});
    ASSERT_TRUE(result.ok()) << "trial " << trial << ": " << result.error().what();
    ASSERT_EQ(result->found, std::isfinite(best)) << "trial " << trial;
    const PipelineSolution by_label = label->Solve(problem);
    EXPECT_EQ(result->outcome, by_label.outcome);
    if (!result->found) {
      ++infeasible;
      EXPECT_EQ(result->lower_bound_s, problem.cutoff_s);
      continue;
    }
    EXPECT_NEAR(result->iteration_s, best, 1e-9 * best) << "trial " << trial;
    EXPECT_NEAR(result->iteration_s, by_label.iteration_s, 1e-9 * best) << "trial " << trial;
    EXPECT_NEAR(PriceOf(problem, *result), result->iteration_s, 1e-9 * best);
    EXPECT_NEAR(result->lower_bound_s, result->iteration_s, 1e-7 * best);
    EXPECT_LE(result->lower_bound_s, result->iteration_s);
  }
  EXPECT_GT(infeasible, 10);
  EXPECT_LT(infeasible, 120);
}

}  // namespace
}  // namespace palmist::solve
