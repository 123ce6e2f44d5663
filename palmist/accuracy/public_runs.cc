// Published runs, a row each: public_runs.csv, and the same with further columns.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "palmist/accuracy/cells.h"
#include "palmist/accuracy/readers.h"
#include "palmist/accuracy/systems.h"
#include "palmist/base/json.h"
#include "palmist/base/text.h"
#include "palmist/base/units.h"
#include "palmist/model/zoo.h"

namespace palmist::accuracy {
namespace {

constexpr std::int64_t kMaxDegree = plan::kMaxDegree;
constexpr std::int64_t kMaxLayers = 10'000;

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Reads one row, part by part. Each part returns why the run is skipped; empty where it is not.
class PublicRow {
 public:
  PublicRow(const CsvRow& row, RunBuilder& builder, MeasuredRun& run)
      : cells_(row), builder_(builder), run_(run), traits_(TraitsOf(cells_.Text("system"))) {}

  std::string_view Read() {
    using Part = std::string_view (PublicRow::*)();
    constexpr Part kParts[] = {&PublicRow::ReadShape,
                               &PublicRow::ReadBatches,
                               &PublicRow::ReadDegrees,
                               &PublicRow::ReadMeasurement,
                               &PublicRow::ReadOutlier,
                               &PublicRow::ReadPrecision,
                               &PublicRow::ReadCluster,
                               &PublicRow::ReadLayers,
                               &PublicRow::ReadExperts,
                               &PublicRow::ReadRecompute,
                               &PublicRow::ReadOffload,
                               &PublicRow::ReadModel};
    for (const Part part : kParts) {
      if (const std::string_view reason = (this->*part)(); !reason.empty()) return reason;
    }
    Finish();
    return {};
  }

 private:
  void Assume(std::string what) { run_.assumed.push_back(std::move(what)); }

  std::int64_t num_stages() const { return static_cast<std::int64_t>(stages_.size()); }

  /// Spreads the cell of `column` over the stages: one number for all, or one a stage.
  void SetStages(std::string_view column,
                 const std::vector<std::int64_t>& values,
                 std::int64_t StageShape::*field) {
    if (values.size() != 1 && values.size() != stages_.size()) {
      cells_.FailExpected(
          column, fmt::format("one number, or one for each of the {} stages", stages_.size()));
    }
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      stages_[i].*field = values[values.size() == 1 ? 0 : i];
    }
  }

  std::string_view ReadShape() {
    model_name_ = cells_.Text("model");
    const std::string lower = AsciiLower(model_name_);
    if (Contains(lower, "(cnn)")) return ReadConvolutional(lower);
    shape_.experts = cells_.Whole("experts").value_or(0);
    shape_.top_k = cells_.Whole("topk").value_or(0);
    const bool is_llama = Contains(lower, "llama");
    shape_.family = shape_.experts > 1        ? ModelFamily::kMixtral
                    : is_llama                ? ModelFamily::kLlama
                    : Contains(lower, "bert") ? ModelFamily::kBert
                                              : ModelFamily::kGpt;
    shape_.layers = cells_.Whole("layers", 1, kMaxLayers).value_or(0);
    shape_.hidden = cells_.Whole("hidden").value_or(0);
    shape_.heads = cells_.Whole("heads").value_or(0);
    shape_.seq = cells_.Whole("seq").value_or(0);
    if (shape_.layers == 0 || shape_.hidden == 0 || shape_.heads == 0 || shape_.seq == 0) {
      return skip::kShape;
    }
    const auto or_default =
        [&](std::string_view column, std::int64_t fallback, std::string_view rule) {
          const auto value = cells_.Whole(column);
          if (!value) Assume(fmt::format("{} {} ({})", column, fallback, rule));
          return value.value_or(fallback);
        };
    shape_.kv_heads = or_default("kv_heads", shape_.heads, "as heads");
    shape_.ffn = or_default("ffn", 4 * shape_.hidden, "4 x hidden");
    const std::int64_t vocab = shape_.family == ModelFamily::kBert  ? 30'528
                               : shape_.family == ModelFamily::kGpt ? 51'200
                                                                    : 32'000;
    shape_.vocab = or_default("vocab", vocab, "of the family, padded");
    shape_.dropout = shape_.family == ModelFamily::kGpt || shape_.family == ModelFamily::kBert
                         ? traits_.dropout
                         : 0;
    shape_.bias = traits_.linear_bias;
    shape_.tied = shape_.family == ModelFamily::kGpt && traits_.tied;
    if (shape_.family == ModelFamily::kGpt && shape_.kv_heads != shape_.heads) {
      return skip::kBadShape;
    }
    return {};
  }

