#include "palmist/accuracy/operator_recompute.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "palmist/accuracy/run_plan.h"
#include "palmist/base/error.h"

namespace palmist::accuracy {
namespace {

constexpr double kElement = 2;  // bytes of an fp16 activation
constexpr double kMask = 1;     // bytes of an element of a dropout mask

/// A tensor kept for backward unless `maker` and `reader`, the places of two operators in a layer,
/// are both recomputed. -1 is the last operator of the layer before.
struct Kept {
  int maker;
  int reader;
  double bytes;  ///< over micro-batch * sequence * hidden
};

std::array<Kept, 13> KeptTensors(const OperatorStage& stage) {
  const double split = kElement / stage.tp;
  const double scores = stage.scores_per_hidden / stage.tp;
  const double ffn = stage.ffn_per_hidden;
  return {{{-1, 0, kElement},
           {0, 1, kElement},
           {1, 2, 3 * split},
           {3, 3, kElement * scores},
           {4, 4, kMask * scores},
           {4, 5, kElement * scores},
           {5, 6, split},
           {7, 7, kMask},
           {7, 8, kElement},
           {8, 9, kElement},
           {9, 10, ffn * split},
           {10, 11, ffn * split},
           {12, 12, kMask}}};
}

}  // namespace

double KeptPerLayer(const OperatorStage& stage) {
  const std::array<Kept, 13> tensors = KeptTensors(stage);
  const auto size = static_cast<std::int64_t>(stage.recomputed.size());
  const auto recomputed = [&](std::int64_t op) {
    const std::int64_t i = op - stage.first;
    return i >= 0 && i < size && stage.recomputed[static_cast<std::size_t>(i)];
  };
  double bytes = 0, readers = 0;
  for (std::int64_t op = std::max<std::int64_t>(stage.first, 1); op < stage.first + size; ++op) {
    const std::int64_t begin = (op - 1) / kOperatorsPerLayer * kOperatorsPerLayer + 1;
    ++readers;
    for (const Kept& tensor : tensors) {
      if (begin + tensor.reader != op) continue;
      if (!recomputed(begin + tensor.maker) || !recomputed(op)) bytes += tensor.bytes;
    }
  }
  return readers > 0 ? bytes / readers * kOperatorsPerLayer : 0;
}

LayerRecompute NearestRecompute(const OperatorStage& stage, std::int64_t layers) {
  OperatorStage plain = stage;
  plain.first = 1;
  plain.recomputed.assign(kOperatorsPerLayer, false);
  const double wanted = KeptPerLayer(stage) * static_cast<double>(layers);
  LayerRecompute best;
  double best_difference = INFINITY;
  for (const model::Variant attention : {model::Variant::kFusedSoftmax, model::Variant::kFused}) {
    if (attention == model::Variant::kFused) plain.scores_per_hidden = 0;
    const double kept = KeptPerLayer(plain);
    for (std::int64_t recomputed = 0; recomputed <= layers; ++recomputed) {
      const double total = static_cast<double>(layers - recomputed) * kept +
                           static_cast<double>(recomputed) * kElement;
      const double difference = std::abs(total - wanted);
      if (difference >= best_difference) continue;
      best_difference = difference;
      best = {recomputed, attention};
    }
  }
  return best;
}

}  // namespace palmist::accuracy
