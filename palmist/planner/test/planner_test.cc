#include "palmist/planner/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "palmist/planner/evaluator.h"
#include "palmist/planner/test/small_request.h"

namespace palmist::planner {
namespace {

using test::RequestFor;
using test::SmallRequest;
using ::testing::HasSubstr;

/// Calls `visit` with every list of `parts` numbers, each in [low, high], that sum to `total`.
void ForEachSplit(int parts,
                  int total,
                  std::vector<int>& sizes,
                  const std::function<void()>& visit) {
  if (parts == 1) {
    sizes.push_back(total);
    visit();
    sizes.pop_back();
    return;
  }
  for (int size = 1; size <= total - parts + 1; ++size) {
    sizes.push_back(size);
    ForEachSplit(parts - 1, total - size, sizes, visit);
    sizes.pop_back();
  }
}

/// Tries every plan of a request: all candidates, all splits of the layers, and all numbers of
/// recomputed layers of each stage.
class BruteForce {
 public:
  explicit BruteForce(const PlanRequest& request)
      : request_(request),
        graph_(model::BuildGraph(request.model.spec)),
        candidates_(EnumerateCandidates(request, graph_)) {
    options_.memory_limit = request.memory_limit;
    for (const Candidate& candidate : candidates_) Try(candidate);
  }

  /// The shortest iteration; infinite where nothing fits.
  double best_s() const { return best_s_; }
  std::int64_t tried() const { return tried_; }

 private:
  /// The stages of one candidate, each priced once for every range of layers and recomputation.
  struct Stages {
    const Candidate& candidate;
    cost::Estimator& estimator;
    cost::Rate embedding_reduce;
    std::vector<cost::StageRates> rates;
    std::vector<cost::ModelCost<double>> layers;
    std::map<std::tuple<int, int, int, int>, cost::StageEstimate> priced;
  };

  std::vector<int> Devices(const Candidate& candidate, int stage) const {
    const int count = candidate.devices / candidate.stages;
    std::vector<int> devices;
    for (int i = 0; i < count; ++i) devices.push_back(stage * count + i);
    return devices;
  }

  void Try(const Candidate& candidate) {
    const plan::Training training = TrainingOf(request_, candidate);
    cost::Estimator& estimator = EstimatorFor(training);
    const cost::LayoutContext context = estimator.layout_context();
    const std::vector<int> last = Devices(candidate, candidate.stages - 1);
    Stages stages{candidate, estimator, cost::PairAllReduce(context, 0, last.front()), {}, {}, {}};
    for (int i = 0; i < candidate.stages; ++i) {
      const std::vector<int> next =
          i + 1 < candidate.stages ? Devices(candidate, i + 1) : std::vector<int>();
      stages.rates.push_back(
          cost::ComputeRates(context, candidate.layout, Devices(candidate, i), next));
      stages.layers.push_back(estimator.ModelFor(candidate.ops)
                                  .Evaluate(std::span(&stages.rates.back().inputs, 1))
                                  .front());
    }
    std::vector<int> sizes;
    ForEachSplit(candidate.stages, static_cast<int>(graph_.layers.size()), sizes, [&] {
      TryRecomputation(stages, training, sizes);
    });
  }

  void TryRecomputation(Stages& stages, const plan::Training& training, std::vector<int>& sizes) {
    std::vector<int> recomputed(sizes.size(), 0);
    while (true) {
      TryOne(stages, training, sizes, recomputed);
      std::size_t i = 0;
      while (i < sizes.size() && recomputed[i] == sizes[i]) recomputed[i++] = 0;
      if (i == sizes.size()) return;
      ++recomputed[i];
    }
  }

  void TryOne(Stages& stages,
              const plan::Training& training,
              const std::vector<int>& sizes,
              const std::vector<int>& recomputed) {
    ++tried_;
    plan::Plan plan;
    plan.cluster = request_.cluster;
    plan.seq_len = request_.seq_len;
    plan.training = training;
    std::vector<cost::StageEstimate> estimates;
    int first = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const int index = static_cast<int>(i);
      const auto key = std::tuple(index, first, sizes[i], recomputed[i]);
      auto found = stages.priced.find(key);
      if (found == stages.priced.end()) {
        found =
            stages.priced.emplace(key, Price(stages, index, first, sizes[i], recomputed[i])).first;
      }
      if (found->second.ExcessBytes() > 0) return;
      estimates.push_back(found->second);
      first += sizes[i];
    }
    best_s_ = std::min(best_s_, cost::Summarize(plan, estimates).iteration_time_s);
  }

