#include "palmist/plan/test/example_plans.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>
#include <vector>

#include "palmist/base/rng.h"
#include "palmist/model/config.h"
#include "palmist/model/zoo.h"

namespace palmist::plan::test {
namespace {

/// Draws from one seed.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : rng_(seed) {}
  int Int(int low, int high) { return low + static_cast<int>(rng_.Integer(high - low + 1)); }
  bool Chance(double p) { return rng_.Uniform() < p; }
  double Uniform() { return rng_.Uniform(); }
  template <typename T>
  const T& Pick(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(rng_.Integer(static_cast<std::int64_t>(values.size())))];
  }
  int Divisor(int n) {
    std::vector<int> divisors;
    for (int i = 1; i <= n; ++i) {
      if (n % i == 0) divisors.push_back(i);
    }
    return Pick(divisors);
  }

 private:
  Rng rng_;
};

std::vector<int> TakeDevices(int count, int& next) {
  std::vector<int> devices(static_cast<std::size_t>(count));
  std::iota(devices.begin(), devices.end(), next);
  next += count;
  return devices;
}

void DrawDegrees(Draw& draw, int samples, bool has_experts, int& next_device, Stage& stage) {
  const std::vector<int> tp_degrees = {1, 2, 4};
  stage.tp = draw.Pick(tp_degrees);
  stage.cp = draw.Chance(0.3) ? 2 : 1;
  stage.sp = draw.Chance(0.5);
  stage.dp = draw.Divisor(samples);
  stage.micro_batch = samples / stage.dp;
  if (stage.dp > 1 && draw.Chance(0.3)) {
    int left = samples;
    for (int i = 0; i < stage.dp; ++i) {
      const int after = stage.dp - 1 - i;
      Replica replica;
      replica.tp = draw.Pick(tp_degrees);
      replica.micro_batch = after == 0 ? left : draw.Int(1, left - after);
      replica.devices = TakeDevices(replica.tp * stage.cp, next_device);
      left -= replica.micro_batch;
      stage.devices.insert(stage.devices.end(), replica.devices.begin(), replica.devices.end());
      stage.replicas.push_back(std::move(replica));
    }
  } else {
    stage.devices = TakeDevices(stage.dp * stage.tp * stage.cp, next_device);
  }
  const bool heads_divide = stage.cp == 1 || (stage.replicas.empty() && stage.tp < 4);
  if (heads_divide && draw.Chance(0.5)) stage.cp_kind = "all_to_all";
  if (has_experts) stage.ep = std::gcd(draw.Divisor(stage.dp * stage.cp), 8);
  stage.zero = draw.Int(0, 3);
  if (stage.zero > 0) stage.zero_shard = draw.Divisor(stage.dp * stage.cp);
}

void DrawRecompute(Draw& draw, const LayerRange& range, Stage& stage) {
  int next = range.first_layer;
  while (next <= range.last_layer && draw.Chance(0.5)) {
    RecomputeRange recompute;
    recompute.first_layer = draw.Int(next, range.last_layer);
    recompute.last_layer = draw.Int(recompute.first_layer, range.last_layer);
    if (draw.Chance(0.5)) {
      recompute.mode = RecomputeMode::kSelective;
      recompute.modules = {"attention", "norm"};
    }
    next = recompute.last_layer + 1;
    stage.recompute.push_back(std::move(recompute));
  }
}

void DrawRest(Draw& draw, Stage& stage) {
  using model::Variant;
  const std::vector<Variant> variants = {
      Variant::kEager, Variant::kSdpa, Variant::kFused, Variant::kTempo, Variant::kLean};
  stage.ops = {.attention = draw.Pick(variants),
               .norm = draw.Pick(variants),
               .activation = draw.Pick(variants),
               .dropout = draw.Pick(variants),
               .loss = draw.Pick(variants)};
  const std::vector<double> ratios = {0, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1};
  stage.offload = {draw.Pick(ratios), draw.Pick(ratios), draw.Uniform(), draw.Pick(ratios)};
  if (draw.Chance(0.3)) return;
  StagePrediction prediction;
  prediction.forward_s = draw.Uniform();
  prediction.backward_s = draw.Uniform() * 1e-3;
  prediction.first_extra_s = draw.Uniform();
  prediction.last_extra_s = draw.Uniform();
  for (const auto& category : kMemoryCategories) {
    prediction.memory.*category.bytes = static_cast<double>(draw.Int(0, 1 << 30));
  }
  prediction.memory.allocated_peak = draw.Uniform() * 1e11;
  prediction.memory.reserved_peak = draw.Uniform() * 1e11;
  prediction.memory.limit = 80e9;
  stage.predicted = prediction;
}

void DrawSummaries(Draw& draw, Plan& plan) {
  if (draw.Chance(0.7)) {
    Prediction prediction;
    prediction.fits = draw.Chance(0.5);
    prediction.iteration_time_s = draw.Uniform();
    prediction.tokens_per_s = draw.Uniform() * 1e6;
    if (draw.Chance(0.5)) prediction.cost_usd_per_1e9_tokens = draw.Uniform();
    prediction.model_flops_utilization = draw.Uniform();
    prediction.bubble_fraction = draw.Uniform();
    prediction.compute_s = draw.Uniform();
    for (const auto& cause : kExposedCauses) prediction.exposed_s.*cause.seconds = draw.Uniform();
    plan.predicted = prediction;
  }
  if (draw.Chance(0.3))
    plan.closest.push_back({0, draw.Uniform() * 1e9, "offload \"half\" → host"});
  if (draw.Chance(0.6)) {
    plan.search = SearchSummary{"time_limit",
                                draw.Uniform(),
                                draw.Uniform(),
                                "mist",
                                123456789012,
                                12345,
                                123,
                                draw.Uniform()};
  }
  if (draw.Chance(0.7)) plan.provenance = {{"palmist", "0.1.0"}, {"host", "<b>x</b>"}};
  if (draw.Chance(0.4)) {
    plan.extra["/stages/0/x_a~1b"] = {{"deep", {1, 2, 3}}};
    plan.extra["/x_note"] = "kept";
  }
}

}  // namespace