  /// A convolutional model has the architecture of the built-in one with its name, or none.
  std::string_view ReadConvolutional(std::string_view lower) {
    const auto plain = [](std::string_view name) {
      std::string text(name.substr(0, name.find('(')));
      std::erase_if(text, [](char c) { return c == ' ' || c == '-' || c == '_'; });
      return text;
    };
    for (const std::string& name : model::ZooNames()) {
      if (plain(name) != plain(lower)) continue;
      config_ = std::string(model::ZooConfig(name).value());
      const auto model = builder_.ModelOf(model_name_, config_);
      if (model == nullptr || model->graph.has_sequence) break;
      shape_.layers = static_cast<std::int64_t>(model->graph.layers.size());
      return {};
    }
    return skip::kConvolutional;
  }

  std::string_view ReadBatches() {
    const auto global = cells_.Whole("global_batch");
    micro_batches_ = cells_.Wholes("micro_batch", 1, kMaxDegree);
    if (!global || micro_batches_.empty()) return skip::kBatches;
    run_.plan.training.global_batch = *global;
    return {};
  }

  std::string_view ReadDegrees() {
    const auto gpus = cells_.Whole("n_gpu", 1, kMaxDegree);
    const auto stages = cells_.Whole("pp", 1, plan::kMaxStages);
    const std::vector<std::int64_t> tp = cells_.Wholes("tp", 1, kMaxDegree);
    const std::int64_t cp = cells_.Whole("cp", 1, kMaxDegree).value_or(1);
    if (!gpus || !stages || tp.empty()) return skip::kDegrees;
    gpus_ = *gpus;
    builder_.Charge(gpus_, *stages, shape_.layers);
    stages_.resize(static_cast<std::size_t>(*stages));
    SetStages("tp", tp, &StageShape::tp);
    SetStages("micro_batch", micro_batches_, &StageShape::micro_batch);
    SetStages("cp", {cp}, &StageShape::cp);
    std::vector<std::int64_t> dp = cells_.Wholes("dp", 1, kMaxDegree);
    if (dp.empty()) {
      const double devices =
          static_cast<double>(gpus_) /
          (static_cast<double>(*stages) * static_cast<double>(tp[0]) * static_cast<double>(cp));
      if (tp.size() > 1 || devices < 1 || devices != std::floor(devices)) return skip::kDegrees;
      dp = {static_cast<std::int64_t>(devices)};
      Assume(fmt::format("dp {} (GPUs over the other degrees)", dp[0]));
    }
    SetStages("dp", dp, &StageShape::dp);
    double devices = 0;
    for (const StageShape& stage : stages_) {
      devices += static_cast<double>(stage.dp) * static_cast<double>(stage.tp) *
                 static_cast<double>(stage.cp);
    }
    if (devices != static_cast<double>(gpus_)) return skip::kDegreesDoNotMultiply;
    if (cells_.Whole("vpp").value_or(1) > 1) return skip::kInterleaved;
    return DivideBatches();
  }

  std::string_view DivideBatches() {
    // Aceso's micro-batch is of all replicas of a stage together (data/mist/README.md); where a
    // plan is given as JSON it is of one rank, as everywhere else.
    const bool of_all = cells_.Text("system").starts_with("Aceso") && !cells_.Has("plan_json");
    const std::int64_t global = run_.plan.training.global_batch;
    std::int64_t micro_batches = 0;
    for (StageShape& stage : stages_) {
      if (of_all) {
        if (stage.micro_batch % stage.dp != 0) return skip::kBatchesDoNotDivide;
        stage.micro_batch /= stage.dp;
      }
      const std::int64_t samples = stage.micro_batch * stage.dp;
      if (global % samples != 0) return skip::kBatchesDoNotDivide;
      if (micro_batches != 0 && micro_batches != global / samples) {
        return skip::kBatchesDoNotDivide;
      }
      micro_batches = global / samples;
    }
    if (micro_batches > kMaxDegree) return skip::kBatchesDoNotDivide;
    run_.plan.training.micro_batches = static_cast<int>(micro_batches);
    return {};
  }

