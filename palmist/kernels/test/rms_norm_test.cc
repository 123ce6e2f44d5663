#include "palmist/kernels/rms_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "palmist/kernels/test/kernel_testing.h"

namespace palmist::kernels {
namespace {

template <typename T>
class RmsNormTest : public ::testing::Test {};
TYPED_TEST_SUITE(RmsNormTest, StorageTypes);

template <typename T>
struct Result {
  using C = ComputeType<T>;

  Result(const std::vector<T>& x,
         const std::vector<T>& dy,
         std::size_t n,
         const std::vector<C>& gamma,
         double eps,
         Executor& executor = SerialExecutor())
      : y(x.size()), rstd(x.size() / n), dx(x.size()), dgamma(n) {
    const auto columns = static_cast<std::int64_t>(n);
    RmsNorm<T>(x, columns, gamma, eps, y, rstd, executor);
    RmsNormBackward<T>(dy, x, columns, gamma, rstd, dx, dgamma, executor);
  }

  std::vector<T> y;
  std::vector<C> rstd;
  std::vector<T> dx;
  std::vector<C> dgamma;
};

TYPED_TEST(RmsNormTest, MatchesTheReference) {
  using C = ComputeType<TypeParam>;
  ForEachTarget([] {
    for (const std::size_t n : {2, 7, 64, 333, 1024}) {
      for (const std::size_t rows : {1, 3, 37, 100}) {
        const auto x = Random<TypeParam>(rows * n, n, -1, 3);
        const auto dy = Random<TypeParam>(rows * n, n + 1);
        const auto gamma = Random<C>(n, 3, 0.5, 2);
        const Result<TypeParam> result(x, dy, n, gamma, 1e-6);
        const double compute = std::is_same_v<C, double> ? 1e-14 : 1e-6;
        const double stored = std::max(compute, Epsilon<TypeParam>());

        std::vector<double> dx(x.size());
        std::vector<double> dgamma(n);
        for (std::size_t r = 0; r < rows; ++r) {
          double squares = 0;
          for (std::size_t c = 0; c < n; ++c) squares += std::pow(Value(x[r * n + c]), 2);
          const double rstd = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-6);
          ASSERT_NEAR(static_cast<double>(result.rstd[r]), rstd, compute * rstd);
          double mean = 0;
          for (std::size_t c = 0; c < n; ++c) {
            const std::size_t i = r * n + c;
            const double xhat = Value(x[i]) * rstd;
            dgamma[c] += Value(dy[i]) * xhat;
            mean += Value(gamma[c]) * Value(dy[i]) * xhat / static_cast<double>(n);
            // xhat is rounded before the product, and may go to either neighbour.
            const double y = Value(As<TypeParam>(xhat)) * Value(gamma[c]);
            ASSERT_NEAR(Value(result.y[i]), y, 2 * stored * std::abs(y) + Tiny<TypeParam>());
          }
          for (std::size_t c = 0; c < n; ++c) {
            const std::size_t i = r * n + c;
            dx[i] = rstd * (Value(gamma[c]) * Value(dy[i]) - Value(x[i]) * rstd * mean);
          }
        }
        ASSERT_LE(RelativeError(result.dx, dx), stored);
        ASSERT_LE(RelativeError(result.dgamma, dgamma), compute);
      }
    }
  });
}

/// With halves, the bits of y are those of two operators, each of which rounds.
template <typename T>
void ExpectRoundedBeforeTheProduct(T (*round)(float)) {
  const auto x = Random<T>(64 * 10, 1);
  const auto gamma = Random<float>(64, 2, 0.5, 2);
  const Result<T> result(x, x, 64, gamma, 1e-6);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const T xhat = round(ToFloat(x[i]) * result.rstd[i / 64]);
    ASSERT_EQ(result.y[i].bits, round(ToFloat(xhat) * gamma[i % 64]).bits);
  }
}

