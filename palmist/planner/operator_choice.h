/// Chooses how each layer of a model runs on one device: operator variants and recomputation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "palmist/cluster/calibration.h"
#include "palmist/cluster/cluster.h"
#include "palmist/cost/stage.h"
#include "palmist/model/lower.h"
#include "palmist/model/spec.h"

namespace palmist::planner {

/// What a choice may change; what is false stays as in the baseline.
struct Techniques {
  bool attention = true, norm = true, activation = true, dropout = true;
  bool loss = true;       ///< the head's product and the cross-entropy as one operator
  bool recompute = true;  ///< whole layers
};

/// A model, the device that trains it, and what its memory may take.
struct OperatorRequest {
  model::ModelSpec model;
  cluster::Cluster cluster;  ///< its first device runs the model
  cluster::Calibration calibration;
  std::int64_t seq_len = 0;
  std::int64_t batch = 1;      ///< sequences that run forward and backward at once
  std::string dtype = "fp32";  ///< of weights and activations: fp32, bf16, fp16
  double budget_bytes = 0;
  double optimizer_bytes_per_param = 8;        ///< AdamW's two moments in fp32
  std::optional<double> grad_bytes_per_param;  ///< the dtype's size where left out
  /// What attention is without a choice: kEager or kSdpa. All else is kEager.
  model::Variant baseline_attention = model::Variant::kSdpa;
  Techniques techniques;
  bool allow_tempo = false;  ///< output-only operators, whose gradients are approximate
};

/// How one layer runs. `ops.loss` has no meaning here.
struct LayerChoice {
  model::OpVariants ops;
  bool recompute = false;  ///< made again in backward, wholly: only its input is kept
  bool operator==(const LayerChoice&) const = default;
};

/// How the whole model runs, and what one training step costs.
struct OperatorChoice {
  std::vector<LayerChoice> layers;  ///< encoder first
  model::Variant loss = model::Variant::kEager;
  cost::StageMemory<double> memory;  ///< allocated bytes by category
  double step_time_s = 0;            ///< forward, backward and the optimizer's step

  double peak_bytes() const { return memory.Sum(); }
};

/// The largest model that `ChooseOperators` takes, in layers.
inline constexpr int kMaxChosenLayers = 1024;
/// The largest batch it takes, and looks for.
inline constexpr std::int64_t kMaxChosenBatch = std::int64_t{1} << 30;

struct OperatorAnswer {
  bool fits = false;
  OperatorChoice best;                      ///< the fastest that fits; `leanest` where none does
  OperatorChoice baseline;                  ///< the model as it is
  OperatorChoice leanest;                   ///< the smallest peak, the fastest of those
  double missing_bytes = 0;                 ///< of `leanest`, where nothing fits
  std::int64_t largest_batch = 0;           ///< for which some choice fits; 0 where none does
  std::int64_t baseline_largest_batch = 0;  ///< the same for the baseline
};

/// Returns the fastest choice whose predicted peak is within the budget.
///
/// The optimum of the model, not a heuristic: layers of a kind are interchangeable, so a choice is
/// a number of layers for each kind and option, found by an exact search. Of equally fast choices
/// the one with the least peak counts, so a smaller budget never gives a larger peak. Of the layers
/// of a kind those with eager norms come first, then those with lean ones, and recomputed ones
/// last.
///
/// The peak is that of a step with gradients of all parameters in memory, as it is from the second
/// micro-batch of an accumulated step on. Embedding and head run as in the baseline, but for the
/// loss.
/// @throws Error(kInput, kUsage) for values out of range, convolutional models and models of more
/// than kMaxChosenLayers layers.
OperatorAnswer ChooseOperators(const OperatorRequest& request);

}  // namespace palmist::planner
