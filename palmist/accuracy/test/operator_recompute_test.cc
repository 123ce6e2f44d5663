#include "palmist/accuracy/operator_recompute.h"

#include <gtest/gtest.h>

#include <string_view>

#include "palmist/accuracy/run_plan.h"

namespace palmist::accuracy {
namespace {

using model::Variant;

/// A stage of `layers` whole layers that repeats the pattern of one.
OperatorStage Stage(std::string_view pattern, int layers = 1, double tp = 1) {
  OperatorStage stage;
  stage.first = 1;
  stage.scores_per_hidden = 32;
  stage.ffn_per_hidden = 4;
  stage.tp = tp;
  for (int layer = 0; layer < layers; ++layer) {
    for (const char flag : pattern) stage.recomputed.push_back(flag == '1');
  }
  return stage;
}

constexpr std::string_view kNone = "0000000000000";
constexpr std::string_view kAll = "1111111111111";
constexpr std::string_view kCore = "0011110000000";  // score, softmax, dropout, context

TEST(OperatorRecomputeTest, PlainLayersKeepThePublishedBytes) {
  EXPECT_DOUBLE_EQ(KeptPerLayer(Stage(kNone)), 34 + 5 * 32);
  EXPECT_DOUBLE_EQ(KeptPerLayer(Stage(kNone, 3, 4)), 10 + 24.0 / 4 + 5 * 32.0 / 4);
}

TEST(OperatorRecomputeTest, ARunKeepsItsInputOnly) {
  EXPECT_DOUBLE_EQ(KeptPerLayer(Stage(kAll)), 2) << "the layer's input";
  EXPECT_DOUBLE_EQ(KeptPerLayer(Stage(kAll, 4)), 0.5) << "one input for four layers";
  EXPECT_DOUBLE_EQ(KeptPerLayer(Stage(kCore)), 34) << "as flash attention";
  EXPECT_DOUBLE_EQ(KeptPerLayer(Stage("0000110000000")), 34 + 2 * 32) << "the softmax stays";
  EXPECT_DOUBLE_EQ(KeptPerLayer(Stage("0000000001100")), 34 + 5 * 32 - 8) << "GELU's input";
}

TEST(OperatorRecomputeTest, CountsPartsOfLayersAndSkipsTheEnds) {
  // Embedding, one layer and a half of the next.
  OperatorStage stage = Stage(kNone);
  stage.first = 0;
  stage.recomputed.assign(1 + 13 + 6, false);
  const double of_half = 2 + 2 + 6 + 5 * 32;  // up to the context product
  EXPECT_DOUBLE_EQ(KeptPerLayer(stage), (34 + 5 * 32 + of_half) / 19 * 13);
}

TEST(OperatorRecomputeTest, FindsTheNearestWholeLayers) {
  const auto nearest = [](const OperatorStage& stage, std::int64_t layers) {
    const LayerRecompute result = NearestRecompute(stage, layers);
    return std::pair(result.layers, result.attention);
  };
  EXPECT_EQ(nearest(Stage(kNone, 4), 4), std::pair(std::int64_t{0}, Variant::kFusedSoftmax));
  EXPECT_EQ(nearest(Stage(kCore, 4), 4), std::pair(std::int64_t{0}, Variant::kFused));
  EXPECT_EQ(nearest(Stage(kAll, 4), 4).first, 4);
  EXPECT_EQ(nearest(Stage(kAll, 4), 5).first, 5) << "a stage rounded up is recomputed whole";
  OperatorStage half = Stage(kNone, 2);
  for (std::size_t i = 13; i < 26; ++i) half.recomputed[i] = true;
  EXPECT_EQ(nearest(half, 2), std::pair(std::int64_t{1}, Variant::kFusedSoftmax));
}

TEST(OperatorRecomputeTest, CutsGoToTheNearestLayer) {
  // 1 + 13 * 4 + 2 operators.
  EXPECT_EQ(SplitAtOperators({55}, 4), (std::vector<std::int64_t>{4}));
  EXPECT_EQ(SplitAtOperators({27, 28}, 4), (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(SplitAtOperators({22, 33}, 4), (std::vector<std::int64_t>{2, 2})) << "cut at 1.6";
  EXPECT_EQ(SplitAtOperators({19, 36}, 4), (std::vector<std::int64_t>{1, 3})) << "cut at 1.4";
  EXPECT_EQ(SplitAtOperators({3, 4, 48}, 4), (std::vector<std::int64_t>{1, 1, 2})) << "none empty";
  EXPECT_EQ(SplitAtOperators({50, 2, 3}, 4), (std::vector<std::int64_t>{2, 1, 1})) << "none empty";
}

TEST(OperatorRecomputeTest, LayersSpreadEvenly) {
  EXPECT_EQ(SplitEvenly(10, 4), (std::vector<std::int64_t>{2, 3, 2, 3}));
  EXPECT_EQ(SplitEvenly(8, 2), (std::vector<std::int64_t>{4, 4}));
}

}  // namespace
}  // namespace palmist::accuracy
