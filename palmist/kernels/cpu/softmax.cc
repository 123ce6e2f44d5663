#include "palmist/kernels/softmax.h"

#include <array>
#include <cstdint>
#include <iterator>
#include <tuple>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "palmist/kernels/cpu/softmax.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h
#include "hwy/highway.h"
#include "palmist/kernels/cpu/philox-inl.h"
#include "palmist/kernels/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace palmist::kernels {
namespace HWY_NAMESPACE {

template <typename T>
HWY_FLATTEN void SoftmaxRow(const T* x, std::size_t n, T* y) {
  using C = ComputeType<T>;
  const ComputeTag<T> d;
  // Halves have no room for exponentials at full precision: those of short rows are kept aside,
  // those of long ones computed twice.
  constexpr bool kHasRoom = std::is_same_v<T, C>;
  HWY_ALIGN C aside[kHasRoom ? 1 : 2048];
  C* exponentials = n <= std::size(aside) ? aside : nullptr;
  if constexpr (kHasRoom) exponentials = y;
  const ExpSum sum = SumExponentials(d, x, n, exponentials);
  const auto factor = hn::Set(d, static_cast<C>(sum.sum == 0 ? 0 : 1 / sum.sum));
  const auto shift = hn::Set(d, static_cast<C>(sum.shift));
  ForEachVector(d, n, [&](std::size_t i, std::size_t count) {
    const auto e = exponentials != nullptr ? LoadCount(d, exponentials + i, count)
                                           : Exp(d, hn::Sub(LoadCount(d, x + i, count), shift));
    StoreCount(hn::Mul(e, factor), d, y + i, count);
  });
}

template <typename T>
HWY_FLATTEN void SoftmaxBackwardRow(const T* dy, const T* y, std::size_t n, T* dx) {
  const ComputeTag<T> d;
  const auto [dot] = SumRow<1>(d, n, [&](std::size_t i, std::size_t count) {
    return std::array{hn::Mul(LoadCount(d, dy + i, count), LoadCount(d, y + i, count))};
  });
  const auto mean = hn::Set(d, static_cast<ComputeType<T>>(dot));
  ForEachVector(d, n, [&](std::size_t i, std::size_t count) {
    const auto centred = hn::Sub(LoadCount(d, dy + i, count), mean);
    StoreCount(hn::Mul(LoadCount(d, y + i, count), centred), d, dx + i, count);
  });
}

template <typename T>
void SoftmaxImpl(std::span<const T> x, std::int64_t n_columns, std::span<T> y, Executor& executor) {
  ForEachRow(x.size(), n_columns, executor, [&](std::int64_t, std::size_t begin, std::size_t n) {
    SoftmaxRow(x.data() + begin, n, y.data() + begin);
  });
}

template <typename T>
void SoftmaxBackwardImpl(std::span<const T> dy,
                         std::span<const T> y,
                         std::int64_t n_columns,
                         std::span<T> dx,
                         Executor& executor) {
  ForEachRow(y.size(), n_columns, executor, [&](std::int64_t, std::size_t begin, std::size_t n) {
    SoftmaxBackwardRow(dy.data() + begin, y.data() + begin, n, dx.data() + begin);
  });
}

template <typename T>
void DropoutRowsImpl(std::span<const T> x,
                     std::int64_t n_columns,
                     const DropoutSpec& dropout,
                     std::span<T> y,
                     Executor& executor) {
  const DropoutRule rule(dropout);
  const std::int64_t blocks = PaddedRow(n_columns) / static_cast<std::int64_t>(kDropoutBlock);
  ForEachRow(
      x.size(), n_columns, executor, [&](std::int64_t row, std::size_t begin, std::size_t n) {
        DropoutElements(
            rule, static_cast<std::uint64_t>(row * blocks), x.data() + begin, n, y.data() + begin);
      });
}

auto SoftmaxOfTypes() {
  return std::tuple(
      &SoftmaxImpl<float>, &SoftmaxImpl<double>, &SoftmaxImpl<BFloat16>, &SoftmaxImpl<Float16>);
}
auto SoftmaxBackwardOfTypes() {
  return std::tuple(&SoftmaxBackwardImpl<float>,
                    &SoftmaxBackwardImpl<double>,
                    &SoftmaxBackwardImpl<BFloat16>,
                    &SoftmaxBackwardImpl<Float16>);
}
auto DropoutRowsOfTypes() {
  return std::tuple(&DropoutRowsImpl<float>,
                    &DropoutRowsImpl<double>,
                    &DropoutRowsImpl<BFloat16>,
                    &DropoutRowsImpl<Float16>);
}

}  // namespace HWY_NAMESPACE
}  // namespace palmist::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace palmist::kernels {

HWY_EXPORT(SoftmaxOfTypes);
HWY_EXPORT(SoftmaxBackwardOfTypes);
HWY_EXPORT(DropoutRowsOfTypes);

template <typename T>
void Softmax(std::span<const T> x,
             std::int64_t n_columns,
             std::span<T> y,
             Executor& executor) noexcept {
  using Impl = decltype(&HWY_STATIC_DISPATCH(SoftmaxImpl<T>));
  std::get<Impl>(HWY_DYNAMIC_DISPATCH(SoftmaxOfTypes)())(x, n_columns, y, executor);
}

template <typename T>
void SoftmaxBackward(std::span<const T> dy,
                     std::span<const T> y,
                     std::int64_t n_columns,
                     std::span<T> dx,
                     Executor& executor) noexcept {
  using Impl = decltype(&HWY_STATIC_DISPATCH(SoftmaxBackwardImpl<T>));
  std::get<Impl>(HWY_DYNAMIC_DISPATCH(SoftmaxBackwardOfTypes)())(dy, y, n_columns, dx, executor);
}

template <typename T>
void DropoutRows(std::span<const T> x,
                 std::int64_t n_columns,
                 const DropoutSpec& dropout,
                 std::span<T> y,
                 Executor& executor) noexcept {
  using Impl = decltype(&HWY_STATIC_DISPATCH(DropoutRowsImpl<T>));
  std::get<Impl>(HWY_DYNAMIC_DISPATCH(DropoutRowsOfTypes)())(x, n_columns, dropout, y, executor);
}

#define PALMIST_INSTANTIATE(T)                                                                 \
  template void Softmax(std::span<const T>, std::int64_t, std::span<T>, Executor&) noexcept;   \
  template void SoftmaxBackward(                                                               \
      std::span<const T>, std::span<const T>, std::int64_t, std::span<T>, Executor&) noexcept; \
  template void DropoutRows(                                                                   \
      std::span<const T>, std::int64_t, const DropoutSpec&, std::span<T>, Executor&) noexcept;
PALMIST_INSTANTIATE(float)
PALMIST_INSTANTIATE(double)
PALMIST_INSTANTIATE(BFloat16)
PALMIST_INSTANTIATE(Float16)
#undef PALMIST_INSTANTIATE

}  // namespace palmist::kernels
#endif  // HWY_ONCE
