#include "palmist/kernels/softmax.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "palmist/kernels/test/softmax_test.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h
#include "hwy/highway.h"
#include "palmist/kernels/cpu/exp-inl.h"
#include "palmist/kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace palmist::kernels {
namespace HWY_NAMESPACE {

template <typename C>
void ExpOf(const C* x, std::size_t n, C* y) {
  const hn::ScalableTag<C> d;
  ForEachVector(d, n, [&](std::size_t i, std::size_t count) {
    StoreCount(Exp(d, LoadCount(d, x + i, count)), d, y + i, count);
  });
}
void ExpOfFloats(const float* x, std::size_t n, float* y) { ExpOf(x, n, y); }
void ExpOfDoubles(const double* x, std::size_t n, double* y) { ExpOf(x, n, y); }

}  // namespace HWY_NAMESPACE
}  // namespace palmist::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "palmist/kernels/test/kernel_testing.h"

namespace palmist::kernels {

HWY_EXPORT(ExpOfFloats);
HWY_EXPORT(ExpOfDoubles);

namespace {

template <typename T>
class SoftmaxTest : public ::testing::Test {};
TYPED_TEST_SUITE(SoftmaxTest, StorageTypes);

template <typename C, typename Exp>
void ExpectExpWithinTwoUlp(double lowest, double highest, const Exp& exp) {
  auto x = Random<C>(100'000, 1, lowest, highest);
  for (const C near_zero : Random<C>(10'000, 2, -1e-3, 1e-3)) x.push_back(near_zero);
  std::vector<C> y(x.size());
  exp(x.data(), x.size(), y.data());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double exact = std::exp(static_cast<long double>(x[i]));
    const C near = static_cast<C>(exact);
    const C ulp = std::nextafter(near, std::numeric_limits<C>::infinity()) - near;
    ASSERT_LE(std::abs(static_cast<long double>(y[i]) - exact), 2 * static_cast<long double>(ulp))
        << x[i];
  }
}

template <typename C, typename Exp>
void ExpectExpAtItsEnds(const Exp& exp) {
  constexpr C kInf = std::numeric_limits<C>::infinity();
  const C nan = std::numeric_limits<C>::quiet_NaN();
  const std::vector<C> x = {-kInf, -1e30F, -0.0F, 0, 1e30F, kInf, nan};
  const std::vector<C> expected = {0, 0, 1, 1, kInf, kInf};
  std::vector<C> y(x.size());
  exp(x.data(), x.size(), y.data());
  for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(y[i], expected[i]) << x[i];
  ASSERT_TRUE(std::isnan(y.back()));
}

TEST(ExpTest, WithinTwoUlpAndRightAtItsEnds) {
  ForEachTarget([] {
    const auto of_floats = HWY_DYNAMIC_DISPATCH(ExpOfFloats);
    ExpectExpWithinTwoUlp<float>(-105, 88.72, of_floats);
    ExpectExpAtItsEnds<float>(of_floats);
    const auto of_doubles = HWY_DYNAMIC_DISPATCH(ExpOfDoubles);
    ExpectExpWithinTwoUlp<double>(-750, 709.7, of_doubles);
    ExpectExpAtItsEnds<double>(of_doubles);
  });
}

template <typename T>
std::vector<double> ReferenceSoftmax(const std::vector<T>& x, std::size_t n) {
  std::vector<double> y;
  for (std::size_t row = 0; row < x.size(); row += n) {
    double largest = -HUGE_VAL;
    for (std::size_t i = row; i < row + n; ++i) largest = std::max(largest, Value(x[i]));
    std::vector<long double> e;
    for (std::size_t i = row; i < row + n; ++i) {
      e.push_back(std::exp(static_cast<long double>(Value(x[i])) - largest));
    }
    const long double sum = std::accumulate(e.begin(), e.end(), 0.0L);
    for (const long double value : e) y.push_back(static_cast<double>(value / sum));
  }
  return y;
}

TYPED_TEST(SoftmaxTest, MatchesTheReference) {
  ForEachTarget([] {
    for (const std::size_t n : {1, 3, 16, 63, 65, 130, 1000, 4001}) {
      for (const double range : {0.1, 5.0, 80.0}) {
        const auto x = Random<TypeParam>(3 * n, n, -range, range);
        const auto reference = ReferenceSoftmax(x, n);
        std::vector<TypeParam> y(x.size());
        const auto columns = static_cast<std::int64_t>(n);
        Softmax<TypeParam>(x, columns, y, SerialExecutor());
        // The difference of an element and the largest is rounded, which exp makes relative.
        const double relative = Epsilon<ComputeType<TypeParam>>() * (8 + 2 * range);
        ExpectNear(y, reference, relative, Tiny<TypeParam>());

        const auto dy = Random<TypeParam>(x.size(), n + 1);
        std::vector<double> dx_reference;
        for (std::size_t row = 0; row < x.size(); row += n) {
          long double dot = 0;
          for (std::size_t i = row; i < row + n; ++i) {
            dot += static_cast<long double>(Value(dy[i])) * Value(y[i]);
          }
          for (std::size_t i = row; i < row + n; ++i) {
            dx_reference.push_back(static_cast<double>(Value(y[i]) * (Value(dy[i]) - dot)));
          }
        }
        std::vector<TypeParam> dx(x.size());
        SoftmaxBackward<TypeParam>(dy, y, columns, dx, SerialExecutor());
        // Where dy and its mean cancel, the error is relative to them, not to their difference.
        for (std::size_t i = 0; i < dx.size(); ++i) {
          const double bound = Epsilon<TypeParam>() * std::abs(dx_reference[i]) +
                               relative * Value(y[i]) + Tiny<TypeParam>();
          ASSERT_NEAR(Value(dx[i]), dx_reference[i], bound);
        }
      }
    }
  });
}

TYPED_TEST(SoftmaxTest, MaskedRowsGiveZerosAndNanStaysInItsRow) {
  const double inf = HUGE_VAL;
  const double nan = std::nan("");
  // Rows: masked; partly masked; NaN; only NaN; +Inf; masked but for NaN; large and equal.
  const std::vector<double> rows = {-inf, -inf, -inf, 0,    -inf, 0,   1,    nan, 2,   nan, nan,
                                    nan,  1,    inf,  -inf, -inf, nan, -inf, 6e4, 6e4, -6e4};
  std::vector<TypeParam> x;
  for (const double value : rows) x.push_back(As<TypeParam>(value));
  const std::vector<double> expected = {0,   0,   0,   0.5, 0,   0.5, nan, nan, nan, nan, nan,
                                        nan, nan, nan, nan, nan, nan, nan, 0.5, 0.5, 0};
  ForEachTarget([&] {
    std::vector<TypeParam> y(x.size());
    Softmax<TypeParam>(x, 3, y, SerialExecutor());
    for (std::size_t i = 0; i < y.size(); ++i) {
      if (std::isnan(expected[i])) {
        ASSERT_TRUE(std::isnan(Value(y[i]))) << i;
      } else {
        ASSERT_EQ(Value(y[i]), expected[i]) << i;
      }
    }
  });
}

TYPED_TEST(SoftmaxTest, DropoutRowsBeginOnBlocks) {
  ForEachTarget([] {
    for (const std::int64_t n : {1, 63, 64, 65, 200}) {
      const auto x = Random<TypeParam>(static_cast<std::size_t>(5 * n), 1, 1, 2);
      const DropoutSpec spec = {.p = 0.4, .seed = 9};
      std::vector<TypeParam> y(x.size());
      DropoutRows<TypeParam>(x, n, spec, y, SerialExecutor());
      for (std::int64_t r = 0; r < 5; ++r) {
        for (std::int64_t c = 0; c < n; ++c) {
          const auto i = static_cast<std::size_t>(r * n + c);
          const auto index = static_cast<std::uint64_t>(r * PaddedRow(n) + c);
          const double expected = IsKept(spec, index) ? Value(x[i]) / (1 - spec.p) : 0;
          ASSERT_NEAR(Value(y[i]), expected, Epsilon<TypeParam>() * expected);
        }
      }
    }
  });
}

TYPED_TEST(SoftmaxTest, SameForAllExecutorsAndInPlace) {
  constexpr std::int64_t kColumns = 301;
  const auto x = Random<TypeParam>(200 * kColumns, 1, -9, 9);
  const auto dy = Random<TypeParam>(x.size(), 2);
  const DropoutSpec spec = {.p = 0.1, .seed = 3};
  ExpectSameForAllExecutors([&](Executor& executor) {
    std::vector<TypeParam> y(x.size());
    std::vector<TypeParam> dx(x.size());
    std::vector<TypeParam> dropped(x.size());
    Softmax<TypeParam>(x, kColumns, y, executor);
    SoftmaxBackward<TypeParam>(dy, y, kColumns, dx, executor);
    DropoutRows<TypeParam>(y, kColumns, spec, dropped, executor);

    auto in_place = x;
    Softmax<TypeParam>(in_place, kColumns, in_place, executor);
    EXPECT_TRUE(Bytes(in_place) == Bytes(y));
    DropoutRows<TypeParam>(in_place, kColumns, spec, in_place, executor);
    EXPECT_TRUE(Bytes(in_place) == Bytes(dropped));
    in_place = dy;
    SoftmaxBackward<TypeParam>(in_place, y, kColumns, in_place, executor);
    EXPECT_TRUE(Bytes(in_place) == Bytes(dx));
    return Bytes(y, dx, dropped);
  });
}

TYPED_TEST(SoftmaxTest, Empty) {
  std::vector<TypeParam> none;
  for (const std::int64_t columns : {0, 5}) {
    Softmax<TypeParam>(none, columns, none, SerialExecutor());
    SoftmaxBackward<TypeParam>(none, none, columns, none, SerialExecutor());
    DropoutRows<TypeParam>(none, columns, {.p = 0.5}, none, SerialExecutor());
  }
}

}  // namespace
}  // namespace palmist::kernels
#endif  // HWY_ONCE
