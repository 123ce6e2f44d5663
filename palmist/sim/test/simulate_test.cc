#include "palmist/sim/simulate.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "palmist/base/error.h"
#include "palmist/sim/test/random_pipeline.h"

namespace palmist::sim {
namespace {

using schedule::Slot;

// RapidCheck reads its parameters from here at the first check.
[[maybe_unused]] const int kFixedSeed = setenv("RC_PARAMS", "seed=20240601 max_success=200", 1);

constexpr const char* kNames[] = {"gpipe", "1f1b", "interleaved", "zb-h1"};

Pipeline DrawPipeline() {
  Rng rng(*rc::gen::arbitrary<std::uint64_t>(), 0);
  const char* name = kNames[*rc::gen::inRange(0, 4)];
  Pipeline pipeline =
      test::RandomPipeline(rng, name, {.imbalance = 0.9, .extra_s = 5, .hop_s = 0.5});
  pipeline.tail_s = rng.Uniform();
  if (pipeline.chunks > 1 && rng.Integer(2) == 0) {
    for (StageWork& stage : pipeline.stages) {
      for (int c = 0; c < pipeline.chunks; ++c) {
        stage.chunks.push_back({rng.Uniform(), 2 * rng.Uniform()});
      }
    }
  }
  return pipeline;
}

Pipeline Uniform(const std::string& schedule, int stages, int micro_batches, int chunks = 1) {
  Pipeline pipeline;
  pipeline.schedule = schedule;
  pipeline.micro_batches = micro_batches;
  pipeline.chunks = chunks;
  pipeline.stages.resize(static_cast<std::size_t>(stages));
  for (StageWork& stage : pipeline.stages) {
    stage.point.forward_s = 1;
    stage.point.backward_s = 2;
    if (schedule == "zb-h1") stage.point.weight_grad_s = 1;
  }
  return pipeline;
}

TEST(SimulateTest, EqualStagesTakeWhatThePapersSay) {
  for (const int stages : {1, 2, 4, 7}) {
    for (const int rounds : {1, 2, 5}) {
      const int g = stages * rounds;
      EXPECT_NEAR(Simulate(Uniform("gpipe", stages, g)).iteration_s, 3 * (g + stages - 1), 1e-9);
      EXPECT_NEAR(Simulate(Uniform("1f1b", stages, g)).iteration_s, 3 * (g + stages - 1), 1e-9);
      EXPECT_NEAR(Simulate(Uniform("zb-h1", stages, g)).iteration_s, 3 * g + stages - 1, 1e-9);
      for (const int v : {2, 3}) {
        EXPECT_NEAR(Simulate(Uniform("interleaved", stages, g, v)).iteration_s,
                    3 * (g + (stages - 1.0) / v),
                    1e-9);
      }
    }
  }
}

TEST(SimulateTest, ASmallTimelineByHand) {
  Pipeline pipeline = Uniform("1f1b", 2, 2);
  pipeline.stages[0].point.hop_s = 0.5;
  pipeline.stages[0].point.first_extra_s = 0.25;
  pipeline.stages[1].point.last_extra_s = 4;
  pipeline.tail_s = 1;
  const Timeline timeline = Simulate(pipeline);
  const std::vector<SlotTime> first = {{{Slot::kForward, 0, 0}, 0.25, 1.25},
                                       {{Slot::kForward, 1, 0}, 1.25, 2.25},
                                       {{Slot::kBackward, 0, 0}, 5.25, 7.25},
                                       {{Slot::kBackward, 1, 0}, 8.25, 10.25}};
  const std::vector<SlotTime> second = {{{Slot::kForward, 0, 0}, 1.75, 2.75},
                                        {{Slot::kBackward, 0, 0}, 2.75, 4.75},
                                        {{Slot::kForward, 1, 0}, 4.75, 5.75},
                                        {{Slot::kBackward, 1, 0}, 5.75, 7.75}};
  EXPECT_EQ(timeline.stages[0].slots, first);
  EXPECT_EQ(timeline.stages[1].slots, second);
  EXPECT_EQ(timeline.hops.size(), 4U);
  EXPECT_EQ(timeline.stages[1].last_extra_start_s, 7.75);
  EXPECT_EQ(timeline.iteration_s, 12.75);
  EXPECT_DOUBLE_EQ(timeline.stages[0].busy_s, 6.25);
  EXPECT_DOUBLE_EQ(timeline.stages[0].idle_share, 1 - 6.25 / 11.75);
  EXPECT_DOUBLE_EQ(timeline.idle_share, 1 - (6.25 + 10) / 2 / 11.75);
}

TEST(SimulateTest, ABoundaryCarriesOneTransferAtATime) {
  Pipeline pipeline = Uniform("gpipe", 2, 3);
  pipeline.stages[0].point.hop_s = 3;  // longer than a forward
  const Timeline timeline = Simulate(pipeline);
  EXPECT_EQ(timeline.stages[1].slots[2].start_s, 1 + 3 * 3);
}

// Every slot starts exactly when the last thing it waits for ends: nothing starts early, and
// nothing waits without a cause.
TEST(SimulateTest, EverySlotStartsAsSoonAsItCan) {
  EXPECT_TRUE(rc::check([] {
    const Pipeline pipeline = DrawPipeline();
    const Timeline timeline = Simulate(pipeline);
    const int stages = static_cast<int>(pipeline.stages.size());
    const int last = stages * pipeline.chunks - 1;
    using Key = std::tuple<int, int, int>;  // kind, part of the model, micro-batch
    std::map<Key, double> end_s;
    for (int i = 0; i < stages; ++i) {
      for (const SlotTime& slot : timeline.stages[static_cast<std::size_t>(i)].slots) {
        end_s[{slot.slot.kind, slot.slot.chunk * stages + i, slot.slot.micro_batch}] = slot.end_s;
      }
    }
    // A transfer is the later of two: its slot's end, and the end of the one before it.
    std::map<std::tuple<int, int, int>, double> free_s;  // from, to, kind
    for (const HopTime& hop : timeline.hops) {
      const int part = hop.slot.chunk * stages + hop.from_stage;
      double& free = free_s[{hop.from_stage, hop.to_stage, hop.slot.kind}];
      const Key key = {hop.slot.kind, part, hop.slot.micro_batch};
      RC_ASSERT(hop.start_s == std::max(free, end_s.at(key)));
      free = hop.end_s;
      end_s.at(key) = hop.end_s;  // when the result is there for the next stage
    }
    double longest_s = 0;
    for (int i = 0; i < stages; ++i) {
      const StageTimeline& stage = timeline.stages[static_cast<std::size_t>(i)];
      const StageWork& work = pipeline.stages[static_cast<std::size_t>(i)];
      double clock_s = work.point.first_extra_s, busy_s = clock_s + work.point.last_extra_s;
      for (const SlotTime& slot : stage.slots) {
        const Slot& s = slot.slot;
        const int part = s.chunk * stages + i;
        double ready_s = clock_s;
        if (s.kind == Slot::kForward && part > 0) {
          ready_s = std::max(ready_s, end_s.at({s.kind, part - 1, s.micro_batch}));
        }
        if (s.kind == Slot::kBackward && part < last) {
          ready_s = std::max(ready_s, end_s.at({s.kind, part + 1, s.micro_batch}));
        }
        RC_ASSERT(slot.start_s == ready_s);
        clock_s = slot.end_s;
        busy_s += slot.end_s - slot.start_s;
      }
      RC_ASSERT(stage.last_extra_start_s == clock_s);
      RC_ASSERT(std::abs(stage.busy_s - busy_s) < 1e-9 * busy_s);
      longest_s = std::max(longest_s, clock_s + work.point.last_extra_s);
    }
    RC_ASSERT(timeline.iteration_s == longest_s + pipeline.tail_s);
  }));
}

TEST(SimulateTest, SlotsTakeWhatTheStageSays) {
  EXPECT_TRUE(rc::check([] {
    const Pipeline pipeline = DrawPipeline();
    const Timeline timeline = Simulate(pipeline);
    for (std::size_t i = 0; i < pipeline.stages.size(); ++i) {
      const StageWork& work = pipeline.stages[i];
      double sum_s[3] = {0, 0, 0}, expected_s[3] = {0, 0, 0};
      for (const SlotTime& slot : timeline.stages[i].slots) {
        sum_s[slot.slot.kind] += slot.end_s - slot.start_s;
      }
      expected_s[Slot::kForward] = work.point.forward_s;
      expected_s[Slot::kBackward] = work.point.backward_s - work.point.weight_grad_s;
      expected_s[Slot::kWeightGrad] = work.point.weight_grad_s;
      if (!work.chunks.empty()) expected_s[0] = expected_s[1] = 0;
      for (const ChunkTime& chunk : work.chunks) {
        expected_s[Slot::kForward] += chunk.forward_s;
        expected_s[Slot::kBackward] += chunk.backward_s;
      }
      for (const int kind : {0, 1, 2}) {
        RC_ASSERT(std::abs(sum_s[kind] - pipeline.micro_batches * expected_s[kind]) <= 1e-8);
      }
    }
  }));
}

TEST(SimulateTest, HoldsWhatInFlightSays) {
  EXPECT_TRUE(rc::check([] {
    const Pipeline pipeline = DrawPipeline();
    const Timeline timeline = Simulate(pipeline);
    const int stages = static_cast<int>(pipeline.stages.size());
    for (int i = 0; i < stages; ++i) {
      RC_ASSERT(timeline.stages[static_cast<std::size_t>(i)].most_held ==
                1 + schedule::InFlight(
                        pipeline.schedule, stages, i, pipeline.micro_batches, pipeline.chunks));
    }
  }));
}

TEST(SimulateTest, TheSameInputGivesTheSameBits) {
  EXPECT_TRUE(rc::check([] {
    const Pipeline pipeline = DrawPipeline();
    RC_ASSERT(Simulate(pipeline) == Simulate(pipeline));
  }));
}

TEST(SimulateTest, AZeroBubbleWithoutWeightGradientsIs1F1B) {
  Pipeline pipeline = Uniform("1f1b", 5, 9);
  pipeline.stages[2].point.forward_s = 1.3;
  const double expected_s = Simulate(pipeline).iteration_s;
  pipeline.schedule = "zb-h1";
  EXPECT_EQ(Simulate(pipeline).iteration_s, expected_s);
}

TEST(SimulateTest, WrongInputIsNamed) {
  const auto field = [](const auto& change) {
    Pipeline pipeline = Uniform("1f1b", 2, 4);
    change(pipeline);
    try {
      Simulate(pipeline);
    } catch (const Error& error) {
      return error.field();
    }
    return std::string("none");
  };
  EXPECT_EQ(field([](Pipeline& p) { p.stages.clear(); }), "stages");
  EXPECT_EQ(field([](Pipeline& p) { p.micro_batches = 16'000'000; }), "training.micro_batches");
  EXPECT_EQ(field([](Pipeline& p) { p.micro_batches = 1 << 30; }), "training.micro_batches");
  EXPECT_EQ(field([](Pipeline& p) { p.tail_s = -1; }), "tail_s");
  EXPECT_EQ(field([](Pipeline& p) { p.stages[1].point.forward_s = NAN; }), "stages[1].forward_s");
  EXPECT_EQ(
      field([](Pipeline& p) { p.stages[1].point.hop_s = std::numeric_limits<double>::infinity(); }),
      "stages[1].hop_s");
  EXPECT_EQ(field([](Pipeline& p) { p.stages[0].point.weight_grad_s = 3; }),
            "stages[0].weight_grad_s");
  EXPECT_EQ(field([](Pipeline& p) { p.stages[0].chunks.resize(2); }), "stages[0].chunks");
}

}  // namespace
}  // namespace palmist::sim
