#include "palmist/kernels/layer_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "palmist/kernels/test/kernel_testing.h"

namespace palmist::kernels {
namespace {

/// Layer normalisation and its gradients in double, from values as stored.
struct Reference {
  template <typename T, typename C>
  Reference(const std::vector<T>& x,
            const std::vector<T>& dy,
            std::size_t n,
            const std::vector<C>& gamma,
            const std::vector<C>& beta,
            double eps)
      : y(x.size()), mean(x.size() / n), rstd(mean), dx(x.size()), dgamma(n), dbeta(n) {
    for (std::size_t r = 0; r < mean.size(); ++r) {
      const auto at = [&](std::size_t c) { return Value(x[r * n + c]); };
      const auto scale = [&](std::size_t c) { return gamma.empty() ? 1 : Value(gamma[c]); };
      for (std::size_t c = 0; c < n; ++c) mean[r] += at(c) / static_cast<double>(n);
      double variance = 0;
      for (std::size_t c = 0; c < n; ++c) {
        variance += std::pow(at(c) - mean[r], 2) / static_cast<double>(n);
      }
      rstd[r] = 1 / std::sqrt(variance + eps);
      double mean_gdy = 0;
      double mean_gdy_xhat = 0;
      for (std::size_t c = 0; c < n; ++c) {
        const double xhat = (at(c) - mean[r]) * rstd[r];
        const double gradient = Value(dy[r * n + c]);
        y[r * n + c] = xhat * scale(c) + (beta.empty() ? 0 : Value(beta[c]));
        dgamma[c] += gradient * xhat;
        dbeta[c] += gradient;
        mean_gdy += scale(c) * gradient / static_cast<double>(n);
        mean_gdy_xhat += scale(c) * gradient * xhat / static_cast<double>(n);
      }
      for (std::size_t c = 0; c < n; ++c) {
        const double xhat = (at(c) - mean[r]) * rstd[r];
        dx[r * n + c] =
            rstd[r] * (scale(c) * Value(dy[r * n + c]) - mean_gdy - xhat * mean_gdy_xhat);
      }
    }
  }

  std::vector<double> y;
  std::vector<double> mean;
  std::vector<double> rstd;
  std::vector<double> dx;
  std::vector<double> dgamma;
  std::vector<double> dbeta;
};

/// What the kernels give for x and dy, from the input or from the output.
template <typename T>
struct Result {
  using C = ComputeType<T>;

  Result(const std::vector<T>& x,
         const std::vector<T>& dy,
         std::size_t n,
         const std::vector<C>& gamma,
         const std::vector<C>& beta,
         double eps,
         Executor& executor,
         bool from_output = false)
      : y(x.size()), mean(x.size() / n), rstd(mean), dx(x.size()), dgamma(n), dbeta(n) {
    const auto columns = static_cast<std::int64_t>(n);
    LayerNorm<T>(x, columns, gamma, beta, eps, y, mean, rstd, executor);
    if (from_output) {
      LayerNormOutputBackward<T>(dy, y, columns, gamma, beta, rstd, dx, dgamma, dbeta, executor);
    } else {
      LayerNormBackward<T>(dy, x, columns, gamma, mean, rstd, dx, dgamma, dbeta, executor);
    }
  }