  cost::StageEstimate Price(Stages& stages, int index, int first, int count, int recomputed) {
    const Candidate& candidate = stages.candidate;
    const cost::Layout& layout = candidate.layout;
    plan::Stage stage;
    stage.devices = Devices(candidate, index);
    stage.first_layer = first;
    stage.last_layer = first + count - 1;
    stage.embedding = index == 0;
    stage.head = index + 1 == candidate.stages;
    stage.micro_batch = layout.micro_batch;
    stage.dp = layout.dp;
    stage.tp = layout.tp;
    stage.sp = layout.sp;
    stage.cp = layout.cp;
    stage.ep = layout.ep;
    stage.zero = layout.zero;
    stage.zero_shard = layout.zero_shard;
    stage.ops = candidate.ops;
    stage.offload = request_.fixed.OffloadOver();
    if (recomputed > 0) {
      stage.recompute.push_back({.first_layer = stage.last_layer - recomputed + 1,
                                 .last_layer = stage.last_layer,
                                 .mode = plan::RecomputeMode::kFull,
                                 .modules = {}});
    }
    const auto at = static_cast<std::size_t>(index);
    return cost::Compose(stages.estimator.Terms(stage,
                                                stages.estimator.ContentOf(stage),
                                                {index, candidate.stages, candidate.devices},
                                                stages.layers[at],
                                                stages.rates[at],
                                                stages.embedding_reduce),
                         stage.offload);
  }

  /// One estimator for each number of micro-batches: it derives its formulas once.
  cost::Estimator& EstimatorFor(const plan::Training& training) {
    std::unique_ptr<cost::Estimator>& estimator = estimators_[training.micro_batches];
    if (!estimator) {
      estimator = std::make_unique<cost::Estimator>(graph_,
                                                    request_.cluster,
                                                    request_.calibration,
                                                    training,
                                                    static_cast<double>(request_.seq_len),
                                                    options_);
    }
    return *estimator;
  }

  const PlanRequest& request_;
  model::Graph graph_;
  std::vector<Candidate> candidates_;
  cost::PredictOptions options_;
  std::map<int, std::unique_ptr<cost::Estimator>> estimators_;
  double best_s_ = std::numeric_limits<double>::infinity();
  std::int64_t tried_ = 0;
};

/// Checks requests `first` to `first + count - 1`.
void CheckAgainstBruteForce(std::uint64_t first, std::uint64_t count) {
  int fitting = 0, recomputing = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const PlanRequest request = SmallRequest(seed);
    SCOPED_TRACE("seed " + std::to_string(seed));
    const BruteForce brute_force(request);
    const PlanResult result = FindPlan(request);
    if (std::isinf(brute_force.best_s())) {
      EXPECT_EQ(result.outcome, Outcome::kInfeasible);
      continue;
    }
    ++fitting;
    ASSERT_EQ(result.outcome, Outcome::kOptimal);
    const plan::Plan& best = result.plans.front();
    EXPECT_NEAR(best.predicted->iteration_time_s, brute_force.best_s(), 1e-9 * brute_force.best_s())
        << "of " << brute_force.tried() << " plans";
    EXPECT_TRUE(best.predicted->fits);
    EXPECT_LE(result.search.lower_bound_s, best.predicted->iteration_time_s * (1 + 1e-12));
    for (const plan::Stage& stage : best.stages) recomputing += stage.recompute.empty() ? 0 : 1;
  }
  EXPECT_GE(fitting, static_cast<int>(count) / 2);
  EXPECT_GT(recomputing, 0) << "the requests should be tight enough to recompute";
}

TEST(PlannerTest, BestEqualsBruteForceOnSmallRequests) { CheckAgainstBruteForce(0, 20); }
TEST(PlannerTest, BestEqualsBruteForceOnMoreSmallRequests) { CheckAgainstBruteForce(100, 20); }

