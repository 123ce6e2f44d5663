#include <numbers>

#include "palmist/kernels/cpu/gelu_inverse_coefficients.h"
#include "palmist/kernels/cuda/device.h"

namespace palmist::kernels::cuda {
namespace {

__constant__ GeluInverse inverses[2] = {kErfInverse, kTanhInverse};

__device__ const GeluInverse& InverseOf(GeluKind kind) {
  return inverses[kind == GeluKind::kErf ? 0 : 1];
}

__device__ float GeluValue(float x, GeluKind kind) {
  x = x < -40 ? -40 : x;  // where the factors below are 0: -Inf times 0 must be 0
  if (kind == GeluKind::kErf) return x * normcdff(x);
  constexpr float kLinear = 2 * std::numbers::sqrt2_v<float> * std::numbers::inv_sqrtpi_v<float>;
  return x / (1 + expf(-kLinear * x * (1 + 0.044715f * x * x)));
}

/// Returns g'(x) for y = g(x); `right` where x >= x*. As the CPU's, in palmist/kernels/cpu.
__device__ float SlopeOfOutput(const GeluInverse& fit, float y, bool right) {
  float rise = (y - fit.min_y) - fit.min_y_low;
  rise = rise < 0 ? 0 : rise;
  int piece = 0;
  float variable;
  if (right) {
    piece = y > kInverseR3Begin ? 3 : y > kInverseR2Begin ? 2 : 1;
    variable = piece == 1 ? sqrtf(rise) : y;
    if (y > kInverseR3End) return 1;
  } else {
    if (y > fit.left_end) return 0;
    variable = sqrtf(log1pf(rise / fabsf(y)));
  }
  const float t = fmaf(variable, fit.scale[piece], fit.offset[piece]);
  float sum = fit.coefficients[13][piece];
#pragma unroll
  for (int k = 12; k >= 0; --k) sum = fmaf(sum, t, fit.coefficients[k][piece]);
  return right ? sum : sum * y;
}

// A thread does the eight elements of a byte of bits.

template <typename T>
__global__ void __launch_bounds__(256)
    GeluWithBitsKernel(const T* x, std::int64_t n, T* y, std::uint8_t* bits, GeluKind kind) {
  const float min_x = InverseOf(kind).min_x;
  for (std::int64_t byte = GridThread(); byte < (n + 7) / 8; byte += GridThreads()) {
    const std::int64_t i = byte * 8;
    unsigned mask = 0;
    ForEachPart(x + i, min(std::int64_t{8}, n - i), 0, 1, [&](auto count, std::int64_t first) {
      float values[count];
      Load(x + i + first, values);
#pragma unroll
      for (int j = 0; j < count; ++j) {
        mask |= static_cast<unsigned>(values[j] >= min_x) << (first + j);
        values[j] = GeluValue(values[j], kind);
      }
      Store(values, y + i + first);
    });
    bits[byte] = static_cast<std::uint8_t>(mask);
  }
}

template <typename T>
__global__ void __launch_bounds__(256) GeluOutputBackwardKernel(
    const T* dy, const T* y, const std::uint8_t* bits, std::int64_t n, T* dx, GeluKind kind) {
  // Threads of a warp read coefficients of different pieces: shared memory serves them at once.
  __shared__ GeluInverse fit;
  if (threadIdx.x == 0) fit = InverseOf(kind);
  __syncthreads();
  for (std::int64_t byte = GridThread(); byte < (n + 7) / 8; byte += GridThreads()) {
    const std::int64_t i = byte * 8;
    const unsigned mask = bits[byte];
    ForEachPart(y + i, min(std::int64_t{8}, n - i), 0, 1, [&](auto count, std::int64_t first) {
      float gradients[count], values[count];
      Load(dy + i + first, gradients);
      Load(y + i + first, values);
#pragma unroll
      for (int j = 0; j < count; ++j) {
        gradients[j] *= SlopeOfOutput(fit, values[j], (mask >> (first + j) & 1) != 0);
      }
      Store(gradients, dx + i + first);
    });
  }
}

}  // namespace

template <typename T>
void GeluWithBits(
    const T* x, std::int64_t n, T* y, std::uint8_t* bits, GeluKind kind, Stream stream) noexcept {
  if (n == 0) return;
  Launch(GeluWithBitsKernel<T>, GridOf(n, 256 * 8), 256, 0, stream, x, n, y, bits, kind);
}

template <typename T>
void GeluOutputBackward(const T* dy,
                        const T* y,
                        const std::uint8_t* bits,
                        std::int64_t n,
                        T* dx,
                        GeluKind kind,
                        Stream stream) noexcept {
  if (n == 0) return;
  Launch(GeluOutputBackwardKernel<T>, GridOf(n, 256 * 8), 256, 0, stream, dy, y, bits, n, dx, kind);
}

#define PALMIST_INSTANTIATE(T)                                               \
  template void GeluWithBits(                                                \
      const T*, std::int64_t, T*, std::uint8_t*, GeluKind, Stream) noexcept; \
  template void GeluOutputBackward(                                          \
      const T*, const T*, const std::uint8_t*, std::int64_t, T*, GeluKind, Stream) noexcept;
PALMIST_INSTANTIATE(float)
PALMIST_INSTANTIATE(BFloat16)
PALMIST_INSTANTIATE(Float16)
#undef PALMIST_INSTANTIATE

}  // namespace palmist::kernels::cuda
