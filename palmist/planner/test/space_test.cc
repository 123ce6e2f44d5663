#include "palmist/planner/space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "palmist/planner/evaluator.h"
#include "palmist/planner/test/small_request.h"

namespace palmist::planner {
namespace {

using test::RequestFor;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<Candidate> Enumerate(const PlanRequest& request) {
  return EnumerateCandidates(request, model::BuildGraph(request.model.spec));
}

Error ErrorOf(const PlanRequest& request) {
  try {
    Enumerate(request);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "expected an error";
  return InputError("", "");
}

/// Every candidate is valid as a plan file, and no two are the same.
void CheckSound(const PlanRequest& request) {
  const model::Graph graph = model::BuildGraph(request.model.spec);
  const std::vector<Candidate> candidates = EnumerateCandidates(request, graph);
  ASSERT_FALSE(candidates.empty());
  const Evaluator evaluator(request, graph, candidates);
  std::set<std::tuple<int, int, int, int, int, int, int, bool, int>> distinct;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& candidate = candidates[i];
    const cost::Layout& layout = candidate.layout;
    EXPECT_EQ(candidate.stages * layout.dp * layout.tp * layout.cp, candidate.devices);
    EXPECT_EQ(std::int64_t{candidate.micro_batches} * layout.micro_batch * layout.dp,
              request.global_batch);
    EXPECT_EQ(candidate.devices, candidates.front().devices);
    EXPECT_TRUE(distinct
                    .insert({static_cast<int>(candidate.ops.attention),
                             candidate.stages,
                             layout.dp,
                             layout.tp,
                             layout.cp,
                             layout.ep,
                             layout.zero,
                             layout.sp,
                             layout.micro_batch})
                    .second);
    if (i % 7 != 0) continue;  // pricing each would take long
    const int index = static_cast<int>(i);
    const plan::Plan plan = evaluator.MakePlan(index, evaluator.EvenSplit(index));
    const Result<void> valid = plan::Validate(plan, graph, request.model.spec);
    EXPECT_TRUE(valid.ok()) << (valid.ok() ? "" : valid.error().what());
  }
}

TEST(SpaceTest, CandidatesAreSoundForADenseModel) {
  CheckSound(RequestFor("llama-2-7b", "l4-2x8", 1024, 24));
}

TEST(SpaceTest, CandidatesAreSoundForGroupedQueries) {
  CheckSound(RequestFor("qwen2-0.5b", "l4-1x8", 1024, 16));
}

TEST(SpaceTest, CandidatesAreSoundForExperts) {
  PlanRequest request = RequestFor("deepseek-v2-lite", "l4-1x8", 1024, 16);
  request.ops = "fused";
  CheckSound(request);
}

TEST(SpaceTest, CandidatesAreSoundWithContextParallelism) {
  PlanRequest request = RequestFor("llama-3.2-1b", "l4-1x8", 1024, 8);
  request.fixed.cp = 2;
  CheckSound(request);
}

TEST(SpaceTest, CandidatesAreSoundForSmallRandomRequests) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    CheckSound(test::SmallRequest(seed));
  }
}

TEST(SpaceTest, FixedValuesHold) {
  PlanRequest request = RequestFor("llama-2-7b", "l4-2x8", 1024, 32);
  request.fixed.tp = 2;
  request.fixed.zero = 2;
  request.fixed.sp = true;
  request.fixed.micro_batch = 2;
  const std::vector<Candidate> candidates = Enumerate(request);
  ASSERT_FALSE(candidates.empty());
  for (const Candidate& candidate : candidates) {
    EXPECT_EQ(candidate.layout.tp, 2);
    EXPECT_EQ(candidate.layout.zero, 2);
    EXPECT_TRUE(candidate.layout.sp);
    EXPECT_EQ(candidate.layout.micro_batch, 2);
  }
}

TEST(SpaceTest, TensorParallelismStaysInANodeUnlessItIsFixed) {
  PlanRequest request = RequestFor("llama-2-7b", "l4-4x2", 1024, 8);
  for (const Candidate& candidate : Enumerate(request)) EXPECT_LE(candidate.layout.tp, 2);
  request.fixed.tp = 8;
  EXPECT_EQ(Enumerate(request).front().layout.tp, 8);
}

TEST(SpaceTest, ConvolutionalModelsAreNotSplitInside) {
  for (const Candidate& candidate : Enumerate(RequestFor("resnet-50", "l4-1x8", 0, 64))) {
    EXPECT_EQ(candidate.layout.tp, 1);
    EXPECT_FALSE(candidate.layout.sp);
  }
}

