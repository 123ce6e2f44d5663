#include "palmist/kernels/layer_norm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <tuple>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "palmist/kernels/cpu/layer_norm.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h
#include "hwy/highway.h"
#include "palmist/kernels/cpu/norm-inl.h"
#include "palmist/kernels/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace palmist::kernels {
namespace HWY_NAMESPACE {

template <typename C>
struct RowMoments {
  C mean;
  C rstd;
};

template <typename T>
HWY_FLATTEN RowMoments<ComputeType<T>> LayerNormRow(const T* x,
                                                    std::size_t n,
                                                    std::span<const ComputeType<T>> gamma,
                                                    std::span<const ComputeType<T>> beta,
                                                    double eps,
                                                    T* y) {
  using C = ComputeType<T>;
  const ComputeTag<T> d;
  const auto size = static_cast<double>(n);
  const auto [sum] = SumRow<1>(d, n, [&](std::size_t i, std::size_t count) {
    return std::array{LoadCount(d, x + i, count)};
  });
  const C mean = static_cast<C>(sum / size);
  const auto centre = hn::Set(d, mean);
  const auto [squares] = SumRow<1>(d, n, [&](std::size_t i, std::size_t count) {
    const auto centred = hn::Sub(LoadCount(d, x + i, count), centre);
    return std::array{hn::Mul(centred, centred)};
  });
  const C rstd = static_cast<C>(1 / std::sqrt(squares / size + eps));
  const auto scale = hn::Set(d, rstd);
  ForEachVector(d, n, [&](std::size_t i, std::size_t count) {
    const auto xhat = hn::Mul(hn::Sub(LoadCount(d, x + i, count), centre), scale);
    const auto scaled = hn::MulAdd(
        xhat, LoadParameters(d, gamma, i, count, 1), LoadParameters(d, beta, i, count, 0));
    StoreCount(scaled, d, y + i, count);
  });
  return {mean, rstd};
}

template <typename T>
void LayerNormImpl(std::span<const T> x,
                   std::int64_t n_columns,
                   std::span<const ComputeType<T>> gamma,
                   std::span<const ComputeType<T>> beta,
                   double eps,
                   std::span<T> y,
                   std::span<ComputeType<T>> mean,
                   std::span<ComputeType<T>> rstd,
                   Executor& executor) {
  ForEachRow(
      x.size(), n_columns, executor, [&](std::int64_t row, std::size_t begin, std::size_t n) {
        const auto moments = LayerNormRow(x.data() + begin, n, gamma, beta, eps, y.data() + begin);
        if (!mean.empty()) mean[static_cast<std::size_t>(row)] = moments.mean;
        if (!rstd.empty()) rstd[static_cast<std::size_t>(row)] = moments.rstd;
      });
}

template <typename T>
void LayerNormBackwardImpl(std::span<const T> dy,
                           std::span<const T> x,
                           std::int64_t n_columns,
                           std::span<const ComputeType<T>> gamma,
                           std::span<const ComputeType<T>> mean,
                           std::span<const ComputeType<T>> rstd,
                           std::span<T> dx,
                           std::span<ComputeType<T>> dgamma,
                           std::span<ComputeType<T>> dbeta,
                           Executor& executor) {
  NormBackward<XhatSource::kInput, T>({dy, x, n_columns, gamma, {}, mean, rstd, dx, dgamma, dbeta},
                                      executor);
}

template <typename T>
void LayerNormOutputBackwardImpl(std::span<const T> dy,
                                 std::span<const T> y,
                                 std::int64_t n_columns,
                                 std::span<const ComputeType<T>> gamma,
                                 std::span<const ComputeType<T>> beta,
                                 std::span<const ComputeType<T>> rstd,
                                 std::span<T> dx,
                                 std::span<ComputeType<T>> dgamma,
                                 std::span<ComputeType<T>> dbeta,
                                 Executor& executor) {
  NormBackward<XhatSource::kOutput, T>({dy, y, n_columns, gamma, beta, {}, rstd, dx, dgamma, dbeta},
                                       executor);
}

auto LayerNormOfTypes() {
  return std::tuple(&LayerNormImpl<float>,
                    &LayerNormImpl<double>,
                    &LayerNormImpl<BFloat16>,
                    &LayerNormImpl<Float16>);
}
auto LayerNormBackwardOfTypes() {
  return std::tuple(&LayerNormBackwardImpl<float>,
                    &LayerNormBackwardImpl<double>,
                    &LayerNormBackwardImpl<BFloat16>,
                    &LayerNormBackwardImpl<Float16>);
}
auto LayerNormOutputBackwardOfTypes() {
  return std::tuple(&LayerNormOutputBackwardImpl<float>,
                    &LayerNormOutputBackwardImpl<double>,
                    &LayerNormOutputBackwardImpl<BFloat16>,
                    &LayerNormOutputBackwardImpl<Float16>);
}

}  // namespace HWY_NAMESPACE
}  // namespace palmist::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace palmist::kernels {

