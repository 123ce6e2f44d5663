#include "palmist/kernels/dropout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "palmist/kernels/test/kernel_testing.h"

namespace palmist::kernels {
namespace {

template <typename T>
class DropoutTest : public ::testing::Test {};
TYPED_TEST_SUITE(DropoutTest, StorageTypes);

TYPED_TEST(DropoutTest, KeepsAndScalesAsTheScalarDefinition) {
  ForEachTarget([] {
    for (const std::size_t n : {0, 1, 15, 63, 64, 65, 1000}) {
      for (const double p : {1e-3, 0.1, 0.5, 0.999}) {
        const DropoutSpec spec = {.p = p, .seed = 77 + n};
        const auto x = Random<TypeParam>(n, 1);
        std::vector<TypeParam> y(n);
        Dropout<TypeParam>(x, spec, y, SerialExecutor());
        for (std::size_t i = 0; i < n; ++i) {
          const double scaled = Value(x[i]) / (1 - p);
          const double expected = IsKept(spec, i) ? scaled : 0;
          ASSERT_NEAR(Value(y[i]), expected, Epsilon<TypeParam>() * std::abs(expected)) << i;
        }
      }
    }
  });
}

TYPED_TEST(DropoutTest, ProbabilityZeroIsTheIdentityAndOneGivesZeros) {
  auto x = Random<TypeParam>(130, 2);
  x[3] = As<TypeParam>(std::numeric_limits<double>::infinity());
  std::vector<TypeParam> y(x.size());
  Dropout<TypeParam>(x, {.p = 0, .seed = 1}, y, SerialExecutor());
  EXPECT_EQ(Bytes(y), Bytes(x));
  Dropout<TypeParam>(x, {.p = 1, .seed = 1}, y, SerialExecutor());
  EXPECT_EQ(Bytes(y), Bytes(std::vector<TypeParam>(x.size())));
}

TYPED_TEST(DropoutTest, DroppedInfAndNanBecomeZero) {
  const DropoutSpec spec = {.p = 0.5, .seed = 3};
  for (const double special : {HUGE_VAL, std::nan("")}) {
    std::vector<TypeParam> x(200, As<TypeParam>(special));
    Dropout<TypeParam>(x, spec, x, SerialExecutor());
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (IsKept(spec, i)) {
        ASSERT_FALSE(std::isfinite(Value(x[i])));
      } else {
        ASSERT_EQ(Value(x[i]), 0);
      }
    }
  }
}

TYPED_TEST(DropoutTest, SameForAllExecutorsAndInPlace) {
  const auto x = Random<TypeParam>(100'003, 4);
  const DropoutSpec spec = {.p = 0.3, .seed = 5};
  ExpectSameForAllExecutors([&](Executor& executor) {
    std::vector<TypeParam> y(x.size());
    Dropout<TypeParam>(x, spec, y, executor);
    auto in_place = x;
    Dropout<TypeParam>(in_place, spec, in_place, executor);
    EXPECT_TRUE(Bytes(y) == Bytes(in_place));
    return Bytes(y);
  });
}

TEST(DropoutMaskTest, KeepRateIsWithinFiveSigma) {
  constexpr double kCount = 1 << 20;
  const std::vector<float> x(1 << 20, 1);
  std::vector<float> y(x.size());
  for (const double p : {0.01, 0.1, 0.5, 0.9}) {
    for (const std::uint64_t seed : {1ULL, 0xdeadbeefcafef00dULL}) {
      Dropout<float>(x, {.p = p, .seed = seed}, y, SerialExecutor());
      double kept = 0;
      for (const float value : y) kept += value != 0 ? 1 : 0;
      EXPECT_NEAR(kept, kCount * (1 - p), 5 * std::sqrt(kCount * p * (1 - p)));
    }
  }
}

TEST(DropoutMaskTest, SeedsGiveIndependentMasks) {
  constexpr double kCount = 1 << 18;
  const std::vector<float> x(1 << 18, 1);
  std::vector<float> a(x.size());
  std::vector<float> b(x.size());
  Dropout<float>(x, {.p = 0.5, .seed = 8}, a, SerialExecutor());
  Dropout<float>(x, {.p = 0.5, .seed = 9}, b, SerialExecutor());
  double same = 0;
  for (std::size_t i = 0; i < x.size(); ++i) same += a[i] == b[i] ? 1 : 0;
  EXPECT_NEAR(same, kCount / 2, 5 * std::sqrt(kCount / 4));
}

}  // namespace
}  // namespace palmist::kernels