TEST(SpaceTest, DeepSpeedPipelinesKeepGradientsWhole) {
  PlanRequest request = RequestFor("gpt2", "l4-1x8", 512, 16);
  request.target = "deepspeed";
  bool sharded = false;
  for (const Candidate& candidate : Enumerate(request)) {
    EXPECT_TRUE(candidate.stages == 1 || candidate.layout.zero < 2);
    sharded = sharded || candidate.layout.zero >= 2;
  }
  EXPECT_TRUE(sharded);
}

TEST(SpaceTest, LeavesDevicesIdleOnlyWhereItMust) {
  // 12 layers, 12 heads, batch 16: seven devices can only be a pipeline of seven stages.
  PlanRequest request = RequestFor("gpt2", "l4-1x7", 512, 16);
  for (const Candidate& candidate : Enumerate(request)) EXPECT_EQ(candidate.devices, 7);
  request.fixed.pp = 1;
  for (const Candidate& candidate : Enumerate(request)) EXPECT_EQ(candidate.devices, 6);
}

TEST(SpaceTest, VariantsFollowOpsTargetAndFixes) {
  PlanRequest request = RequestFor("gpt2", "l4-1x2", 512, 4);
  EXPECT_EQ(CandidateVariants(request).size(), 2u);  // fused and lean
  request.target = "megatron";
  ASSERT_EQ(CandidateVariants(request).size(), 1u);
  EXPECT_EQ(CandidateVariants(request).front(), model::UniformVariants(model::Variant::kFused));
  request.target = "torchtitan";
  EXPECT_EQ(CandidateVariants(request).front(), model::UniformVariants(model::Variant::kSdpa));
  request.ops = "eager";
  request.fixed.loss = model::Variant::kLean;
  ASSERT_EQ(CandidateVariants(request).size(), 1u);
  EXPECT_EQ(CandidateVariants(request).front().norm, model::Variant::kEager);
  EXPECT_EQ(CandidateVariants(request).front().loss, model::Variant::kLean);
}

// A request that leaves no layout says which constraint did it.

TEST(SpaceTest, NamesMoreStagesThanLayers) {
  PlanRequest request = RequestFor("gpt2", "l4-2x8", 512, 16);
  request.fixed.pp = 16;
  const Error error = ErrorOf(request);
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("stages"), HasSubstr("12 layers")));
}

TEST(SpaceTest, NamesHeads) {
  PlanRequest request = RequestFor("gpt2", "l4-1x8", 512, 16);
  request.fixed.tp = 5;
  EXPECT_THAT(ErrorOf(request).message(), HasSubstr("attention heads"));
}

TEST(SpaceTest, NamesTheBatch) {
  PlanRequest request = RequestFor("gpt2", "l4-1x8", 512, 7);
  request.fixed.dp = 8;
  EXPECT_THAT(ErrorOf(request).message(), HasSubstr("global batch of 7"));
}

TEST(SpaceTest, NamesTheMicroBatches) {
  PlanRequest request = RequestFor("gpt2", "l4-1x8", 512, 8);
  request.fixed.micro_batches = 7;
  EXPECT_THAT(ErrorOf(request).message(), HasSubstr("micro_batches"));
}

TEST(SpaceTest, NamesTheSequence) {
  PlanRequest request = RequestFor("llama-2-7b", "l4-1x8", 513, 8);
  request.fixed.sp = true;
  EXPECT_THAT(ErrorOf(request).message(), HasSubstr("sequence"));
  request.fixed.sp.reset();
  request.fixed.cp = 2;
  EXPECT_THAT(ErrorOf(request).message(), HasSubstr("context parallelism"));
}

TEST(SpaceTest, NamesTheExperts) {
  PlanRequest request = RequestFor("mixtral-8x7b-v0.1", "l4-1x8", 512, 8);
  request.fixed.ep = 3;
  EXPECT_THAT(ErrorOf(request).message(), HasSubstr("ep must divide"));
}

TEST(SpaceTest, NamesTheDevices) {
  PlanRequest request = RequestFor("gpt2", "l4-1x8", 512, 9);
  request.fixed.pp = 3;
  request.fixed.dp = 3;
  EXPECT_THAT(ErrorOf(request).message(), HasSubstr("fixed degrees"));
}

}  // namespace
}  // namespace palmist::planner
