/// Throughput of compiled expressions, in operations per second.
///
/// Limits: an operation reads one or two block columns and writes one, 16 to 24 bytes for one
/// floating-point operation. Blocks lie in the first cache, which serves two 64-byte loads and one
/// store a cycle on a core with AVX-512: at most 8 operations a cycle, 24e9 a second at 3 GHz.
/// Division takes 16 cycles for 8 values there, so 0.5 a cycle, whatever the memory: the stage has
/// 13 divisions in 84 operations. The `Wide` case has more live values than the first cache holds.
/// Columns of inputs and outputs come from memory once per candidate (8 bytes each), which binds
/// where a candidate takes only tens of operations: compare the two sizes of a case.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "palmist/symbolic/expr.h"
#include "palmist/symbolic/program.h"

namespace palmist::symbolic {
namespace {

const std::vector<std::string> kInputs{"b", "s", "h", "F", "a", "tp", "dp", "l", "c", "p", "w"};

Expr Named(std::size_t i) { return Expr::Symbol(kInputs[i]); }

/// The memory and time of a pipeline stage: what the planner evaluates for every candidate.
std::vector<Expr> Stage() {
  const Expr b = Named(0), s = Named(1), h = Named(2), f = Named(3), a = Named(4), tp = Named(5);
  const Expr dp = Named(6), l = Named(7), c = Named(8), p = Named(9), w = Named(10);
  const Expr u = 2 * b * s * h;
  const Expr parameters = l * ((4 * h * h + 2 * h * f) / tp + 4 * h);
  const Expr saved = u * (4 + (4 + 2 * f / h) / tp) + 4 * b * a * s / tp + 16 * b * s;
  const Expr states = parameters * (4 + 12 * (1 - w) / dp);
  const Expr forward = states + p * (c * u + (l - c) * saved) + saved + u;
  const Expr backward = forward + u * f / (h * tp);
  const Expr flops = 2 * b * s * parameters + 4 * b * s * s * h * l / tp;
  const Expr compute = flops / (2e14 * Min(1, b * s * h / (tp * 4e6)));
  const Expr reduce = Select(tp - 1, 4 * l * u * (tp - 1) / (tp * 2e11), 0);
  const Expr gradients = 2 * parameters * (dp - 1) / (dp * 2.5e10);
  return {Max(forward, backward), compute + reduce, Max(gradients, compute / 3), Ceil(l / p)};
}

/// A long chain of cheap operations with few live values.
std::vector<Expr> Chain(int steps) {
  Expr x = Named(0);
  for (int i = 0; i < steps; ++i) {
    x = i % 2 == 0 ? x * Named(static_cast<std::size_t>(i) % kInputs.size()) + 0.5
                   : Max(x, Named(static_cast<std::size_t>(i) % kInputs.size())) - 0.25;
  }
  return {x};
}

/// Operations whose values all live to the end.
std::vector<Expr> Wide(int width) {
  std::vector<Expr> parts;
  for (int i = 0; i < width; ++i) parts.push_back(Ceil(Named(0) * (i + 1.5) + Named(1)));
  Expr total = 0;
  Expr least = parts[0];
  for (const Expr& part : parts) least = Min(least, part);
  for (const Expr& part : parts) total += part * Named(2);
  return {total, least};
}

void Run(benchmark::State& state, const std::vector<Expr>& outputs) {
  const auto n = static_cast<std::size_t>(state.range(0));
  const int threads = static_cast<int>(state.range(1));
  const Program program(outputs, kInputs);
  std::vector<std::vector<double>> columns(kInputs.size());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    for (std::size_t k = 0; k < n; ++k) {
      columns[i].push_back(static_cast<double>(1 + (k + i) % (3 + i)));
    }
  }
  std::vector<const double*> in;
  for (const auto& column : columns) in.push_back(column.data());
  std::vector<std::vector<double>> results(outputs.size(), std::vector<double>(n));
  std::vector<double*> outs;
  for (auto& result : results) outs.push_back(result.data());
  for (auto _ : state) {
    program.Run(in, n, outs, threads);
    benchmark::ClobberMemory();
  }
  const auto candidates = static_cast<double>(n) * static_cast<double>(state.iterations());
  state.counters["candidates/s"] = {candidates, benchmark::Counter::kIsRate};
  state.counters["operations/s"] = {candidates * static_cast<double>(program.operation_count()),
                                    benchmark::Counter::kIsRate};
  state.counters["operations"] = static_cast<double>(program.operation_count());
  state.counters["registers"] = static_cast<double>(program.register_count());
}

void BM_Stage(benchmark::State& state) { Run(state, Stage()); }
BENCHMARK(BM_Stage)->Args({1 << 16, 1})->Args({1 << 20, 1})->Args({1 << 20, 2})->UseRealTime();

void BM_Chain(benchmark::State& state) { Run(state, Chain(64)); }
BENCHMARK(BM_Chain)->Args({1 << 14, 1})->Args({1 << 20, 1})->UseRealTime();

void BM_Wide(benchmark::State& state) { Run(state, Wide(64)); }
BENCHMARK(BM_Wide)->Args({1 << 14, 1})->UseRealTime();

/// Bounds of one box: the cost of pruning.
void BM_StageBounds(benchmark::State& state) {
  const Program program(Stage(), kInputs);
  const std::vector<Interval> box(kInputs.size(), {1.0, 8.0});
  for (auto _ : state) benchmark::DoNotOptimize(program.RunBounds(box));
  state.counters["operations/s"] = {
      static_cast<double>(state.iterations()) * static_cast<double>(program.operation_count()),
      benchmark::Counter::kIsRate};
}
BENCHMARK(BM_StageBounds);

/// Building, simplifying and compiling the expressions of a stage.
void BM_BuildStage(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(Program(Stage(), kInputs));
}
BENCHMARK(BM_BuildStage);

}  // namespace
}  // namespace palmist::symbolic
