#include "palmist/kernels/cuda/device.h"

namespace palmist::kernels::cuda {
namespace {

/// Reads gamma, which may be null and stands for ones.
template <int kCount, typename C>
__device__ void LoadGamma(const C* gamma, std::int64_t i, C (&values)[kCount]) {
  constexpr int kWide = kVector<C>;
  if (gamma == nullptr) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) values[j] = 1;
    return;
  }
  if constexpr (kCount % kWide == 0) {
    if (i % kWide == 0) {
#pragma unroll
      for (int j = 0; j < kCount; j += kWide) {
        const auto vector = *reinterpret_cast<const Vector<C>*>(gamma + i + j);
#pragma unroll
        for (int k = 0; k < kWide; ++k) values[j + k] = vector.elements[k];
      }
      return;
    }
  }
#pragma unroll
  for (int j = 0; j < kCount; ++j) values[j] = gamma[i + j];
}

/// Threads for a row: some four vectors each, in whole warps.
template <typename T>
unsigned ThreadsOfRow(std::int64_t n_columns) {
  const std::int64_t quads = (n_columns + 4 * kVector<T> - 1) / (4 * kVector<T>);
  return static_cast<unsigned>(std::clamp<std::int64_t>((quads + 31) / 32 * 32, 32, 512));
}

/// Rows of threads in a block, each with a row of its own: more than one only where it is one warp.
constexpr unsigned kRowsOfWarps = 4;

template <typename T>
__global__ void __launch_bounds__(512) RmsNormKernel(const T* x,
                                                     std::int64_t n_rows,
                                                     std::int64_t n,
                                                     const ComputeType<T>* gamma,
                                                     ComputeType<T> eps,
                                                     T* y,
                                                     ComputeType<T>* rstd) {
  using C = ComputeType<T>;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.y;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
       row < n_rows;
       row += step) {
    const T* row_x = x + row * n;
    T* row_y = y + row * n;
    C squares = 0;
    ForEachPart(row_x, n, threadIdx.x, blockDim.x, [&](auto count, std::int64_t i) {
      C values[count];
      Load(row_x + i, values);
#pragma unroll
      for (int j = 0; j < count; ++j) squares += values[j] * values[j];
    });
    const C scale = C{1} / sqrt(Reduce(squares, Sum()) / static_cast<C>(n) + eps);
    ForEachPart(row_x, n, threadIdx.x, blockDim.x, [&](auto count, std::int64_t i) {
      C values[count], factors[count];
      Load(row_x + i, values);
      LoadGamma(gamma, i, factors);
#pragma unroll
      for (int j = 0; j < count; ++j) values[j] = Widen(Narrow<T>(values[j] * scale)) * factors[j];
      Store(values, row_y + i);
    });
    if (rstd != nullptr && threadIdx.x == 0) rstd[row] = scale;
  }
}

/// The sums over rows of a block lie column by column in the order of their place in a vector, then
/// of vectors: then neighbouring threads touch neighbouring sums.
template <typename T>
struct SumOrder {
  explicit __device__ SumOrder(std::int64_t n_columns)
      : n_vectors((n_columns + kVector<T> - 1) / kVector<T>) {}

  __device__ std::int64_t Size() const { return n_vectors * kVector<T>; }
  __device__ std::int64_t PlaceOf(std::int64_t column) const {
    return column % kVector<T> * n_vectors + column / kVector<T>;
  }
  __device__ std::int64_t ColumnOf(std::int64_t place) const {
    return place % n_vectors * kVector<T> + place / n_vectors;
  }

  std::int64_t n_vectors;
};

/// Writes dx of the block's rows, and adds up dy xhat of each column in its part of `parts`.
///
/// Sums are kept in shared memory where they fit, else in the part itself.
template <typename T>
__global__ void __launch_bounds__(512) RmsNormBackwardKernel(const T* dy,
                                                             const T* x,
                                                             std::int64_t n_rows,
                                                             std::int64_t n,
                                                             const ComputeType<T>* gamma,
                                                             const ComputeType<T>* rstd,
                                                             T* dx,
                                                             ComputeType<T>* parts,
                                                             bool in_shared_memory) {
  using C = ComputeType<T>;
  extern __shared__ double shared_sums[];
  const SumOrder<T> order(n);
  C* part = parts == nullptr ? nullptr : parts + blockIdx.x * order.Size();
  C* sums = part != nullptr && in_shared_memory ? reinterpret_cast<C*>(shared_sums) : part;
  if (sums != nullptr) {
    for (std::int64_t i = threadIdx.x; i < order.Size(); i += blockDim.x) sums[i] = 0;
  }
  const std::int64_t block_rows = (n_rows + gridDim.x - 1) / gridDim.x;
  const std::int64_t end = min(n_rows, (blockIdx.x + 1) * block_rows);
  for (std::int64_t row = blockIdx.x * block_rows; row < end; ++row) {
    // A column may be another thread's than in the row before, which began elsewhere in a vector.
    __syncthreads();
    const T* row_dy = dy + row * n;
    const T* row_x = x + row * n;
    const C scale = rstd[row];
    C mean = 0;  // of gamma dy xhat
    if (dx != nullptr) {
      C sum = 0;
      ForEachPart(row_x, n, threadIdx.x, blockDim.x, [&](auto count, std::int64_t i) {
        C gradients[count], values[count], factors[count];
        Load(row_dy + i, gradients);
        Load(row_x + i, values);
        LoadGamma(gamma, i, factors);
#pragma unroll
        for (int j = 0; j < count; ++j) sum += gradients[j] * factors[j] * values[j];
      });
      mean = Reduce(sum, Sum()) / static_cast<C>(n) * scale;
    }
    ForEachPart(row_x, n, threadIdx.x, blockDim.x, [&](auto count, std::int64_t i) {
      C gradients[count], values[count], factors[count];
      Load(row_dy + i, gradients);
      Load(row_x + i, values);
      LoadGamma(gamma, i, factors);
#pragma unroll
      for (int j = 0; j < count; ++j) {
        const C xhat = values[j] * scale;
        if (sums != nullptr) sums[order.PlaceOf(i + j)] += gradients[j] * xhat;
        values[j] = scale * (factors[j] * gradients[j] - xhat * mean);
      }
      if (dx != nullptr) Store(values, dx + row * n + i);
    });
  }
  if (sums == part) return;
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < order.Size(); i += blockDim.x) part[i] = sums[i];
}

