#include "palmist/planner/full_search.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "palmist/planner/planner.h"
#include "palmist/planner/space.h"
#include "palmist/planner/test/small_request.h"

namespace palmist::planner {
namespace {

PlanRequest TinyRequest(std::uint64_t seed) {
  PlanRequest request = test::SmallRequest(seed);
  request.space = RulesOf("full");
  request.space.offload = OffloadChoice::kNone;
  request.top = 1;
  // The search does not know yet how many stages and devices there will be, and counts
  // communicators as though all took part.
  for (auto& [name, device] : request.calibration.devices) device.memory.communicators.clear();
  return request;
}

/// Prices every pipeline of few stages by the model that prices plans, and returns the shortest
/// that fits: all aligned sizes, splits, layouts, operators and ways of ZeRO, each stage with the
/// fewest recomputed layers that fit.
class BruteForce {
 public:
  BruteForce(const PlanRequest& request, const model::Graph& graph)
      : request_(request), graph_(graph), variants_(CandidateVariants(request)) {}

  double Shortest() {
    for (const int count : MicroBatchCounts(request_)) {
      found_.micro_batches = count;
      Extend(0, 0);
    }
    return shortest_;
  }

 private:
  void Extend(int layer, int device) {
    const int layers = static_cast<int>(graph_.layers.size());
    if (layer == layers) {
      Price(0);
      return;
    }
    for (int size = 1; device + size <= request_.cluster.num_devices(); size *= 2) {
      if (device % size != 0) continue;
      for (const cost::Layout& layout :
           StageLayouts(request_, graph_, size, request_.global_batch / found_.micro_batches)) {
        for (int last = layer; last < layers; ++last) {
          found_.stages.push_back({{layout, size}, {}, device, layer, last});
          Extend(last + 1, device + size);
          found_.stages.pop_back();
        }
      }
    }
  }

  /// Gives stage `index` and those behind it each choice.
  void Price(std::size_t index) {
    if (index == found_.stages.size()) {
      const plan::Plan plan = MakePlan(request_, graph_, found_);
      if (plan.predicted->fits) {
        shortest_ = std::min(shortest_, plan.predicted->iteration_time_s);
      }
      return;
    }
    FoundStage& stage = found_.stages[index];
    const int layers = stage.last_layer - stage.first_layer + 1;
    for (int ops = 0; ops < static_cast<int>(variants_.size()); ++ops) {
      for (const cost::Layout& layout : ZeroVariants(request_, stage.shape.layout, 8, true)) {
        for (int recomputed = 0; recomputed <= layers; ++recomputed) {
          stage.choice = {};
          stage.choice.ops = ops;
          stage.choice.zero = layout.zero;
          stage.choice.zero_shard = layout.zero_shard;
          stage.choice.recomputed = recomputed;
          Price(index + 1);
        }
      }
    }
  }

