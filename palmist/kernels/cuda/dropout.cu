#include <cmath>

#include "palmist/base/rng.h"
#include "palmist/kernels/cuda/device.h"

namespace palmist::kernels::cuda {
namespace {

/// Writes the four words of Philox4x32-10 at `position`. Source: J. Salmon et al., SC 2011, section
/// 3.3; what counter and key are is said in palmist/kernels/philox.h.
__device__ void PhiloxWords(std::uint64_t seed, std::uint64_t position, std::uint32_t (&words)[4]) {
  std::uint32_t x0 = static_cast<std::uint32_t>(position);
  std::uint32_t x1 = static_cast<std::uint32_t>(position >> 32);
  std::uint32_t x2 = 0;
  std::uint32_t x3 = 0;
  auto key0 = static_cast<std::uint32_t>(seed);
  auto key1 = static_cast<std::uint32_t>(seed >> 32);
#pragma unroll
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const std::uint32_t high0 = __umulhi(kPhiloxMultiplier0, x0);
    const std::uint32_t high1 = __umulhi(kPhiloxMultiplier1, x2);
    const std::uint32_t low0 = kPhiloxMultiplier0 * x0;
    const std::uint32_t low1 = kPhiloxMultiplier1 * x2;
    x0 = high1 ^ x1 ^ key0;
    x1 = low1;
    x2 = high0 ^ x3 ^ key1;
    x3 = low0;
    key0 += kPhiloxIncrement0;
    key1 += kPhiloxIncrement1;
  }
  words[0] = x0;
  words[1] = x1;
  words[2] = x2;
  words[3] = x3;
}

// A thread takes as many neighbouring counters as a vector has elements: their words are those of
// four vectors, 16 elements apart, so that no word is made twice or for nothing.
template <typename T>
__global__ void __launch_bounds__(256) DropoutKernel(const T* x,
                                                     std::int64_t n,
                                                     std::uint64_t seed,
                                                     std::uint64_t threshold,
                                                     ComputeType<T> scale,
                                                     T* y) {
  using C = ComputeType<T>;
  constexpr int kCount = kVector<T>;
  constexpr int kItems = 16 / kCount;  // of a block of 64 elements
  const std::int64_t n_items = (n + 63) / 64 * kItems;
  for (std::int64_t item = GridThread(); item < n_items; item += GridThreads()) {
    const std::int64_t block = item / kItems;
    const std::int64_t first = item % kItems * kCount;
    std::uint32_t words[kCount][4];
#pragma unroll
    for (int j = 0; j < kCount; ++j) PhiloxWords(seed, block * 16 + first + j, words[j]);
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      const std::int64_t i = block * 64 + word * 16 + first;
      if (i + kCount <= n) {
        C values[kCount];
        Load(x + i, values);
#pragma unroll
        for (int j = 0; j < kCount; ++j) {
          values[j] = words[j][word] >= threshold ? values[j] * scale : C{0};
        }
        Store(values, y + i);
      } else {
#pragma unroll
        for (int j = 0; j < kCount; ++j) {
          if (i + j >= n) continue;
          y[i + j] = Narrow<T>(words[j][word] >= threshold ? Widen(x[i + j]) * scale : C{0});
        }
      }
    }
  }
}

}  // namespace

template <typename T>
void Dropout(const T* x, std::int64_t n, const DropoutSpec& dropout, T* y, Stream stream) noexcept {
  if (n == 0) return;
  // 2^32 is above every word: p = 1, where the scale is infinite, drops all.
  const auto threshold = static_cast<std::uint64_t>(std::llround(dropout.p * 0x1p32));
  const auto scale = static_cast<ComputeType<T>>(1 / (1 - dropout.p));
  Launch(DropoutKernel<T>,
         GridOf(n, 256 * 4 * kVector<T>),
         256,
         0,
         stream,
         x,
         n,
         dropout.seed,
         threshold,
         scale,
         y);
}

#define PALMIST_INSTANTIATE(T) \
  template void Dropout(const T*, std::int64_t, const DropoutSpec&, T*, Stream) noexcept;
PALMIST_INSTANTIATE(float)
PALMIST_INSTANTIATE(double)
PALMIST_INSTANTIATE(BFloat16)
PALMIST_INSTANTIATE(Float16)
#undef PALMIST_INSTANTIATE

}  // namespace palmist::kernels::cuda
