// The plan file: docs/guide/plan-files.md and docs/schemas/plan.schema.json describe it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "palmist/base/file.h"
#include "palmist/base/json.h"
#include "palmist/base/text.h"
#include "palmist/cluster/cluster_file.h"
#include "palmist/model/graph.h"
#include "palmist/plan/plan.h"

namespace palmist::plan {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int kMaxUnknownKeys = 1000;

constexpr std::pair<const char*, double MemoryBytes::*> kMemoryTotals[] = {
    {"allocated_peak", &MemoryBytes::allocated_peak},
    {"reserved_peak", &MemoryBytes::reserved_peak},
    {"limit", &MemoryBytes::limit},
};

constexpr std::pair<const char*, double OffloadRatios::*> kOffloadFields[] = {
    {"weights", &OffloadRatios::weights},
    {"grads", &OffloadRatios::grads},
    {"optimizer", &OffloadRatios::optimizer},
    {"activations", &OffloadRatios::activations},
};

constexpr std::pair<const char*, model::Variant model::OpVariants::*> kOpFamilies[] = {
    {"attention", &model::OpVariants::attention},
    {"norm", &model::OpVariants::norm},
    {"activation", &model::OpVariants::activation},
    {"dropout", &model::OpVariants::dropout},
    {"loss", &model::OpVariants::loss},
};

constexpr std::pair<const char*, double StagePrediction::*> kStageSeconds[] = {
    {"forward_s", &StagePrediction::forward_s},
    {"backward_s", &StagePrediction::backward_s},
    {"weight_grad_s", &StagePrediction::weight_grad_s},
    {"first_extra_s", &StagePrediction::first_extra_s},
    {"last_extra_s", &StagePrediction::last_extra_s},
};

// ---------------------------------------------------------------------------------- writing

ordered_json ToJson(const LayerRange& range) {
  return {{"first_layer", range.first_layer}, {"last_layer", range.last_layer}};
}

ordered_json ToJson(const Replica& replica) {
  return {{"devices", replica.devices}, {"tp", replica.tp}, {"micro_batch", replica.micro_batch}};
}

ordered_json ToJson(const RecomputeRange& range) {
  return {{"first_layer", range.first_layer},
          {"last_layer", range.last_layer},
          {"mode", range.mode == RecomputeMode::kFull ? "full" : "selective"},
          {"modules", range.modules}};
}

ordered_json ToJson(const StagePrediction& prediction) {
  ordered_json out;
  for (const auto& [name, field] : kStageSeconds) out[name] = prediction.*field;
  ordered_json& memory = out["memory_bytes"];
  for (const auto& category : kMemoryCategories) {
    memory[std::string(category.name)] = prediction.memory.*category.bytes;
  }
  for (const auto& [name, field] : kMemoryTotals) memory[name] = prediction.memory.*field;
  return out;
}

ordered_json ToJson(const Stage& stage);
ordered_json ToJson(const ClosestMiss& miss);

template <typename T>
ordered_json ToJson(const std::vector<T>& values) {
  ordered_json out = ordered_json::array();
  for (const T& value : values) out.push_back(ToJson(value));
  return out;
}

ordered_json ToJson(const Stage& stage) {
  ordered_json out = {{"devices", stage.devices},
                      {"first_layer", stage.first_layer},
                      {"last_layer", stage.last_layer},
                      {"embedding", stage.embedding},
                      {"head", stage.head},
                      {"micro_batch", stage.micro_batch},
                      {"dp", stage.dp},
                      {"tp", stage.tp},
                      {"sp", stage.sp},
                      {"cp", stage.cp},
                      {"cp_kind", stage.cp_kind},
                      {"ep", stage.ep},
                      {"chunks", ToJson(stage.chunks)},
                      {"replicas", ToJson(stage.replicas)},
                      {"zero", stage.zero},
                      {"zero_shard", stage.zero_shard},
                      {"recompute", ToJson(stage.recompute)}};
  for (const auto& [name, family] : kOpFamilies) {
    out["ops"][name] = model::ToString(stage.ops.*family);
  }
  for (const auto& [name, ratio] : kOffloadFields) out["offload"][name] = stage.offload.*ratio;
  if (stage.predicted) out["predicted"] = ToJson(*stage.predicted);
  return out;
}

ordered_json ToJson(const Prediction& prediction) {
  ordered_json out = {{"fits", prediction.fits},
                      {"iteration_time_s", prediction.iteration_time_s},
                      {"tokens_per_s", prediction.tokens_per_s},
                      {"cost_usd_per_1e9_tokens", nullptr},
                      {"model_flops_utilization", prediction.model_flops_utilization},
                      {"bubble_fraction", prediction.bubble_fraction},
                      {"compute_s", prediction.compute_s}};
  if (prediction.cost_usd_per_1e9_tokens) {
    out["cost_usd_per_1e9_tokens"] = *prediction.cost_usd_per_1e9_tokens;
  }
  for (const auto& cause : kExposedCauses) {
    out["exposed_s"][std::string(cause.name)] = prediction.exposed_s.*cause.seconds;
  }
  return out;
}

ordered_json ToJson(const ClosestMiss& miss) {
  return {{"stage", miss.stage}, {"short_bytes", miss.short_bytes}, {"change", miss.change}};
}

ordered_json ToJson(const SearchSummary& search) {
  return {{"status", search.status},
          {"lower_bound_s", search.lower_bound_s},
          {"gap", search.gap},
          {"space", search.space},
          {"candidates", search.candidates},
          {"evaluated", search.evaluated},
          {"pruned", search.pruned},
          {"seconds", search.seconds}};
}

ordered_json ProvenanceToJson(const std::map<std::string, std::string>& provenance) {
  ordered_json out = ordered_json::object();
  for (const char* first : {"palmist", "calibration", "created"}) {
    if (const auto entry = provenance.find(first); entry != provenance.end()) {
      out[first] = entry->second;
    }
  }
  for (const auto& [name, value] : provenance) out[name] = value;
  return out;
}

/// Puts the unknown keys back at their places; those whose place is gone are left out.
void RestoreExtra(const ordered_json& extra, ordered_json& document) {
  for (const auto& [path, value] : extra.items()) {
    const ordered_json::json_pointer pointer(path);
    const auto parent = pointer.parent_pointer();
    if (!document.contains(parent) || !document.at(parent).is_object()) continue;
    document.at(parent)[pointer.back()] = value;
  }
}

// ---------------------------------------------------------------------------------- reading

/// Returns the member `name` as a number from 1 to `kMaxDegree`.
int Positive(const JsonReader& reader, const std::string& name, std::int64_t fallback) {
  const std::int64_t value = reader.OptionalInt(name, fallback);
  if (value < 1) reader.Fail(name, fmt::format("expected a positive integer, got {}", value));
  if (value > kMaxDegree) {
    reader.Fail(name, fmt::format("expected at most {}, got {}", kMaxDegree, value));
  }
  return static_cast<int>(value);
}

int Positive(const JsonReader& reader, const std::string& name) {
  reader.RequireInt(name);
  return Positive(reader, name, 1);
}

/// Returns the number of a layer; Validate compares it with the model.
int LayerNumber(const JsonReader& reader, const std::string& name) {
  return static_cast<int>(reader.RequireInt(name, 0, kMaxDegree));
}

/// Returns an optional time, size or count that is not negative.
double Amount(const JsonReader& reader, const std::string& name) {
  return reader.OptionalDouble(name, 0.0, 0.0);
}

std::vector<int> Devices(const JsonReader& reader) {
  const auto devices = reader.RequireInts("devices", 0, kMaxDegree - 1);
  return {devices.begin(), devices.end()};
}

LayerRange ReadLayerRange(const JsonReader& reader) {
  return {LayerNumber(reader, "first_layer"), LayerNumber(reader, "last_layer")};
}

Replica ReadReplica(const JsonReader& reader) {
  return {Devices(reader), Positive(reader, "tp", 1), Positive(reader, "micro_batch")};
}

RecomputeRange ReadRecompute(const JsonReader& reader) {
  RecomputeRange range{LayerNumber(reader, "first_layer"),
                       LayerNumber(reader, "last_layer"),
                       RecomputeMode::kFull,
                       {}};
  const std::string mode = reader.OptionalString("mode", "full");
  if (mode == "selective") {
    range.mode = RecomputeMode::kSelective;
  } else if (mode != "full") {
    reader.Fail("mode", "expected full or selective, got " + Quote(mode));
  }
  if (reader.Has("modules")) range.modules = reader.RequireStrings("modules");
  return range;
}

model::OpVariants ReadOps(const JsonReader& reader) {
  model::OpVariants ops;
  for (const auto& [name, family] : kOpFamilies) {
    if (!reader.Has(name)) continue;
    const auto variant = model::ParseVariant(reader.RequireString(name));
    if (!variant.ok()) reader.Fail(name, variant.error().message(), variant.error().hint());
    ops.*family = *variant;
  }
  return ops;
}

MemoryBytes ReadMemory(const JsonReader& reader) {
  MemoryBytes memory;
  for (const auto& category : kMemoryCategories) {
    memory.*category.bytes = Amount(reader, std::string(category.name));
  }
  for (const auto& [name, field] : kMemoryTotals) memory.*field = Amount(reader, name);
  return memory;
}

StagePrediction ReadStagePrediction(const JsonReader& reader) {
  StagePrediction prediction;
  for (const auto& [name, field] : kStageSeconds) prediction.*field = Amount(reader, name);
  if (const auto memory = reader.OptionalChild("memory_bytes")) {
    prediction.memory = ReadMemory(*memory);
  }
  return prediction;
}

template <typename Read>
auto ReadAll(const std::vector<JsonReader>& readers, Read read) {
  std::vector<decltype(read(readers.front()))> values;
  values.reserve(readers.size());
  for (const JsonReader& reader : readers) values.push_back(read(reader));
  return values;
}

Stage ReadStage(const JsonReader& reader, bool is_first, bool is_last) {
  Stage stage;
  stage.devices = Devices(reader);
  stage.first_layer = LayerNumber(reader, "first_layer");
  stage.last_layer = LayerNumber(reader, "last_layer");
  stage.embedding = reader.OptionalBool("embedding", is_first);
  stage.head = reader.OptionalBool("head", is_last);
  stage.micro_batch = Positive(reader, "micro_batch");
  stage.dp = Positive(reader, "dp", 1);
  stage.tp = Positive(reader, "tp", 1);
  stage.sp = reader.OptionalBool("sp", false);
  stage.cp = Positive(reader, "cp", 1);
  stage.cp_kind = reader.OptionalString("cp_kind", stage.cp_kind);
  stage.ep = Positive(reader, "ep", 1);
  stage.chunks = ReadAll(reader.OptionalArray("chunks"), ReadLayerRange);
  stage.replicas = ReadAll(reader.OptionalArray("replicas"), ReadReplica);
  stage.zero = static_cast<int>(reader.OptionalInt("zero", 0, 0, 3));
  stage.zero_shard = Positive(reader, "zero_shard", 1);
  stage.recompute = ReadAll(reader.OptionalArray("recompute"), ReadRecompute);
  if (const auto ops = reader.OptionalChild("ops")) stage.ops = ReadOps(*ops);
  if (const auto offload = reader.OptionalChild("offload")) {
    for (const auto& [name, ratio] : kOffloadFields) {
      stage.offload.*ratio = offload->OptionalDouble(name, 0.0, 0.0, 1.0);
    }
  }
  if (const auto predicted = reader.OptionalChild("predicted")) {
    stage.predicted = ReadStagePrediction(*predicted);
  }
  return stage;
}

Training ReadTraining(const JsonReader& reader) {
  Training training;
  training.global_batch = reader.RequireInt("global_batch");
  training.micro_batches = Positive(reader, "micro_batches");
  training.schedule = reader.OptionalString("schedule", training.schedule);
  training.dtype = reader.OptionalString("dtype", training.dtype);
  training.grad_dtype = reader.OptionalString("grad_dtype", training.dtype);
  training.grad_clip = reader.OptionalDouble("grad_clip", training.grad_clip, 0.0);
  training.trainable = reader.OptionalString("trainable", training.trainable);
  if (const auto optimizer = reader.OptionalChild("optimizer")) {
    training.optimizer.name = optimizer->OptionalString("name", training.optimizer.name);
    training.optimizer.state_bytes_per_param = optimizer->OptionalDouble(
        "state_bytes_per_param", training.optimizer.state_bytes_per_param, 0.0, 1024.0);
  }
  return training;
}

Prediction ReadPrediction(const JsonReader& reader) {
  Prediction prediction;
  prediction.fits = reader.RequireBool("fits");
  prediction.iteration_time_s = Amount(reader, "iteration_time_s");
  prediction.tokens_per_s = Amount(reader, "tokens_per_s");
  if (reader.Has("cost_usd_per_1e9_tokens")) {
    prediction.cost_usd_per_1e9_tokens = Amount(reader, "cost_usd_per_1e9_tokens");
  }
  prediction.model_flops_utilization = Amount(reader, "model_flops_utilization");
  prediction.bubble_fraction = Amount(reader, "bubble_fraction");
  prediction.compute_s = Amount(reader, "compute_s");
  if (const auto exposed = reader.OptionalChild("exposed_s")) {
    for (const auto& cause : kExposedCauses) {
      prediction.exposed_s.*cause.seconds = Amount(*exposed, std::string(cause.name));
    }
  }
  return prediction;
}

SearchSummary ReadSearch(const JsonReader& reader) {
  constexpr std::string_view kStatuses[] = {"optimal", "feasible", "time_limit", "interrupted"};
  SearchSummary search;
  search.status = reader.RequireString("status");
  if (std::find(std::begin(kStatuses), std::end(kStatuses), search.status) == std::end(kStatuses)) {
    reader.Fail(
        "status",
        fmt::format(
            "expected one of {}, got {}", fmt::join(kStatuses, ", "), Quote(search.status)));
  }
  search.lower_bound_s = Amount(reader, "lower_bound_s");
  search.gap = Amount(reader, "gap");
  search.space = reader.OptionalString("space", search.space);
  search.candidates = reader.OptionalInt("candidates", 0, 0);
  search.evaluated = reader.OptionalInt("evaluated", 0, 0);
  search.pruned = reader.OptionalInt("pruned", 0, 0);
  search.seconds = Amount(reader, "seconds");
  return search;
}

ClosestMiss ReadClosest(const JsonReader& reader) {
  return {static_cast<int>(reader.RequireInt("stage", 0, kMaxStages - 1)),
          Amount(reader, "short_bytes"),
          reader.OptionalString("change", "")};
}

std::map<std::string, std::string> ReadProvenance(const JsonReader& reader) {
  std::map<std::string, std::string> provenance;
  for (const auto& [name, value] : reader.json().items()) {
    if (!value.is_null()) provenance[name] = reader.RequireString(name);
  }
  return provenance;
}

void CheckVersion(const JsonReader& reader) {
  const std::int64_t version = reader.RequireInt("palmist_plan");
  if (version != kPlanVersion) {
    reader.Fail("palmist_plan",
                fmt::format("expected version {} of the plan file, got {}", kPlanVersion, version),
                version > kPlanVersion ? "a newer palmist wrote it: update this one" : "");
  }
}

/// Reads all but the unknown keys and the model's parameters.
Plan ReadPlan(const json& document) {
  const JsonReader reader(document);
  CheckVersion(reader);
  Plan plan;
  const JsonReader model = reader.Child("model");
  plan.model_name = model.RequireString("name");
  plan.model_config = model.Child("config").json().dump();
  plan.seq_len = model.OptionalInt("seq_len", 0, 0, kMaxSequence);
  plan.params = model.OptionalInt("params", 0, 0);

  const JsonReader cluster = reader.Child("cluster");
  const JsonReader spec = cluster.Child("spec");
  plan.cluster = cluster::ClusterFromJson(spec.json(), spec.path()).value();
  plan.cluster_name = cluster.OptionalString("name", plan.cluster.name);

  plan.training = ReadTraining(reader.Child("training"));
  const auto stages = reader.Array("stages");
  if (stages.empty() || stages.size() > kMaxStages) {
    reader.Fail("stages",
                fmt::format("expected 1 to {} stages, got {}", kMaxStages, stages.size()));
  }
  for (std::size_t i = 0; i < stages.size(); ++i) {
    plan.stages.push_back(ReadStage(stages[i], i == 0, i + 1 == stages.size()));
  }
  if (const auto child = reader.OptionalChild("predicted")) plan.predicted = ReadPrediction(*child);
  plan.closest = ReadAll(reader.OptionalArray("closest"), ReadClosest);
  if (const auto child = reader.OptionalChild("search")) plan.search = ReadSearch(*child);
  if (const auto child = reader.OptionalChild("provenance")) {
    plan.provenance = ReadProvenance(*child);
  }
  return plan;
}

/// Collects the keys of `given` that `known` has not, at the same places.
class UnknownKeys {
 public:
  void Collect(const json& given, const ordered_json& known, const json::json_pointer& path) {
    if (given.is_array() && known.is_array()) {
      for (std::size_t i = 0; i < std::min(given.size(), known.size()); ++i) {
        if (given[i].is_structured()) Collect(given[i], known[i], path / i);
      }
    }
    if (!given.is_object() || !known.is_object()) return;
    for (const auto& [name, value] : given.items()) {
      if (!known.contains(name)) {
        Keep(given, name, value, path);
      } else if (value.is_structured()) {
        Collect(value, known[name], path / name);
      }
    }
  }

