#include "palmist/kernels/silu_mul.h"

#include <cstdint>
#include <tuple>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "palmist/kernels/cpu/silu_mul.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h
#include "hwy/highway.h"
#include "palmist/kernels/cpu/exp-inl.h"
#include "palmist/kernels/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace palmist::kernels {
namespace HWY_NAMESPACE {

/// The logistic function s at x, and 1 - s = s(-x), each with small relative error.
template <class V>
struct Sigmoid {
  V x;  ///< x, but no less than where s is 0, so that x s is 0 at -Inf, not NaN
  V s;
  V complement;
};

template <class D>
HWY_INLINE Sigmoid<hn::Vec<D>> SigmoidOf(D d, hn::Vec<D> x) {
  const auto one = hn::Set(d, hn::TFromD<D>{1});
  // With exp(-|x|) nothing overflows, and neither s nor 1 - s is a difference.
  const auto e = Exp(d, hn::Neg(hn::Abs(x)));
  const auto larger = hn::Div(one, hn::Add(one, e));
  const auto smaller = hn::Mul(e, larger);
  const auto is_negative = hn::Lt(x, hn::Zero(d));
  return {.x = AtLeast(hn::Set(d, ExpConstants<hn::TFromD<D>>::kLowest), x),
          .s = hn::IfThenElse(is_negative, smaller, larger),
          .complement = hn::IfThenElse(is_negative, larger, smaller)};
}

template <typename T>
HWY_FLATTEN void SiluMulRange(const T* gate, const T* up, T* y, std::size_t n) {
  const ComputeTag<T> d;
  ForEachVector(d, n, [&](std::size_t i, std::size_t count) {
    const auto sigmoid = SigmoidOf(d, LoadCount(d, gate + i, count));
    const auto silu = RoundTo<T>(d, hn::Mul(sigmoid.x, sigmoid.s));
    StoreCount(hn::Mul(silu, LoadCount(d, up + i, count)), d, y + i, count);
  });
}

template <typename T>
HWY_FLATTEN void SiluMulBackwardRange(
    const T* dy, const T* gate, const T* up, T* dgate, T* dup, std::size_t n) {
  using C = ComputeType<T>;
  const ComputeTag<T> d;
  ForEachVector(d, n, [&](std::size_t i, std::size_t count) {
    const auto gradient = LoadCount(d, dy + i, count);
    const auto factor = LoadCount(d, up + i, count);
    const auto sigmoid = SigmoidOf(d, LoadCount(d, gate + i, count));
    const auto silu = hn::Mul(sigmoid.x, sigmoid.s);
    // silu'(x) = s + x s (1 - s); at +Inf, Inf times 0 must be 0.
    const auto bounded = AtMost(hn::Set(d, -ExpConstants<C>::kLowest), sigmoid.x);
    const auto one = hn::Set(d, C{1});
    const auto slope = hn::Mul(sigmoid.s, hn::MulAdd(bounded, sigmoid.complement, one));
    StoreCount(hn::Mul(hn::Mul(gradient, factor), slope), d, dgate + i, count);
    StoreCount(hn::Mul(gradient, silu), d, dup + i, count);
  });
}

template <typename T>
void SiluMulImpl(std::span<const T> gate,
                 std::span<const T> up,
                 std::span<T> y,
                 Executor& executor) {
  executor.ParallelFor(
      static_cast<std::int64_t>(y.size()), GrainOf(1), [&](std::int64_t first, std::int64_t last) {
        SiluMulRange(gate.data() + first,
                     up.data() + first,
                     y.data() + first,
                     static_cast<std::size_t>(last - first));
      });
}

template <typename T>
void SiluMulBackwardImpl(std::span<const T> dy,
                         std::span<const T> gate,
                         std::span<const T> up,
                         std::span<T> dgate,
                         std::span<T> dup,
                         Executor& executor) {
  executor.ParallelFor(
      static_cast<std::int64_t>(dy.size()), GrainOf(1), [&](std::int64_t first, std::int64_t last) {
        SiluMulBackwardRange(dy.data() + first,
                             gate.data() + first,
                             up.data() + first,
                             dgate.data() + first,
                             dup.data() + first,
                             static_cast<std::size_t>(last - first));
      });
}

auto SiluMulOfTypes() {
  return std::tuple(
      &SiluMulImpl<float>, &SiluMulImpl<double>, &SiluMulImpl<BFloat16>, &SiluMulImpl<Float16>);
}
auto SiluMulBackwardOfTypes() {
  return std::tuple(&SiluMulBackwardImpl<float>,
                    &SiluMulBackwardImpl<double>,
                    &SiluMulBackwardImpl<BFloat16>,
                    &SiluMulBackwardImpl<Float16>);
}

}  // namespace HWY_NAMESPACE
}  // namespace palmist::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace palmist::kernels {

HWY_EXPORT(SiluMulOfTypes);
HWY_EXPORT(SiluMulBackwardOfTypes);

template <typename T>
void SiluMul(std::span<const T> gate,
             std::span<const T> up,
             std::span<T> y,
             Executor& executor) noexcept {
  using Impl = decltype(&HWY_STATIC_DISPATCH(SiluMulImpl<T>));
  std::get<Impl>(HWY_DYNAMIC_DISPATCH(SiluMulOfTypes)())(gate, up, y, executor);
}

template <typename T>
void SiluMulBackward(std::span<const T> dy,
                     std::span<const T> gate,
                     std::span<const T> up,
                     std::span<T> dgate,
                     std::span<T> dup,
                     Executor& executor) noexcept {
  using Impl = decltype(&HWY_STATIC_DISPATCH(SiluMulBackwardImpl<T>));
  std::get<Impl>(HWY_DYNAMIC_DISPATCH(SiluMulBackwardOfTypes)())(
      dy, gate, up, dgate, dup, executor);
}

#define PALMIST_INSTANTIATE(T)                                                                     \
  template void SiluMul(std::span<const T>, std::span<const T>, std::span<T>, Executor&) noexcept; \
  template void SiluMulBackward(std::span<const T>,                                                \
                                std::span<const T>,                                                \
                                std::span<const T>,                                                \
                                std::span<T>,                                                      \
                                std::span<T>,                                                      \
                                Executor&) noexcept;
PALMIST_INSTANTIATE(float)
PALMIST_INSTANTIATE(double)
PALMIST_INSTANTIATE(BFloat16)
PALMIST_INSTANTIATE(Float16)
#undef PALMIST_INSTANTIATE

}  // namespace palmist::kernels
#endif  // HWY_ONCE
