#include "palmist/accuracy/run_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "palmist/base/text.h"
#include "palmist/base/units.h"
#include "palmist/cluster/presets.h"
#include "palmist/model/config.h"

namespace palmist::accuracy {
namespace {

nlohmann::ordered_json GptConfig(const ModelShape& shape) {
  return {{"model_type", "gpt2"},
          {"vocab_size", shape.vocab},
          {"n_positions", shape.seq},
          {"n_embd", shape.hidden},
          {"n_layer", shape.layers},
          {"n_head", shape.heads},
          {"n_inner", shape.ffn},
          {"resid_pdrop", shape.dropout},
          {"embd_pdrop", shape.dropout},
          {"attn_pdrop", shape.dropout},
          {"tie_word_embeddings", shape.tied},
          {"palmist_linear_bias", shape.bias}};
}

nlohmann::ordered_json BertConfig(const ModelShape& shape) {
  return {{"model_type", "bert"},
          {"architectures", {"BertForMaskedLM"}},
          {"vocab_size", shape.vocab},
          {"max_position_embeddings", shape.seq},
          {"hidden_size", shape.hidden},
          {"num_hidden_layers", shape.layers},
          {"num_attention_heads", shape.heads},
          {"intermediate_size", shape.ffn},
          {"hidden_dropout_prob", shape.dropout},
          {"attention_probs_dropout_prob", shape.dropout}};
}

nlohmann::ordered_json LlamaConfig(const ModelShape& shape) {
  nlohmann::ordered_json config = {{"model_type", "llama"},
                                   {"vocab_size", shape.vocab},
                                   {"max_position_embeddings", shape.seq},
                                   {"hidden_size", shape.hidden},
                                   {"num_hidden_layers", shape.layers},
                                   {"num_attention_heads", shape.heads},
                                   {"num_key_value_heads", shape.kv_heads},
                                   {"intermediate_size", shape.ffn},
                                   {"attention_dropout", shape.dropout},
                                   {"tie_word_embeddings", shape.tied}};
  if (shape.family == ModelFamily::kMixtral) {
    config["model_type"] = "mixtral";
    config["num_local_experts"] = shape.experts;
    config["num_experts_per_tok"] = shape.top_k;
  }
  return config;
}

/// Returns the number that ends where `text` holds `unit`, such as 800 for "800 Gbps/node".
std::optional<double> NumberBefore(std::string_view text, std::string_view unit) {
  const std::size_t end = text.find(unit);
  if (end == std::string_view::npos) return std::nullopt;
  std::string_view head = text.substr(0, end);
  while (head.ends_with(' ')) head.remove_suffix(1);
  const std::size_t begin = head.find_last_not_of("0123456789.") + 1;
  const Result<double> number = ParseNumber(head.substr(begin));
  if (!number.ok() || *number <= 0) return std::nullopt;
  return *number;
}

}  // namespace

std::string_view ToString(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kAllocated:
      return "allocated";
    case MemoryKind::kReserved:
      return "reserved";
    case MemoryKind::kNvidiaSmi:
      return "nvidia_smi";
  }
  PALMIST_ASSERT(false);
  return {};
}

bool Measurement::empty() const {
  const auto none = [](const MeasuredMemory& memory) { return memory.empty(); };
  return !iteration_s && !out_of_memory && fullest_stage.empty() &&
         std::all_of(stages.begin(), stages.end(), none);
}

std::string ConfigJson(const ModelShape& shape) {
  switch (shape.family) {
    case ModelFamily::kGpt:
      return GptConfig(shape).dump();
    case ModelFamily::kBert:
      return BertConfig(shape).dump();
    case ModelFamily::kLlama:
    case ModelFamily::kMixtral:
      return LlamaConfig(shape).dump();
  }
  PALMIST_ASSERT(false);
  return {};
}

std::shared_ptr<const RunModel> RunBuilder::ModelOf(const std::string& name,
                                                    const std::string& config_json) {
  const auto found = models_.find(config_json);
  if (found != models_.end()) return found->second;
  std::shared_ptr<const RunModel> made;
  if (Result<model::Model> model = model::ParseConfig(config_json, name); model.ok()) {
    model::Graph graph = model::BuildGraph(model->spec);
    made = std::make_shared<const RunModel>(
        RunModel{name, config_json, std::move(model->spec), std::move(graph)});
  }
  models_.emplace(config_json, made);
  return made;
}

void RunBuilder::Charge(std::int64_t gpus, std::int64_t stages, std::int64_t layers) {
  // Some 500 bytes a unit of stages and layers, and time to price them.
  constexpr std::int64_t kLimit = 30'000'000;
  charged_ += gpus + 100 * (stages + layers);
  if (charged_ > kLimit) {
    throw InputError({},
                     "expected runs that together have at most some 300 000 stages and layers, got "
                     "more",
                     "split the file");
  }
}