/// What must not depend on threads or the clock.
std::string Comparable(const PlanResult& result) {
  std::string text = result.binding;
  for (plan::Plan plan : result.plans) {
    if (plan.search) plan.search->seconds = 0;
    plan.provenance.clear();
    text += '\n' + plan::ToJson(plan).dump();
  }
  return text;
}

TEST(PlannerTest, ThreadsAndRepetitionChangeNothing) {
  PlanRequest request = RequestFor("gpt2-medium", "l4-2x4", 1024, 32);
  request.memory_limit = 6e9;
  const std::string once = Comparable(FindPlan(request));
  EXPECT_EQ(Comparable(FindPlan(request)), once);
  request.threads = 2;
  EXPECT_EQ(Comparable(FindPlan(request)), once);
}

TEST(PlannerTest, AlternativesHaveOtherLayoutsAndRisingTimes) {
  PlanRequest request = RequestFor("gpt2-medium", "l4-1x8", 1024, 32);
  request.top = 5;
  const PlanResult result = FindPlan(request);
  ASSERT_EQ(result.plans.size(), 5u);
  std::set<std::tuple<std::size_t, int, int, int>> layouts;
  double before = 0;
  for (const plan::Plan& plan : result.plans) {
    const plan::Stage& stage = plan.stages.front();
    EXPECT_TRUE(layouts.insert({plan.stages.size(), stage.dp, stage.tp, stage.ep}).second);
    EXPECT_GE(plan.predicted->iteration_time_s, before);
    EXPECT_TRUE(plan.predicted->fits);
    before = plan.predicted->iteration_time_s;
  }
  request.top = 1;
  const PlanResult one = FindPlan(request);
  ASSERT_EQ(one.plans.size(), 1u);
  EXPECT_EQ(one.plans.front().stages, result.plans.front().stages);
}

TEST(PlannerTest, FoundPlansAreValidAndPredictedAsPredictSays) {
  PlanRequest request = RequestFor("qwen3-0.6b", "l4-1x4", 2048, 16);
  request.memory_limit = 10e9;
  const PlanResult result = FindPlan(request);
  ASSERT_FALSE(result.plans.empty());
  const model::Graph graph = model::BuildGraph(request.model.spec);
  for (const plan::Plan& plan : result.plans) {
    const Result<void> valid = plan::Validate(plan, graph, request.model.spec);
    ASSERT_TRUE(valid.ok()) << valid.error().what();
    plan::Plan again = plan;
    cost::Predict(again, graph, request.calibration, {.memory_limit = 10e9});
    EXPECT_EQ(again, plan);
  }
}

TEST(PlannerTest, SummaryAddsUp) {
  const PlanResult result = FindPlan(RequestFor("gpt2", "l4-1x4", 512, 16));
  const plan::SearchSummary& search = result.search;
  EXPECT_EQ(search.status, "optimal");
  EXPECT_EQ(search.candidates, search.evaluated + search.pruned);
  EXPECT_GT(search.lower_bound_s, 0);
  EXPECT_LE(search.lower_bound_s, result.plans.front().predicted->iteration_time_s);
  EXPECT_NEAR(search.gap, 0, 1e-12);
  EXPECT_FALSE(result.binding.empty());
  EXPECT_EQ(result.plans.front().search, result.search);
}

TEST(PlannerTest, ProgressRisesToTheEnd) {
  double last = 0, best = 0;
  const PlanResult result =
      FindPlan(RequestFor("gpt2", "l4-1x4", 512, 16), [&](double done, double best_s) {
        EXPECT_GT(done, last);
        EXPECT_LE(done, 1);
        last = done;
        best = best_s;
      });
  EXPECT_GT(last, 0);
  EXPECT_NEAR(best, result.plans.front().predicted->iteration_time_s, 1e-9 * best);
}

TEST(PlannerTest, ProgressOfTheFullSearchRisesToo) {
  PlanRequest request = RequestFor("gpt2-large", "l4-1x4", 512, 16);
  request.space = RulesOf("full");
  double last = 0, best = 0;
  const PlanResult result = FindPlan(request, [&](double done, double best_s) {
    EXPECT_GE(done, last);
    EXPECT_LE(done, 1);
    last = done;
    best = best_s;
  });
  EXPECT_GT(last, 0.2);
  EXPECT_NEAR(best, result.plans.front().predicted->iteration_time_s, 0.001 * best);
}

