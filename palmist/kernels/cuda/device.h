// What the kernels of this folder share. For .cu files.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "palmist/kernels/cuda/kernels.h"
#include "palmist/kernels/scalar.h"

namespace palmist::kernels::cuda {

/// Queues `kernel`. @pre no dimension of `grid` or `block` is 0
template <class... Parameters, class... Arguments>
void Launch(void (*kernel)(Parameters...),
            dim3 grid,
            dim3 block,
            std::size_t shared_bytes,
            Stream stream,
            Arguments... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  // An error stays with the runtime until the caller asks for it.
  static_cast<void>(cudaLaunchKernelEx(&config, kernel, arguments...));
}

/// Returns the blocks for `items` where each does `items_per_block`. Kernels step by their grid, so
/// that this bound is one of speed alone.
inline unsigned GridOf(std::int64_t items, std::int64_t items_per_block) {
  constexpr std::int64_t kMostBlocks = 1 << 16;
  return static_cast<unsigned>(
      std::min(kMostBlocks, (items + items_per_block - 1) / items_per_block));
}

inline __device__ std::int64_t GridThread() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
inline __device__ std::int64_t GridThreads() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

/// Elements of 16 bytes, the largest access that a thread makes.
template <typename T>
inline constexpr int kVector = 16 / sizeof(T);

template <typename T>
struct alignas(16) Vector {
  T elements[kVector<T>];
};

/// Returns the exact value in the compute type.
template <typename T>
__device__ ComputeType<T> Widen(T x) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
  } else if constexpr (std::is_same_v<T, Float16>) {
    return __half2float(__ushort_as_half(x.bits));
  } else {
    return x;
  }
}

/// Returns the nearest value of T, ties to even.
template <typename T>
__device__ T Narrow(ComputeType<T> x) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
  } else if constexpr (std::is_same_v<T, Float16>) {
    return {__half_as_ushort(__float2half_rn(x))};
  } else {
    return x;
  }
}

/// Reads one element or a vector of them. @pre p begins a multiple of 16 bytes where it is a vector
template <int kCount, typename T>
__device__ void Load(const T* p, ComputeType<T> (&values)[kCount]) {
  static_assert(kCount == 1 || kCount == kVector<T>);
  if constexpr (kCount == 1) {
    values[0] = Widen(*p);
  } else {
    const Vector<T> vector = *reinterpret_cast<const Vector<T>*>(p);
#pragma unroll
    for (int j = 0; j < kCount; ++j) values[j] = Widen(vector.elements[j]);
  }
}

/// Writes what `Load` reads, rounded.
template <int kCount, typename T>
__device__ void Store(const ComputeType<T> (&values)[kCount], T* p) {
  static_assert(kCount == 1 || kCount == kVector<T>);
  if constexpr (kCount == 1) {
    *p = Narrow<T>(values[0]);
  } else {
    Vector<T> vector;
#pragma unroll
    for (int j = 0; j < kCount; ++j) vector.elements[j] = Narrow<T>(values[j]);
    *reinterpret_cast<Vector<T>*>(p) = vector;
  }
}

/// Cuts n elements from p into vectors, and single elements before the first and after the last,
/// and calls fn(count, i) for those of `thread` among `threads`: the elements are from p + i on,
/// and `count` is an integral constant. Neighbouring threads have neighbouring parts.
template <typename T, class Fn>
__device__ void ForEachPart(
    const T* p, std::int64_t n, std::int64_t thread, std::int64_t threads, const Fn& fn) {
  constexpr int kCount = kVector<T>;
  const auto beyond =
      static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(p) % 16 / sizeof(T));
  const std::int64_t before = min(n, (kCount - beyond) % kCount);
  const std::int64_t n_vectors = (n - before) / kCount;
  for (std::int64_t v = thread; v < n_vectors; v += threads) {
    fn(std::integral_constant<int, kCount>(), before + v * kCount);
  }
  const std::int64_t n_single = n - n_vectors * kCount;
  for (std::int64_t s = thread; s < n_single; s += threads) {
    fn(std::integral_constant<int, 1>(), s < before ? s : s + n_vectors * kCount);
  }
}

struct Sum {
  template <typename C>
  __device__ C operator()(C a, C b) const {
    return a + b;
  }
};
struct Max {
  template <typename C>
  __device__ C operator()(C a, C b) const {
    return max(a, b);
  }
};

/// Returns, to each of the blockDim.x threads of a row of threads, what `op` makes of the values of
/// all. They are whole warps. Waits for the others of the block only where they are more than one
/// warp, so that warps may each have a row of their own.
template <typename C, class Op>
__device__ C Reduce(C value, const Op& op) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value = op(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  if (blockDim.x == 32) return value;
  __shared__ C of_warp[32];
  __syncthreads();  // the values of the call before may still be read
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  value = of_warp[0];
  for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) value = op(value, of_warp[warp]);
  return value;
}

}  // namespace palmist::kernels::cuda
