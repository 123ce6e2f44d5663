#include "palmist/kernels/rms_norm.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <tuple>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "palmist/kernels/cpu/rms_norm.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h
#include "hwy/highway.h"
#include "palmist/kernels/cpu/norm-inl.h"
#include "palmist/kernels/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace palmist::kernels {
namespace HWY_NAMESPACE {

/// Returns the row's rstd.
template <typename T>
HWY_FLATTEN ComputeType<T> RmsNormRow(
    const T* x, std::size_t n, std::span<const ComputeType<T>> gamma, double eps, T* y) {
  using C = ComputeType<T>;
  const ComputeTag<T> d;
  const auto [squares] = SumRow<1>(d, n, [&](std::size_t i, std::size_t count) {
    const auto value = LoadCount(d, x + i, count);
    return std::array{hn::Mul(value, value)};
  });
  const C rstd = static_cast<C>(1 / std::sqrt(squares / static_cast<double>(n) + eps));
  const auto scale = hn::Set(d, rstd);
  ForEachVector(d, n, [&](std::size_t i, std::size_t count) {
    const auto xhat = RoundTo<T>(d, hn::Mul(LoadCount(d, x + i, count), scale));
    StoreCount(hn::Mul(xhat, LoadParameters(d, gamma, i, count, 1)), d, y + i, count);
  });
  return rstd;
}

template <typename T>
void RmsNormImpl(std::span<const T> x,
                 std::int64_t n_columns,
                 std::span<const ComputeType<T>> gamma,
                 double eps,
                 std::span<T> y,
                 std::span<ComputeType<T>> rstd,
                 Executor& executor) {
  ForEachRow(
      x.size(), n_columns, executor, [&](std::int64_t row, std::size_t begin, std::size_t n) {
        const auto scale = RmsNormRow(x.data() + begin, n, gamma, eps, y.data() + begin);
        if (!rstd.empty()) rstd[static_cast<std::size_t>(row)] = scale;
      });
}

template <typename T>
void RmsNormBackwardImpl(std::span<const T> dy,
                         std::span<const T> x,
                         std::int64_t n_columns,
                         std::span<const ComputeType<T>> gamma,
                         std::span<const ComputeType<T>> rstd,
                         std::span<T> dx,
                         std::span<ComputeType<T>> dgamma,
                         Executor& executor) {
  NormBackward<XhatSource::kRmsInput, T>({dy, x, n_columns, gamma, {}, {}, rstd, dx, dgamma, {}},
                                         executor);
}

auto RmsNormOfTypes() {
  return std::tuple(
      &RmsNormImpl<float>, &RmsNormImpl<double>, &RmsNormImpl<BFloat16>, &RmsNormImpl<Float16>);
}
auto RmsNormBackwardOfTypes() {
  return std::tuple(&RmsNormBackwardImpl<float>,
                    &RmsNormBackwardImpl<double>,
                    &RmsNormBackwardImpl<BFloat16>,
                    &RmsNormBackwardImpl<Float16>);
}

}  // namespace HWY_NAMESPACE
}  // namespace palmist::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace palmist::kernels {

HWY_EXPORT(RmsNormOfTypes);
HWY_EXPORT(RmsNormBackwardOfTypes);

template <typename T>
void RmsNorm(std::span<const T> x,
             std::int64_t n_columns,
             std::span<const ComputeType<T>> gamma,
             double eps,
             std::span<T> y,
             std::span<ComputeType<T>> rstd,
             Executor& executor) noexcept {
  using Impl = decltype(&HWY_STATIC_DISPATCH(RmsNormImpl<T>));
  std::get<Impl>(HWY_DYNAMIC_DISPATCH(RmsNormOfTypes)())(
      x, n_columns, gamma, eps, y, rstd, executor);
}

template <typename T>
void RmsNormBackward(std::span<const T> dy,
                     std::span<const T> x,
                     std::int64_t n_columns,
                     std::span<const ComputeType<T>> gamma,
                     std::span<const ComputeType<T>> rstd,
                     std::span<T> dx,
                     std::span<ComputeType<T>> dgamma,
                     Executor& executor) noexcept {
  using Impl = decltype(&HWY_STATIC_DISPATCH(RmsNormBackwardImpl<T>));
  std::get<Impl>(HWY_DYNAMIC_DISPATCH(RmsNormBackwardOfTypes)())(
      dy, x, n_columns, gamma, rstd, dx, dgamma, executor);
}

#define PALMIST_INSTANTIATE(T)                                   \
  template void RmsNorm(std::span<const T>,                      \
                        std::int64_t,                            \
                        std::span<const ComputeType<T>>,         \
                        double,                                  \
                        std::span<T>,                            \
                        std::span<ComputeType<T>>,               \
                        Executor&) noexcept;                     \
  template void RmsNormBackward(std::span<const T>,              \
                                std::span<const T>,              \
                                std::int64_t,                    \
                                std::span<const ComputeType<T>>, \
                                std::span<const ComputeType<T>>, \
                                std::span<T>,                    \
                                std::span<ComputeType<T>>,       \
                                Executor&) noexcept;
PALMIST_INSTANTIATE(float)
PALMIST_INSTANTIATE(double)
PALMIST_INSTANTIATE(BFloat16)
PALMIST_INSTANTIATE(Float16)
#undef PALMIST_INSTANTIATE

}  // namespace palmist::kernels
#endif  // HWY_ONCE
