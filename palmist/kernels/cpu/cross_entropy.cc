#include "palmist/kernels/cross_entropy.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "palmist/kernels/cpu/cross_entropy.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h
#include "hwy/highway.h"
#include "palmist/kernels/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace palmist::kernels {
namespace HWY_NAMESPACE {

/// Returns the loss of a row whose target is not ignored.
template <typename T>
HWY_FLATTEN double CrossEntropyRow(T* x,
                                   std::size_t n,
                                   std::size_t target,
                                   const CrossEntropyOptions& options,
                                   bool write_gradient) {
  using C = ComputeType<T>;
  const ComputeTag<T> d;
  const double smoothing = options.label_smoothing;
  // Not where smoothing is 0: 0 times the mean is NaN for a logit of -Inf.
  double mean = 0;
  if (smoothing > 0) {
    const auto [sum] = SumRow<1>(d, n, [&](std::size_t i, std::size_t count) {
      return std::array{LoadCount(d, x + i, count)};
    });
    mean = sum / static_cast<double>(n);
  }
  const auto target_logit = static_cast<C>(hn::GetLane(LoadPart(d, x + target, 1)));

  // Halves have no room for exponentials at full precision, so theirs are computed twice.
  constexpr bool kKeepsExponentials = std::is_same_v<T, C>;
  C* exponentials = nullptr;
  if constexpr (kKeepsExponentials) exponentials = write_gradient ? x : nullptr;
  const ExpSum sum = SumExponentials(d, x, n, exponentials);
  const double log_sum = std::log(sum.sum);
  const double lse = sum.shift + log_sum;
  double loss = (1 - smoothing) * (log_sum + (sum.shift - static_cast<double>(target_logit)));
  if (smoothing > 0) loss += smoothing * (log_sum + (sum.shift - mean));
  if (options.z_loss != 0) loss += options.z_loss * lse * lse;
  if (!write_gradient) return loss;

  const double scale = 1 + 2 * options.z_loss * lse;
  const double floor = smoothing / static_cast<double>(n);
  const auto shift = hn::Set(d, static_cast<C>(sum.shift));
  const auto factors = hn::Set(d, static_cast<C>(scale / sum.sum));
  const auto floors = hn::Set(d, static_cast<C>(floor));
  ForEachVector(d, n, [&](std::size_t i, std::size_t count) {
    auto e = LoadCount(d, x + i, count);
    if constexpr (!kKeepsExponentials) e = Exp(d, hn::Sub(e, shift));
    StoreCount(hn::MulSub(e, factors, floors), d, x + i, count);
  });
  const double e = std::exp(static_cast<double>(target_logit) - sum.shift);
  const double gradient = scale * (e / sum.sum) - (1 - smoothing) - floor;
  StorePart(hn::Set(d, static_cast<C>(gradient)), d, x + target, 1);
  return loss;
}

template <typename T>
void CrossEntropyImpl(std::span<T> logits,
                      std::int64_t n_classes,
                      std::span<const std::int64_t> targets,
                      const CrossEntropyOptions& options,
                      bool write_gradient,
                      std::span<ComputeType<T>> loss,
                      Executor& executor) {
  const auto body = [&](std::int64_t row, std::size_t begin, std::size_t n) {
    const auto r = static_cast<std::size_t>(row);
    T* x = logits.data() + begin;
    double row_loss = 0;
    if (targets[r] != options.ignore_index) {
      const auto target = static_cast<std::size_t>(targets[r]);
      row_loss = CrossEntropyRow(x, n, target, options, write_gradient);
    } else if (write_gradient) {
      std::fill_n(x, n, T{});
    }
    loss[r] = static_cast<ComputeType<T>>(row_loss);
  };
  ForEachRow(logits.size(), n_classes, executor, body);
}

auto CrossEntropyOfTypes() {
  return std::tuple(&CrossEntropyImpl<float>,
                    &CrossEntropyImpl<double>,
                    &CrossEntropyImpl<BFloat16>,
                    &CrossEntropyImpl<Float16>);
}

}  // namespace HWY_NAMESPACE
}  // namespace palmist::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace palmist::kernels {

HWY_EXPORT(CrossEntropyOfTypes);

template <typename T>
void CrossEntropy(std::span<T> logits,
                  std::int64_t n_classes,
                  std::span<const std::int64_t> targets,
                  const CrossEntropyOptions& options,
                  bool write_gradient,
                  std::span<ComputeType<T>> loss,
                  Executor& executor) noexcept {
  using Impl = decltype(&HWY_STATIC_DISPATCH(CrossEntropyImpl<T>));
  std::get<Impl>(HWY_DYNAMIC_DISPATCH(CrossEntropyOfTypes)())(
      logits, n_classes, targets, options, write_gradient, loss, executor);
}

#define PALMIST_INSTANTIATE(T)                              \
  template void CrossEntropy(std::span<T>,                  \
                             std::int64_t,                  \
                             std::span<const std::int64_t>, \
                             const CrossEntropyOptions&,    \
                             bool,                          \
                             std::span<ComputeType<T>>,     \
                             Executor&) noexcept;
PALMIST_INSTANTIATE(float)
PALMIST_INSTANTIATE(double)
PALMIST_INSTANTIATE(BFloat16)
PALMIST_INSTANTIATE(Float16)
#undef PALMIST_INSTANTIATE

}  // namespace palmist::kernels
#endif  // HWY_ONCE
