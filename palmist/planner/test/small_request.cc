#include "palmist/planner/test/small_request.h"

#include <fmt/format.h>

#include <algorithm>

#include "palmist/base/rng.h"
#include "palmist/cluster/presets.h"
#include "palmist/model/config.h"
#include "palmist/planner/evaluator.h"

namespace palmist::planner::test {
namespace {

PlanRequest With(model::Model model,
                 const std::string& cluster,
                 std::int64_t seq_len,
                 std::int64_t global_batch) {
  PlanRequest request;
  request.model = std::move(model);
  request.cluster = cluster::PresetCluster(cluster).value();
  request.calibration = cluster::DefaultCalibration(request.cluster);
  request.seq_len = seq_len;
  request.global_batch = global_batch;
  return request;
}

std::string DenseConfig(Rng& rng, std::int64_t layers) {
  return fmt::format(
      R"({{"model_type": "gpt2", "n_layer": {}, "n_embd": {}, "n_head": 8, "n_positions": 4096,
      "vocab_size": {}, "tie_word_embeddings": {}}})",
      layers,
      512 * (1 + rng.Integer(3)),
      5000 + rng.Integer(60'000),
      rng.Integer(2) == 0);
}

/// A dense layer before layers with experts.
std::string MixedConfig(Rng& rng, std::int64_t layers) {
  return fmt::format(
      R"({{"model_type": "deepseek_v2", "num_hidden_layers": {}, "hidden_size": 512,
      "intermediate_size": {}, "num_attention_heads": 8, "num_key_value_heads": 8,
      "kv_lora_rank": 64, "q_lora_rank": null, "qk_rope_head_dim": 16, "qk_nope_head_dim": 32,
      "v_head_dim": 32, "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2,
      "moe_intermediate_size": 256, "first_k_dense_replace": 1, "moe_layer_freq": 1,
      "vocab_size": {}, "max_position_embeddings": 4096}})",
      layers,
      512 * (1 + rng.Integer(4)),
      5000 + rng.Integer(60'000));
}

}  // namespace

PlanRequest RequestFor(const std::string& model,
                       const std::string& cluster,
                       std::int64_t seq_len,
                       std::int64_t global_batch) {
  return With(model::LoadModel(model).value(), cluster, seq_len, global_batch);
}

PlanRequest SmallRequest(std::uint64_t seed) {
  Rng rng(seed);
  const std::int64_t layers = 2 + rng.Integer(4);
  const std::string config =
      rng.Integer(3) == 0 ? MixedConfig(rng, layers) : DenseConfig(rng, layers);
  constexpr const char* kClusters[] = {
      "l4-1x2", "l4-1x4", "l4-2x2", "l4-1x3", "a100-sxm4-80gb-2x4", "l4-1x6"};
  PlanRequest request = With(model::ParseConfig(config, "small").value(),
                             kClusters[rng.Integer(6)],
                             256 << rng.Integer(3),
                             2 * (1 + rng.Integer(4)));
  // Few variants and few stages of ZeRO: all plans of a request are priced one by one.
  request.ops = rng.Integer(2) == 0 ? "fused" : "lean";
  if (rng.Integer(2) == 0) request.fixed.zero = 0;
  if (rng.Integer(3) == 0) request.fixed.schedule = "gpipe";
  request.gap = 0;
  // Between the least that some plan needs and what the best plan would like to have.
  const model::Graph graph = model::BuildGraph(request.model.spec);
  const std::vector<Candidate> candidates = EnumerateCandidates(request, graph);
  const Evaluator evaluator(request, graph, candidates);
  double least = 0, wanted = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    least = std::min(least, evaluator.LeastExcess(static_cast<int>(i)));
  }
  least += request.cluster.DeviceAt(0).usable_bytes();
  const PlanResult result = FindPlan(request);
  for (const plan::Stage& stage : result.plans.front().stages) {
    wanted = std::max(wanted, stage.predicted->memory.needed());
  }
  request.memory_limit = least + (wanted - least) * (1.2 * rng.Uniform() - 0.1);
  return request;
}

}  // namespace palmist::planner::test
