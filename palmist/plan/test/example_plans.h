/// Valid plans to start from in tests.
#pragma once

#include <cstdint>
#include <string>

#include "palmist/model/graph.h"
#include "palmist/model/spec.h"
#include "palmist/plan/plan.h"

namespace palmist::plan::test {

/// Configurations of small models, as compact JSON with sorted keys.
std::string Gpt2Config();  ///< 12 layers, 12 heads, vocabulary 50257, 1024 positions, tied
std::string LlamaConfig(std::int64_t heads, std::int64_t kv_heads, std::int64_t vocab = 32000);
std::string MixtralConfig();  ///< 8 layers, 8 experts, 32 heads, 8 KV heads
std::string ConvConfig();     ///< the zoo's resnet-18

/// A model as Validate wants it.
struct ModelParts {
  std::string config;
  model::ModelSpec spec;
  model::Graph graph;
  int num_layers() const { return static_cast<int>(graph.layers.size()); }
};
ModelParts Parts(const std::string& config);

/// Returns nodes of 8 devices each, at least `devices` in all.
cluster::Cluster ClusterOf(int devices);

/// Returns a valid plan: `stages` stages of `dp * tp` devices each with as many layers, four
/// micro-batches of one sequence a rank, and all else as it is by default.
Plan EvenPlan(const ModelParts& model, int stages, int dp, int tp);

/// Returns a valid plan that depends on `seed` alone and uses every feature for some seeds.
Plan RandomPlan(std::uint64_t seed);

}  // namespace palmist::plan::test