TEST(RmsNormRoundingTest, HalvesAreRoundedBeforeTheProduct) {
  ExpectRoundedBeforeTheProduct<BFloat16>(&ToBFloat16);
  ExpectRoundedBeforeTheProduct<Float16>(&ToFloat16);
}

TYPED_TEST(RmsNormTest, SameForAllExecutorsAndInPlace) {
  using C = ComputeType<TypeParam>;
  constexpr std::size_t kColumns = 130;
  const auto columns = static_cast<std::int64_t>(kColumns);
  const auto x = Random<TypeParam>(1501 * kColumns, 1);
  const auto dy = Random<TypeParam>(x.size(), 2);
  const auto gamma = Random<C>(kColumns, 3, 1, 2);
  ExpectSameForAllExecutors([&](Executor& executor) {
    const Result<TypeParam> result(x, dy, kColumns, gamma, 1e-6, executor);
    auto y = x;
    RmsNorm<TypeParam>(y, columns, gamma, 1e-6, y, {}, executor);
    EXPECT_TRUE(Bytes(y) == Bytes(result.y));
    auto dx = dy;
    RmsNormBackward<TypeParam>(dx, x, columns, gamma, result.rstd, dx, {}, executor);
    EXPECT_TRUE(Bytes(dx) == Bytes(result.dx));
    std::vector<C> dgamma(kColumns);
    RmsNormBackward<TypeParam>(dy, x, columns, gamma, result.rstd, {}, dgamma, executor);
    EXPECT_TRUE(Bytes(dgamma) == Bytes(result.dgamma));
    return Bytes(result.y, result.rstd, result.dx, result.dgamma);
  });
}

TYPED_TEST(RmsNormTest, EmptyGammaIsOnesAndZeroGammaTrains) {
  using C = ComputeType<TypeParam>;
  constexpr std::size_t kColumns = 50;
  const auto x = Random<TypeParam>(20 * kColumns, 1);
  const auto dy = Random<TypeParam>(x.size(), 2);
  const Result<TypeParam> ones(x, dy, kColumns, std::vector<C>(kColumns, 1), 1e-6);
  const Result<TypeParam> empty(x, dy, kColumns, {}, 1e-6);
  const Result<TypeParam> zeros(x, dy, kColumns, std::vector<C>(kColumns, 0), 1e-6);
  EXPECT_EQ(Bytes(ones.y, ones.dx, ones.dgamma), Bytes(empty.y, empty.dx, empty.dgamma));
  EXPECT_EQ(Bytes(zeros.dgamma), Bytes(ones.dgamma));
}

TYPED_TEST(RmsNormTest, ZeroRowsStayFiniteAndNanStaysInItsRow) {
  constexpr std::size_t kColumns = 33;
  std::vector<TypeParam> x(9 * kColumns);
  x[4 * kColumns + 5] = As<TypeParam>(std::nan(""));
  const auto dy = Random<TypeParam>(x.size(), 2, -1e-3, 1e-3);
  const Result<TypeParam> result(x, dy, kColumns, {}, 1e-6);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool in_row = i / kColumns == 4;
    ASSERT_EQ(std::isfinite(Value(result.y[i])), !in_row);
    ASSERT_EQ(std::isfinite(Value(result.dx[i])), !in_row);
  }
}

TYPED_TEST(RmsNormTest, Empty) {
  using C = ComputeType<TypeParam>;
  std::vector<TypeParam> none;
  std::vector<C> dgamma(5, 1);
  RmsNorm<TypeParam>(none, 5, {}, 1e-6, none, {}, SerialExecutor());
  RmsNormBackward<TypeParam>(none, none, 5, {}, {}, none, dgamma, SerialExecutor());
  EXPECT_EQ(dgamma, std::vector<C>(5, 0));
  RmsNorm<TypeParam>(none, 0, {}, 1e-6, none, {}, SerialExecutor());
}

}  // namespace
}  // namespace palmist::kernels
