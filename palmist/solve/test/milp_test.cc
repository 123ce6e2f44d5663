#include "palmist/solve/milp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "palmist/solve/test/random_pipelines.h"

namespace palmist::solve {
namespace {

PipelineProblem MistPipeline(Rng& rng) {
  PipelineProblem problem = RandomPipeline(rng, "1f1b");
  problem.objective = Objective::kMist;
  return problem;
}

/// How often options are asked for before HiGHS starts: stage and first layer.
constexpr int kAskedBefore = 1 + 3 * 21;

/// One that HiGHS needs seconds for, so that it can be stopped before it has the proof.
PipelineProblem LongPipeline() {
  PipelineProblem problem;
  problem.stages = 4;
  problem.layers = 24;
  problem.micro_batches = 16;
  problem.objective = Objective::kMist;
  problem.options = [](int stage, int first, int last) {
    std::vector<StageOption> options;
    for (int o = 0; o < 4; ++o) {
      Rng rng(7, static_cast<std::uint64_t>(((stage * 50 + first) * 50 + last) * 8 + o));
      const double t = (last - first + 1) * (1 + 0.1 * o + 0.3 * rng.Uniform());
      options.push_back({{t / 3, 2 * t / 3, 20 * rng.Uniform() / (1 + o), 0}, 0, o});
    }
    return options;
  };
  return problem;
}

class MilpTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!solver->available()) GTEST_SKIP() << "this build has no HiGHS";
  }
  const std::unique_ptr<MilpSolver> solver = MakeMilpSolver();
};

TEST(MilpSeamTest, ABuildWithoutHighsSaysSo) {
  const auto solver = MakeMilpSolver();
  EXPECT_EQ(solver->name(), "highs");
  if (solver->available()) return;
  Rng rng(1, 0);
  const auto result = solver->Solve(MistPipeline(rng), {});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind(), ErrorKind::kUnavailable);
}

TEST_F(MilpTest, CutoffHidesLongerSolutionsOnly) {
  Rng rng(22, 0);
  for (int trial = 0; trial < 40; ++trial) {
    PipelineProblem problem = MistPipeline(rng);
    const double best = BruteForce(problem);
    if (!std::isfinite(best)) continue;
    problem.cutoff_s = best;
    const PipelineSolution tight = solver->Solve(problem, {}).value();
    ASSERT_TRUE(tight.found) << "trial " << trial;
    EXPECT_NEAR(tight.iteration_s, best, 1e-9 * best);
    problem.cutoff_s = best * 0.999;
    const PipelineSolution hidden = solver->Solve(problem, {}).value();
    EXPECT_FALSE(hidden.found) << "trial " << trial;
    EXPECT_EQ(hidden.outcome, Outcome::kInfeasible);
    EXPECT_EQ(hidden.lower_bound_s, problem.cutoff_s);
  }
}

TEST_F(MilpTest, AGapIsKept) {
  Rng rng(23, 0);
  for (int trial = 0; trial < 20; ++trial) {
    const PipelineProblem problem = MistPipeline(rng);
    const double best = BruteForce(problem);
    if (!std::isfinite(best)) continue;
    const PipelineSolution solution = solver->Solve(problem, {.gap = 0.05}).value();
    ASSERT_EQ(solution.outcome, Outcome::kOptimal);
    EXPECT_LE(solution.iteration_s, best / (1 - 0.05) * (1 + 1e-9));
    EXPECT_LE(solution.lower_bound_s, best * (1 + 1e-9));
    EXPECT_GE(solution.lower_bound_s, solution.iteration_s * (1 - 0.05) * (1 - 1e-9));
  }
}

TEST_F(MilpTest, NoTimeIsATimeLimit) {
  Rng rng(24, 0);
  const PipelineSolution solution = solver->Solve(MistPipeline(rng), {.time_limit_s = 0}).value();
  EXPECT_EQ(solution.outcome, Outcome::kTimeLimit);
  EXPECT_FALSE(solution.found);
  EXPECT_FALSE(solution.stopped);
  EXPECT_EQ(solution.lower_bound_s, 0);
}

