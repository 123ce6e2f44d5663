/// Throughput of pricing a pipeline stage of gpt-22b, in candidates per second on one core.
///
/// A candidate is one layout: its layers are evaluated in a batch (CostModel::Evaluate), then
/// summed up to a stage's memory and times (ComposeMemory, ComposeTime). Limits: some hundred
/// operations of compiled formulas a candidate at 1e9 to 8e9 a second
/// (symbolic_evaluator_benchmark), and 37 inputs and 48 results that come from memory and go there,
/// at 8 bytes each: batches that stay in the second cache are twice as quick. `Estimate` adds what
/// a plan needs beside: states, overlap, extras, the optimizer step.
#include <benchmark/benchmark.h>

#include <numeric>
#include <span>
#include <vector>

#include "palmist/cluster/presets.h"
#include "palmist/cost/cost_model.h"
#include "palmist/cost/predict.h"
#include "palmist/model/config.h"

namespace palmist::cost {
namespace {

constexpr int kLayersOfAStage = 12;

const model::Graph& Gpt22b() {
  static const model::Graph graph = model::BuildGraph(model::LoadModel("gpt-22b").value().spec);
  return graph;
}

/// A cluster, and layouts of a stage on eight of its devices.
struct Machine {
  cluster::Cluster cluster = cluster::PresetCluster("a100-sxm4-80gb-4x8").value();
  cluster::Calibration calibration = cluster::DefaultCalibration(cluster);
  LayoutContext context{.cluster = cluster, .calibration = calibration, .seq_len = 2048};
  std::vector<int> devices = std::vector<int>(8);

  Machine() { std::iota(devices.begin(), devices.end(), 0); }

