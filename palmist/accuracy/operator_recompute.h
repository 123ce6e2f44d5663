/// Recompute by operators, as Aceso plans it, in whole layers and attention variants.
#pragma once

#include <cstdint>
#include <vector>

#include "palmist/model/lower.h"

namespace palmist::accuracy {

/// A stage cut and recomputed by operators: `recomputed[i]` is operator first + i of the list
/// embedding, 13 a layer (norm, qkv, score, softmax, dropout, context, dense, dropout, norm, GEMM
/// 1, gelu, GEMM 2, dropout), final norm, head.
struct OperatorStage {
  std::int64_t first = 0;
  std::vector<bool> recomputed;
  double scores_per_hidden = 0;  ///< heads * sequence / hidden
  double ffn_per_hidden = 0;
  double tp = 1;
};

/// What a plan of whole layers says instead.
struct LayerRecompute {
  std::int64_t layers = 0;  ///< recomputed wholly
  model::Variant attention = model::Variant::kFusedSoftmax;
};

/// Returns the mean bytes that a layer of the stage keeps for backward, over micro-batch * sequence
/// * hidden. A run of recomputed operators keeps its input only. Without any it is
/// 10 + 24 / tp + 5 as / (h tp) for ffn = 4 h: arXiv:2205.05198, equation 2.
double KeptPerLayer(const OperatorStage& stage);

/// Returns the recompute of `layers` whole layers that keeps most nearly as much as the stage does.
LayerRecompute NearestRecompute(const OperatorStage& stage, std::int64_t layers);

}  // namespace palmist::accuracy
