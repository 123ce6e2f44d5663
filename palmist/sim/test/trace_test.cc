#include "palmist/sim/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "palmist/base/json.h"
#include "palmist/sim/test/random_pipeline.h"

namespace palmist::sim {
namespace {

struct Span {
  std::int64_t start_ns, end_ns;
  std::string name;
};

std::int64_t Nanoseconds(const nlohmann::json& microseconds) {
  return std::llround(1000 * microseconds.get<double>());
}

class TraceTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    Rng rng(5, 0);
    do {
      pipeline_ =
          test::RandomPipeline(rng, GetParam(), {.imbalance = 0.5, .extra_s = 4, .hop_s = 0.7});
    } while (pipeline_.stages.size() < 3);
    pipeline_.tail_s = 0.125;
    timeline_ = Simulate(pipeline_);
    trace_ = ParseJson(ToChromeTrace(timeline_).dump()).value();
    for (const nlohmann::json& event : trace_.at("traceEvents")) {
      if (event.at("ph") == "M") continue;
      EXPECT_EQ(event.at("ph"), "X");
      const std::int64_t start_ns = Nanoseconds(event.at("ts"));
      tracks_[{event.at("pid"), event.at("tid")}].push_back(
          {start_ns, start_ns + Nanoseconds(event.at("dur")), event.at("name")});
    }
    for (auto& [track, spans] : tracks_) {
      std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
        return a.start_ns < b.start_ns;
      });
    }
  }

  double Seconds(int stage, int track) const {
    double sum_s = 0;
    const auto found = tracks_.find({stage, track});
    if (found == tracks_.end()) return 0;
    for (const Span& span : found->second) {
      sum_s += static_cast<double>(span.end_ns - span.start_ns) / 1e9;
    }
    return sum_s;
  }

  Pipeline pipeline_;
  Timeline timeline_;
  nlohmann::json trace_;
  std::map<std::pair<int, int>, std::vector<Span>> tracks_;
};

TEST_P(TraceTest, SpansOfATrackDoNotOverlap) {
  for (const auto& [track, spans] : tracks_) {
    for (std::size_t i = 0; i < spans.size(); ++i) {
      EXPECT_GE(spans[i].start_ns, 0);
      EXPECT_GE(spans[i].end_ns, spans[i].start_ns);
      if (i == 0) continue;
      EXPECT_LE(spans[i - 1].end_ns, spans[i].start_ns) << spans[i].name;
    }
  }
}

TEST_P(TraceTest, SpansAddUp) {
  const double rounding_s = 1e-9 * 2000;
  double hops_s = 0, expected_hops_s = 0;
  std::int64_t last_ns = 0;
  for (const HopTime& hop : timeline_.hops) expected_hops_s += hop.end_s - hop.start_s;
  for (std::size_t i = 0; i < timeline_.stages.size(); ++i) {
    const StageTimeline& stage = timeline_.stages[i];
    const double extras_s = stage.first_extra_s + stage.last_extra_s;
    const int id = static_cast<int>(i);
    EXPECT_NEAR(Seconds(id, 0), stage.busy_s - extras_s, rounding_s);
    EXPECT_NEAR(Seconds(id, 3), extras_s + pipeline_.tail_s, rounding_s);
    hops_s += Seconds(id, 1) + Seconds(id, 2);
  }
  EXPECT_NEAR(hops_s, expected_hops_s, rounding_s);
  EXPECT_GT(hops_s, 0);
  for (const auto& [track, spans] : tracks_) last_ns = std::max(last_ns, spans.back().end_ns);
  EXPECT_NEAR(static_cast<double>(last_ns) / 1e9, timeline_.iteration_s, 1e-9);
  EXPECT_DOUBLE_EQ(trace_.at("otherData").at("iteration_s"), timeline_.iteration_s);
}

TEST_P(TraceTest, StagesAndTracksHaveNames) {
  std::map<int, std::string> processes;
  std::set<std::string> tracks;
  for (const nlohmann::json& event : trace_.at("traceEvents")) {
    if (event.at("ph") != "M") continue;
    if (event.at("name") == "process_name")
      processes[event.at("pid")] = event.at("args").at("name");
    if (event.at("name") == "thread_name") tracks.insert(event.at("args").at("name"));
  }
  ASSERT_EQ(processes.size(), pipeline_.stages.size());
  EXPECT_EQ(processes.at(1), "stage 1");
  EXPECT_EQ(tracks, (std::set<std::string>{"compute", "send forward", "send backward", "extras"}));
  const std::string first = pipeline_.chunks > 1 ? "F0.0" : "F0";
  EXPECT_EQ((tracks_.at({0, 0}).front().name), first);
}

INSTANTIATE_TEST_SUITE_P(Schedules,
                         TraceTest,
                         testing::Values("gpipe", "1f1b", "interleaved", "zb-h1"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace palmist::sim