  std::vector<T> y;
  std::vector<C> mean;
  std::vector<C> rstd;
  std::vector<T> dx;
  std::vector<C> dgamma;
  std::vector<C> dbeta;
};

template <typename T>
class LayerNormTest : public ::testing::Test {};
TYPED_TEST_SUITE(LayerNormTest, StorageTypes);

TYPED_TEST(LayerNormTest, MatchesTheReference) {
  using C = ComputeType<TypeParam>;
  ForEachTarget([] {
    for (const std::size_t n : {1, 7, 64, 333, 1024}) {
      for (const std::size_t rows : {1, 3, 37, 100}) {
        const auto x = Random<TypeParam>(rows * n, n, -1, 3);
        const auto dy = Random<TypeParam>(rows * n, n + 1);
        const auto gamma = Random<C>(n, 3, 0.5, 2);
        const auto beta = Random<C>(n, 4);
        const Reference reference(x, dy, n, gamma, beta, 1e-5);
        const Result<TypeParam> result(x, dy, n, gamma, beta, 1e-5, SerialExecutor());
        constexpr bool kIsDouble = std::is_same_v<C, double>;
        const double compute = kIsDouble ? 1e-14 : 1e-6;
        const double stored = std::max(compute, Epsilon<TypeParam>());
        ExpectNear(result.mean, reference.mean, compute, compute / 10);
        ExpectNear(result.rstd, reference.rstd, compute, 0);
        ASSERT_LE(RelativeError(result.y, reference.y), stored);
        ASSERT_LE(RelativeError(result.dbeta, reference.dbeta), compute);
        if (n == 1) continue;  // xhat and dx are 0
        ASSERT_LE(RelativeError(result.dx, reference.dx), stored);
        ASSERT_LE(RelativeError(result.dgamma, reference.dgamma), compute);
      }
    }
  });
}

TYPED_TEST(LayerNormTest, OutputGivesTheSameGradientsWhereGammaAllows) {
  using C = ComputeType<TypeParam>;
  ForEachTarget([] {
    for (const std::size_t n : {7, 1000}) {
      const auto x = Random<TypeParam>(50 * n, 1, -1, 3);
      const auto dy = Random<TypeParam>(50 * n, 2);
      auto gamma = Random<C>(n, 3, 0.5, 2);
      gamma[1] = -gamma[1];
      const auto beta = Random<C>(n, 4);
      ASSERT_TRUE(CanInvertLayerNorm<C>(gamma, beta));
      const Reference reference(x, dy, n, gamma, beta, 1e-5);
      const Result<TypeParam> result(x, dy, n, gamma, beta, 1e-5, SerialExecutor(), true);
      // The rounding of y is divided by gamma and multiplied by what |y| / |xhat| is.
      const double bound = 4 * Epsilon<TypeParam>();
      ASSERT_LE(RelativeError(result.dx, reference.dx), bound);
      ASSERT_LE(RelativeError(result.dgamma, reference.dgamma), bound);
      ASSERT_LE(RelativeError(result.dbeta, reference.dbeta), bound);
    }
  });
}

TYPED_TEST(LayerNormTest, WithoutParametersAndWithoutSomeGradients) {
  using C = ComputeType<TypeParam>;
  constexpr std::size_t kColumns = 70;
  const auto columns = static_cast<std::int64_t>(kColumns);
  const auto x = Random<TypeParam>(20 * kColumns, 1);
  const auto dy = Random<TypeParam>(x.size(), 2);
  const std::vector<C> ones(kColumns, 1);
  const std::vector<C> zeros(kColumns, 0);
  const Result<TypeParam> with(x, dy, kColumns, ones, zeros, 1e-5, SerialExecutor());
  const Result<TypeParam> without(x, dy, kColumns, {}, {}, 1e-5, SerialExecutor());
  EXPECT_EQ(Bytes(with.y, with.dx, with.dgamma), Bytes(without.y, without.dx, without.dgamma));
  const Result<TypeParam> output(x, dy, kColumns, {}, {}, 1e-5, SerialExecutor(), true);
  EXPECT_LE(RelativeError(output.dx, Values(with.dx)), 4 * Epsilon<TypeParam>());

  std::vector<TypeParam> y(x.size());
  LayerNorm<TypeParam>(x, columns, ones, zeros, 1e-5, y, {}, {}, SerialExecutor());
  EXPECT_EQ(Bytes(y), Bytes(with.y));
  std::vector<TypeParam> dx(x.size());
  LayerNormBackward<TypeParam>(
      dy, x, columns, ones, with.mean, with.rstd, dx, {}, {}, SerialExecutor());
  EXPECT_EQ(Bytes(dx), Bytes(with.dx));
  std::vector<C> dgamma(kColumns, -1);
  LayerNormBackward<TypeParam>(
      dy, x, columns, ones, with.mean, with.rstd, {}, dgamma, {}, SerialExecutor());
  EXPECT_EQ(Bytes(dgamma), Bytes(with.dgamma));
  std::vector<C> dbeta(kColumns, -1);
  LayerNormBackward<TypeParam>(
      dy, x, columns, ones, with.mean, with.rstd, {}, {}, dbeta, SerialExecutor());
  EXPECT_EQ(Bytes(dbeta), Bytes(with.dbeta));
}

TYPED_TEST(LayerNormTest, SameForAllExecutorsAndInPlace) {
  using C = ComputeType<TypeParam>;
  constexpr std::size_t kColumns = 130;
  const auto columns = static_cast<std::int64_t>(kColumns);
  const auto x = Random<TypeParam>(1501 * kColumns, 1);
  const auto dy = Random<TypeParam>(x.size(), 2);
  const auto gamma = Random<C>(kColumns, 3, 1, 2);
  const auto beta = Random<C>(kColumns, 4);
  for (const bool from_output : {false, true}) {
    ExpectSameForAllExecutors([&](Executor& executor) {
      const Result<TypeParam> result(x, dy, kColumns, gamma, beta, 1e-5, executor, from_output);
      auto y = x;
      LayerNorm<TypeParam>(y, columns, gamma, beta, 1e-5, y, {}, {}, executor);
      EXPECT_TRUE(Bytes(y) == Bytes(result.y));
      auto dx = dy;
      if (from_output) {
        LayerNormOutputBackward<TypeParam>(
            dx, y, columns, gamma, beta, result.rstd, dx, {}, {}, executor);
      } else {
        LayerNormBackward<TypeParam>(
            dx, x, columns, gamma, result.mean, result.rstd, dx, {}, {}, executor);
      }
      EXPECT_TRUE(Bytes(dx) == Bytes(result.dx));
      return Bytes(result.y, result.mean, result.rstd, result.dx, result.dgamma, result.dbeta);
    });
  }
}

TYPED_TEST(LayerNormTest, ConstantRowsStayFinite) {
  using C = ComputeType<TypeParam>;
  constexpr std::size_t kColumns = 100;
  for (const double value : {0.0, 1.0, 0.1, -300.0}) {
    const std::vector<TypeParam> x(4 * kColumns, As<TypeParam>(value));
    const auto dy = Random<TypeParam>(x.size(), 1, -1e-3, 1e-3);
    const std::vector<C> ones(kColumns, 1);
    const std::vector<C> zeros(kColumns, 0);
    const Result<TypeParam> result(x, dy, kColumns, ones, zeros, 1e-12, SerialExecutor());
    // The mean may be off by a unit in the last place, of which rstd makes a million.
    const double bound = 1e6 * Epsilon<C>() * std::abs(value);
    for (const TypeParam y : result.y) ASSERT_LE(std::abs(Value(y)), bound) << value;
    for (const C rstd : result.rstd) ASSERT_NEAR(static_cast<double>(rstd), 1e6, 1);
    for (const TypeParam dx : result.dx) ASSERT_TRUE(std::isfinite(Value(dx)));
    for (const C dgamma : result.dgamma) ASSERT_LE(std::abs(dgamma), 4e-3 * bound);
  }
}

TYPED_TEST(LayerNormTest, GammaOfZeroTrains) {
  using C = ComputeType<TypeParam>;
  constexpr std::size_t kColumns = 100;
  const auto x = Random<TypeParam>(30 * kColumns, 1);
  const auto dy = Random<TypeParam>(x.size(), 2);
  const std::vector<C> zeros(kColumns, 0);
  const Reference reference(x, dy, kColumns, zeros, zeros, 1e-5);
  const Result<TypeParam> result(x, dy, kColumns, zeros, zeros, 1e-5, SerialExecutor());
  EXPECT_LE(RelativeError(result.dgamma, reference.dgamma), 1e-6);
  for (const TypeParam dx : result.dx) ASSERT_EQ(Value(dx), 0);
  EXPECT_FALSE(CanInvertLayerNorm<C>(zeros, zeros));
}

TYPED_TEST(LayerNormTest, NanStaysInItsRow) {
  using C = ComputeType<TypeParam>;
  constexpr std::size_t kColumns = 33;
  auto x = Random<TypeParam>(9 * kColumns, 1);
  x[4 * kColumns + 5] = As<TypeParam>(std::nan(""));
  const auto dy = Random<TypeParam>(x.size(), 2);
  const Result<TypeParam> result(x, dy, kColumns, {}, {}, 1e-5, SerialExecutor());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool in_row = i / kColumns == 4;
    ASSERT_EQ(std::isnan(Value(result.y[i])), in_row);
    ASSERT_EQ(std::isnan(Value(result.dx[i])), in_row);
  }
  for (const C dgamma : result.dgamma) ASSERT_TRUE(std::isnan(dgamma));
  for (const C dbeta : result.dbeta) ASSERT_FALSE(std::isnan(dbeta));
}

TYPED_TEST(LayerNormTest, NoRowsGiveGradientsOfZero) {
  using C = ComputeType<TypeParam>;
  const std::vector<TypeParam> none;
  std::vector<TypeParam> outputs;
  std::vector<C> dgamma(5, 1);
  std::vector<C> dbeta(5, 1);
  LayerNorm<TypeParam>(none, 5, {}, {}, 1e-5, outputs, {}, {}, SerialExecutor());
  LayerNormBackward<TypeParam>(none, none, 5, {}, {}, {}, outputs, dgamma, dbeta, SerialExecutor());
  EXPECT_EQ(dgamma, std::vector<C>(5, 0));
  EXPECT_EQ(dbeta, std::vector<C>(5, 0));
  LayerNorm<TypeParam>(none, 0, {}, {}, 1e-5, outputs, {}, {}, SerialExecutor());
}

// The errors that rounding in float leaves must not grow with the shape.
TEST(LayerNormAccuracyTest, LongRowsAndManyRows) {
  for (const auto& [rows, n] : {std::pair{2, 200'000}, std::pair{60'000, 8}}) {
    const auto columns = static_cast<std::size_t>(n);
    const auto x = Random<float>(static_cast<std::size_t>(rows) * columns, 1, 9, 11);
    const auto dy = Random<float>(x.size(), 2, -0.5, 1);
    const auto gamma = Random<float>(columns, 3, 0.5, 2);
    const Reference reference(x, dy, columns, gamma, gamma, 1e-5);
    const Result<float> result(x, dy, columns, gamma, gamma, 1e-5, SerialExecutor());
    EXPECT_LE(RelativeError(result.y, reference.y), 1e-6);
    EXPECT_LE(RelativeError(result.dx, reference.dx), 2e-6);
    EXPECT_LE(RelativeError(result.dgamma, reference.dgamma), 2e-6);
    EXPECT_LE(RelativeError(result.dbeta, reference.dbeta), 1e-6);
  }
}

TEST(CanInvertLayerNormTest, NeedsGammaToBeLargeAgainstBeta) {
  const auto can = [](std::vector<float> gamma, std::vector<float> beta) {
    return CanInvertLayerNorm<float>(gamma, beta);
  };
  EXPECT_TRUE(can({1, -0.5F}, {4, 2}));
  EXPECT_FALSE(can({1, -0.5F}, {4, 2.1F}));
  EXPECT_FALSE(can({1, 0}, {0, 0}));
  EXPECT_FALSE(can({1, HUGE_VALF}, {0, 0}));
  EXPECT_FALSE(can({1, std::nanf("")}, {0, 0}));
  EXPECT_FALSE(can({1, 1}, {0, std::nanf("")}));
  EXPECT_TRUE(can({1e-30F, 1}, {}));
  EXPECT_TRUE(can({}, {4, -4}));
  EXPECT_FALSE(can({}, {4, -4.1F}));
  EXPECT_TRUE(can({}, {}));
}

}  // namespace
}  // namespace palmist::kernels
