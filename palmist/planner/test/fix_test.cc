#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "palmist/planner/request.h"

namespace palmist::planner {
namespace {

using ::testing::HasSubstr;

Error ErrorOf(const std::string& fix, Fixed fixed = {}) {
  const Result<void> result = ParseFix(fix, fixed);
  EXPECT_FALSE(result.ok()) << fix;
  return result.ok() ? InputError("", "") : result.error();
}

TEST(FixTest, ReadsEveryKey) {
  Fixed fixed;
  for (const char* fix : {"pp=1",
                          "dp=2",
                          "tp=3",
                          "sp=true",
                          "cp=4",
                          "ep=5",
                          "zero=3",
                          "micro_batch=6",
                          "micro_batches=7",
                          "recompute=full",
                          "schedule=gpipe",
                          "ops.attention=fused_softmax",
                          "ops.norm=eager",
                          "ops.activation=tempo",
                          "ops.dropout=lean",
                          "ops.loss=sdpa",
                          "offload.weights=0.25",
                          "offload.grads=0",
                          "offload.optimizer=1",
                          "offload.activations=0.5"}) {
    EXPECT_TRUE(ParseFix(fix, fixed).ok()) << fix;
  }
  EXPECT_EQ(fixed.pp, 1);
  EXPECT_EQ(fixed.dp, 2);
  EXPECT_EQ(fixed.tp, 3);
  EXPECT_EQ(fixed.sp, true);
  EXPECT_EQ(fixed.cp, 4);
  EXPECT_EQ(fixed.ep, 5);
  EXPECT_EQ(fixed.zero, 3);
  EXPECT_EQ(fixed.micro_batch, 6);
  EXPECT_EQ(fixed.micro_batches, 7);
  EXPECT_EQ(fixed.recompute, "full");
  EXPECT_EQ(fixed.schedule, "gpipe");
  EXPECT_EQ(fixed.attention, model::Variant::kFusedSoftmax);
  EXPECT_EQ(fixed.norm, model::Variant::kEager);
  EXPECT_EQ(fixed.activation, model::Variant::kTempo);
  EXPECT_EQ(fixed.dropout, model::Variant::kLean);
  EXPECT_EQ(fixed.loss, model::Variant::kSdpa);
  EXPECT_EQ(fixed.OffloadOver(),
            (plan::OffloadRatios{.weights = 0.25, .grads = 0, .optimizer = 1, .activations = 0.5}));
  EXPECT_EQ(FixKeys().size(), 21u);
}

TEST(FixTest, NothingIsFixedByDefault) {
  const Fixed fixed;
  EXPECT_FALSE(fixed.pp || fixed.dp || fixed.tp || fixed.cp || fixed.ep || fixed.zero);
  EXPECT_FALSE(fixed.sp || fixed.recompute || fixed.schedule || fixed.attention);
  EXPECT_FALSE(fixed.fixes_offload());
}

TEST(FixTest, UnknownKeysNameTheNearest) {
  const Error error = ErrorOf("micro_bach=1");
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_THAT(error.message(), HasSubstr("micro_bach"));
  EXPECT_THAT(error.hint(), HasSubstr("micro_batch"));
  EXPECT_THAT(ErrorOf("offload.optimiser=1").hint(), HasSubstr("offload.optimizer"));
}

TEST(FixTest, BadValuesSayWhatIsExpected) {
  EXPECT_THAT(ErrorOf("tp").message(), HasSubstr("key=value"));
  for (const char* fix : {"tp=",
                          "tp=0",
                          "tp=-1",
                          "tp=two",
                          "tp=2x",
                          "tp=1.5",
                          "tp=1048577",
                          "tp=99999999999999999999"}) {
    EXPECT_THAT(ErrorOf(fix).message(), HasSubstr("whole number from 1 to 1048576")) << fix;
    EXPECT_THAT(ErrorOf(fix).field(), HasSubstr("tp")) << fix;
  }
  EXPECT_THAT(ErrorOf("zero=4").message(), HasSubstr("0 to 3"));
  EXPECT_THAT(ErrorOf("sp=maybe").message(), HasSubstr("true or false"));
  EXPECT_THAT(ErrorOf("schedule=dualpipe").message(), HasSubstr("1f1b, gpipe"));
  EXPECT_THAT(ErrorOf("recompute=some").message(), HasSubstr("none, full"));
  EXPECT_THAT(ErrorOf("ops.norm=leen").hint(), HasSubstr("lean"));
  for (const char* fix : {"offload.weights=1.5",
                          "offload.weights=-0.1",
                          "offload.weights=nan",
                          "offload.weights=half"}) {
    EXPECT_THAT(ErrorOf(fix).message(), HasSubstr("share from 0 to 1")) << fix;
  }
}

TEST(FixTest, TwoValuesContradictTheSameOneDoesNot) {
  Fixed fixed;
  ASSERT_TRUE(ParseFix("tp=2", fixed).ok());
  EXPECT_TRUE(ParseFix("tp=2", fixed).ok());
  const Error error = ErrorOf("tp=4", fixed);
  EXPECT_THAT(error.message(), HasSubstr("fixed twice"));
  EXPECT_THAT(error.field(), HasSubstr("tp"));
  ASSERT_TRUE(ParseFix("sp=on", fixed).ok());
  EXPECT_TRUE(ParseFix("sp=true", fixed).ok());
  EXPECT_FALSE(ParseFix("sp=0", fixed).ok());
  ASSERT_TRUE(ParseFix("offload.optimizer=0.5", fixed).ok());
  EXPECT_TRUE(ParseFix("offload.optimizer=0.5", fixed).ok());
  EXPECT_FALSE(ParseFix("offload.optimizer=1", fixed).ok());
  EXPECT_EQ(fixed.offload_optimizer, 0.5);
}

TEST(FixTest, AFailureLeavesWhatWasFixed) {
  Fixed fixed;
  ASSERT_TRUE(ParseFix("tp=2", fixed).ok());
  EXPECT_FALSE(ParseFix("tp=nonsense", fixed).ok());
  EXPECT_EQ(fixed.tp, 2);
}

}  // namespace
}  // namespace palmist::planner
