// The runs published with Mist (EuroSys'25), a row a stage.
#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "palmist/accuracy/cells.h"
#include "palmist/accuracy/readers.h"
#include "palmist/accuracy/systems.h"
#include "palmist/base/units.h"

namespace palmist::accuracy {
namespace {

constexpr std::int64_t kMaxDegree = plan::kMaxDegree;

double Elements(const model::Layer& layer) {
  double total = 0;
  for (const model::Op& op : layer.ops) {
    for (const model::Parameter& parameter : op.parameters) {
      if (!parameter.tied) total += static_cast<double>(parameter.elements);
    }
  }
  return total;
}

/// One number of the strategy of embedding and head: [b, dp, tp, zw, zg, zo, ow, og, oo, oa].
enum EndStrategy { kEndOffloadWeights = 6, kEndOffloadGrads, kEndOffloadOptimizer, kEndSize = 10 };

std::vector<double> ReadEnds(const Cells& cells) {
  const nlohmann::json json = cells.Json("pre_post_strategy");
  std::vector<double> ends;
  for (const nlohmann::json& value : json.is_array() ? json : nlohmann::json::array()) {
    if (!value.is_number() || value < 0 || value > kMaxDegree) break;
    ends.push_back(value.get<double>());
  }
  if (ends.size() != kEndSize || ends.size() != json.size()) {
    cells.FailExpected("pre_post_strategy", "a JSON list of 10 numbers");
  }
  for (std::size_t i = kEndOffloadWeights; i < kEndSize; ++i) {
    if (ends[i] > 1) cells.FailExpected("pre_post_strategy", "ratios from 0 to 1");
  }
  return ends;
}

/// Embedding and head have ratios of their own. States are linear in the ratio, so the mean over
/// the stage's parameters holds the same bytes.
void BlendEnds(const model::Graph& graph,
               bool first,
               bool last,
               const std::vector<double>& ends,
               StageShape& stage) {
  const double inside = static_cast<double>(stage.layers) * Elements(graph.kinds.front());
  const double outside =
      (first ? Elements(graph.embedding) : 0) + (last ? Elements(graph.head) : 0);
  const auto blend = [&](double& ratio, int index) {
    ratio = (ratio * inside + ends[static_cast<std::size_t>(index)] * outside) / (inside + outside);
  };
  blend(stage.offload.weights, kEndOffloadWeights);
  blend(stage.offload.grads, kEndOffloadGrads);
  blend(stage.offload.optimizer, kEndOffloadOptimizer);
}

StageShape ReadStage(const Cells& cells) {
  StageShape stage;
  stage.layers = cells.RequireWhole("stage_layers", 1, 1 << 20);
  stage.recomputed = cells.RequireWhole("ckpt_layers", 0, stage.layers);
  stage.micro_batch = cells.RequireWhole("micro_batch", 1, kMaxDegree);
  stage.dp = cells.RequireWhole("dp", 1, kMaxDegree);
  stage.tp = cells.RequireWhole("tp", 1, kMaxDegree);
  stage.zero = cells.Flag("zero_w") ? 3 : cells.Flag("zero_g") ? 2 : cells.Flag("zero_o") ? 1 : 0;
  stage.offload = {.weights = cells.Ratio("offload_w"),
                   .grads = cells.Ratio("offload_g"),
                   .optimizer = cells.Ratio("offload_o"),
                   .activations = cells.Ratio("offload_a")};
  const std::int64_t devices = cells.RequireWhole("stage_nodes", 1, kMaxDegree) *
                               cells.RequireWhole("stage_gpus_per_node", 1, kMaxDegree);
  if (stage.dp * stage.tp != devices) {
    cells.FailExpected("dp", fmt::format("dp * tp to be the stage's {} devices", devices));
  }
  return stage;
}

ModelShape ReadShape(const Cells& cells) {
  ModelShape shape;
  const std::string& family = cells.Text("model_family");
  if (family != "gpt2" && family != "llama") cells.FailExpected("model_family", "gpt2 or llama");
  shape.family = family == "gpt2" ? ModelFamily::kGpt : ModelFamily::kLlama;
  shape.layers = cells.RequireWhole("layers", 1, 10'000);
  shape.hidden = cells.RequireWhole("hidden");
  shape.heads = shape.kv_heads = cells.RequireWhole("heads");
  shape.ffn = cells.RequireWhole("ffn");
  shape.seq = cells.RequireWhole("seq");
  shape.vocab = cells.RequireWhole("vocab");
  shape.bias = shape.tied = false;
  return shape;
}

/// Reads one run and returns why it is skipped; empty where it is not.
std::string_view ReadRun(const CsvTable& table,
                         RowRange rows,
                         RunBuilder& builder,
                         MeasuredRun& run) {
  const Cells first(table[rows.first]);
  const ModelShape shape = ReadShape(first);
  const std::int64_t nodes = first.RequireWhole("n_nodes", 1, kMaxDegree);
  const std::int64_t gpus = nodes * first.RequireWhole("gpus_per_node", 1, kMaxDegree);
  const auto count = static_cast<std::int64_t>(rows.second - rows.first);
  builder.Charge(gpus, count, shape.layers);

  auto cluster = ClusterOf(first.Text("gpu"), gpus, gpus / nodes);
  if (!cluster) return skip::kUnknownGpu;
  if (const auto usable_gib = first.Positive("gpu_mem_gib")) {
    cluster::Device& device = cluster->groups.front().device;
    device.memory_bytes = *usable_gib * static_cast<double>(kGiB);
    device.reserved_bytes = 0;
  }
  run.plan.cluster = std::move(*cluster);
  const auto model = builder.ModelOf(first.Text("model"), ConfigJson(shape));
  if (model == nullptr) return skip::kBadShape;

  const SystemTraits& traits = TraitsOf("Mist");
  plan::Training& training = run.plan.training;
  training.global_batch = first.RequireWhole("global_batch");
  training.micro_batches = static_cast<int>(first.RequireWhole("grad_accum", 1, kMaxDegree));
  training.dtype = training.grad_dtype = "fp16";
  training.grad_clip = traits.grad_clip;
  training.optimizer.state_bytes_per_param = traits.state_bytes;

  std::vector<StageShape> stages;
  std::int64_t layers = 0, devices = 0;
  for (std::size_t i = rows.first; i < rows.second; ++i) {
    const Cells cells(table[i]);
    StageShape stage = ReadStage(cells);
    if (cells.RequireWhole("layer_first", 0) != layers) {
      cells.FailExpected("layer_first", fmt::format("{}, the layer after the one before", layers));
    }
    stage.ops = VariantsOf(traits, first.Text("flash_attn"));
    layers += stage.layers;
    devices += stage.dp * stage.tp;
    BlendEnds(model->graph, i == rows.first, i + 1 == rows.second, ReadEnds(cells), stage);
    stages.push_back(stage);
    MeasuredMemory& memory = run.measured.stages.emplace_back();
    constexpr auto kMib = static_cast<double>(kMiB);
    if (const auto mib = cells.Positive("peak_allocated_mib")) {
      memory[MemoryKind::kAllocated] = *mib * kMib;
    }
    if (const auto mib = cells.Positive("peak_reserved_mib")) {
      memory[MemoryKind::kReserved] = *mib * kMib;
    }
  }
  if (layers != shape.layers) {
    first.Fail("layers",
               fmt::format("expected the stages to hold {} layers, got {}", shape.layers, layers));
  }
  if (devices != gpus) return skip::kDegreesDoNotMultiply;
  run.measured.iteration_s = first.Positive("iter_time_s");
  if (run.measured.empty()) return skip::kMeasurement;

  SetModel(model, shape.seq, run);
  AddStages(stages, run.plan);
  run.keys = {{"gpu", run.plan.cluster.groups.front().device.name},
              {"model", first.Text("model")},
              {"system", "Mist"},
              {"nodes", std::to_string(nodes)},
              {"gpus", std::to_string(gpus)},
              {"stages", std::to_string(count)},
              {"precision", "fp16"},
              {"source", first.Text("source")}};
  return {};
}

}  // namespace

void ReadMistRuns(const CsvTable& table, RunsFile& file) {
  RequireColumns(table,
                 {"run_id",
                  "gpu",
                  "n_nodes",
                  "gpus_per_node",
                  "model_family",
                  "model",
                  "layers",
                  "hidden",
                  "heads",
                  "ffn",
                  "seq",
                  "vocab",
                  "flash_attn",
                  "global_batch",
                  "grad_accum",
                  "iter_time_s",
                  "stage_nodes",
                  "stage_gpus_per_node",
                  "layer_first",
                  "stage_layers",
                  "ckpt_layers",
                  "micro_batch",
                  "dp",
                  "tp",
                  "zero_w",
                  "zero_g",
                  "zero_o",
                  "offload_w",
                  "offload_g",
                  "offload_o",
                  "offload_a",
                  "pre_post_strategy",
                  "peak_allocated_mib",
                  "peak_reserved_mib"});
  RunBuilder builder;
  for (const RowRange& rows : RunsOf(table)) {
    CheckSame(table,
              rows,
              {"gpu",
               "gpu_mem_gib",
               "n_nodes",
               "gpus_per_node",
               "model_family",
               "layers",
               "hidden",
               "heads",
               "ffn",
               "seq",
               "vocab",
               "flash_attn",
               "global_batch",
               "grad_accum",
               "iter_time_s"});
    MeasuredRun run;
    run.id = table[rows.first].Text("run_id");
    const std::string_view reason = ReadRun(table, rows, builder, run);
    if (reason.empty()) {
      file.runs.push_back(std::move(run));
    } else {
      ++file.skipped[std::string(reason)];
    }
  }
}

}  // namespace palmist::accuracy
