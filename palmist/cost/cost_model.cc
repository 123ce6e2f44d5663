#include "palmist/cost/cost_model.h"

#include <utility>

namespace palmist::cost {
namespace {

template <typename T, typename Visit>
void ForEachLayer(ModelCost<T>& model, Visit visit) {
  for (LayerCost<T>& kind : model.kinds) visit(kind);
  visit(model.embedding);
  visit(model.head);
}

}  // namespace

ModelCost<Expr> CostModel::Derive(const model::Graph& graph,
                                  const model::LoweringOptions& options) {
  const auto derive = [&](const model::Layer& layer, bool input_recomputable) {
    return DeriveLayerCost(model::Lower(layer, options, input_recomputable));
  };
  ModelCost<Expr> cost;
  for (const model::Layer& kind : graph.kinds) {
    // Post-norm layers follow one another, or an embedding that ends with the same norm.
    const bool after_norm = kind.output_is_norm && options.variants.norm == model::Variant::kLean;
    cost.kinds.push_back(derive(kind, after_norm));
  }
  cost.embedding = derive(graph.embedding, false);
  cost.head = derive(graph.head, false);
  return cost;
}

symbolic::Program CostModel::Compile(const ModelCost<Expr>& formulas) {
  std::vector<Expr> outputs;
  ModelCost<Expr> copy = formulas;
  ForEachLayer(copy, [&](LayerCost<Expr>& layer) {
    LayerCost<Expr>::ForEachField([&](auto field) { outputs.push_back(layer.*field); });
  });
  return symbolic::Program(std::move(outputs), LayoutInputs::Names());
}

CostModel::CostModel(const model::Graph& graph, const model::LoweringOptions& options)
    : formulas_(Derive(graph, options)), program_(Compile(formulas_)) {}

std::vector<ModelCost<double>> CostModel::Evaluate(std::span<const LayoutInputs> layouts,
                                                   int threads) const {
  const std::size_t n = layouts.size();
  const std::size_t num_inputs = LayoutInputs::Names().size();
  std::vector<std::vector<double>> columns(num_inputs, std::vector<double>(n));
  for (std::size_t i = 0; i < n; ++i) {
    const std::vector<double> values = layouts[i].Values();
    for (std::size_t j = 0; j < num_inputs; ++j) columns[j][i] = values[j];
  }
  std::size_t num_fields = 0;
  LayerCost<double>::ForEachField([&](auto) { ++num_fields; });
  const std::size_t num_outputs = num_fields * (formulas_.kinds.size() + 2);
  std::vector<std::vector<double>> results(num_outputs, std::vector<double>(n));
  std::vector<const double*> inputs;
  for (const std::vector<double>& column : columns) inputs.push_back(column.data());
  std::vector<double*> outputs;
  for (std::vector<double>& result : results) outputs.push_back(result.data());
  program_.Run(inputs, n, outputs, threads);

  std::vector<ModelCost<double>> costs(n);
  for (std::size_t i = 0; i < n; ++i) {
    costs[i].kinds.resize(formulas_.kinds.size());
    std::size_t output = 0;
    ForEachLayer(costs[i], [&](LayerCost<double>& layer) {
      LayerCost<double>::ForEachField([&](auto field) { layer.*field = results[output++][i]; });
    });
  }
  return costs;
}

StageContent<double> CountLayers(const model::Graph& graph,
                                 int first,
                                 int last,
                                 const std::vector<bool>& recomputed) {
  StageContent<double> content;
  content.plain.resize(graph.kinds.size());
  content.recomputed.resize(graph.kinds.size());
  for (int layer = first; layer <= last; ++layer) {
    const auto kind = static_cast<std::size_t>(graph.layers[static_cast<std::size_t>(layer)]);
    (recomputed[static_cast<std::size_t>(layer - first)] ? content.recomputed
                                                         : content.plain)[kind] += 1;
  }
  content.tied = graph.tied_head;
  return content;
}

}  // namespace palmist::cost