// The proof of this one takes much longer than the limit.
TEST_F(MilpTest, LittleTimeIsATimeLimitWithHonestBounds) {
  const PipelineProblem problem = LongPipeline();
  const PipelineSolution solution = solver->Solve(problem, {.time_limit_s = 0.1}).value();
  ASSERT_EQ(solution.outcome, Outcome::kTimeLimit);
  const PipelineSolution exact = MakeLabelSearch()->Solve(problem);
  EXPECT_LE(solution.lower_bound_s, exact.iteration_s * (1 + 1e-9));
  if (solution.found) {
    EXPECT_GE(solution.iteration_s, exact.iteration_s * (1 - 1e-9));
    EXPECT_NEAR(PriceOf(problem, solution), solution.iteration_s, 1e-9 * exact.iteration_s);
  }
}

TEST_F(MilpTest, StopInterrupts) {
  PipelineProblem problem = LongPipeline();
  // While options are asked for, then within the solver.
  for (const int after : {0, 20, kAskedBefore}) {
    int asked = 0;
    problem.stop = [&] { return asked++ >= after; };
    const PipelineSolution solution = solver->Solve(problem, {}).value();
    EXPECT_EQ(solution.outcome, Outcome::kInterrupted) << after;
    EXPECT_TRUE(solution.stopped);
    EXPECT_FALSE(after < kAskedBefore && solution.found);
  }
}

TEST_F(MilpTest, WhatStopThrowsComesOut) {
  PipelineProblem problem = LongPipeline();
  int asked = 0;
  problem.stop = [&]() -> bool {
    if (asked++ >= kAskedBefore) throw std::runtime_error("stop");
    return false;
  };
  EXPECT_THROW(static_cast<void>(solver->Solve(problem, {})), std::runtime_error);
}

TEST_F(MilpTest, TheSameEachTime) {
  Rng rng(25, 0);
  for (int trial = 0; trial < 8; ++trial) {
    const PipelineProblem problem = MistPipeline(rng);
    const PipelineSolution once = solver->Solve(problem, {}).value();
    const PipelineSolution again = solver->Solve(problem, {}).value();
    EXPECT_EQ(once.first, again.first);
    EXPECT_EQ(once.tag, again.tag);
    EXPECT_EQ(once.iteration_s, again.iteration_s);
    EXPECT_EQ(once.lower_bound_s, again.lower_bound_s);
    // Another number of threads, one call after another, finds a split that is as short.
    const PipelineSolution threaded = solver->Solve(problem, {.threads = 2}).value();
    EXPECT_EQ(threaded.found, once.found);
    EXPECT_NEAR(threaded.iteration_s, once.iteration_s, 1e-9 * once.iteration_s);
  }
}

TEST_F(MilpTest, BadArgumentsAreErrors) {
  Rng rng(26, 0);
  PipelineProblem problem = MistPipeline(rng);
  const auto kind = [&](const MilpOptions& options) {
    const auto result = solver->Solve(problem, options);
    return result.ok() ? ErrorKind::kInternal : result.error().kind();
  };
  EXPECT_EQ(kind({.time_limit_s = -1}), ErrorKind::kUsage);
  EXPECT_EQ(kind({.time_limit_s = std::nan("")}), ErrorKind::kUsage);
  EXPECT_EQ(kind({.threads = 0}), ErrorKind::kUsage);
  EXPECT_EQ(kind({.gap = -0.1}), ErrorKind::kUsage);
  problem.objective = Objective::kExact;
  EXPECT_EQ(kind({}), ErrorKind::kUsage);
  problem.objective = Objective::kMist;
  problem.options = [](int, int, int) {
    return std::vector<StageOption>{{{1, std::nan(""), 0, 0}, 0, 0}};
  };
  EXPECT_EQ(kind({}), ErrorKind::kInput);
}

TEST_F(MilpTest, NoOptionIsInfeasible) {
  PipelineProblem problem;
  problem.layers = 3;
  problem.stages = 2;
  problem.objective = Objective::kMist;
  problem.options = [](int, int, int) { return std::vector<StageOption>(); };
  EXPECT_EQ(solver->Solve(problem, {}).value().outcome, Outcome::kInfeasible);
}

TEST_F(MilpTest, OneStageAndNoTime) {
  PipelineProblem problem;
  problem.layers = 3;
  problem.objective = Objective::kMist;
  problem.options = [](int, int, int) {
    return std::vector<StageOption>{{{0, 0, 2, 1}, 1, 4}, {{0, 0, 1, 1}, 0.5, 5}};
  };
  const PipelineSolution solution = solver->Solve(problem, {}).value();
  ASSERT_TRUE(solution.found);
  EXPECT_EQ(solution.tag, std::vector<int>{5});
  EXPECT_DOUBLE_EQ(solution.iteration_s, 2.5);
}

}  // namespace
}  // namespace palmist::solve
