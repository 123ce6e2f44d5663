/// The formulas behind a stage's prediction, with their numbers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "palmist/cluster/calibration.h"
#include "palmist/model/graph.h"
#include "palmist/plan/plan.h"

namespace palmist::cost {

enum class FormulaUnit { kBytes, kParameters, kSeconds };

struct Formula {
  std::string name;  ///< such as "kept" or "forward"; see LayerCost
  std::string text;  ///< over the symbols of `StageFormulas`; degrees are numbers already
  FormulaUnit unit = FormulaUnit::kBytes;
  double value = 0;
};

/// The formulas of layers that are alike, of one rank and one micro-batch.
struct LayerFormulas {
  std::string title;  ///< such as "32 layers, 4 of them recomputed" or "head"
  std::vector<Formula> formulas;
};

struct StageFormulas {
  /// Symbols that occur, and their values: the batch b, the sequence length s, and rates in seconds
  /// a FLOP, a byte or a launch.
  std::vector<std::pair<std::string, double>> symbols;
  std::vector<LayerFormulas> layers;  ///< those that the stage holds
};

/// Returns the formulas of stage `stage`, without those that are 0.
/// @pre 0 <= stage < plan.stages.size(), and the plan is valid
StageFormulas FormulasOf(const plan::Plan& plan,
                         const model::Graph& graph,
                         const cluster::Calibration& calibration,
                         int stage);

}  // namespace palmist::cost
