#include "palmist/kernels/philox.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "palmist/kernels/test/philox_test.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h
#include "hwy/highway.h"
#include "palmist/kernels/cpu/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace palmist::kernels {
namespace HWY_NAMESPACE {

void BlockOfWords(std::uint64_t seed, std::uint64_t block, std::uint32_t* words) {
  HWY_ALIGN std::uint32_t aligned[kDropoutBlock];
  DropoutBlock(seed, block, aligned);
  std::copy_n(aligned, kDropoutBlock, words);
}

}  // namespace HWY_NAMESPACE
}  // namespace palmist::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "palmist/base/rng.h"

namespace palmist::kernels {

HWY_EXPORT(BlockOfWords);

namespace {

// The known answer of Philox4x32-10 for counter and key 0, published with the paper; base's own
// tests hold the rest.
TEST(PhiloxTest, FirstCounterIsTheKnownAnswer) {
  EXPECT_EQ(DropoutBits(0, 0), 0x6627e8d5U);
  EXPECT_EQ(DropoutBits(0, 16), 0xe169c58dU);
  EXPECT_EQ(DropoutBits(0, 32), 0xbc57ac4cU);
  EXPECT_EQ(DropoutBits(0, 48), 0x9b00dbd8U);
}

TEST(PhiloxTest, ElementsTakeTheWordsOfTheirCounter) {
  constexpr std::uint64_t kSeed = 0x299f31d0a4093822;
  constexpr std::uint64_t kBlock = 0x123456789abcde;
  for (std::uint64_t j = 0; j < 64; ++j) {
    const std::uint64_t counter = kBlock * 16 + j % 16;
    const auto words = Philox4x32(
        {static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0, 0},
        {0xa4093822, 0x299f31d0});
    ASSERT_EQ(DropoutBits(kSeed, kBlock * 64 + j), words[j / 16]);
  }
}

TEST(PhiloxTest, VectorsGiveTheSameBits) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    Rng rng(1);
    // Blocks on both sides of where the low half of the counter overflows, and random ones.
    std::vector<std::uint64_t> blocks = {0, 1, (1ULL << 28) - 1, 1ULL << 28};
    for (int i = 0; i < 500; ++i) blocks.push_back(rng() >> (6 + i % 58));
    for (const std::uint64_t block : blocks) {
      const std::uint64_t seed = rng();
      std::uint32_t words[64];
      HWY_DYNAMIC_DISPATCH(BlockOfWords)(seed, block, words);
      for (std::uint64_t j = 0; j < 64; ++j) {
        ASSERT_EQ(words[j], DropoutBits(seed, block * 64 + j)) << block << " " << j;
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(PhiloxTest, KeptAtTheRoundedThreshold) {
  // The word of element 0 under seed 0 is 0x6627e8d5: kept up to exactly that threshold.
  EXPECT_TRUE(IsKept({.p = 0x6627e8d5p-32, .seed = 0}, 0));
  EXPECT_FALSE(IsKept({.p = 0x6627e8d6p-32, .seed = 0}, 0));
  for (std::uint64_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(IsKept({.p = 0, .seed = 5}, i));
    ASSERT_FALSE(IsKept({.p = 1, .seed = 5}, i));
    ASSERT_FALSE(IsKept({.p = std::nextafter(1.0, 0.0), .seed = 5}, i));
  }
}

TEST(PhiloxTest, RowsArePaddedToBlocks) {
  EXPECT_EQ(PaddedRow(0), 0);
  EXPECT_EQ(PaddedRow(1), 64);
  EXPECT_EQ(PaddedRow(64), 64);
  EXPECT_EQ(PaddedRow(65), 128);
}

}  // namespace
}  // namespace palmist::kernels
#endif  // HWY_ONCE
