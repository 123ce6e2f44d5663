#include "palmist/kernels/gelu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "palmist/base/thread_pool.h"
#include "palmist/kernels/scalar.h"
#include "palmist/kernels/test/gelu_reference.h"
#include "palmist/kernels/test/kernel_testing.h"

namespace palmist::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

template <typename T>
std::vector<T> Value(const std::vector<T>& x, GeluKind kind, Executor& executor) {
  std::vector<T> y(x.size());
  Gelu<T>(x, y, kind, executor);
  return y;
}

template <typename T>
std::vector<T> Slope(const std::vector<T>& x, GeluKind kind, T one) {
  std::vector<T> dx(x.size());
  GeluBackward<T>(std::vector<T>(x.size(), one), x, dx, kind, SerialExecutor());
  return dx;
}

/// From -20 to 20, closer near 0, and all magnitudes.
std::vector<float> Sweep() {
  std::vector<float> x;
  for (int i = -20000; i <= 20000; ++i) x.push_back(static_cast<float>(i) * 1.00013e-3f);
  for (float v = 0x1p-149f; v < 1e38f; v *= 1.07f + 0x1p-149f / v) {
    x.push_back(v);
    x.push_back(-v);
  }
  return x;
}

float Ulp(double x) {
  const float magnitude = std::max(std::abs(static_cast<float>(x)), 0x1p-126f);
  return std::nextafter(magnitude, kInf) - magnitude;
}

TEST(GeluTest, FloatIsExactToUnitsInTheLastPlace) {
  const std::vector<float> x = Sweep();
  ForEachTarget([&] {
    for (const GeluKind kind : kGeluKinds) {
      const std::vector<float> y = Value(x, kind, SerialExecutor());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double exact = ExactGelu(x[i], kind);
        // The exponent of what is small is rounded to float: always in the tanh form, and in the
        // erf form without fused arithmetic.
        const double exponent = x[i] > 0 ? 0 : -std::log(std::min(1.0, std::abs(exact / x[i])));
        const double units = 5 + 3 * std::min(exponent, 104.0);
        ASSERT_LE(std::abs(y[i] - exact), units * Ulp(exact)) << x[i];
        ASSERT_EQ(std::signbit(y[i]), std::signbit(x[i])) << x[i];
      }
    }
  });
}

TEST(GeluTest, ErfFormKeepsItsDigitsWhereItIsSmall) {
  if ((hwy::SupportedTargets() & (HWY_AVX2 | HWY_AVX3)) == 0) GTEST_SKIP() << "no fused arithmetic";
  const std::vector<float> x = Sweep();
  const std::vector<float> y = Value(x, GeluKind::kErf, SerialExecutor());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = ExactGelu(x[i], GeluKind::kErf);
    ASSERT_LE(std::abs(y[i] - exact), 5 * Ulp(exact)) << x[i];
  }
}

TEST(GeluTest, FloatSlopeIsWithinTwoMillionths) {
  const std::vector<float> x = Sweep();
  ForEachTarget([&] {
    for (const GeluKind kind : kGeluKinds) {
      const std::vector<float> slope = Slope(x, kind, 1.0f);
      for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_NEAR(slope[i], ExactGeluSlope(x[i], kind), 2e-6) << x[i];
      }
    }
  });
}

/// The place of a half among all, so that neighbours differ by 1 and both zeros are one.
template <typename T>
int Rank(T x) {
  const int magnitude = x.bits & 0x7fff;
  return x.bits & 0x8000 ? -magnitude : magnitude;
}

template <typename T>
void ExpectNeighbour(T got, T exact, T x) {
  ASSERT_LE(std::abs(Rank(got) - Rank(exact)), 1) << ToFloat(x) << ": " << ToFloat(got);
}

