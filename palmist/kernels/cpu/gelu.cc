#include "palmist/kernels/gelu.h"

#include <tuple>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "palmist/kernels/cpu/gelu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h
#include "hwy/highway.h"
#include "palmist/kernels/cpu/gelu-inl.h"

HWY_BEFORE_NAMESPACE();
namespace palmist::kernels {
namespace HWY_NAMESPACE {

template <template <class> class Form, typename T>
void ValueLoop(const T* x, T* y, std::size_t n) {
  if constexpr (std::is_same_v<T, double>) {
    std::transform(x, x + n, y, [](double v) { return GeluValue<Form>(v); });
  } else {
    const ComputeTag<T> d;
    ForEachVector(
        d, n, [&](std::size_t i, std::size_t count) HWY_ATTR __attribute__((always_inline)) {
          PrefetchAhead(x + i, y + i);
          StoreCount(GeluValue<Form>(d, LoadCount(d, x + i, count)), d, y + i, count);
        });
  }
}

template <template <class> class Form, typename T>
void SlopeLoop(const T* dy, const T* x, T* dx, std::size_t n) {
  if constexpr (std::is_same_v<T, double>) {
    std::transform(dy, dy + n, x, dx, [](double g, double v) { return g * GeluSlope<Form>(v); });
  } else {
    const ComputeTag<T> d;
    ForEachVector(
        d, n, [&](std::size_t i, std::size_t count) HWY_ATTR __attribute__((always_inline)) {
          PrefetchAhead(dy + i, x + i, dx + i);
          const auto slope = GeluSlope<Form>(d, LoadCount(d, x + i, count));
          StoreCount(hn::Mul(LoadCount(d, dy + i, count), slope), d, dx + i, count);
        });
  }
}

template <typename T>
void GeluImpl(std::span<const T> x, std::span<T> y, GeluKind kind, Executor& executor) {
  const auto loop = kind == GeluKind::kErf ? ValueLoop<ErfGelu, T> : ValueLoop<TanhGelu, T>;
  ForEachRange(x.size(), executor, [&](std::size_t begin, std::size_t end) {
    loop(x.data() + begin, y.data() + begin, end - begin);
  });
}

template <typename T>
void GeluBackwardImpl(std::span<const T> dy,
                      std::span<const T> x,
                      std::span<T> dx,
                      GeluKind kind,
                      Executor& executor) {
  const auto loop = kind == GeluKind::kErf ? SlopeLoop<ErfGelu, T> : SlopeLoop<TanhGelu, T>;
  ForEachRange(x.size(), executor, [&](std::size_t begin, std::size_t end) {
    loop(dy.data() + begin, x.data() + begin, dx.data() + begin, end - begin);
  });
}

auto GeluOfTypes() {
  return std::tuple(&GeluImpl<float>, &GeluImpl<double>, &GeluImpl<BFloat16>, &GeluImpl<Float16>);
}
auto GeluBackwardOfTypes() {
  return std::tuple(&GeluBackwardImpl<float>,
                    &GeluBackwardImpl<double>,
                    &GeluBackwardImpl<BFloat16>,
                    &GeluBackwardImpl<Float16>);
}

}  // namespace HWY_NAMESPACE
}  // namespace palmist::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace palmist::kernels {

HWY_EXPORT(GeluOfTypes);
HWY_EXPORT(GeluBackwardOfTypes);

template <typename T>
void Gelu(std::span<const T> x, std::span<T> y, GeluKind kind, Executor& executor) noexcept {
  using Impl = decltype(&HWY_STATIC_DISPATCH(GeluImpl<T>));
  std::get<Impl>(HWY_DYNAMIC_DISPATCH(GeluOfTypes)())(x, y, kind, executor);
}

template <typename T>
void GeluBackward(std::span<const T> dy,
                  std::span<const T> x,
                  std::span<T> dx,
                  GeluKind kind,
                  Executor& executor) noexcept {
  using Impl = decltype(&HWY_STATIC_DISPATCH(GeluBackwardImpl<T>));
  std::get<Impl>(HWY_DYNAMIC_DISPATCH(GeluBackwardOfTypes)())(dy, x, dx, kind, executor);
}

template void Gelu(std::span<const float>, std::span<float>, GeluKind, Executor&) noexcept;
template void Gelu(std::span<const double>, std::span<double>, GeluKind, Executor&) noexcept;
template void Gelu(std::span<const BFloat16>, std::span<BFloat16>, GeluKind, Executor&) noexcept;
template void Gelu(std::span<const Float16>, std::span<Float16>, GeluKind, Executor&) noexcept;
template void GeluBackward(
    std::span<const float>, std::span<const float>, std::span<float>, GeluKind, Executor&) noexcept;
template void GeluBackward(std::span<const double>,
                           std::span<const double>,
                           std::span<double>,
                           GeluKind,
                           Executor&) noexcept;
template void GeluBackward(std::span<const BFloat16>,
                           std::span<const BFloat16>,
                           std::span<BFloat16>,
                           GeluKind,
                           Executor&) noexcept;
template void GeluBackward(std::span<const Float16>,
                           std::span<const Float16>,
                           std::span<Float16>,
                           GeluKind,
                           Executor&) noexcept;

}  // namespace palmist::kernels
#endif  // HWY_ONCE
