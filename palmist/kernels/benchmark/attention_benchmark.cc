// FLOP/s of attention, forward and backward; a causal mask counts for half of the products.
// Arguments: batch, heads, length of queries and keys, head dimension, causal, dropout in percent.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "palmist/base/rng.h"
#include "palmist/base/thread_pool.h"
#include "palmist/kernels/attention.h"

namespace palmist::kernels {
namespace {

/// One call's tensors, laid out batch x length x heads x dimension as a model's projections are.
class Problem {
 public:
  explicit Problem(const benchmark::State& state) {
    shape_.batch = state.range(0);
    shape_.heads = shape_.kv_heads = state.range(1);
    shape_.queries = shape_.keys = state.range(2);
    shape_.head_dim = state.range(3);
    shape_.scale = 1 / std::sqrt(static_cast<double>(shape_.head_dim));
    shape_.causal = state.range(4) != 0;
    shape_.dropout = {.p = static_cast<double>(state.range(5)) / 100, .seed = 1};
    const auto rows = static_cast<std::size_t>(shape_.batch * shape_.heads * shape_.queries);
    Rng rng(1);
    for (std::vector<float>* x : {&q_, &k_, &v_, &o_, &d_o_, &d_q_, &d_k_, &d_v_}) {
      x->resize(rows * static_cast<std::size_t>(shape_.head_dim));
      for (float& value : *x) value = static_cast<float>(2 * rng.Uniform() - 1);
    }
    log_sum_exp_.resize(rows);
  }

  void Forward() {
    Attention<float>(
        shape_, Input(q_), Input(k_), Input(v_), {}, Output(o_), log_sum_exp_.data(), executor_);
  }

  void Backward() {
    AttentionBackward<float>(shape_,
                             Input(d_o_),
                             Input(q_),
                             Input(k_),
                             Input(v_),
                             {},
                             Input(o_),
                             log_sum_exp_.data(),
                             Output(d_q_),
                             Output(d_k_),
                             Output(d_v_),
                             executor_);
  }

  /// Returns what `products` matrix products of scores take, for one iteration.
  benchmark::Counter Flops(int products) const {
    const double scores =
        static_cast<double>(shape_.batch * shape_.heads * shape_.queries * shape_.keys) /
        (shape_.causal ? 2 : 1);
    return {2.0 * products * scores * static_cast<double>(shape_.head_dim),
            benchmark::Counter::kIsIterationInvariantRate};
  }

 private:
  template <typename T>
  HeadsView<T> View(T* data) const {
    const std::int64_t row = shape_.heads * shape_.head_dim;
    return {data, shape_.queries * row, shape_.head_dim, row};
  }
  HeadsView<const float> Input(const std::vector<float>& x) const { return View(x.data()); }
  HeadsView<float> Output(std::vector<float>& x) const { return View(x.data()); }

  AttentionShape shape_;
  std::vector<float> q_, k_, v_, o_, d_o_, d_q_, d_k_, d_v_, log_sum_exp_;
  ThreadPool pool_{HardwareThreads()};
  PoolExecutor executor_{pool_};
};

void BM_Forward(benchmark::State& state) {
  Problem problem(state);
  for (auto _ : state) problem.Forward();
  state.counters["FLOP/s"] = problem.Flops(2);
}

void BM_Backward(benchmark::State& state) {
  Problem problem(state);
  problem.Forward();
  for (auto _ : state) problem.Backward();
  state.counters["FLOP/s"] = problem.Flops(5);
}

void Shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"B", "A", "S", "D", "causal", "dropout"});
  for (const int dropout : {0, 10}) {
    benchmark->Args({1, 16, 512, 64, 0, dropout});
    benchmark->Args({4, 16, 512, 64, 0, dropout});
    benchmark->Args({1, 12, 1024, 64, 1, dropout});
    benchmark->Args({1, 16, 1024, 64, 1, dropout});
    benchmark->Args({1, 8, 1024, 128, 1, dropout});
  }
  benchmark->UseRealTime()->Unit(benchmark::kMillisecond);
}
BENCHMARK(BM_Forward)->Apply(Shapes);
BENCHMARK(BM_Backward)->Apply(Shapes);

}  // namespace
}  // namespace palmist::kernels