std::int64_t GpusPerNode(std::string_view gpu) {
  // GB200 and GB300 have 72 in one NVLink domain, hosts of GH200 four.
  if (gpu.starts_with("GB200") || gpu.starts_with("GB300")) return 72;
  return gpu.starts_with("GH200") ? 4 : 8;
}

std::optional<cluster::Cluster> ClusterOf(std::string_view gpu,
                                          std::int64_t count,
                                          std::int64_t per_node) {
  gpu = gpu.substr(0, gpu.find('('));
  while (gpu.ends_with(' ')) gpu.remove_suffix(1);
  std::int64_t devices = std::min(count, per_node);
  while (count % devices != 0) --devices;
  Result<cluster::Cluster> cluster =
      cluster::PresetCluster(fmt::format("{}-{}x{}", gpu, count / devices, devices));
  if (!cluster.ok() || cluster->groups.front().device.is_cpu) return std::nullopt;
  return std::move(cluster).value();
}

void SetNetwork(std::string_view text, cluster::Cluster& cluster) {
  constexpr double kGigabit = 1e9 / 8;
  constexpr double kOmniPathGbitPerS = 100;  // a link of the 100 series
  cluster::NodeGroup& group = cluster.groups.front();
  std::optional<double> gbit_per_s = NumberBefore(text, "Gb/s");
  if (!gbit_per_s) gbit_per_s = NumberBefore(text, "Gbps");
  if (gbit_per_s) {
    const bool per_gpu = text.find("per GPU") != std::string_view::npos;
    const double rate = *gbit_per_s * kGigabit;
    group.node_bytes_per_s = per_gpu ? rate * group.devices_per_node : rate;
    group.inter_node.bytes_per_s = per_gpu ? rate : std::min(rate, group.inter_node.bytes_per_s);
  } else if (const auto links = NumberBefore(text, "x Omni-Path")) {
    group.inter_node.bytes_per_s = kOmniPathGbitPerS * kGigabit;
    group.node_bytes_per_s = *links * group.inter_node.bytes_per_s;
  }
}

void AddStages(const std::vector<StageShape>& stages, plan::Plan& plan) {
  int device = 0, layer = 0;
  for (const StageShape& shape : stages) {
    plan::Stage stage;
    stage.devices.resize(static_cast<std::size_t>(shape.dp * shape.tp * shape.cp));
    std::iota(stage.devices.begin(), stage.devices.end(), device);
    device += static_cast<int>(stage.devices.size());
    stage.first_layer = layer;
    layer += static_cast<int>(shape.layers);
    stage.last_layer = layer - 1;
    stage.embedding = plan.stages.empty();
    stage.head = plan.stages.size() + 1 == stages.size();
    stage.micro_batch = static_cast<int>(shape.micro_batch);
    stage.dp = static_cast<int>(shape.dp);
    stage.tp = static_cast<int>(shape.tp);
    stage.sp = shape.sp && shape.tp > 1;
    stage.cp = static_cast<int>(shape.cp);
    stage.ep = static_cast<int>(shape.ep);
    const int replicas = stage.dp * stage.cp;
    stage.zero = replicas > 1 ? shape.zero : 0;
    stage.zero_shard = stage.zero > 0 ? replicas : 1;
    if (shape.recomputed > 0) {
      plan::RecomputeRange range;
      range.first_layer = layer - static_cast<int>(shape.recomputed);
      range.last_layer = layer - 1;
      stage.recompute.push_back(std::move(range));
    }
    stage.ops = shape.ops;
    stage.offload = shape.offload;
    plan.stages.push_back(std::move(stage));
  }
}

std::vector<std::int64_t> SplitEvenly(std::int64_t layers, std::int64_t stages) {
  std::vector<std::int64_t> split;
  for (std::int64_t i = 0; i < stages; ++i) {
    split.push_back((i + 1) * layers / stages - i * layers / stages);
  }
  return split;
}

std::vector<std::int64_t> SplitAtOperators(const std::vector<std::int64_t>& ops,
                                           std::int64_t layers) {
  std::vector<std::int64_t> split;
  const auto stages = static_cast<std::int64_t>(ops.size());
  std::int64_t operators = 0, begin = 0;
  for (std::int64_t i = 0; i < stages; ++i) {
    operators += ops[static_cast<std::size_t>(i)];
    const double cut = static_cast<double>(operators - 1) / kOperatorsPerLayer;
    std::int64_t end = i + 1 == stages ? layers : std::llround(cut);
    end = std::clamp(end, begin + 1, layers - (stages - 1 - i));
    split.push_back(end - begin);
    begin = end;
  }
  return split;
}

void SetModel(std::shared_ptr<const RunModel> model, std::int64_t seq, MeasuredRun& run) {
  plan::Plan& plan = run.plan;
  plan.model_name = model->name;
  plan.model_config = model->config_json;
  plan.seq_len = model->graph.has_sequence ? seq : 0;
  plan.params = model::CountParameters(model->graph);
  plan.cluster_name = plan.cluster.name;
  run.model = std::move(model);
}

}  // namespace palmist::accuracy