  std::string_view ReadMeasurement() {
    Measurement& measured = run_.measured;
    measured.iteration_s = cells_.Positive("iter_time_s");
    const auto tokens_per_s = cells_.Positive("tokens_per_s_per_gpu");
    if (!measured.iteration_s && tokens_per_s && shape_.seq > 0) {
      measured.iteration_s = static_cast<double>(run_.plan.training.global_batch) *
                             static_cast<double>(shape_.seq) /
                             (*tokens_per_s * static_cast<double>(gpus_));
    }
    measured.out_of_memory = Contains(cells_.Text("notes"), "INFEASIBLE");
    ReadMemory(measured);
    return measured.empty() ? skip::kMeasurement : std::string_view();
  }

  void ReadMemory(Measurement& measured) {
    if (cells_.Has("stage_mem_json")) return ReadStageMemory(measured);
    const std::vector<double> gib = cells_.Numbers("mem_gb");
    if (gib.empty()) return;
    if (gib.size() > stages_.size()) {
      cells_.FailExpected("mem_gb", fmt::format("at most {} numbers, one a stage", stages_.size()));
    }
    const MemoryKind kind = KindOfMemory();
    if (gib.size() == 1 && stages_.size() > 1) {
      measured.fullest_stage[kind] = gib[0] * static_cast<double>(kGiB);
      return;
    }
    // Fewer numbers than stages are those of the first ones, which lie on the first node.
    measured.stages.resize(stages_.size());
    for (std::size_t i = 0; i < gib.size(); ++i) {
      measured.stages[i][kind] = gib[i] * static_cast<double>(kGiB);
    }
  }

  MemoryKind KindOfMemory() {
    const std::string stated = AsciiLower(cells_.Text("mem_kind"));
    for (const auto& [word, kind] : {std::pair("nvidia-smi", MemoryKind::kNvidiaSmi),
                                     std::pair("allocated", MemoryKind::kAllocated),
                                     std::pair("reserved", MemoryKind::kReserved)}) {
      if (Contains(stated, word)) return kind;
    }
    if (traits_.prefix.empty()) Assume("mem_gb is reserved memory");
    return traits_.memory;
  }

  void ReadStageMemory(Measurement& measured) {
    const nlohmann::json json = cells_.Json("stage_mem_json");
    if (!json.is_array() || json.size() > stages_.size()) {
      cells_.FailExpected("stage_mem_json",
                          fmt::format("a list of at most {} stages", stages_.size()));
    }
    measured.stages.resize(stages_.size());
    for (const nlohmann::json& entry : json) {
      try {
        const JsonReader reader(entry);
        const auto stage =
            static_cast<std::size_t>(reader.RequireInt("stage", 0, num_stages() - 1));
        const auto add = [&](MemoryKind kind, const char* name) {
          if (!reader.Has(name)) return;
          constexpr auto kMib = static_cast<double>(kMiB);
          measured.stages[stage][kind] = reader.RequireDouble(name, 1.0) * kMib;
        };
        add(MemoryKind::kAllocated, "max_allocated_mib");
        add(MemoryKind::kReserved, "max_reserved_mib");
        add(MemoryKind::kNvidiaSmi, "nvidia_smi_mib");
      } catch (const Error& error) {
        cells_.Fail("stage_mem_json", error.what());
      }
    }
  }

  /// The repeats of this run differ by 54 % (data/mist/README.md).
  std::string_view ReadOutlier() {
    const bool outlier = traits_.prefix == "Aceso" && cells_.Text("gpu") == "A10G-24GB" &&
                         model_name_ == "GPT-2.6B" && stages_.size() == 2;
    return outlier ? skip::kRepeats : std::string_view();
  }