TEST(PlannerTest, NothingFitsNamesStageBytesAndChange) {
  PlanRequest request = RequestFor("llama-2-7b", "l4-1x2", 2048, 4);
  const PlanResult result = FindPlan(request);
  EXPECT_EQ(result.outcome, Outcome::kInfeasible);
  EXPECT_TRUE(result.plans.empty());
  ASSERT_FALSE(result.closest.empty());
  for (const plan::ClosestMiss& miss : result.closest) {
    EXPECT_GT(miss.short_bytes, 0);
    const plan::MemoryBytes& memory =
        result.nearest.stages.at(static_cast<std::size_t>(miss.stage)).predicted->memory;
    EXPECT_NEAR(memory.reserved_peak + memory.communicators + memory.context - memory.limit,
                miss.short_bytes,
                1);
    EXPECT_THAT(miss.change, HasSubstr("use "));
  }
  EXPECT_FALSE(result.nearest.predicted->fits);
  EXPECT_EQ(result.search.status, "infeasible");
  // The change it names is enough.
  const std::string change = result.closest.front().change;
  const int devices = std::stoi(change.substr(change.find("use ") + 4));
  request.cluster.groups.front().nodes = devices / 2;
  EXPECT_EQ(FindPlan(request).outcome, Outcome::kOptimal);
}

// The shorter sequences that are tried may be impossible with what is fixed.
TEST(PlannerTest, NothingFitsWithFixesThatShorterSequencesBreak) {
  PlanRequest request = RequestFor("llama-2-70b", "l4-1x2", 258, 2);
  request.fixed.sp = true;
  request.fixed.tp = 2;
  EXPECT_EQ(FindPlan(request).outcome, Outcome::kInfeasible);
}

TEST(PlannerTest, WithoutTimeAnEvenSplitThatFitsIsTheAnswer) {
  PlanRequest request = RequestFor("gpt2", "l4-1x4", 512, 16);
  request.time_limit_s = 0;
  const PlanResult result = FindPlan(request);
  EXPECT_EQ(result.outcome, Outcome::kTimeLimit);
  ASSERT_EQ(result.plans.size(), 1U);
  EXPECT_TRUE(result.plans.front().predicted->fits);
  EXPECT_EQ(result.search.status, "time_limit");
  EXPECT_EQ(result.search.evaluated, 0);
}

TEST(PlannerTest, EvaluationsAreLimitedToWholeRounds) {
  PlanRequest request = RequestFor("gpt2-medium", "l4-1x8", 1024, 64);
  const PlanResult all = FindPlan(request);
  ASSERT_GT(all.search.candidates, 200);
  request.max_evaluations = 40;
  const PlanResult some = FindPlan(request);
  ASSERT_FALSE(some.plans.empty());
  EXPECT_EQ(some.outcome, Outcome::kTimeLimit);
  EXPECT_GE(some.search.evaluated, 40);
  EXPECT_LT(some.search.evaluated, 40 + 32);
  EXPECT_GE(some.plans.front().predicted->iteration_time_s,
            all.plans.front().predicted->iteration_time_s);
  // What it says of the gap holds.
  EXPECT_LE(some.search.lower_bound_s, all.plans.front().predicted->iteration_time_s * (1 + 1e-9));
  // The same wherever it is run.
  request.threads = 2;
  EXPECT_EQ(Comparable(FindPlan(request)), Comparable(some));
}

TEST(PlannerTest, RecomputationCanBeFixed) {
  PlanRequest request = RequestFor("gpt2", "l4-1x4", 512, 16);
  request.fixed.recompute = "full";
  for (const plan::Plan& plan : FindPlan(request).plans) {
    for (const plan::Stage& stage : plan.stages) {
      for (int layer = stage.first_layer; layer <= stage.last_layer; ++layer) {
        EXPECT_TRUE(stage.recomputes(layer));
      }
    }
  }
  request.fixed.recompute = "none";
  request.memory_limit = 4e9;
  for (const plan::Plan& plan : FindPlan(request).plans) {
    for (const plan::Stage& stage : plan.stages) EXPECT_TRUE(stage.recompute.empty());
  }
}