  /// Returns the keys kept, sorted by path.
  ordered_json Kept() const { return extra_; }

 private:
  void Keep(const json& object,
            const std::string& name,
            const json& value,
            const json::json_pointer& path) {
    if (extra_.size() >= kMaxUnknownKeys) {
      throw InputError((path / name).to_string(),
                       fmt::format("expected at most {} unknown keys, got more", kMaxUnknownKeys));
    }
    std::string kept = name;
    while (!kept.starts_with("x_") || (kept != name && object.contains(kept))) kept.insert(0, "x_");
    extra_.emplace((path / kept).to_string(), value);
  }

  std::map<std::string, ordered_json> extra_;
};

ordered_json FindUnknown(const json& document, const Plan& plan) {
  ordered_json known = plan::ToJson(plan);
  for (const char* optional : {"predicted", "closest", "search"}) known.emplace(optional, nullptr);
  for (ordered_json& stage : known["stages"]) stage.emplace("predicted", nullptr);
  // What these hold is kept whole, whatever it is.
  known["model"]["config"] = nullptr;
  known["cluster"]["spec"] = nullptr;
  known["provenance"] = nullptr;
  UnknownKeys unknown;
  unknown.Collect(document, known, json::json_pointer());
  return unknown.Kept();
}

}  // namespace

