/// What tests of kernels share: random values of every storage type, executors, instruction sets.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "hwy/targets.h"
#include "palmist/base/rng.h"
#include "palmist/base/thread_pool.h"
#include "palmist/kernels/executor.h"
#include "palmist/kernels/scalar.h"

namespace palmist::kernels {

using StorageTypes = ::testing::Types<float, double, BFloat16, Float16>;

/// Returns the nearest value of T (of the nearest float, for halves).
template <typename T>
T As(double x) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return ToBFloat16(static_cast<float>(x));
  } else if constexpr (std::is_same_v<T, Float16>) {
    return ToFloat16(static_cast<float>(x));
  } else {
    return static_cast<T>(x);
  }
}

inline double Value(double x) { return x; }
template <typename T>
double Value(T x) {
  return static_cast<double>(ToFloat(x));
}

/// Returns the spacing of T at 1.
template <typename T>
constexpr double Epsilon() {
  if constexpr (std::is_same_v<T, BFloat16>) return 0x1p-7;
  if constexpr (std::is_same_v<T, Float16>) return 0x1p-10;
  return std::is_same_v<T, double> ? 0x1p-52 : 0x1p-23;
}

/// Returns the smallest positive value of T.
template <typename T>
constexpr double Tiny() {
  if constexpr (std::is_same_v<T, BFloat16>) return 0x1p-133;
  if constexpr (std::is_same_v<T, Float16>) return 0x1p-24;
  return std::is_same_v<T, double> ? 0x1p-1074 : 0x1p-149;
}

/// Returns n numbers in [low, high), rounded to T.
template <typename T>
std::vector<T> Random(std::size_t n, std::uint64_t seed, double low = -1, double high = 1) {
  Rng rng(seed);
  std::vector<T> values(n);
  for (T& value : values) value = As<T>(low + (high - low) * rng.Uniform());
  return values;
}

template <typename T>
std::vector<double> Values(const std::vector<T>& x) {
  std::vector<double> values;
  for (const T value : x) values.push_back(Value(value));
  return values;
}

/// Returns |x - reference| / |reference| in the Euclidean norm.
template <typename T>
double RelativeError(const std::vector<T>& x, const std::vector<double>& reference) {
  EXPECT_EQ(x.size(), reference.size());
  double error = 0;
  double size = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    error += std::pow(Value(x[i]) - reference[i], 2);
    size += std::pow(reference[i], 2);
  }
  return std::sqrt(error / size);
}

/// Checks that elements are within `relative` of the reference, or a unit in the last place of T,
/// or `absolute`.
template <typename T>
void ExpectNear(const std::vector<T>& x,
                const std::vector<double>& reference,
                double relative,
                double absolute) {
  ASSERT_EQ(x.size(), reference.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double bound =
        std::max(absolute, std::abs(reference[i]) * std::max(relative, Epsilon<T>()));
    ASSERT_NEAR(Value(x[i]), reference[i], bound) << "at " << i;
  }
}

/// Returns the bytes of vectors, one after the other.
template <typename... T>
std::string Bytes(const std::vector<T>&... values) {
  std::string bytes;
  const auto append = [&](const auto& v) {
    bytes.append(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(v[0]));
  };
  (append(values), ...);
  return bytes;
}

/// Checks that run(executor) gives the same bytes for all executors.
inline void ExpectSameForAllExecutors(const std::function<std::string(Executor&)>& run) {
  const std::string expected = run(SerialExecutor());
  for (const int threads : {1, 2, 7}) {
    ThreadPool pool(threads);
    PoolExecutor executor(pool);
    ASSERT_TRUE(run(executor) == expected) << threads << " threads";
  }
}

/// Runs body with each instruction set that is compiled and that this machine has.
template <typename Body>
void ForEachTarget(const Body& body) {
  const std::int64_t supported = hwy::SupportedTargets();
  for (const std::int64_t target : {HWY_STATIC_TARGET, HWY_AVX2, HWY_AVX3}) {
    if ((supported & target) == 0) continue;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace palmist::kernels
