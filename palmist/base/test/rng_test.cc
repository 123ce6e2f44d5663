#include "palmist/base/rng.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <set>

#include "palmist/base/error.h"

namespace palmist {
namespace {

using Counter = std::array<std::uint32_t, 4>;
using Key = std::array<std::uint32_t, 2>;

// The known answers published with the paper (Random123, philox4x32 with 10 rounds): zeros, ones,
// and digits of pi.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(Philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Rng, WalksTheCounter) {
  Rng rng(0x299f31d0a4093822, 7);
  for (std::uint32_t position = 0; position < 3; ++position) {
    const Counter block = Philox4x32({position, 0, 7, 0}, Key{0xa4093822, 0x299f31d0});
    EXPECT_EQ(rng(), block[0] | static_cast<std::uint64_t>(block[1]) << 32);
    EXPECT_EQ(rng(), block[2] | static_cast<std::uint64_t>(block[3]) << 32);
  }
}

TEST(Rng, SeedsAndStreamsDiffer) {
  std::set<std::uint64_t> first;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    for (std::uint64_t stream = 0; stream < 10; ++stream) first.insert(Rng(seed, stream)());
  }
  EXPECT_EQ(first.size(), 100U);
  EXPECT_EQ(Rng(3, 4)(), Rng(3, 4)());
}

TEST(Rng, UniformHasTheRightMoments) {
  Rng rng(1);
  constexpr int kCount = 100'000;
  double sum = 0.0;
  double squares = 0.0;
  for (int i = 0; i < kCount; ++i) {
    const double u = rng.Uniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    squares += u * u;
  }
  // Five standard errors: sqrt(1/12/n) and sqrt(4/45/n).
  EXPECT_NEAR(sum / kCount, 0.5, 5.0 * std::sqrt(1.0 / 12.0 / kCount));
  EXPECT_NEAR(squares / kCount, 1.0 / 3.0, 5.0 * std::sqrt(4.0 / 45.0 / kCount));
}

TEST(Rng, IntegersAreEquallyLikely) {
  Rng rng(2);
  constexpr int kBins = 7;
  constexpr int kCount = 70'000;
  std::array<int, kBins> bins{};
  for (int i = 0; i < kCount; ++i) ++bins.at(static_cast<std::size_t>(rng.Integer(kBins)));
  double chi_squared = 0.0;
  for (const int bin : bins) chi_squared += std::pow(bin - kCount / kBins, 2) / (kCount / kBins);
  EXPECT_LT(chi_squared, 22.5);  // 99.9 % of chi squared with 6 degrees of freedom.
  EXPECT_EQ(rng.Integer(1), 0);
  EXPECT_THROW(rng.Integer(0), Error);
}

TEST(Rng, WorksWithStandardDistributions) {
  Rng rng(3);
  std::normal_distribution<double> normal;
  double sum = 0.0;
  constexpr int kCount = 10'000;
  for (int i = 0; i < kCount; ++i) sum += normal(rng);
  EXPECT_NEAR(sum / kCount, 0.0, 5.0 / std::sqrt(kCount));
}

}  // namespace
}  // namespace palmist