/// Adds up the parts, in 32 runs side by side and then those in order.
template <typename T>
__global__ void __launch_bounds__(1024) SumPartsKernel(const ComputeType<T>* parts,
                                                       std::int64_t n_parts,
                                                       std::int64_t n,
                                                       ComputeType<T>* sums) {
  using C = ComputeType<T>;
  __shared__ C runs[32][32];
  const SumOrder<T> order(n);
  for (std::int64_t begin = blockIdx.x * 32LL; begin < order.Size(); begin += gridDim.x * 32LL) {
    const std::int64_t place = begin + threadIdx.x;
    C sum = 0;
    if (place < order.Size()) {
      for (std::int64_t i = threadIdx.y; i < n_parts; i += 32)
        sum += parts[i * order.Size() + place];
    }
    runs[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0) {
      for (int y = 1; y < 32; ++y) sum += runs[y][threadIdx.x];
      if (place < order.Size() && order.ColumnOf(place) < n) sums[order.ColumnOf(place)] = sum;
    }
    __syncthreads();
  }
}

}  // namespace

template <typename T>
void RmsNorm(const T* x,
             std::int64_t n_rows,
             std::int64_t n_columns,
             const ComputeType<T>* gamma,
             double eps,
             T* y,
             ComputeType<T>* rstd,
             Stream stream) noexcept {
  if (n_rows == 0 || n_columns == 0) return;
  const unsigned threads = ThreadsOfRow<T>(n_columns);
  const unsigned rows = threads == 32 ? kRowsOfWarps : 1;
  Launch(RmsNormKernel<T>,
         GridOf(n_rows, rows),
         dim3(threads, rows),
         0,
         stream,
         x,
         n_rows,
         n_columns,
         gamma,
         static_cast<ComputeType<T>>(eps),
         y,
         rstd);
}

template <typename T>
void RmsNormBackward(const T* dy,
                     const T* x,
                     std::int64_t n_rows,
                     std::int64_t n_columns,
                     const ComputeType<T>* gamma,
                     const ComputeType<T>* rstd,
                     T* dx,
                     ComputeType<T>* dgamma,
                     ComputeType<T>* workspace,
                     Stream stream) noexcept {
  using C = ComputeType<T>;
  constexpr std::size_t kSharedBytes = 48 << 10;  // what every device lends without being asked
  if (n_columns == 0 || (dx == nullptr && dgamma == nullptr)) return;
  C* parts = dgamma == nullptr ? nullptr : workspace;
  const std::int64_t n_blocks = RmsNormBlocks(n_rows);
  const std::size_t sum_bytes =
      (static_cast<std::size_t>(n_columns) + kVector<T> - 1) / kVector<T> * kVector<T> * sizeof(C);
  const bool in_shared_memory = parts != nullptr && sum_bytes <= kSharedBytes - 1024;
  Launch(RmsNormBackwardKernel<T>,
         static_cast<unsigned>(n_blocks),
         ThreadsOfRow<T>(n_columns),
         in_shared_memory ? sum_bytes : 0,
         stream,
         dy,
         x,
         n_rows,
         n_columns,
         gamma,
         rstd,
         dx,
         parts,
         in_shared_memory);
  if (parts == nullptr) return;
  Launch(SumPartsKernel<T>,
         GridOf(n_columns, 32),
         dim3(32, 32),
         0,
         stream,
         static_cast<const C*>(parts),
         n_blocks,
         n_columns,
         dgamma);
}

#define PALMIST_INSTANTIATE(T)                         \
  template void RmsNorm(const T*,                      \
                        std::int64_t,                  \
                        std::int64_t,                  \
                        const ComputeType<T>*,         \
                        double,                        \
                        T*,                            \
                        ComputeType<T>*,               \
                        Stream) noexcept;              \
  template void RmsNormBackward(const T*,              \
                                const T*,              \
                                std::int64_t,          \
                                std::int64_t,          \
                                const ComputeType<T>*, \
                                const ComputeType<T>*, \
                                T*,                    \
                                ComputeType<T>*,       \
                                ComputeType<T>*,       \
                                Stream) noexcept;
PALMIST_INSTANTIATE(float)
PALMIST_INSTANTIATE(double)
PALMIST_INSTANTIATE(BFloat16)
PALMIST_INSTANTIATE(Float16)
#undef PALMIST_INSTANTIATE

}  // namespace palmist::kernels::cuda