  const PlanRequest& request_;
  const model::Graph& graph_;
  std::vector<model::OpVariants> variants_;
  FoundPipeline found_;
  double shortest_ = std::numeric_limits<double>::infinity();
};

TEST(FullSearchTest, FindsWhatAllPipelinesHold) {
  int found = 0, better_than_uniform = 0;
  for (std::uint64_t seed = 0; seed < 60 && found < 4; ++seed) {
    PlanRequest request = TinyRequest(seed);
    const int devices = request.cluster.num_devices();
    if (devices != 2 && devices != 4) continue;
    request.global_batch = std::min<std::int64_t>(request.global_batch, 2);
    request.ops = "fused";
    const model::Graph graph = model::BuildGraph(request.model.spec);
    if (graph.layers.size() > 3) continue;
    const double brute_s = BruteForce(request, graph).Shortest();
    FullSearchOptions options;
    options.gap = 0.001;
    options.cutoff_s = std::isfinite(brute_s) ? 2 * brute_s : 1e6;
    const FullSearchResult full = SearchFullSpace(request, graph, options);
    EXPECT_TRUE(full.is_complete);
    ASSERT_EQ(full.best.empty(), !std::isfinite(brute_s)) << seed;
    if (full.best.empty()) continue;
    ++found;
    const plan::Plan plan = MakePlan(request, graph, full.best.front());
    EXPECT_TRUE(plan.predicted->fits) << seed;
    EXPECT_NEAR(plan.predicted->iteration_time_s, full.best.front().iteration_s, 0.01 * brute_s);
    EXPECT_LE(plan.predicted->iteration_time_s, 1.01 * brute_s) << seed;
    EXPECT_LE(full.lower_bound_s, 1.001 * brute_s) << seed;
    const PlanResult uniform = FindPlan(request);
    better_than_uniform +=
        uniform.plans.empty() ||
        plan.predicted->iteration_time_s < uniform.plans.front().predicted->iteration_time_s;
  }
  EXPECT_GT(found, 2);
  RecordProperty("better_than_uniform", better_than_uniform);
}

TEST(FullSearchTest, ThreadsDoNotMatter) {
  PlanRequest request = TinyRequest(3);
  request.space.offload = OffloadChoice::kGrid;
  const model::Graph graph = model::BuildGraph(request.model.spec);
  FullSearchOptions options;
  options.cutoff_s = 1e6;
  plan::Plan plans[2];
  for (const int threads : {1, 2}) {
    request.threads = threads;
    const FullSearchResult full = SearchFullSpace(request, graph, options);
    ASSERT_FALSE(full.best.empty());
    plans[threads - 1] = MakePlan(request, graph, full.best.front());
  }
  EXPECT_EQ(plans[0], plans[1]);
}

TEST(FullSearchTest, OffloadMakesRoom) {
  PlanRequest request = test::RequestFor("llama-2-7b", "l4-1x2", 2048, 2);
  EXPECT_EQ(FindPlan(request).outcome, Outcome::kInfeasible);
  request.space = RulesOf("full");
  const PlanResult result = FindPlan(request);
  ASSERT_EQ(result.outcome, Outcome::kOptimal);
  EXPECT_TRUE(result.plans.front().predicted->fits);
  EXPECT_GT(result.plans.front().stages.front().offload.optimizer, 0);
  EXPECT_LE(result.search.gap, 0.0101);
}

TEST(FullSearchTest, AFixedStageOfZeroLeavesOutStagesWithoutReplicas) {
  PlanRequest request = test::RequestFor("gpt2-large", "l4-1x4", 1024, 16);
  request.space = RulesOf("full");
  request.fixed.zero = 2;
  const PlanResult result = FindPlan(request);
  ASSERT_FALSE(result.plans.empty());
  for (const plan::Stage& stage : result.plans.front().stages) EXPECT_EQ(stage.zero, 2);
  // Nothing has two replicas of which one has none.
  request.fixed.dp = 1;
  EXPECT_THROW(FindPlan(request), Error);
}

TEST(FullSearchTest, MemoryIsCountedAndBounded) {
  PlanRequest request = test::RequestFor("gpt3-1.3b", "l4-2x4", 2048, 32);
  request.space = RulesOf("full");
  const model::Graph graph = model::BuildGraph(request.model.spec);
  FullSearchOptions options;
  options.cutoff_s = 10 * FindPlan(request).plans.front().predicted->iteration_time_s;
  const FullSearchResult whole = SearchFullSpace(request, graph, options);
  EXPECT_TRUE(whole.is_complete);
  EXPECT_FALSE(whole.is_out_of_memory);
  EXPECT_GT(whole.peak_bytes, 100'000);
  options.most_bytes = whole.peak_bytes / 4;
  const FullSearchResult bounded = SearchFullSpace(request, graph, options);
  EXPECT_FALSE(bounded.is_complete);
  EXPECT_TRUE(bounded.is_out_of_memory);
  // It is looked at between stages, so a little more is taken.
  EXPECT_LT(bounded.peak_bytes, whole.peak_bytes);
  EXPECT_LE(bounded.lower_bound_s, whole.best.front().iteration_s);
}

TEST(FullSearchTest, AStopIsHonest) {
  const PlanRequest request = TinyRequest(3);
  const model::Graph graph = model::BuildGraph(request.model.spec);
  FullSearchOptions options;
  options.cutoff_s = 1e6;
  options.stop = [] { return true; };
  const FullSearchResult full = SearchFullSpace(request, graph, options);
  EXPECT_FALSE(full.is_complete && graph.layers.size() > 1);
  EXPECT_GE(full.lower_bound_s, 0);
}

}  // namespace
}  // namespace palmist::planner
