#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "palmist/base/thread_pool.h"
#include "palmist/kernels/gelu.h"
#include "palmist/kernels/scalar.h"
#include "palmist/kernels/test/gelu_reference.h"
#include "palmist/kernels/test/kernel_testing.h"

namespace palmist::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

double MinX(GeluKind kind) { return kind == GeluKind::kErf ? -0.751791524693564 : -0.752461422; }

template <typename T>
struct Output {
  explicit Output(const std::vector<T>& x, GeluKind kind, Executor& executor = SerialExecutor())
      : y(x.size()), bits(static_cast<std::size_t>(GeluBitBytes(std::ssize(x))), 0xee) {
    GeluWithBits<T>(x, y, bits, kind, executor);
  }
  std::vector<T> y;
  std::vector<std::uint8_t> bits;
};

template <typename T>
std::vector<T> Slope(const Output<T>& output, GeluKind kind, T one) {
  std::vector<T> dx(output.y.size());
  const std::vector<T> dy(dx.size(), one);
  GeluOutputBackward<T>(dy, output.y, output.bits, dx, kind, SerialExecutor());
  return dx;
}

template <typename T>
void ExpectSameBytes(const std::vector<T>& a, const std::vector<T>& b) {
  ASSERT_EQ(a.size(), b.size());
  ASSERT_TRUE(a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// Checks outputs, bits and slopes; slopes against `near` (|x - x*| <= 0.25) and `far`, which are
/// for the slope before it is rounded to T.
template <typename T, typename Round>
void CheckSlopes(const std::vector<T>& x, const Round& round, double near, double far) {
  ForEachTarget([&] {
    for (const GeluKind kind : kGeluKinds) {
      const Output<T> output(x, kind);
      std::vector<T> y(x.size());
      Gelu<T>(x, y, kind, SerialExecutor());
      ExpectSameBytes(output.y, y);
      Output<float> wide(std::vector<float>(x.size()), kind);
      std::transform(y.begin(), y.end(), wide.y.begin(), [](T v) { return ToFloat(v); });
      wide.bits = output.bits;
      const std::vector<float> slope = Slope(wide, kind, 1.0f);
      const std::vector<T> rounded = Slope(output, kind, round(1.0f));
      for (std::size_t i = 0; i < x.size(); ++i) {
        const float v = ToFloat(x[i]);
        const bool bit = (output.bits[i / 8] >> i % 8 & 1) != 0;
        ASSERT_EQ(bit, v >= static_cast<float>(MinX(kind))) << v;
        if (std::isnan(v)) {
          ASSERT_TRUE(std::isnan(slope[i]) && std::isnan(ToFloat(rounded[i])));
          continue;
        }
        ASSERT_EQ(ToFloat(rounded[i]), ToFloat(round(slope[i])));
        const double allowed = std::abs(v - MinX(kind)) <= 0.25 ? near : far;
        ASSERT_NEAR(slope[i], ExactGeluSlope(v, kind), allowed)
            << v << (kind == GeluKind::kErf ? " erf" : " tanh");
        if (v < -6) {
          ASSERT_LE(std::abs(slope[i]), 1e-7) << v;
        }
        if (v < -6.5) {
          ASSERT_EQ(slope[i], 0) << v;
        }
      }
    }
  });
}

template <typename T>
std::vector<T> AllHalves() {
  std::vector<T> x(65536);
  for (std::size_t i = 0; i < x.size(); ++i) x[i].bits = static_cast<std::uint16_t>(i);
  return x;
}

TEST(GeluOutputTest, EveryBFloat16) { CheckSlopes(AllHalves<BFloat16>(), ToBFloat16, 2e-2, 3e-3); }

TEST(GeluOutputTest, EveryFloat16) { CheckSlopes(AllHalves<Float16>(), ToFloat16, 7.1e-3, 4e-4); }

TEST(GeluOutputTest, FloatSweep) {
  std::vector<float> x{-kInf,
                       kInf,
                       std::nanf(""),
                       -0.0f,
                       0.0f,
                       0x1p-149f,
                       -0x1p-149f,
                       -1e-40f,
                       std::numeric_limits<float>::max(),
                       std::numeric_limits<float>::lowest()};
  for (int i = -16000; i <= 16000; ++i) x.push_back(static_cast<float>(i) * 5.00017e-4f);
  for (int i = -4000; i <= 4000; ++i) x.push_back(-0.7519f + static_cast<float>(i) * 1e-6f);
  CheckSlopes(
      x, [](float v) { return v; }, 2e-4, 5e-6);
}

TEST(GeluOutputTest, PiecesMeet) {
  ForEachTarget([] {
    for (const GeluKind kind : kGeluKinds) {
      for (const float edge : {0.93f, 2.4f, 5.2f}) {
        Output<float> output(std::vector<float>(9, 1.0f), kind);
        float y = edge;
        for (int i = 0; i < 4; ++i) y = std::nextafter(y, -kInf);
        for (float& v : output.y) {
          v = y;
          y = std::nextafter(y, kInf);
        }
        const std::vector<float> slope = Slope(output, kind, 1.0f);
        const auto [least, most] = std::minmax_element(slope.begin(), slope.end());
        EXPECT_LE(*most - *least, 5e-6f) << edge;
      }
    }
  });
}

TEST(GeluOutputTest, OutputsThatRoundingLeftOutsideOfTheRangeCountAsItsEnd) {
  ForEachTarget([] {
    for (const GeluKind kind : kGeluKinds) {
      Output<float> output(std::vector<float>(8, -1.0f), kind);
      output.y = {-0.1704f, -0.18f, 0.0f, -0.0f, -0.1704f, -0.18f, -0x1p-149f, -1e-12f};
      output.bits = {0x30};
      const std::vector<float> slope = Slope(output, kind, 1.0f);
      for (const std::size_t i : {0, 1, 4, 5}) EXPECT_NEAR(slope[i], 0, 1e-6) << i;
      for (const std::size_t i : {2, 3, 6, 7}) EXPECT_EQ(slope[i], 0) << i;
    }
  });
}

TEST(GeluOutputTest, Double) {
  std::vector<double> x{-std::numeric_limits<double>::infinity(),
                        std::numeric_limits<double>::infinity(),
                        -0.0,
                        -100.0,
                        100.0};
  for (int i = -600; i <= 600; ++i) x.push_back(i * 1.003e-2);
  for (const GeluKind kind : kGeluKinds) {
    const Output<double> output(x, kind);
    const std::vector<double> slope = Slope(output, kind, 1.0);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double allowed = std::abs(x[i] - MinX(kind)) <= 0.25 ? 1e-7 : 1e-13;
      ASSERT_NEAR(slope[i], ExactGeluSlope(x[i], kind), allowed) << x[i];
    }
    EXPECT_TRUE(std::isnan(Slope(Output<double>({std::nan("")}, kind), kind, 1.0)[0]));
  }
}

TEST(GeluOutputTest, ThreadsSizesAndAliasesDoNotMatter) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  for (const std::size_t n : {0, 1, 7, 8, 21, 130003}) {
    std::vector<float> x(n), dy(n);
    for (float& v : x) v = normal(random);
    for (float& v : dy) v = normal(random);
    for (const GeluKind kind : kGeluKinds) {
      const Output<float> output(x, kind);
      std::vector<float> dx = Slope(output, kind, 1.0f);
      for (std::size_t i = 0; i < n; ++i) dx[i] *= dy[i];
      if (n % 8 != 0) {
        EXPECT_EQ(output.bits.back() >> n % 8, 0) << "bits beyond the last element";
      }
      for (const int threads : {1, 2, 7}) {
        ThreadPool pool(threads);
        PoolExecutor executor(pool);
        const Output<float> same(x, kind, executor);
        ExpectSameBytes(same.y, output.y);
        ExpectSameBytes(same.bits, output.bits);
        std::vector<float> in_place = x;
        std::vector<std::uint8_t> bits(output.bits.size());
        GeluWithBits<float>(in_place, in_place, bits, kind, executor);
        ExpectSameBytes(in_place, output.y);
        ExpectSameBytes(bits, output.bits);
        in_place = dy;
        GeluOutputBackward<float>(in_place, output.y, output.bits, in_place, kind, executor);
        ExpectSameBytes(in_place, dx);
      }
    }
  }
}

}  // namespace
}  // namespace palmist::kernels
