#include "palmist/base/nearest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace palmist {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<std::string> kModels = {"gpt2", "gpt2-xl", "gpt2-medium", "llama-7b", "bert"};

TEST(NearestNames, NearestComesFirst) {
  EXPECT_THAT(NearestNames("gpt2-x", kModels), ElementsAre("gpt2-xl", "gpt2"));
  EXPECT_THAT(NearestNames("lama-7b", kModels), ElementsAre("llama-7b"));
  EXPECT_THAT(NearestNames("BRET", kModels), ElementsAre("bert"));
}

TEST(NearestNames, PrefixesAreNear) {
  EXPECT_THAT(NearestNames("gpt2-m", kModels, 9), ElementsAre("gpt2", "gpt2-xl", "gpt2-medium"));
}

TEST(NearestNames, CaseDoesNotCount) {
  EXPECT_THAT(NearestNames("LLAMA-7B", kModels, 1), ElementsAre("llama-7b"));
}

TEST(NearestNames, FarNamesAreLeftOut) {
  EXPECT_THAT(NearestNames("resnet50", kModels), IsEmpty());
  EXPECT_THAT(NearestNames("", kModels), IsEmpty());
  EXPECT_THAT(NearestNames(std::string(1'000'000, 'g'), kModels), IsEmpty());
  EXPECT_THAT(NearestNames("x", std::vector<std::string>{"a", "b"}), IsEmpty());
}

TEST(NearestNames, GivesAtMostK) {
  EXPECT_THAT(NearestNames("gpt2", kModels, 1), ElementsAre("gpt2"));
}

TEST(DidYouMean, JoinsNames) {
  EXPECT_EQ(DidYouMean("lama-7b", kModels), "did you mean llama-7b?");
  EXPECT_EQ(DidYouMean("gpt2-x", kModels), "did you mean gpt2-xl or gpt2?");
  EXPECT_EQ(DidYouMean("gpt2-m", kModels), "did you mean gpt2, gpt2-xl or gpt2-medium?");
  EXPECT_EQ(DidYouMean("resnet50", kModels), "");
}

}  // namespace
}  // namespace palmist