HWY_EXPORT(LayerNormOfTypes);
HWY_EXPORT(LayerNormBackwardOfTypes);
HWY_EXPORT(LayerNormOutputBackwardOfTypes);

template <typename T>
void LayerNorm(std::span<const T> x,
               std::int64_t n_columns,
               std::span<const ComputeType<T>> gamma,
               std::span<const ComputeType<T>> beta,
               double eps,
               std::span<T> y,
               std::span<ComputeType<T>> mean,
               std::span<ComputeType<T>> rstd,
               Executor& executor) noexcept {
  using Impl = decltype(&HWY_STATIC_DISPATCH(LayerNormImpl<T>));
  std::get<Impl>(HWY_DYNAMIC_DISPATCH(LayerNormOfTypes)())(
      x, n_columns, gamma, beta, eps, y, mean, rstd, executor);
}

template <typename T>
void LayerNormBackward(std::span<const T> dy,
                       std::span<const T> x,
                       std::int64_t n_columns,
                       std::span<const ComputeType<T>> gamma,
                       std::span<const ComputeType<T>> mean,
                       std::span<const ComputeType<T>> rstd,
                       std::span<T> dx,
                       std::span<ComputeType<T>> dgamma,
                       std::span<ComputeType<T>> dbeta,
                       Executor& executor) noexcept {
  using Impl = decltype(&HWY_STATIC_DISPATCH(LayerNormBackwardImpl<T>));
  std::get<Impl>(HWY_DYNAMIC_DISPATCH(LayerNormBackwardOfTypes)())(
      dy, x, n_columns, gamma, mean, rstd, dx, dgamma, dbeta, executor);
}

template <typename Compute>
bool CanInvertLayerNorm(std::span<const Compute> gamma, std::span<const Compute> beta) noexcept {
  for (std::size_t i = 0; i < gamma.size(); ++i) {
    const Compute scale = std::abs(gamma[i]);
    if (!(scale > 0) || !std::isfinite(scale)) return false;
    if (!beta.empty() && !(std::abs(beta[i]) <= 4 * scale)) return false;
  }
  // Without gamma, which stands for ones, beta alone decides.
  if (!gamma.empty()) return true;
  return std::all_of(beta.begin(), beta.end(), [](Compute b) { return std::abs(b) <= 4; });
}

template <typename T>
void LayerNormOutputBackward(std::span<const T> dy,
                             std::span<const T> y,
                             std::int64_t n_columns,
                             std::span<const ComputeType<T>> gamma,
                             std::span<const ComputeType<T>> beta,
                             std::span<const ComputeType<T>> rstd,
                             std::span<T> dx,
                             std::span<ComputeType<T>> dgamma,
                             std::span<ComputeType<T>> dbeta,
                             Executor& executor) noexcept {
  using Impl = decltype(&HWY_STATIC_DISPATCH(LayerNormOutputBackwardImpl<T>));
  std::get<Impl>(HWY_DYNAMIC_DISPATCH(LayerNormOutputBackwardOfTypes)())(
      dy, y, n_columns, gamma, beta, rstd, dx, dgamma, dbeta, executor);
}

#define PALMIST_INSTANTIATE(T)                                           \
  template void LayerNorm(std::span<const T>,                            \
                          std::int64_t,                                  \
                          std::span<const ComputeType<T>>,               \
                          std::span<const ComputeType<T>>,               \
                          double,                                        \
                          std::span<T>,                                  \
                          std::span<ComputeType<T>>,                     \
                          std::span<ComputeType<T>>,                     \
                          Executor&) noexcept;                           \
  template void LayerNormBackward(std::span<const T>,                    \
                                  std::span<const T>,                    \
                                  std::int64_t,                          \
                                  std::span<const ComputeType<T>>,       \
                                  std::span<const ComputeType<T>>,       \
                                  std::span<const ComputeType<T>>,       \
                                  std::span<T>,                          \
                                  std::span<ComputeType<T>>,             \
                                  std::span<ComputeType<T>>,             \
                                  Executor&) noexcept;                   \
  template void LayerNormOutputBackward(std::span<const T>,              \
                                        std::span<const T>,              \
                                        std::int64_t,                    \
                                        std::span<const ComputeType<T>>, \
                                        std::span<const ComputeType<T>>, \
                                        std::span<const ComputeType<T>>, \
                                        std::span<T>,                    \
                                        std::span<ComputeType<T>>,       \
                                        std::span<ComputeType<T>>,       \
                                        Executor&) noexcept;
PALMIST_INSTANTIATE(float)
PALMIST_INSTANTIATE(double)
PALMIST_INSTANTIATE(BFloat16)
PALMIST_INSTANTIATE(Float16)
#undef PALMIST_INSTANTIATE

template bool CanInvertLayerNorm(std::span<const float>, std::span<const float>) noexcept;
template bool CanInvertLayerNorm(std::span<const double>, std::span<const double>) noexcept;

}  // namespace palmist::kernels
#endif  // HWY_ONCE