std::string Gpt2Config() {
  return R"({"model_type":"gpt2","n_embd":768,"n_head":12,"n_layer":12,"n_positions":1024,)"
         R"("vocab_size":50257})";
}

std::string LlamaConfig(std::int64_t heads, std::int64_t kv_heads, std::int64_t vocab) {
  return fmt::format(R"({{"head_dim":64,"hidden_size":{},"intermediate_size":5376,)"
                     R"("model_type":"llama","num_attention_heads":{},"num_hidden_layers":8,)"
                     R"("num_key_value_heads":{},"vocab_size":{}}})",
                     64 * heads,
                     heads,
                     kv_heads,
                     vocab);
}

std::string MixtralConfig() {
  return R"({"hidden_size":1024,"intermediate_size":3584,"model_type":"mixtral",)"
         R"("num_attention_heads":32,"num_experts_per_tok":2,"num_hidden_layers":8,)"
         R"("num_key_value_heads":8,"num_local_experts":8,"vocab_size":32000})";
}

std::string ConvConfig() {
  return nlohmann::json::parse(model::ZooConfig("resnet-18").value()).dump();
}

ModelParts Parts(const std::string& config) {
  model::ModelSpec spec = model::ParseConfig(config, "example").value().spec;
  model::Graph graph = model::BuildGraph(spec);
  return {config, std::move(spec), std::move(graph)};
}

cluster::Cluster ClusterOf(int devices) {
  cluster::NodeGroup group;
  group.nodes = (devices + 7) / 8;
  group.devices_per_node = 8;
  group.device.name = "gpu";
  group.device.memory_bytes = 80.0 * (1 << 30);
  group.device.memory_bytes_per_s = 2e12;
  group.device.flops_per_s = {{"fp32", 20e12}, {"bf16", 300e12}};
  group.intra_node = {"nvlink", 300e9, 5 * 1e-6};
  group.inter_node = {"infiniband", 25e9, 8 * 1e-6};
  group.node_bytes_per_s = 200e9;
  group.host_to_device = group.device_to_host = {"pcie4", 25e9, 10 * 1e-6};
  group.host_memory_bytes = 1024.0 * (1 << 30);
  cluster::Cluster cluster;
  cluster.name = "example";
  cluster.groups = {group};
  return cluster;
}

Plan EvenPlan(const ModelParts& model, int stages, int dp, int tp) {
  Plan plan;
  plan.model_name = "example";
  plan.model_config = model.config;
  plan.seq_len = model.graph.has_sequence ? 1024 : 0;
  plan.params = model::CountParameters(model.graph);
  plan.cluster = ClusterOf(stages * dp * tp);
  plan.cluster_name = plan.cluster.name;
  plan.training.micro_batches = 4;
  plan.training.global_batch = 4 * dp;
  int next_device = 0;
  for (int i = 0; i < stages; ++i) {
    Stage stage;
    stage.devices = TakeDevices(dp * tp, next_device);
    stage.first_layer = model.num_layers() * i / stages;
    stage.last_layer = model.num_layers() * (i + 1) / stages - 1;
    stage.embedding = i == 0;
    stage.head = i + 1 == stages;
    stage.dp = dp;
    stage.tp = tp;
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

Plan RandomPlan(std::uint64_t seed) {
  Draw draw(seed);
  const bool has_experts = draw.Chance(0.3);
  const ModelParts model = Parts(has_experts        ? MixtralConfig()
                                 : draw.Chance(0.5) ? Gpt2Config()
                                                    : LlamaConfig(16, 2));
  const bool interleaved = draw.Chance(0.3);
  const int stages = draw.Int(1, interleaved ? 4 : 8);
  Plan plan = EvenPlan(model, stages, 1, 1);
  const std::vector<std::string> schedules = {"gpipe", "1f1b", "zb-h1"};
  plan.training.schedule = interleaved ? "interleaved" : draw.Pick(schedules);
  plan.training.grad_dtype = draw.Chance(0.5) ? "fp32" : "bf16";
  plan.training.grad_clip = draw.Chance(0.5) ? 0.0 : 1.0;
  const int samples = draw.Int(1, 12);
  plan.training.micro_batches = draw.Int(1, 32);
  plan.training.global_batch = std::int64_t{samples} * plan.training.micro_batches;
  int next_device = 0;
  for (int i = 0; i < stages; ++i) {
    Stage& stage = plan.stages[static_cast<std::size_t>(i)];
    stage.devices.clear();
    DrawDegrees(draw, samples, has_experts, next_device, stage);
    if (interleaved) {
      const int half = model.num_layers() / 2;
      for (const int offset : {0, half}) {
        stage.chunks.push_back({offset + half * i / stages, offset + half * (i + 1) / stages - 1});
      }
      stage.first_layer = stage.chunks.front().first_layer;
      stage.last_layer = stage.chunks.back().last_layer;
      for (const LayerRange& chunk : stage.chunks) DrawRecompute(draw, chunk, stage);
    } else {
      DrawRecompute(draw, {stage.first_layer, stage.last_layer}, stage);
    }
    DrawRest(draw, stage);
  }
  plan.cluster = ClusterOf(next_device);
  DrawSummaries(draw, plan);
  return plan;
}

}  // namespace palmist::plan::test