  std::string_view ReadPrecision() {
    const std::string precision = AsciiLower(cells_.Text("precision"));
    plan::Training& training = run_.plan.training;
    training.optimizer.state_bytes_per_param = traits_.state_bytes;
    training.grad_clip = traits_.grad_clip;
    if (precision.empty()) {
      Assume("precision fp16 mixed");
      training.dtype = "fp16";
    } else if (precision == "fp32") {
      training.dtype = training.grad_dtype = "fp32";
      training.optimizer.state_bytes_per_param = 8;  // two moments
      return {};
    } else if (precision == "bf16" || precision == "amp_bf16") {
      training.dtype = "bf16";
    } else if (precision.starts_with("fp16")) {
      training.dtype = "fp16";
    } else {
      return skip::kPrecision;
    }
    const bool fp32_grads =
        traits_.fp32_grads || Contains(cells_.Text("notes"), "fp32 grad accumulation");
    training.grad_dtype = fp32_grads ? "fp32" : training.dtype;
    return {};
  }

  std::string_view ReadCluster() {
    const std::string& gpu = cells_.Text("gpu");
    if (Contains(gpu, "+")) return skip::kMixedGpus;
    auto cluster = ClusterOf(gpu, gpus_, GpusPerNode(gpu));
    if (!cluster) return skip::kUnknownGpu;
    SetNetwork(cells_.Text("inter_node_link"), *cluster);
    run_.plan.cluster = std::move(*cluster);
    return {};
  }

  std::string_view ReadLayers() {
    if (num_stages() > shape_.layers) return skip::kFewLayers;
    std::vector<std::int64_t> split;
    if (cells_.Has("plan_json")) {
      if (const auto reason = ReadPlanJson(split); !reason.empty()) return reason;
    } else {
      split = LayersInNotes();
    }
    if (split.empty()) {
      split = SplitEvenly(shape_.layers, num_stages());
      if (num_stages() > 1) Assume("layers spread evenly over the stages");
    }
    for (std::size_t i = 0; i < stages_.size(); ++i) stages_[i].layers = split[i];
    return {};
  }

  /// Reads {"items_per_stage"} (embedding, layers and head are items) or {"ops_per_stage"}.
  std::string_view ReadPlanJson(std::vector<std::int64_t>& split) {
    const nlohmann::json json = cells_.Json("plan_json");
    try {
      const JsonReader reader(json);
      if (reader.Has("replicas_per_stage")) {
        if (const auto reason = CheckReplicas(json["replicas_per_stage"]); !reason.empty()) {
          return reason;
        }
      }
      if (reader.Has("items_per_stage")) {
        split = reader.RequireInts("items_per_stage", 1, kMaxLayers + 2);
        split.front() -= 1;
        split.back() -= 1;
      } else {
        SplitOperators(reader.RequireInts("ops_per_stage", 1, kOperatorsPerLayer * kMaxLayers + 3),
                       split);
      }
    } catch (const Error& error) {
      cells_.Fail("plan_json", error.what());
    }
    const bool fits = split.size() == stages_.size() &&
                      std::accumulate(split.begin(), split.end(), std::int64_t{0}) == shape_.layers;
    if (!fits) {
      cells_.Fail(
          "plan_json",
          fmt::format(
              "expected {} stages that hold {} layers, got others", stages_.size(), shape_.layers));
    }
    const bool empty = std::any_of(split.begin(), split.end(), [](auto n) { return n < 1; });
    return empty ? skip::kFewLayers : std::string_view();
  }

  static std::string_view CheckReplicas(const nlohmann::json& stages) {
    const nlohmann::json* first = nullptr;
    for (const nlohmann::json& stage : stages) {
      for (const nlohmann::json& replica : stage) {
        if (first == nullptr) first = &replica;
        if (replica == *first) continue;
        const bool same_gpu =
            replica.is_object() && first->is_object() &&
            replica.value("gpu", nlohmann::json()) == first->value("gpu", nlohmann::json());
        return same_gpu ? skip::kUnlikeReplicas : skip::kMixedGpus;
      }
    }
    return {};
  }

  void SplitOperators(const std::vector<std::int64_t>& operators,
                      std::vector<std::int64_t>& split) {
    if (operators.size() != stages_.size()) return;
    split = SplitAtOperators(operators, shape_.layers);
    if (num_stages() > 1) Assume(std::string(kRoundedCuts));
  }

