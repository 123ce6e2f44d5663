#include "palmist/kernels/cuda/device.h"

namespace palmist::kernels::cuda {
namespace {

/// Beyond it exp(-|x|) is 0.
template <typename C>
inline constexpr C kSigmoidEnd = sizeof(C) == 8 ? 746 : 104;

/// The logistic function s at x, and 1 - s = s(-x), each with small relative error.
template <typename C>
struct Sigmoid {
  C x;  ///< x, but no less than where s is 0, so that x s is 0 at -Inf, not NaN
  C s;
  C complement;
};

template <typename C>
__device__ Sigmoid<C> SigmoidOf(C x) {
  // With exp(-|x|) nothing overflows, and neither s nor 1 - s is a difference.
  const C e = exp(-abs(x));
  const C larger = C{1} / (C{1} + e);
  const C smaller = e * larger;
  return {x < -kSigmoidEnd<C> ? -kSigmoidEnd<C> : x,
          x < 0 ? smaller : larger,
          x < 0 ? larger : smaller};
}

template <typename T>
__global__ void __launch_bounds__(256)
    SiluMulKernel(const T* gate, const T* up, std::int64_t n, T* y) {
  using C = ComputeType<T>;
  ForEachPart(y, n, GridThread(), GridThreads(), [&](auto count, std::int64_t i) {
    C values[count], factors[count];
    Load(gate + i, values);
    Load(up + i, factors);
#pragma unroll
    for (int j = 0; j < count; ++j) {
      const Sigmoid<C> sigmoid = SigmoidOf(values[j]);
      values[j] = Widen(Narrow<T>(sigmoid.x * sigmoid.s)) * factors[j];
    }
    Store(values, y + i);
  });
}

template <typename T>
__global__ void __launch_bounds__(256) SiluMulBackwardKernel(
    const T* dy, const T* gate, const T* up, std::int64_t n, T* dgate, T* dup) {
  using C = ComputeType<T>;
  ForEachPart(dy, n, GridThread(), GridThreads(), [&](auto count, std::int64_t i) {
    C gradients[count], values[count], factors[count];
    Load(dy + i, gradients);
    Load(gate + i, values);
    Load(up + i, factors);
#pragma unroll
    for (int j = 0; j < count; ++j) {
      const Sigmoid<C> sigmoid = SigmoidOf(values[j]);
      // silu'(x) = s + x s (1 - s); at +Inf, Inf times 0 must be 0.
      const C bounded = sigmoid.x > kSigmoidEnd<C> ? kSigmoidEnd<C> : sigmoid.x;
      const C slope = sigmoid.s * (bounded * sigmoid.complement + C{1});
      values[j] = gradients[j] * factors[j] * slope;
      factors[j] = gradients[j] * (sigmoid.x * sigmoid.s);
    }
    Store(values, dgate + i);
    Store(factors, dup + i);
  });
}

}  // namespace

template <typename T>
void SiluMul(const T* gate, const T* up, std::int64_t n, T* y, Stream stream) noexcept {
  if (n == 0) return;
  Launch(SiluMulKernel<T>, GridOf(n, 256 * kVector<T>), 256, 0, stream, gate, up, n, y);
}

template <typename T>
void SiluMulBackward(const T* dy,
                     const T* gate,
                     const T* up,
                     std::int64_t n,
                     T* dgate,
                     T* dup,
                     Stream stream) noexcept {
  if (n == 0) return;
  Launch(SiluMulBackwardKernel<T>,
         GridOf(n, 256 * kVector<T>),
         256,
         0,
         stream,
         dy,
         gate,
         up,
         n,
         dgate,
         dup);
}

#define PALMIST_INSTANTIATE(T)                                                  \
  template void SiluMul(const T*, const T*, std::int64_t, T*, Stream) noexcept; \
  template void SiluMulBackward(                                                \
      const T*, const T*, const T*, std::int64_t, T*, T*, Stream) noexcept;
PALMIST_INSTANTIATE(float)
PALMIST_INSTANTIATE(double)
PALMIST_INSTANTIATE(BFloat16)
PALMIST_INSTANTIATE(Float16)
#undef PALMIST_INSTANTIATE

}  // namespace palmist::kernels::cuda
