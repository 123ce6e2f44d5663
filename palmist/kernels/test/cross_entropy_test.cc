#include "palmist/kernels/cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "palmist/kernels/test/kernel_testing.h"

namespace palmist::kernels {
namespace {

template <typename T>
class CrossEntropyTest : public ::testing::Test {};
TYPED_TEST_SUITE(CrossEntropyTest, StorageTypes);

template <typename T>
struct Result {
  Result(std::vector<T> logits,
         std::int64_t n_classes,
         const std::vector<std::int64_t>& targets,
         const CrossEntropyOptions& options,
         bool write_gradient = true,
         Executor& executor = SerialExecutor())
      : loss(targets.size()), gradient(std::move(logits)) {
    CrossEntropy<T>(gradient, n_classes, targets, options, write_gradient, loss, executor);
  }
  std::vector<ComputeType<T>> loss;
  std::vector<T> gradient;
};

/// Loss and gradient of one row in long double.
struct Reference {
  template <typename T>
  Reference(const T* x, std::size_t n, std::size_t target, const CrossEntropyOptions& options)
      : gradient(n), magnitude(n) {
    long double largest = Value(x[0]);
    long double mean = 0;
    for (std::size_t i = 0; i < n; ++i) {
      largest = std::max<long double>(largest, Value(x[i]));
      mean += Value(x[i]) / static_cast<long double>(n);
    }
    long double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += std::exp(Value(x[i]) - largest);
    const long double lse = largest + std::log(sum);
    const long double s = options.label_smoothing;
    const long double z = options.z_loss;
    loss =
        static_cast<double>((1 - s) * (lse - Value(x[target])) + s * (lse - mean) + z * lse * lse);
    for (std::size_t i = 0; i < n; ++i) {
      const long double softmax = std::exp(Value(x[i]) - lse);
      const long double scaled = (1 + 2 * z * lse) * softmax;
      const long double subtracted = (i == target ? 1 - s : 0) + s / static_cast<long double>(n);
      gradient[i] = static_cast<double>(scaled - subtracted);
      magnitude[i] = static_cast<double>(std::abs(scaled) + subtracted);
    }
  }
  double loss;
  std::vector<double> gradient;
  std::vector<double> magnitude;  // of the two terms that may cancel in the gradient
};

TYPED_TEST(CrossEntropyTest, MatchesTheReference) {
  const CrossEntropyOptions all_options[] = {
      {}, {.label_smoothing = 0.1}, {.z_loss = 1e-2}, {.label_smoothing = 0.3, .z_loss = 1e-3}};
  ForEachTarget([&] {
    for (const std::size_t n : {1, 2, 17, 64, 1000, 5003}) {
      const auto x = Random<TypeParam>(4 * n, n, -6, 9);
      const std::vector<std::int64_t> targets = {
          0, static_cast<std::int64_t>(n / 2), static_cast<std::int64_t>(n - 1), 0};
      for (const CrossEntropyOptions& options : all_options) {
        const auto classes = static_cast<std::int64_t>(n);
        const Result<TypeParam> result(x, classes, targets, options);
        const Result<TypeParam> loss_only(x, classes, targets, options, false);
        ASSERT_EQ(Bytes(loss_only.loss), Bytes(result.loss));
        ASSERT_EQ(Bytes(loss_only.gradient), Bytes(x));
        const double relative = std::is_same_v<TypeParam, double> ? 2e-15 : 1e-6;
        for (std::size_t r = 0; r < targets.size(); ++r) {
          const Reference reference(
              x.data() + r * n, n, static_cast<std::size_t>(targets[r]), options);
          ASSERT_NEAR(static_cast<double>(result.loss[r]),
                      reference.loss,
                      relative * (1 + std::abs(reference.loss)));
          for (std::size_t i = 0; i < n; ++i) {
            const double gradient = reference.gradient[i];
            const double bound = Epsilon<TypeParam>() * std::abs(gradient) +
                                 relative * reference.magnitude[i] + Tiny<TypeParam>();
            ASSERT_NEAR(Value(result.gradient[r * n + i]), gradient, bound) << n << " " << i;
          }
        }
      }
    }
  });
}

TYPED_TEST(CrossEntropyTest, IgnoredTargetsCostNothing) {
  auto x = Random<TypeParam>(4 * 50, 1);
  const auto plain = x;
  x[50] = As<TypeParam>(std::nan(""));
  for (const std::int64_t ignored : {-100, 7}) {
    const CrossEntropyOptions options = {
        .ignore_index = ignored, .label_smoothing = 0.1, .z_loss = 1e-3};
    const Result<TypeParam> result(x, 50, {3, ignored, 5, ignored}, options);
    const Result<TypeParam> expected(plain, 50, {3, 4, 5, 6}, options);
    for (const std::size_t r : {1, 3}) {
      ASSERT_EQ(result.loss[r], 0);
      for (std::size_t i = r * 50; i < (r + 1) * 50; ++i) ASSERT_EQ(Value(result.gradient[i]), 0);
    }
    for (const std::size_t r : {0, 2}) ASSERT_EQ(result.loss[r], expected.loss[r]);
    const Result<TypeParam> without(x, 50, {3, ignored, 5, ignored}, options, false);
    ASSERT_EQ(Bytes(without.gradient), Bytes(x));
  }
}

TYPED_TEST(CrossEntropyTest, LargeAndInfiniteLogits) {
  const double inf = HUGE_VAL;
  std::vector<TypeParam> x;
  for (const double value : {6e4, -6e4, 6e4, 1.0, -inf, 1.0, 1.0, std::nan(""), 1.0}) {
    x.push_back(As<TypeParam>(value));
  }
  ForEachTarget([&] {
    const Result<TypeParam> result(x, 3, {0, 0, 0}, {});
    for (const std::size_t r : {0, 1}) {
      EXPECT_NEAR(static_cast<double>(result.loss[r]), std::log(2.0), 1e-6);
      EXPECT_NEAR(Value(result.gradient[3 * r]), -0.5, 1e-3);
      EXPECT_EQ(Value(result.gradient[3 * r + 1]), 0);
      EXPECT_NEAR(Value(result.gradient[3 * r + 2]), 0.5, 1e-3);
    }
    EXPECT_TRUE(std::isnan(result.loss[2]));
    EXPECT_TRUE(std::isnan(Value(result.gradient[8])));
  });
}

TYPED_TEST(CrossEntropyTest, SameForAllExecutors) {
  const auto x = Random<TypeParam>(64 * 3001, 1, -5, 5);
  std::vector<std::int64_t> targets;
  for (std::int64_t r = 0; r < 64; ++r) targets.push_back(r % 5 == 0 ? -100 : 40 * r);
  const CrossEntropyOptions options = {.label_smoothing = 0.1, .z_loss = 1e-4};
  ExpectSameForAllExecutors([&](Executor& executor) {
    const Result<TypeParam> result(x, 3001, targets, options, true, executor);
    return Bytes(result.loss, result.gradient);
  });
}

TYPED_TEST(CrossEntropyTest, Empty) {
  const Result<TypeParam> result({}, 10, {}, {});
  EXPECT_TRUE(result.loss.empty());
}

// 262144 classes: the sum of so many exponentials keeps its precision.
TEST(CrossEntropyAccuracyTest, ManyClasses) {
  constexpr std::int64_t kClasses = 1 << 18;
  const auto x = Random<float>(kClasses, 1, -3, 3);
  const Reference reference(x.data(), x.size(), 77, {.label_smoothing = 0.1});
  const Result<float> result(x, kClasses, {77}, {.label_smoothing = 0.1});
  EXPECT_NEAR(result.loss[0], reference.loss, 1e-6 * reference.loss);
  EXPECT_LE(RelativeError(result.gradient, reference.gradient), 1e-6);
}

}  // namespace
}  // namespace palmist::kernels