template <typename T, typename Round>
void CheckAllHalves(const Round& round) {
  std::vector<T> x(65536);
  for (std::size_t i = 0; i < x.size(); ++i) x[i].bits = static_cast<std::uint16_t>(i);
  ForEachTarget([&] {
    for (const GeluKind kind : kGeluKinds) {
      const std::vector<T> y = Value(x, kind, SerialExecutor());
      const std::vector<T> slope = Slope(x, kind, round(1.0f));
      for (std::size_t i = 0; i < x.size(); ++i) {
        const float v = ToFloat(x[i]);
        if (std::isnan(v)) {
          ASSERT_TRUE(std::isnan(ToFloat(y[i])) && std::isnan(ToFloat(slope[i])));
          continue;
        }
        ExpectNeighbour(y[i], round(static_cast<float>(ExactGelu(v, kind))), x[i]);
        ExpectNeighbour(slope[i], round(static_cast<float>(ExactGeluSlope(v, kind))), x[i]);
      }
    }
  });
}

TEST(GeluTest, EveryBFloat16IsWithinOneUnit) { CheckAllHalves<BFloat16>(ToBFloat16); }
TEST(GeluTest, EveryFloat16IsWithinOneUnit) { CheckAllHalves<Float16>(ToFloat16); }

TEST(GeluTest, DoubleIsExactToDouble) {
  std::vector<double> x;
  for (int i = -4500; i <= 4500; ++i) x.push_back(i * 1e-2);
  for (const GeluKind kind : kGeluKinds) {
    const std::vector<double> y = Value(x, kind, SerialExecutor());
    const std::vector<double> slope = Slope(x, kind, 1.0);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = ExactGelu(x[i], kind);
      ASSERT_NEAR(y[i], exact, 1e-12 * std::abs(exact) + 1e-307) << x[i];
      ASSERT_NEAR(slope[i], ExactGeluSlope(x[i], kind), 1e-15) << x[i];
    }
  }
}

template <typename T>
void CheckLimits() {
  const T infinity = std::numeric_limits<T>::infinity();
  const std::vector<T> x{-infinity, infinity, std::nan(""), T{-0.0}, T{0}};
  ForEachTarget([&] {
    for (const GeluKind kind : kGeluKinds) {
      const std::vector<T> y = Value(x, kind, SerialExecutor());
      EXPECT_TRUE(y[0] == 0 && std::signbit(y[0]));
      EXPECT_EQ(y[1], infinity);
      EXPECT_TRUE(std::isnan(y[2]));
      EXPECT_TRUE(y[3] == 0 && std::signbit(y[3]));
      EXPECT_TRUE(y[4] == 0 && !std::signbit(y[4]));
      const std::vector<T> slope = Slope(x, kind, T{1});
      EXPECT_EQ(slope[0], 0);
      EXPECT_EQ(slope[1], 1);
      EXPECT_TRUE(std::isnan(slope[2]));
      EXPECT_NEAR(static_cast<double>(slope[3]), 0.5, 1e-7);
      EXPECT_NEAR(static_cast<double>(slope[4]), 0.5, 1e-7);
    }
  });
}

TEST(GeluTest, LimitsAndNanInFloat) { CheckLimits<float>(); }
TEST(GeluTest, LimitsAndNanInDouble) { CheckLimits<double>(); }

TEST(GeluTest, ThreadsSizesAndAliasesDoNotMatter) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 3);
  for (const std::size_t n : {0, 1, 7, 17, 130003}) {
    std::vector<float> x(n), dy(n);
    for (float& v : x) v = normal(random);
    for (float& v : dy) v = normal(random);
    for (const GeluKind kind : kGeluKinds) {
      const std::vector<float> y = Value(x, kind, SerialExecutor());
      std::vector<float> dx = Slope(x, kind, 1.0f);
      for (std::size_t i = 0; i < n; ++i) {
        dx[i] *= dy[i];
        // A number's place in the array decides nothing.
        if (i % 1000 == 0) {
          ASSERT_EQ(Value<float>({x[i]}, kind, SerialExecutor())[0], y[i]);
        }
      }
      for (const int threads : {1, 2, 7}) {
        ThreadPool pool(threads);
        PoolExecutor executor(pool);
        std::vector<float> in_place = x;
        Gelu<float>(in_place, in_place, kind, executor);
        EXPECT_EQ(in_place, y);
        in_place = dy;
        GeluBackward<float>(in_place, x, in_place, kind, executor);
        EXPECT_EQ(in_place, dx);
        in_place = x;
        GeluBackward<float>(dy, in_place, in_place, kind, executor);
        EXPECT_EQ(in_place, dx);
      }
    }
  }
}

}  // namespace
}  // namespace palmist::kernels
