#include "palmist/planner/uniform_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "palmist/planner/space.h"
#include "palmist/planner/test/small_request.h"

namespace palmist::planner {
namespace {

class UniformSearchTest : public testing::Test {
 protected:
  UniformSearchTest()
      : request_(test::RequestFor("gpt2-medium", "l4-1x4", 1024, 16)),
        graph_(model::BuildGraph(request_.model.spec)),
        candidates_(EnumerateCandidates(request_, graph_)),
        evaluator_(request_, graph_, candidates_) {}

  UniformSearch Search(
      const std::function<Evaluation(int, double, const std::function<bool()>&)>& evaluate) {
    const Pricing pricing = {[&](int index) { return evaluator_.Bound(index); }, evaluate};
    return SearchUniform(request_, candidates_, pricing, {}, std::chrono::steady_clock::now());
  }

  PlanRequest request_;
  model::Graph graph_;
  std::vector<Candidate> candidates_;
  Evaluator evaluator_;
};

TEST_F(UniformSearchTest, ACandidateThatCannotBePricedIsLeftOutWithItsReason) {
  const UniformSearch all = Search([&](int index, double cutoff_s, const auto& stop) {
    return evaluator_.Evaluate(index, cutoff_s, stop);
  });
  ASSERT_GE(all.best.size(), 2U);
  EXPECT_TRUE(all.failures.empty());
  const int broken = all.best.front().index;
  for (const int threads : {1, 2}) {
    request_.threads = threads;
    const UniformSearch rest = Search([&](int index, double cutoff_s, const auto& stop) {
      if (index == broken) throw Error(ErrorKind::kRuntime, "the profiler crashed");
      return evaluator_.Evaluate(index, cutoff_s, stop);
    });
    ASSERT_FALSE(rest.best.empty());
    EXPECT_NE(rest.best.front().index, broken);
    EXPECT_EQ(rest.outcome, Outcome::kOptimal);
    EXPECT_THAT(rest.failures,
                testing::ElementsAre(testing::Pair(testing::HasSubstr("the profiler crashed"), 1)));
  }
}

TEST_F(UniformSearchTest, AllThatFailLeaveNothing) {
  const UniformSearch none = Search(
      [&](int, double, const auto&) -> Evaluation { throw Error(ErrorKind::kRuntime, "broken"); });
  EXPECT_TRUE(none.best.empty());
  EXPECT_EQ(none.failures.at("broken"), static_cast<int>(candidates_.size()));
}

}  // namespace
}  // namespace palmist::planner