TEST(PlannerTest, TheZeroBubbleScheduleCanBeFixed) {
  PlanRequest request = RequestFor("gpt2-medium", "l4-1x4", 1024, 16);
  request.fixed.pp = 4;
  request.space.even_split = true;
  const plan::Plan simple = FindPlan(request).plans.front();
  request.space.even_split = false;
  request.fixed.schedule = "zb-h1";
  const PlanResult result = FindPlan(request);
  ASSERT_FALSE(result.plans.empty());
  const plan::Plan& plan = result.plans.front();
  EXPECT_EQ(plan.training.schedule, "zb-h1");
  EXPECT_LT(plan.predicted->iteration_time_s, simple.predicted->iteration_time_s);
  for (const plan::Stage& stage : plan.stages) EXPECT_EQ(stage.num_layers(), 6);
  request.fixed.pp = 5;
  EXPECT_THROW(FindPlan(request), Error);
}

TEST(PlannerTest, TheInterleavedScheduleCanBeFixed) {
  PlanRequest request = RequestFor("gpt3-1.3b", "a100-sxm4-80gb-1x8", 2048, 64);
  request.fixed.pp = 4;
  request.fixed.dp = 2;
  request.fixed.micro_batch = 1;
  request.space.even_split = true;
  const plan::Plan simple = FindPlan(request).plans.front();
  request.space.even_split = false;
  request.fixed.schedule = "interleaved";
  const model::Graph graph = model::BuildGraph(request.model.spec);
  for (const int chunks : {2, 3, 6}) {
    request.fixed.chunks = chunks;
    const PlanResult result = FindPlan(request);
    ASSERT_FALSE(result.plans.empty());
    const plan::Plan& plan = result.plans.front();
    EXPECT_EQ(plan.stages.front().num_chunks(), chunks);
    EXPECT_TRUE(plan::Validate(plan, graph, request.model.spec).ok());
    EXPECT_LT(plan.predicted->iteration_time_s, simple.predicted->iteration_time_s);
    // As `predict` says, and as it was evaluated.
    plan::Plan again = plan;
    cost::Predict(again, graph, request.calibration);
    EXPECT_EQ(again.predicted, plan.predicted);
    EXPECT_NEAR(result.search.lower_bound_s, plan.predicted->iteration_time_s, 1e-9);
  }
  request.fixed.chunks = 4;  // of six layers
  EXPECT_THROW(FindPlan(request), Error);
  request.fixed.chunks = std::nullopt;
  request.fixed.micro_batches = 2;  // for four stages
  EXPECT_THROW(FindPlan(request), Error);
}

TEST(PlannerTest, MoreMemoryIsNeverSlower) {
  PlanRequest request = RequestFor("gpt2-medium", "l4-1x4", 1024, 16);
  double before = std::numeric_limits<double>::infinity();
  for (const double limit : {5e9, 7e9, 10e9, 20e9}) {
    request.memory_limit = limit;
    const PlanResult result = FindPlan(request);
    ASSERT_FALSE(result.plans.empty()) << limit;
    EXPECT_LE(result.plans.front().predicted->iteration_time_s, before);
    before = result.plans.front().predicted->iteration_time_s;
  }
}

TEST(PlannerTest, SaysWhichDevicesStayIdle) {
  PlanRequest request = RequestFor("gpt2", "l4-1x7", 512, 16);
  request.fixed.pp = 1;
  const PlanResult result = FindPlan(request);
  ASSERT_FALSE(result.notes.empty());
  EXPECT_THAT(result.notes.front(), HasSubstr("1 device"));
  EXPECT_EQ(result.plans.front().stages.front().devices.size(), 6u);
}

TEST(PlannerTest, MemoryThatBindsIsNamed) {
  PlanRequest request = RequestFor("gpt2-medium", "l4-1x4", 1024, 16);
  request.memory_limit = 5e9;
  EXPECT_THAT(FindPlan(request).binding, HasSubstr("memory of stage"));
  request.memory_limit = 1;
  EXPECT_THAT(FindPlan(request).binding, HasSubstr("more memory would not help"));
}

}  // namespace
}  // namespace palmist::planner
