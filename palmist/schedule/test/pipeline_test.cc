#include "palmist/schedule/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "palmist/base/error.h"
#include "palmist/base/rng.h"

namespace palmist::schedule {
namespace {

struct Work {
  char kind;  // 'F' or 'B'
  int micro_batch;
};

/// The order in which a stage works through its micro-batches.
std::vector<Work> Order(std::string_view schedule, int stages, int stage, int g) {
  std::vector<Work> order;
  int forwards = std::min(InFlight(schedule, stages, stage, g), g), backwards = 0;
  if (schedule == "gpipe") forwards = g;
  for (int k = 0; k < forwards; ++k) order.push_back({'F', k});
  while (backwards < g) {
    if (forwards < g) order.push_back({'F', forwards++});
    order.push_back({'B', backwards++});
  }
  return order;
}

/// Plays a schedule event by event: the reference the closed forms are held against.
double Simulate(std::string_view schedule, const std::vector<StagePoint>& stages, int g) {
  const int count = static_cast<int>(stages.size());
  std::map<std::tuple<char, int, int>, double> done;
  std::vector<double> clock;
  std::vector<std::vector<Work>> orders;
  std::vector<std::size_t> next(stages.size(), 0);
  for (int i = 0; i < count; ++i) {
    clock.push_back(stages[static_cast<std::size_t>(i)].first_extra_s);
    orders.push_back(Order(schedule, count, i, g));
  }
  for (bool progress = true; progress;) {
    progress = false;
    for (int i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      while (next[at] < orders[at].size()) {
        const Work work = orders[at][next[at]];
        double ready = 0;
        if (work.kind == 'F' ? i > 0 : true) {
          const std::tuple<char, int, int> need =
              work.kind == 'F' ? std::tuple{'F', i - 1, work.micro_batch}
              : i + 1 < count  ? std::tuple{'B', i + 1, work.micro_batch}
                               : std::tuple{'F', i, work.micro_batch};
          const auto found = done.find(need);
          if (found == done.end()) break;
          ready = found->second;
        }
        clock[at] = std::max(clock[at], ready) +
                    (work.kind == 'F' ? stages[at].forward_s : stages[at].backward_s);
        done[{work.kind, i, work.micro_batch}] = clock[at];
        ++next[at];
        progress = true;
      }
    }
  }
  double end = 0;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    end = std::max(end, clock[i] + stages[i].last_extra_s);
  }
  return end;
}

std::vector<StagePoint> RandomStages(Rng& rng, double imbalance, bool extras) {
  constexpr int kCounts[] = {1, 2, 3, 4, 6, 8};
  std::vector<StagePoint> stages(static_cast<std::size_t>(kCounts[rng.Integer(6)]));
  for (StagePoint& stage : stages) {
    stage.forward_s = 1 + imbalance * (2 * rng.Uniform() - 1);
    stage.backward_s = 2 * (1 + imbalance * (2 * rng.Uniform() - 1));
    if (extras) {
      stage.first_extra_s = 12 * rng.Uniform();
      stage.last_extra_s = 12 * rng.Uniform();
    }
  }
  return stages;
}

TEST(PipelineTest, OneForwardOneBackwardEqualsTheSimulation) {
  Rng rng(1, 0);
  constexpr int kMicroBatches[] = {1, 2, 4, 8, 16, 64};
  for (int trial = 0; trial < 1500; ++trial) {
    const std::vector<StagePoint> stages = RandomStages(rng, 0.2, trial % 2 == 1);
    const int g = kMicroBatches[rng.Integer(6)];
    const double expected = Simulate("1f1b", stages, g);
    EXPECT_NEAR(Iteration1F1B(stages, g), expected, 1e-9 * expected)
        << stages.size() << " stages, " << g << " micro-batches";
  }
}

TEST(PipelineTest, OneForwardOneBackwardStaysCloseForVeryUnevenStages) {
  Rng rng(2, 0);
  double sum = 0, worst = 0;
  constexpr int kTrials = 500;
  for (int trial = 0; trial < kTrials; ++trial) {
    const std::vector<StagePoint> stages = RandomStages(rng, 0.5, false);
    const double expected = Simulate("1f1b", stages, 16);
    const double error = std::abs(Iteration1F1B(stages, 16) / expected - 1);
    sum += error;
    worst = std::max(worst, error);
  }
  EXPECT_LT(sum / kTrials, 0.001);
  EXPECT_LT(worst, 0.025);
}

TEST(PipelineTest, TermsAddUpToTheIteration) {
  Rng rng(17, 0);
  for (int trial = 0; trial < 200; ++trial) {
    const std::vector<StagePoint> stages = RandomStages(rng, 0.5, true);
    const int micro_batches = 1 + static_cast<int>(rng.Integer(20));
    const IterationTerms terms = Terms1F1B(stages, micro_batches);
    EXPECT_GE(terms.behind_s, -1e-12);
    EXPECT_NEAR(terms.before_s + terms.steady_s + terms.behind_s + terms.extra_s,
                Iteration1F1B(stages, micro_batches),
                1e-9);
  }
}

TEST(PipelineTest, GPipeEqualsTheSimulation) {
  Rng rng(3, 0);
  for (int trial = 0; trial < 500; ++trial) {
    const std::vector<StagePoint> stages = RandomStages(rng, 0.5, false);
    const double expected = Simulate("gpipe", stages, 8);
    EXPECT_NEAR(IterationGPipe(stages, 8), expected, 1e-9 * expected);
  }
}

TEST(PipelineTest, OneStageIsSerial) {
  const std::vector<StagePoint> stages = {{1, 2, 0.5, 0.25}};
  EXPECT_DOUBLE_EQ(Iteration1F1B(stages, 4), 12.75);
  EXPECT_DOUBLE_EQ(IterationGPipe(stages, 4), 12.75);
}

TEST(PipelineTest, InFlightFollowsTheSchedule) {
  EXPECT_EQ(InFlight("1f1b", 4, 0, 64), 3);
  EXPECT_EQ(InFlight("1f1b", 4, 3, 64), 0);
  EXPECT_EQ(InFlight("1f1b", 4, 0, 2), 1);
  EXPECT_EQ(InFlight("gpipe", 4, 3, 8), 7);
}

TEST(PipelineTest, AnUnpricedScheduleSaysWhatIs) {
  const std::vector<StagePoint> stages = {{1, 2, 0, 0}};
  EXPECT_THROW(IterationSeconds("zigzag", stages, 1), Error);
}

TEST(PipelineTest, NoStageIsFasterThanItsOwnWork) {
  // Few micro-batches and short stages behind: the bracket alone would promise 9.12.
  std::vector<StagePoint> stages = {{1, 2, 0, 0}};
  for (int i = 0; i < 4; ++i) stages.push_back({0.01, 0.02, 0, 0});
  EXPECT_GE(Iteration1F1B(stages, 4), 4 * 3);
  EXPECT_NEAR(Iteration1F1B(stages, 4), Simulate("1f1b", stages, 4), 0.03 * 12);
}

}  // namespace
}  // namespace palmist::schedule
