/// Time of a whole search on one and on two threads, for three commands that people run:
///   palmist plan gpt2-xl --cluster l4-1x8 --seq 1024 --global-batch 64
///   palmist plan llama-2-7b --cluster a100-sxm4-80gb-2x8 --seq 4096 --global-batch 256
///   palmist plan qwen3-30b-a3b --cluster h100-sxm5-80gb-4x8 --seq 4096 --global-batch 512
///
/// Counters: layouts of the space, those evaluated, and the iteration that was found. Limits: each
/// evaluated layout is a search over splits of its layers, which prices stages at the rate of
/// cost_stage_benchmark's `Estimate`.
#include <benchmark/benchmark.h>

#include <string>

#include "palmist/cluster/presets.h"
#include "palmist/planner/planner.h"

namespace palmist::planner {
namespace {

void BM_FindPlan(benchmark::State& state,
                 const std::string& model,
                 const std::string& cluster,
                 std::int64_t seq_len,
                 std::int64_t global_batch) {
  PlanRequest request;
  request.model = model::LoadModel(model).value();
  request.cluster = cluster::PresetCluster(cluster).value();
  request.calibration = cluster::DefaultCalibration(request.cluster);
  request.seq_len = seq_len;
  request.global_batch = global_batch;
  request.threads = static_cast<int>(state.range(0));
  PlanResult result;
  for (auto _ : state) {
    result = FindPlan(request);
    benchmark::DoNotOptimize(result);
  }
  if (result.plans.empty()) {
    state.SkipWithError("no plan fits");
    return;
  }
  state.counters["layouts"] = static_cast<double>(result.search.candidates);
  state.counters["evaluated"] = static_cast<double>(result.search.evaluated);
  state.counters["iteration_s"] = result.plans.front().predicted->iteration_time_s;
  state.counters["layouts/s"] =
      benchmark::Counter(static_cast<double>(state.iterations() * result.search.candidates),
                         benchmark::Counter::kIsRate);
}

#define PALMIST_PLANNER_BENCHMARK(...)        \
  BENCHMARK_CAPTURE(BM_FindPlan, __VA_ARGS__) \
      ->Arg(1)                                \
      ->Arg(2)                                \
      ->UseRealTime()                         \
      ->Unit(benchmark::kMillisecond)

PALMIST_PLANNER_BENCHMARK(gpt2_xl_on_8_l4, "gpt2-xl", "l4-1x8", 1024, 64);
PALMIST_PLANNER_BENCHMARK(llama_2_7b_on_16_a100, "llama-2-7b", "a100-sxm4-80gb-2x8", 4096, 256);
PALMIST_PLANNER_BENCHMARK(
    qwen3_30b_a3b_on_32_h100, "qwen3-30b-a3b", "h100-sxm5-80gb-4x8", 4096, 512);

}  // namespace
}  // namespace palmist::planner
