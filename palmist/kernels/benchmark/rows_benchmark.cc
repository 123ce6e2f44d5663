/// Bytes that operators on rows read and write a second.
///
/// Limit: the bandwidth of memory, as `Copy` of elementwise_benchmark shows it: arrays are larger
/// than caches, but rows are not, so that an operator's second pass over a row is nearly free.
/// Argument: threads.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <type_traits>
#include <vector>

#include "palmist/base/rng.h"
#include "palmist/base/thread_pool.h"
#include "palmist/kernels/cross_entropy.h"
#include "palmist/kernels/layer_norm.h"
#include "palmist/kernels/rms_norm.h"
#include "palmist/kernels/softmax.h"

namespace palmist::kernels {
namespace {

constexpr std::int64_t kColumns = 1024;
constexpr std::int64_t kClasses = 50257;

/// Allocates at the addresses that tensors have: vectors do not straddle cache lines there.
template <typename T>
struct CacheLineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{64};

  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kAlignment)); }
  void deallocate(T* p, std::size_t) { ::operator delete(p, kAlignment); }
  bool operator==(const CacheLineAllocator&) const { return true; }
};
template <typename T>
using Vector = std::vector<T, CacheLineAllocator<T>>;

/// Rows of uniform numbers in (-1, 1), and a pool of state.range(0) threads to work on them.
template <typename T>
struct Rows {
  Rows(benchmark::State& state, std::int64_t n_rows, std::int64_t n_columns)
      : pool(static_cast<int>(state.range(0))),
        executor(pool),
        x(static_cast<std::size_t>(n_rows * n_columns)),
        dy(x.size()),
        y(x.size()),
        gamma(static_cast<std::size_t>(n_columns), 1.5F),
        beta(gamma.size(), 0.5F),
        dgamma(gamma.size()),
        dbeta(gamma.size()),
        mean(static_cast<std::size_t>(n_rows)),
        rstd(mean.size(), 1.7F) {
    Rng rng(1);
    for (Vector<T>* values : {&x, &dy}) {
      for (T& value : *values) {
        const auto uniform = static_cast<float>(2 * rng.Uniform() - 1);
        if constexpr (std::is_same_v<T, BFloat16>) {
          value = ToBFloat16(uniform);
        } else {
          value = uniform;
        }
      }
    }
  }

  /// Reports bytes/s, of so many passes over the rows.
  void Report(benchmark::State& state, int passes) const {
    state.SetBytesProcessed(state.iterations() * passes *
                            static_cast<std::int64_t>(x.size() * sizeof(T)));
  }

  ThreadPool pool;
  PoolExecutor executor;
  Vector<T> x;
  Vector<T> dy;
  Vector<T> y;
  Vector<float> gamma;
  Vector<float> beta;
  Vector<float> dgamma;
  Vector<float> dbeta;
  Vector<float> mean;
  Vector<float> rstd;
};

/// Templates take spans, which vectors do not turn into by deduction.
template <typename T>
std::span<const T> In(const Vector<T>& values) {
  return values;
}
template <typename T>
std::span<T> Out(Vector<T>& values) {
  return values;
}

template <typename T>
void NormForward(benchmark::State& state) {
  Rows<T> r(state, 8192, kColumns);
  for (auto _ : state) {
    LayerNorm(In(r.x),
              kColumns,
              In(r.gamma),
              In(r.beta),
              1e-5,
              Out(r.y),
              Out(r.mean),
              Out(r.rstd),
              r.executor);
  }
  r.Report(state, 2);
}

template <typename T>
void NormBackward(benchmark::State& state) {
  Rows<T> r(state, 8192, kColumns);
  for (auto _ : state) {
    LayerNormBackward(In(r.dy),
                      In(r.x),
                      kColumns,
                      In(r.gamma),
                      In(r.mean),
                      In(r.rstd),
                      Out(r.y),
                      Out(r.dgamma),
                      Out(r.dbeta),
                      r.executor);
  }
  r.Report(state, 3);
}

template <typename T>
void NormOutputBackward(benchmark::State& state) {
  Rows<T> r(state, 8192, kColumns);
  for (auto _ : state) {
    LayerNormOutputBackward(In(r.dy),
                            In(r.x),
                            kColumns,
                            In(r.gamma),
                            In(r.beta),
                            In(r.rstd),
                            Out(r.y),
                            Out(r.dgamma),
                            Out(r.dbeta),
                            r.executor);
  }
  r.Report(state, 3);
}

template <typename T>
void RmsForward(benchmark::State& state) {
  Rows<T> r(state, 8192, kColumns);
  for (auto _ : state) {
    RmsNorm(In(r.x), kColumns, In(r.gamma), 1e-5, Out(r.y), Out(r.rstd), r.executor);
  }
  r.Report(state, 2);
}

template <typename T>
void RmsBackward(benchmark::State& state) {
  Rows<T> r(state, 8192, kColumns);
  for (auto _ : state) {
    RmsNormBackward(
        In(r.dy), In(r.x), kColumns, In(r.gamma), In(r.rstd), Out(r.y), Out(r.dgamma), r.executor);
  }
  r.Report(state, 3);
}

template <typename T>
void SoftmaxForward(benchmark::State& state) {
  Rows<T> r(state, 8192, kColumns);
  for (auto _ : state) Softmax(In(r.x), kColumns, Out(r.y), r.executor);
  r.Report(state, 2);
}

template <typename T>
void SoftmaxGradient(benchmark::State& state) {
  Rows<T> r(state, 8192, kColumns);
  for (auto _ : state) SoftmaxBackward(In(r.dy), In(r.x), kColumns, Out(r.y), r.executor);
  r.Report(state, 3);
}

template <typename T>
void SoftmaxDropout(benchmark::State& state) {
  Rows<T> r(state, 8192, kColumns);
  for (auto _ : state) {
    DropoutRows(In(r.x), kColumns, {.p = 0.1, .seed = 1}, Out(r.y), r.executor);
  }
  r.Report(state, 2);
}

template <typename T>
void CrossEntropyGradient(benchmark::State& state) {
  Rows<T> r(state, 128, kClasses);
  const Vector<std::int64_t> targets(128, 17);
  for (auto _ : state) {
    // Over its own gradients: the time does not depend on the values.
    CrossEntropy(Out(r.x), kClasses, In(targets), {}, true, Out(r.mean), r.executor);
  }
  r.Report(state, 2);
}

#define PALMIST_ROWS_BENCHMARK(name)                              \
  BENCHMARK_TEMPLATE(name, float)->Arg(1)->Arg(2)->UseRealTime(); \
  BENCHMARK_TEMPLATE(name, BFloat16)->Arg(1)->Arg(2)->UseRealTime()

PALMIST_ROWS_BENCHMARK(NormForward);
PALMIST_ROWS_BENCHMARK(NormBackward);
PALMIST_ROWS_BENCHMARK(NormOutputBackward);
PALMIST_ROWS_BENCHMARK(RmsForward);
PALMIST_ROWS_BENCHMARK(RmsBackward);
PALMIST_ROWS_BENCHMARK(SoftmaxForward);
PALMIST_ROWS_BENCHMARK(SoftmaxGradient);
PALMIST_ROWS_BENCHMARK(SoftmaxDropout);
PALMIST_ROWS_BENCHMARK(CrossEntropyGradient);

}  // namespace
}  // namespace palmist::kernels
