#include "palmist/kernels/scalar.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "palmist/base/rng.h"
#include "palmist/kernels/dropout.h"
#include "palmist/kernels/test/kernel_testing.h"

namespace palmist::kernels {
namespace {

/// A binary format with a sign bit: what its bits mean, by the definition of IEEE 754.
struct Format {
  int mantissa_bits;
  int exponent_bits;

  int Bias() const { return (1 << (exponent_bits - 1)) - 1; }

  double Decode(std::uint32_t bits) const {
    const std::uint32_t mantissa = bits & ((1U << mantissa_bits) - 1);
    const int exponent = static_cast<int>(bits >> mantissa_bits & ((1U << exponent_bits) - 1));
    const double sign = bits >> (mantissa_bits + exponent_bits) != 0 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1) {
      return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                           : sign * std::numeric_limits<double>::infinity();
    }
    const double significand = exponent == 0 ? mantissa : mantissa + (1U << mantissa_bits);
    return sign * std::ldexp(significand, std::max(exponent, 1) - Bias() - mantissa_bits);
  }

  /// Rounds to the nearest value, ties to even, in double, where all steps are exact.
  double Round(double x) const {
    if (x == 0 || !std::isfinite(x)) return x;
    const int exponent = std::max(std::ilogb(x), 1 - Bias());
    const double unit = std::ldexp(1, exponent - mantissa_bits);
    const double rounded = std::nearbyint(x / unit) * unit;
    const double overflow = std::ldexp(1, Bias() + 1);
    return std::abs(rounded) < overflow ? rounded : std::copysign(HUGE_VAL, x);
  }
};

constexpr Format kBFloat16 = {7, 8};
constexpr Format kFloat16 = {10, 5};

void ExpectSame(double got, double expected, double from) {
  if (std::isnan(expected)) {
    ASSERT_TRUE(std::isnan(got)) << from;
  } else {
    ASSERT_EQ(got, expected) << from;
    ASSERT_EQ(std::signbit(got), std::signbit(expected)) << from;
  }
}

TEST(ScalarTest, EveryHalfIsDecodedAndComesBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float bfloat = ToFloat(BFloat16{half});
    const float binary = ToFloat(Float16{half});
    ExpectSame(bfloat, kBFloat16.Decode(bits), bits);
    ExpectSame(binary, kFloat16.Decode(bits), bits);
    if (!std::isnan(bfloat)) {
      ASSERT_EQ(ToBFloat16(bfloat).bits, half);
    }
    if (!std::isnan(binary)) {
      ASSERT_EQ(ToFloat16(binary).bits, half);
    }
    ASSERT_EQ(std::isnan(ToFloat(ToBFloat16(bfloat))), std::isnan(bfloat));
    ASSERT_EQ(std::isnan(ToFloat(ToFloat16(binary))), std::isnan(binary));
  }
}

/// Floats at, just below and just above every half and every midpoint between two, and random bits.
std::vector<float> HardFloats() {
  std::vector<float> values;
  const auto add_around = [&](float x) {
    values.push_back(x);
    values.push_back(std::nextafter(x, -HUGE_VALF));
    values.push_back(std::nextafter(x, HUGE_VALF));
  };
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    // The middle of two neighbours of either format is a float whose bits lie halfway.
    add_around(std::bit_cast<float>(bits << 16));
    add_around(std::bit_cast<float>(bits << 16 | 0x8000U));
    const float half = ToFloat(Float16{static_cast<std::uint16_t>(bits)});
    const float next = ToFloat(Float16{static_cast<std::uint16_t>(bits + 1)});
    add_around(half);
    add_around((half + next) / 2);
  }
  Rng rng(1);
  for (int i = 0; i < 100'000; ++i) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(rng())));
  }
  return values;
}

TEST(ScalarTest, RoundsToNearestEven) {
  for (const float x : HardFloats()) {
    ExpectSame(ToFloat(ToBFloat16(x)), kBFloat16.Round(x), x);
    ExpectSame(ToFloat(ToFloat16(x)), kFloat16.Round(x), x);
  }
}

/// Dropout with p = 0 loads and stores: the vector conversions are those of scalar.h.
template <typename T>
void ExpectVectorsConvertAlike() {
  std::vector<T> x(0x10000);
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits)
    x[bits].bits = static_cast<std::uint16_t>(bits);
  ForEachTarget([&] {
    std::vector<T> y(x.size());
    Dropout<T>(x, {}, y, SerialExecutor());
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(ToFloat(x[i]))) {
        ASSERT_TRUE(std::isnan(ToFloat(y[i]))) << i;
      } else {
        ASSERT_EQ(y[i].bits, x[i].bits);
      }
    }
  });
}

TEST(ScalarTest, VectorsConvertAlike) {
  ExpectVectorsConvertAlike<BFloat16>();
  ExpectVectorsConvertAlike<Float16>();
}

}  // namespace
}  // namespace palmist::kernels
