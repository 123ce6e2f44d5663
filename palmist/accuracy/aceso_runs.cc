// The runs of Aceso and Megatron-LM published with Mist (EuroSys'25), a row a rank.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "palmist/accuracy/cells.h"
#include "palmist/accuracy/operator_recompute.h"
#include "palmist/accuracy/readers.h"
#include "palmist/accuracy/systems.h"
#include "palmist/base/units.h"

namespace palmist::accuracy {
namespace {

constexpr std::int64_t kMaxDegree = plan::kMaxDegree;

/// A stage's rows say the same but for what their ranks measured.
struct AcesoStage {
  StageShape shape;
  OperatorStage operators;
  MeasuredMemory memory;  // of its fullest rank
};

std::vector<bool> ReadRecomputed(const Cells& cells) {
  constexpr std::string_view kColumn = "recompute_per_op";
  const auto count = static_cast<std::size_t>(cells.RequireWhole("num_ops"));
  const nlohmann::json json = cells.Json(kColumn);
  std::vector<bool> recomputed;
  for (const nlohmann::json& flag : json.is_array() ? json : nlohmann::json::array()) {
    if (flag != 0 && flag != 1) break;
    recomputed.push_back(flag == 1);
  }
  if (recomputed.size() != count || recomputed.size() != json.size()) {
    cells.FailExpected(kColumn, fmt::format("a JSON list of num_ops = {} times 0 or 1", count));
  }
  return recomputed;
}

AcesoStage ReadStage(const Cells& cells, const ModelShape& shape) {
  AcesoStage stage;
  stage.shape.tp = cells.RequireWhole("tp", 1, kMaxDegree);
  stage.shape.dp = cells.RequireWhole("dp", 1, kMaxDegree);
  stage.shape.micro_batch = cells.RequireWhole("micro_batch_per_gpu", 1, kMaxDegree);
  stage.operators = {
      .first = cells.RequireWhole("op_first", 0),
      .recomputed = ReadRecomputed(cells),
      .scores_per_hidden = static_cast<double>(shape.heads) * static_cast<double>(shape.seq) /
                           static_cast<double>(shape.hidden),
      .ffn_per_hidden = static_cast<double>(shape.ffn) / static_cast<double>(shape.hidden),
      .tp = static_cast<double>(stage.shape.tp)};
  const std::int64_t devices = cells.RequireWhole("stage_gpus", 1, kMaxDegree);
  if (stage.shape.dp * stage.shape.tp != devices) {
    cells.FailExpected("dp", fmt::format("dp * tp to be the stage's {} devices", devices));
  }
  return stage;
}

void AddRank(const Cells& cells, MeasuredMemory& memory) {
  const auto add = [&](MemoryKind kind, std::string_view column) {
    if (const auto mib = cells.Positive(column)) {
      memory[kind] = std::max(memory[kind].value_or(0), *mib * static_cast<double>(kMiB));
    }
  };
  add(MemoryKind::kAllocated, "max_allocated_mib");
  add(MemoryKind::kReserved, "max_reserved_mib");
}

ModelShape ReadShape(const Cells& cells) {
  ModelShape shape;
  shape.layers = cells.RequireWhole("layers", 1, 10'000);
  shape.hidden = cells.RequireWhole("hidden");
  shape.heads = shape.kv_heads = cells.RequireWhole("heads");
  shape.ffn = cells.RequireWhole("ffn");
  shape.seq = cells.RequireWhole("seq");
  shape.vocab = cells.RequireWhole("vocab_padded");
  return shape;
}

std::vector<AcesoStage> ReadStages(const CsvTable& table, RowRange rows, const ModelShape& shape) {
  std::vector<AcesoStage> stages;
  std::int64_t operators = 0;
  for (std::size_t i = rows.first; i < rows.second; ++i) {
    const Cells cells(table[i]);
    const auto index = static_cast<std::size_t>(cells.RequireWhole("stage", 0));
    if (index == stages.size()) {
      if (cells.RequireWhole("op_first", 0) != operators) {
        cells.FailExpected("op_first",
                           fmt::format("{}, the operator after the one before", operators));
      }
      stages.push_back(ReadStage(cells, shape));
      operators += static_cast<std::int64_t>(stages.back().operators.recomputed.size());
    } else if (index + 1 == stages.size()) {
      CheckSame(table,
                {i - 1, i + 1},
                {"stage_gpus",
                 "tp",
                 "dp",
                 "micro_batch_per_gpu",
                 "op_first",
                 "num_ops",
                 "recompute_per_op"});
    } else {
      cells.FailExpected("stage", fmt::format("{} or the one before", stages.size()));
    }
    AddRank(cells, stages.back().memory);
  }
  return stages;
}

/// Rounds the stages to whole layers. @param ops of a stage but for its attention.
void RoundToLayers(std::int64_t layers,
                   const model::OpVariants& ops,
                   std::vector<AcesoStage>& stages,
                   MeasuredRun& run) {
  std::vector<std::int64_t> sizes;
  bool recomputes = false;
  for (const AcesoStage& stage : stages) {
    const std::vector<bool>& recomputed = stage.operators.recomputed;
    sizes.push_back(static_cast<std::int64_t>(recomputed.size()));
    recomputes = recomputes || std::count(recomputed.begin(), recomputed.end(), true) > 0;
  }
  const std::vector<std::int64_t> split = SplitAtOperators(sizes, layers);
  for (std::size_t i = 0; i < stages.size(); ++i) {
    StageShape& shape = stages[i].shape;
    const LayerRecompute nearest = NearestRecompute(stages[i].operators, split[i]);
    shape.layers = split[i];
    shape.recomputed = nearest.layers;
    shape.ops = ops;
    shape.ops.attention = nearest.attention;
  }
  if (stages.size() > 1) run.assumed.emplace_back(kRoundedCuts);
  if (recomputes) {
    run.assumed.emplace_back(
        "recomputed operators are rounded to the whole layers and the attention variant that keep "
        "most nearly as much");
  }
}

/// Reads one run and returns why it is skipped; empty where it is not.
std::string_view ReadRun(const CsvTable& table,
                         RowRange rows,
                         RunBuilder& builder,
                         MeasuredRun& run) {
  const Cells first(table[rows.first]);
  ModelShape shape = ReadShape(first);
  const std::int64_t nodes = first.RequireWhole("n_nodes", 1, kMaxDegree);
  const std::int64_t gpus = first.RequireWhole("n_gpus", 1, kMaxDegree);
  const std::int64_t per_node = first.RequireWhole("gpus_per_node", 1, kMaxDegree);
  std::vector<AcesoStage> stages = ReadStages(table, rows, shape);
  builder.Charge(gpus, static_cast<std::int64_t>(stages.size()), shape.layers);
  if (first.Flag("repeat_outlier")) return skip::kRepeats;
  if (static_cast<std::int64_t>(stages.size()) > shape.layers) return skip::kFewLayers;

  auto cluster = ClusterOf(first.Text("gpu"), gpus, per_node);
  if (!cluster) return skip::kUnknownGpu;
  run.plan.cluster = std::move(*cluster);
  const std::string& system = first.Text("system");
  const SystemTraits& traits = TraitsOf(system == "megatron" ? "Megatron-LM" : "Aceso");
  shape.dropout = traits.dropout;
  // The runtime keeps both matrices, also where one stage holds both ends.
  shape.tied = stages.size() > 1;
  const auto model = builder.ModelOf("gpt-" + first.Text("model_size"), ConfigJson(shape));
  if (model == nullptr) return skip::kBadShape;

  plan::Training& training = run.plan.training;
  training.global_batch = first.RequireWhole("global_batch");
  training.micro_batches = static_cast<int>(first.RequireWhole("num_microbatches", 1, kMaxDegree));
  training.dtype = "fp16";
  training.grad_dtype = traits.fp32_grads ? "fp32" : "fp16";
  training.grad_clip = traits.grad_clip;
  training.optimizer.state_bytes_per_param = traits.state_bytes;

  RoundToLayers(shape.layers, VariantsOf(traits, ""), stages, run);
  std::vector<StageShape> shapes;
  std::int64_t devices = 0;
  for (const AcesoStage& stage : stages) {
    shapes.push_back(stage.shape);
    devices += stage.shape.dp * stage.shape.tp;
    run.measured.stages.push_back(stage.memory);
  }
  if (devices != gpus) return skip::kDegreesDoNotMultiply;
  run.measured.iteration_s = first.Positive("iter_time_s");
  if (run.measured.empty()) return skip::kMeasurement;

  SetModel(model, shape.seq, run);
  AddStages(shapes, run.plan);
  run.keys = {{"gpu", run.plan.cluster.groups.front().device.name},
              {"model", model->name},
              {"system", system},
              {"nodes", std::to_string(nodes)},
              {"gpus", std::to_string(gpus)},
              {"stages", std::to_string(stages.size())},
              {"precision", "fp16"},
              {"source", first.Text("profile_set")}};
  return {};
}

}  // namespace

void ReadAcesoRuns(const CsvTable& table, RunsFile& file) {
  RequireColumns(table,
                 {"run_id",
                  "system",
                  "gpu",
                  "model_size",
                  "layers",
                  "hidden",
                  "heads",
                  "ffn",
                  "seq",
                  "vocab_padded",
                  "n_nodes",
                  "gpus_per_node",
                  "n_gpus",
                  "global_batch",
                  "num_microbatches",
                  "iter_time_s",
                  "repeat_outlier",
                  "stage",
                  "stage_gpus",
                  "tp",
                  "dp",
                  "micro_batch_per_gpu",
                  "op_first",
                  "num_ops",
                  "recompute_per_op",
                  "max_allocated_mib",
                  "max_reserved_mib"});
  RunBuilder builder;
  for (const RowRange& rows : RunsOf(table)) {
    CheckSame(table,
              rows,
              {"system",
               "gpu",
               "model_size",
               "layers",
               "hidden",
               "heads",
               "ffn",
               "seq",
               "vocab_padded",
               "n_nodes",
               "gpus_per_node",
               "n_gpus",
               "global_batch",
               "num_microbatches",
               "iter_time_s",
               "repeat_outlier"});
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