nlohmann::ordered_json ToJson(const Plan& plan) {
  ordered_json out;
  out["palmist_plan"] = kPlanVersion;
  out["model"] = {{"name", plan.model_name},
                  {"config", ordered_json(json::parse(plan.model_config))},
                  {"seq_len", plan.seq_len},
                  {"params", plan.params}};
  out["cluster"] = {{"name", plan.cluster_name}, {"spec", cluster::ToJson(plan.cluster)}};
  const Training& training = plan.training;
  out["training"] = {{"global_batch", training.global_batch},
                     {"micro_batches", training.micro_batches},
                     {"schedule", training.schedule},
                     {"dtype", training.dtype},
                     {"grad_dtype", training.grad_dtype},
                     {"grad_clip", training.grad_clip},
                     {"trainable", training.trainable},
                     {"optimizer",
                      {{"name", training.optimizer.name},
                       {"state_bytes_per_param", training.optimizer.state_bytes_per_param}}}};
  out["stages"] = ToJson(plan.stages);
  if (plan.predicted) out["predicted"] = ToJson(*plan.predicted);
  if (!plan.closest.empty()) out["closest"] = ToJson(plan.closest);
  if (plan.search) out["search"] = ToJson(*plan.search);
  out["provenance"] = ProvenanceToJson(plan.provenance);
  RestoreExtra(plan.extra, out);
  return out;
}

Result<void> SavePlan(const Plan& plan, const std::string& path) {
  return WriteFileAtomic(path, ToJson(plan).dump(2) + "\n");
}

Result<Plan> FromJson(std::string_view text) {
  try {
    PALMIST_ASSIGN_OR_RETURN(const json document, ParseJson(text));
    Plan plan = ReadPlan(document);
    plan.extra = FindUnknown(document, plan);
    auto parsed = model::ParseConfig(plan.model_config, plan.model_name);
    if (!parsed.ok()) return parsed.error().WithFieldPrefix("model.config");
    const model::Graph graph = model::BuildGraph(parsed->spec);
    if (plan.params == 0) plan.params = model::CountParameters(graph);
    PALMIST_RETURN_IF_ERROR(Validate(plan, graph, parsed->spec));
    return plan;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    return error;
  }
}

Result<Plan> LoadPlan(const std::string& path) {
  PALMIST_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return FromJson(text);
}

}  // namespace palmist::plan
