#include <limits>

#include "palmist/kernels/cuda/device.h"

namespace palmist::kernels::cuda {
namespace {

constexpr unsigned kThreads = 512;

/// A block does a row: one pass for its log-sum-exp, one that writes the gradient.
template <typename T>
__global__ void __launch_bounds__(kThreads) CrossEntropyKernel(T* logits,
                                                               std::int64_t n_rows,
                                                               std::int64_t n,
                                                               const std::int64_t* targets,
                                                               CrossEntropyOptions options,
                                                               bool write_gradient,
                                                               ComputeType<T>* loss) {
  using C = ComputeType<T>;
  constexpr C kInfinity = std::numeric_limits<C>::infinity();
  constexpr C kNan = std::numeric_limits<C>::quiet_NaN();
  const C smoothing = static_cast<C>(options.label_smoothing);
  const C z_loss = static_cast<C>(options.z_loss);
  for (std::int64_t row = blockIdx.x; row < n_rows; row += gridDim.x) {
    T* x = logits + row * n;
    const std::int64_t target = targets[row];
    if (target == options.ignore_index) {
      if (threadIdx.x == 0) loss[row] = 0;
      if (!write_gradient) continue;
      ForEachPart(x, n, threadIdx.x, blockDim.x, [&](auto count, std::int64_t i) {
        const C zeros[count] = {};
        Store(zeros, x + i);
      });
      continue;
    }
    const bool is_class = target >= 0 && target < n;
    const C target_logit = is_class ? Widen(x[target]) : kNan;

    // The sum is of exp(x - largest); where a larger one comes it is scaled down. A part of -Inf
    // alone has no largest, and is shifted by 0, so that its exponentials are 0, not NaN.
    C largest = -kInfinity;
    C exponentials = 0;
    C total = 0;
    ForEachPart(x, n, threadIdx.x, blockDim.x, [&](auto count, std::int64_t i) {
      C values[count];
      Load(x + i, values);
      C next = largest;
#pragma unroll
      for (int j = 0; j < count; ++j) next = max(next, values[j]);
      if (next > largest) {
        exponentials *= exp(largest - next);
        largest = next;
      }
      const C shift = largest == -kInfinity ? C{0} : largest;
#pragma unroll
      for (int j = 0; j < count; ++j) {
        exponentials += exp(values[j] - shift);
        total += values[j];
      }
    });
    // The waits of these sums are also between the reads of the target and the writes below.
    const C row_largest = Reduce(largest, Max());
    const C shift = row_largest == -kInfinity ? C{0} : row_largest;
    const C sum = Reduce(exponentials * exp(largest - shift), Sum());
    // Not where smoothing is 0: 0 times the mean is NaN for a logit of -Inf.
    const C mean = smoothing > 0 ? Reduce(total, Sum()) / static_cast<C>(n) : C{0};
    const C log_sum = log(sum);
    const C lse = shift + log_sum;
    if (threadIdx.x == 0) {
      C value = (1 - smoothing) * (log_sum + (shift - target_logit));
      if (smoothing > 0) value += smoothing * (log_sum + (shift - mean));
      if (z_loss != 0) value += z_loss * lse * lse;
      loss[row] = value;
    }
    if (!write_gradient) continue;

    const C scale = z_loss != 0 ? 1 + 2 * z_loss * lse : C{1};
    const C factor = is_class ? scale / sum : kNan;
    const C floor = smoothing / static_cast<C>(n);
    ForEachPart(x, n, threadIdx.x, blockDim.x, [&](auto count, std::int64_t i) {
      C values[count];
      Load(x + i, values);
#pragma unroll
      for (int j = 0; j < count; ++j) {
        const C softmax = exp(values[j] - shift) * factor;
        values[j] = (i + j == target ? softmax - (1 - smoothing) : softmax) - floor;
      }
      Store(values, x + i);
    });
  }
}

}  // namespace

template <typename T>
void CrossEntropy(T* logits,
                  std::int64_t n_rows,
                  std::int64_t n_classes,
                  const std::int64_t* targets,
                  const CrossEntropyOptions& options,
                  bool write_gradient,
                  ComputeType<T>* loss,
                  Stream stream) noexcept {
  if (n_rows == 0 || n_classes == 0) return;
  Launch(CrossEntropyKernel<T>,
         GridOf(n_rows, 1),
         kThreads,
         0,
         stream,
         logits,
         n_rows,
         n_classes,
         targets,
         options,
         write_gradient,
         loss);
}

#define PALMIST_INSTANTIATE(T)                           \
  template void CrossEntropy(T*,                         \
                             std::int64_t,               \
                             std::int64_t,               \
                             const std::int64_t*,        \
                             const CrossEntropyOptions&, \
                             bool,                       \
                             ComputeType<T>*,            \
                             Stream) noexcept;
PALMIST_INSTANTIATE(float)
PALMIST_INSTANTIATE(double)
PALMIST_INSTANTIATE(BFloat16)
PALMIST_INSTANTIATE(Float16)
#undef PALMIST_INSTANTIATE

}  // namespace palmist::kernels::cuda