  /// Rows with unlike stages say in their notes "layer partition 7|8|9|8" or "ops/stage 159|156".
  std::vector<std::int64_t> LayersInNotes() {
    std::vector<std::int64_t> split = ListInNotes("layer partition ");
    if (!split.empty()) return split;
    SplitOperators(ListInNotes("ops/stage "), split);
    return split;
  }

  /// Returns the numbers after `label`; empty unless there is one a stage, and they add up.
  std::vector<std::int64_t> ListInNotes(std::string_view label) const {
    std::string_view notes = cells_.Text("notes");
    const std::size_t found = notes.find(label);
    if (found == std::string_view::npos) return {};
    notes.remove_prefix(found + label.size());
    notes = notes.substr(0, notes.find_first_not_of("0123456789|"));
    std::vector<std::int64_t> values;
    std::int64_t total = 0;
    for (const std::string_view part : Split(notes, '|')) {
      const Result<double> value = ParseNumber(part);
      if (!value.ok() || *value < 1 || *value > 1e6) return {};
      values.push_back(static_cast<std::int64_t>(*value));
      total += values.back();
    }
    const bool fits = total == shape_.layers || total == kOperatorsPerLayer * shape_.layers + 3;
    return fits && values.size() == stages_.size() ? values : std::vector<std::int64_t>();
  }

  std::string_view ReadExperts() {
    const std::int64_t ep = cells_.Whole("ep", 1, kMaxDegree).value_or(1);
    if (shape_.experts <= 1) return ep > 1 ? skip::kExperts : std::string_view();
    const std::int64_t etp = cells_.Whole("etp", 1, kMaxDegree).value_or(stages_[0].tp);
    for (StageShape& stage : stages_) {
      // Experts may be split over fewer ranks than the rest of a layer. As many parts in all, but
      // of tp ranks each, hold the same bytes.
      const std::int64_t parts = ep * etp;
      stage.ep = parts / stage.tp;
      if (ep > shape_.experts || parts % stage.tp != 0 || stage.dp * stage.cp % stage.ep != 0 ||
          shape_.experts % stage.ep != 0) {
        return skip::kExperts;
      }
    }
    if (etp != stages_[0].tp) {
      Assume(fmt::format("experts in {} parts of tensor degree {} are priced as {} of degree {}",
                         ep,
                         etp,
                         stages_[0].ep,
                         stages_[0].tp));
    }
    return {};
  }

  std::string_view ReadRecompute() {
    const std::string& text = cells_.Text("recompute");
    const auto set_all = [&] {
      for (StageShape& stage : stages_) stage.recomputed = stage.layers;
    };
    if (text.starts_with("full")) {
      set_all();
    } else if (text.empty()) {
      const std::string& notes = cells_.Text("notes");
      if (Contains(notes, "recompute on") || Contains(notes, "checkpoint_activations [True")) {
        set_all();
      } else {
        Assume("no recompute");
      }
    } else if (text.starts_with("layers/stage ")) {
      const auto counts = PerStage("recompute", "layers/stage ");
      for (std::size_t i = 0; i < stages_.size(); ++i) {
        if (counts[i] != std::floor(counts[i]) ||
            counts[i] > static_cast<double>(stages_[i].layers)) {
          return skip::kRecompute;
        }
        stages_[i].recomputed = static_cast<std::int64_t>(counts[i]);
      }
    } else if (text == "selective (attn)") {
      // The core of attention made again keeps what flash attention keeps.
      selective_attention_ = true;
      Assume("recomputed attention is priced as flash attention");
    } else if (text.starts_with("selective") || text.starts_with("op fraction")) {
      return skip::kSelective;
    } else if (text != "none") {
      return skip::kRecompute;
    }
    return {};
  }

  /// Reads "label a|b|c": one number a stage.
  std::vector<double> PerStage(std::string_view column, std::string_view label) const {
    std::vector<double> values;
    for (const std::string_view part :
         Split(std::string_view(cells_.Text(column)).substr(label.size()), '|')) {
      const Result<double> value = ParseNumber(part);
      if (!value.ok()) break;
      values.push_back(*value);
    }
    if (values.size() != stages_.size()) {
      cells_.FailExpected(column, fmt::format("{}and {} numbers", label, stages_.size()));
    }
    return values;
  }