  StageRates Rates(std::int64_t i) const {
    const int tp = 1 << (i % 4);
    const Layout layout = {.micro_batch = static_cast<int>(1 + i / 4 % 8),
                           .dp = 8 / tp,
                           .tp = tp,
                           .sp = tp > 1 && i / 32 % 2 == 1};
    return ComputeRates(context, layout, devices, devices);
  }
};

/// The stage of a candidate; recomputation and ZeRO vary from one to the next.
StageContent<double> ContentOf(std::size_t i) {
  StageContent<double> content;
  const double recomputed = static_cast<double>(i % (kLayersOfAStage + 1));
  content.plain = {kLayersOfAStage - recomputed};
  content.recomputed = {recomputed};
  content.in_flight = static_cast<double>(i % 4);
  content.embedding = i % 4 == 3 ? 1 : 0;
  content.head = i % 4 == 0 ? 1 : 0;
  content.tied = Gpt22b().tied_head;
  return content;
}

StateLayout<double> StatesOf(std::size_t i) {
  StateLayout<double> states;
  states.optimizer_shards = static_cast<double>(1 + i % 8);
  states.weight_shards = states.grad_shards = i % 3 == 0 ? states.optimizer_shards : 1;
  return states;
}

void Count(benchmark::State& state, std::int64_t candidates) {
  state.counters["candidates/s"] = benchmark::Counter(
      static_cast<double>(state.iterations() * candidates), benchmark::Counter::kIsRate);
}

void BM_DeriveFormulas(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(CostModel(Gpt22b(), {}));
}
BENCHMARK(BM_DeriveFormulas)->Unit(benchmark::kMillisecond);

void BM_EvaluateLayers(benchmark::State& state) {
  const Machine machine;
  const CostModel model(Gpt22b(), {});
  std::vector<LayoutInputs> inputs;
  for (std::int64_t i = 0; i < state.range(0); ++i) inputs.push_back(machine.Rates(i).inputs);
  for (auto _ : state) benchmark::DoNotOptimize(model.Evaluate(inputs));
  Count(state, state.range(0));
}
BENCHMARK(BM_EvaluateLayers)->Arg(64)->Arg(1024)->Arg(16384);

/// The whole path of a candidate: layers in a batch, then memory and times.
void BM_Stage(benchmark::State& state) {
  const Machine machine;
  const CostModel model(Gpt22b(), {});
  std::vector<LayoutInputs> inputs;
  for (std::int64_t i = 0; i < state.range(0); ++i) inputs.push_back(machine.Rates(i).inputs);
  for (auto _ : state) {
    const std::vector<ModelCost<double>> layers = model.Evaluate(inputs);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const StageContent<double> content = ContentOf(i);
      benchmark::DoNotOptimize(ComposeMemory(layers[i], content, StatesOf(i)));
      benchmark::DoNotOptimize(ComposeTime(layers[i], content));
    }
  }
  Count(state, state.range(0));
}
BENCHMARK(BM_Stage)->Arg(64)->Arg(1024)->Arg(16384);

/// Candidates that differ in recomputation, in-flight micro-batches and ZeRO alone share layers.
void BM_Compose(benchmark::State& state) {
  const Machine machine;
  const CostModel model(Gpt22b(), {});
  const LayoutInputs inputs = machine.Rates(1).inputs;
  const ModelCost<double> layers = model.Evaluate(std::span(&inputs, 1)).front();
  std::size_t i = 0;
  for (auto _ : state) {
    const StageContent<double> content = ContentOf(i);
    benchmark::DoNotOptimize(ComposeMemory(layers, content, StatesOf(i)));
    benchmark::DoNotOptimize(ComposeTime(layers, content));
    ++i;
  }
  Count(state, 1);
}
BENCHMARK(BM_Compose);

void BM_Estimate(benchmark::State& state) {
  const Machine machine;
  plan::Training training;
  training.global_batch = 256;
  training.micro_batches = 32;
  Estimator estimator(Gpt22b(), machine.cluster, machine.calibration, training, 2048);
  const StageRates rates = machine.Rates(1);
  const ModelCost<double> layers =
      estimator.ModelFor({}).Evaluate(std::span(&rates.inputs, 1)).front();
  plan::Stage stage;
  stage.devices = machine.devices;
  stage.first_layer = kLayersOfAStage;
  stage.last_layer = 2 * kLayersOfAStage - 1;
  stage.dp = 4;
  stage.tp = 2;
  stage.zero = 1;
  stage.zero_shard = 4;
  const StageContent<double> content = estimator.ContentOf(stage);
  for (auto _ : state) {
    const StageTerms terms = estimator.Terms(stage, content, {1, 4, 32}, layers, rates, {});
    benchmark::DoNotOptimize(Compose(terms, stage.offload));
  }
  Count(state, 1);
}
BENCHMARK(BM_Estimate);

/// All offload ratios of one stage that does not fit without: full candidates, each with its peak
/// and all phases under interference.
void BM_OffloadFrontier(benchmark::State& state) {
  const Machine machine;
  plan::Training training;
  training.global_batch = 256;
  training.micro_batches = 32;
  training.grad_clip = 0;
  Estimator estimator(Gpt22b(), machine.cluster, machine.calibration, training, 2048);
  const StageRates rates = machine.Rates(1);
  const ModelCost<double> layers =
      estimator.ModelFor({}).Evaluate(std::span(&rates.inputs, 1)).front();
  plan::Stage stage;
  stage.devices = machine.devices;
  stage.first_layer = kLayersOfAStage;
  stage.last_layer = 2 * kLayersOfAStage - 1;
  stage.dp = 4;
  stage.tp = 2;
  stage.zero = 3;
  stage.zero_shard = 4;
  StageTerms terms =
      estimator.Terms(stage, estimator.ContentOf(stage), {1, 4, 32}, layers, rates, {});
  const double share = static_cast<double>(state.range(0)) / 100;
  terms.limit = Compose(terms, {}).memory.needed() * share;
  std::int64_t evaluated = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(OffloadFrontier(terms, kOffloadRatios, evaluated));
  }
  state.SetItemsProcessed(evaluated);
}
BENCHMARK(BM_OffloadFrontier)->Arg(95)->Arg(70)->Arg(40);

}  // namespace
}  // namespace palmist::cost
