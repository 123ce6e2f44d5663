#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "palmist/plan/plan.h"

namespace palmist::plan {
namespace {

/// Returns the tensor-parallel degrees of a stage's replicas.
std::set<int> TensorDegrees(const Stage& stage) {
  if (stage.replicas.empty()) return {stage.tp};
  std::set<int> degrees;
  for (const Replica& replica : stage.replicas) degrees.insert(replica.tp);
  return degrees;
}

/// Returns the smallest number of KV heads of any layer; 0 without attention.
std::int64_t FewestKvHeads(const model::ModelSpec& spec) {
  if (!spec.is_transformer()) return 0;
  std::int64_t fewest = 0;
  for (const auto* layers : {&spec.transformer().encoder, &spec.transformer().layers}) {
    for (const auto& layer : *layers) {
      const std::int64_t kv_heads = layer.attention.kv_heads;
      if (kv_heads > 0) fewest = fewest == 0 ? kv_heads : std::min(fewest, kv_heads);
    }
  }
  return fewest;
}

}  // namespace

std::int64_t PaddedVocabulary(std::int64_t vocab, int tp) {
  PALMIST_ASSERT(vocab >= 0 && tp >= 1);
  return vocab + (tp - vocab % tp) % tp;
}

std::int64_t KvReplication(std::int64_t kv_heads, int tp) {
  PALMIST_ASSERT(kv_heads >= 1 && tp >= 1);
  return std::max<std::int64_t>(1, tp / kv_heads);
}

std::vector<std::string> Notes(const Plan& plan,
                               const model::Graph& graph,
                               const model::ModelSpec& spec) {
  std::vector<std::string> notes;
  std::set<int> vocabulary_degrees, all_degrees;
  for (const Stage& stage : plan.stages) {
    const std::set<int> degrees = TensorDegrees(stage);
    all_degrees.insert(degrees.begin(), degrees.end());
    if (stage.embedding || stage.head) vocabulary_degrees.insert(degrees.begin(), degrees.end());
  }
  for (const int tp : vocabulary_degrees) {
    const std::int64_t padded = PaddedVocabulary(graph.vocab, tp);
    if (padded == graph.vocab) continue;
    notes.push_back(fmt::format(
        "The vocabulary of {} is padded to {} rows, so that {} tensor-parallel ranks hold {} each.",
        graph.vocab,
        padded,
        tp,
        padded / tp));
  }
  const std::int64_t kv_heads = FewestKvHeads(spec);
  for (const int tp : all_degrees) {
    if (kv_heads == 0 || KvReplication(kv_heads, tp) == 1) continue;
    notes.push_back(
        fmt::format("Each of the {} key/value heads is held by {} of {} tensor-parallel ranks.",
                    kv_heads,
                    KvReplication(kv_heads, tp),
                    tp));
  }
  if (graph.tied_head && plan.stages.size() > 1) {
    notes.push_back(
        "The head's matrix is the embedding's: the first and the last stage both hold it and add "
        "up its gradient; the number of parameters counts it once.");
  }
  return notes;
}

}  // namespace palmist::plan