  std::string_view ReadOffload() {
    const std::string& text = cells_.Text("offload");
    if (text.empty() || text == "none") return {};
    if (text.starts_with("optimizer")) {
      for (StageShape& stage : stages_) stage.offload.optimizer = 1;
      return {};
    }
    constexpr std::string_view kLabel = "W/G/O/A ";
    if (!text.starts_with(kLabel)) return skip::kOffload;
    const auto parts = Split(std::string_view(text).substr(kLabel.size()), '|');
    if (parts.size() != stages_.size()) {
      cells_.FailExpected("offload", fmt::format("ratios of {} stages", stages_.size()));
    }
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      std::vector<double> ratios;
      for (const std::string_view ratio : Split(parts[i], '/')) {
        const Result<double> value = ParseNumber(ratio);
        if (value.ok() && *value <= 1) ratios.push_back(*value);
      }
      if (ratios.size() != 4) cells_.FailExpected("offload", "four ratios from 0 to 1 a stage");
      stages_[i].offload = {ratios[0], ratios[1], ratios[2], ratios[3]};
    }
    return {};
  }

  std::string_view ReadModel() {
    const std::vector<std::int64_t> zero = cells_.Wholes("zero", 0, 3);
    if (zero.empty()) Assume("zero 0");
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      if (zero.empty()) break;
      if (zero.size() != 1 && zero.size() != stages_.size()) {
        cells_.FailExpected("zero", "one number, or one a stage");
      }
      stages_[i].zero = static_cast<int>(zero[zero.size() == 1 ? 0 : i]);
    }
    const bool sp = cells_.Flag("sp");
    for (StageShape& stage : stages_) stage.sp = sp;
    // Aceso's runtime keeps both matrices, also where one stage holds both ends.
    if (traits_.prefix == "Aceso") shape_.tied = shape_.tied && stages_.size() > 1;
    if (config_.empty()) config_ = ConfigJson(shape_);
    model_ = builder_.ModelOf(model_name_, config_);
    return model_ == nullptr ? skip::kBadShape : std::string_view();
  }

  void Finish() {
    if (traits_.prefix.empty()) {
      Assume("operators and optimizer as Megatron-Core's: system not known");
    }
    SetModel(model_, shape_.seq, run_);
    model::OpVariants ops = VariantsOf(traits_, cells_.Text("flash_attn"));
    if (selective_attention_) ops.attention = model::Variant::kFused;
    for (StageShape& stage : stages_) stage.ops = ops;
    AddStages(stages_, run_.plan);
    run_.id =
        fmt::format("{}: {} on {} x {}", cells_.line(), model_name_, gpus_, cells_.Text("gpu"));
    run_.keys = {{"gpu", run_.plan.cluster.groups.front().device.name},
                 {"model", model_name_},
                 {"system", cells_.Text("system")},
                 {"nodes", std::to_string(run_.plan.cluster.num_nodes())},
                 {"gpus", std::to_string(gpus_)},
                 {"stages", std::to_string(stages_.size())},
                 {"precision", run_.plan.training.dtype},
                 {"source", cells_.Text("source_url")}};
  }

  const Cells cells_;
  RunBuilder& builder_;
  MeasuredRun& run_;
  const SystemTraits& traits_;
  std::string model_name_;
  std::string config_;
  ModelShape shape_;
  std::shared_ptr<const RunModel> model_;
  std::int64_t gpus_ = 0;
  std::vector<std::int64_t> micro_batches_;
  std::vector<StageShape> stages_;
  bool selective_attention_ = false;
};

}  // namespace

void ReadPublicRuns(const CsvTable& table, RunsFile& file) {
  RequireColumns(table,
                 {"gpu",
                  "n_gpu",
                  "model",
                  "layers",
                  "hidden",
                  "heads",
                  "seq",
                  "global_batch",
                  "micro_batch",
                  "tp",
                  "pp"});
  RunBuilder builder;
  for (std::size_t i = 0; i < table.size(); ++i) {
    MeasuredRun run;
    const std::string_view reason = PublicRow(table[i], builder, run).Read();
    if (reason.empty()) {
      file.runs.push_back(std::move(run));
    } else {
      ++file.skipped[std::string(reason)];
    }
  }
}

}  // namespace palmist::accuracy
