/// Bytes that element-wise operators read and write a second.
///
/// Limit: the bandwidth of memory, which `Copy` shows in the same units and run; arrays are 64 MiB
/// of floats, more than any cache holds of two or three of them. Arguments: threads.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "palmist/base/thread_pool.h"
#include "palmist/kernels/dropout.h"
#include "palmist/kernels/executor.h"
#include "palmist/kernels/gelu.h"
#include "palmist/kernels/scalar.h"
#include "palmist/kernels/silu_mul.h"

namespace palmist::kernels {
namespace {

constexpr std::size_t kElements = std::size_t{1} << 24;

template <typename T>
T Round(float x) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return ToBFloat16(x);
  } else {
    return x;
  }
}

/// Arrays of N(0, 1) numbers, and a pool of as many threads as the benchmark's argument says.
template <typename T>
struct Setting {
  explicit Setting(const benchmark::State& state)
      : pool(static_cast<int>(state.range(0))), executor(pool) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    // Repeats a block: drawing takes longer than what is measured.
    constexpr std::size_t kDrawn = 65536;
    for (std::size_t i = 0; i < kDrawn; ++i) x[i] = Round<T>(normal(random));
    for (std::size_t i = kDrawn; i < kElements; ++i) x[i] = x[i - kDrawn];
  }

  ThreadPool pool;
  PoolExecutor executor;
  std::vector<T> x = std::vector<T>(kElements);
  std::vector<T> dy = std::vector<T>(kElements, Round<T>(1.5f));
  std::vector<T> out = std::vector<T>(kElements);
};

template <typename T>
void CountBytes(benchmark::State& state, double bytes_per_element) {
  state.SetBytesProcessed(static_cast<std::int64_t>(static_cast<double>(state.iterations()) *
                                                    static_cast<double>(kElements) *
                                                    bytes_per_element));
}

void Copy(benchmark::State& state) {
  Setting<float> s(state);
  for (auto _ : state) {
    s.executor.ParallelFor(kElements, 1 << 14, [&](std::int64_t begin, std::int64_t end) {
      std::copy(s.x.begin() + begin, s.x.begin() + end, s.out.begin() + begin);
    });
    benchmark::ClobberMemory();
  }
  CountBytes<float>(state, 2 * sizeof(float));
}

template <typename T, GeluKind kKind>
void GeluForward(benchmark::State& state) {
  Setting<T> s(state);
  for (auto _ : state) Gelu<T>(s.x, s.out, kKind, s.executor);
  CountBytes<T>(state, 2 * sizeof(T));
}

template <typename T, GeluKind kKind>
void GeluGradient(benchmark::State& state) {
  Setting<T> s(state);
  for (auto _ : state) GeluBackward<T>(s.dy, s.x, s.out, kKind, s.executor);
  CountBytes<T>(state, 3 * sizeof(T));
}

template <typename T, GeluKind kKind>
void GeluForwardWithBits(benchmark::State& state) {
  Setting<T> s(state);
  std::vector<std::uint8_t> bits(GeluBitBytes(kElements));
  for (auto _ : state) GeluWithBits<T>(s.x, s.out, bits, kKind, s.executor);
  CountBytes<T>(state, 2 * sizeof(T) + 0.125);
}

template <typename T, GeluKind kKind>
void GeluGradientOfOutput(benchmark::State& state) {
  Setting<T> s(state);
  std::vector<std::uint8_t> bits(GeluBitBytes(kElements));
  GeluWithBits<T>(s.x, s.x, bits, kKind, s.executor);
  for (auto _ : state) GeluOutputBackward<T>(s.dy, s.x, bits, s.out, kKind, s.executor);
  CountBytes<T>(state, 3 * sizeof(T) + 0.125);
}

template <typename T>
void SiluMulForward(benchmark::State& state) {
  Setting<T> s(state);
  for (auto _ : state) SiluMul<T>(s.x, s.dy, s.out, s.executor);
  CountBytes<T>(state, 3 * sizeof(T));
}

template <typename T>
void SiluMulGradient(benchmark::State& state) {
  Setting<T> s(state);
  std::vector<T> dup(kElements);
  for (auto _ : state) SiluMulBackward<T>(s.dy, s.x, s.x, s.out, dup, s.executor);
  // The gate is the other factor too, and read once.
  CountBytes<T>(state, 4 * sizeof(T));
}

template <typename T>
void DropoutForward(benchmark::State& state) {
  Setting<T> s(state);
  for (auto _ : state) Dropout<T>(s.x, {.p = 0.1, .seed = 1}, s.out, s.executor);
  CountBytes<T>(state, 2 * sizeof(T));
}

#define PALMIST_THREADS(...) \
  BENCHMARK(__VA_ARGS__)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond)

PALMIST_THREADS(Copy);
PALMIST_THREADS(GeluForward<float, GeluKind::kErf>);
PALMIST_THREADS(GeluForward<float, GeluKind::kTanh>);
PALMIST_THREADS(GeluForward<BFloat16, GeluKind::kErf>);
PALMIST_THREADS(GeluGradient<float, GeluKind::kErf>);
PALMIST_THREADS(GeluGradient<float, GeluKind::kTanh>);
PALMIST_THREADS(GeluGradient<BFloat16, GeluKind::kErf>);
PALMIST_THREADS(GeluForwardWithBits<float, GeluKind::kErf>);
PALMIST_THREADS(GeluForwardWithBits<BFloat16, GeluKind::kErf>);
PALMIST_THREADS(GeluGradientOfOutput<float, GeluKind::kErf>);
PALMIST_THREADS(GeluGradientOfOutput<float, GeluKind::kTanh>);
PALMIST_THREADS(GeluGradientOfOutput<BFloat16, GeluKind::kErf>);
PALMIST_THREADS(SiluMulForward<float>);
PALMIST_THREADS(SiluMulForward<BFloat16>);
PALMIST_THREADS(SiluMulGradient<float>);
PALMIST_THREADS(SiluMulGradient<BFloat16>);
PALMIST_THREADS(DropoutForward<float>);
PALMIST_THREADS(DropoutForward<BFloat16>);

}  // namespace
}  // namespace palmist::kernels

BENCHMARK_MAIN();
