/// A model's layer costs under one choice of operator variants, compiled for batches of layouts.
#pragma once

#include <span>
#include <vector>

#include "palmist/cost/stage.h"
#include "palmist/model/graph.h"
#include "palmist/model/lower.h"
#include "palmist/symbolic/program.h"

namespace palmist::cost {

/// Derives a model's layer costs once and evaluates them for many layouts.
class CostModel {
 public:
  CostModel(const model::Graph& graph, const model::LoweringOptions& options);

  /// Returns the derived expressions, over `LayoutInputs::Names()`.
  const ModelCost<Expr>& formulas() const { return formulas_; }

  /// Evaluates all layers for each layout.
  std::vector<ModelCost<double>> Evaluate(std::span<const LayoutInputs> layouts,
                                          int threads = 1) const;

 private:
  static ModelCost<Expr> Derive(const model::Graph& graph, const model::LoweringOptions& options);
  static symbolic::Program Compile(const ModelCost<Expr>& formulas);

  ModelCost<Expr> formulas_;
  symbolic::Program program_;
};

/// Counts a stage's layers by kind. `recomputed[i]` says whether layer first + i is made again.
/// @pre 0 <= first <= last < graph.layers.size()
StageContent<double> CountLayers(const model::Graph& graph,
                                 int first,
                                 int last,
                                 const std::vector<bool>& recomputed);

}  // namespace palmist::cost
