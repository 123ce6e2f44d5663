#include "palmist/cost/formulas.h"

#include <algorithm>
#include <map>
#include <set>

#include "palmist/cost/predict.h"
#include "palmist/symbolic/expr.h"

namespace palmist::cost {
namespace {

using symbolic::Expr;

struct Field {
  const char* name;
  Expr LayerCost<Expr>::*formula;
  FormulaUnit unit;
};
constexpr Field kFields[] = {
    {"input", &LayerCost<Expr>::input, FormulaUnit::kBytes},
    {"kept", &LayerCost<Expr>::kept, FormulaUnit::kBytes},
    {"boundary", &LayerCost<Expr>::boundary, FormulaUnit::kBytes},
    {"encoder output", &LayerCost<Expr>::memory, FormulaUnit::kBytes},
    {"peak of forward", &LayerCost<Expr>::forward_peak, FormulaUnit::kBytes},
    {"peak of backward", &LayerCost<Expr>::backward_peak, FormulaUnit::kBytes},
    {"parameters", &LayerCost<Expr>::weights, FormulaUnit::kParameters},
    {"of experts", &LayerCost<Expr>::expert_weights, FormulaUnit::kParameters},
    {"forward", &LayerCost<Expr>::forward_s, FormulaUnit::kSeconds},
    {"backward", &LayerCost<Expr>::backward_s, FormulaUnit::kSeconds},
    {"tp in forward", &LayerCost<Expr>::tp_forward_s, FormulaUnit::kSeconds},
    {"tp in backward", &LayerCost<Expr>::tp_backward_s, FormulaUnit::kSeconds},
    {"cp in forward", &LayerCost<Expr>::cp_forward_s, FormulaUnit::kSeconds},
    {"cp in backward", &LayerCost<Expr>::cp_backward_s, FormulaUnit::kSeconds},
    {"ep in forward", &LayerCost<Expr>::ep_forward_s, FormulaUnit::kSeconds},
    {"ep in backward", &LayerCost<Expr>::ep_backward_s, FormulaUnit::kSeconds},
};

/// Inputs that a plan fixes once and for all: they are put in as numbers.
constexpr const char* kDegrees[] = {"tp", "sd", "cp", "ep", "x", "grad_bytes"};

std::string Counted(int layers, int recomputed) {
  std::string title = std::to_string(layers) + (layers == 1 ? " layer" : " layers");
  if (recomputed > 0) title += ", " + std::to_string(recomputed) + " of them recomputed";
  return title;
}

}  // namespace

StageFormulas FormulasOf(const plan::Plan& plan,
                         const model::Graph& graph,
                         const cluster::Calibration& calibration,
                         int stage) {
  const plan::Stage& of = plan.stages[static_cast<std::size_t>(stage)];
  const bool is_last = stage + 1 == static_cast<int>(plan.stages.size());
  Estimator estimator(
      graph, plan.cluster, calibration, plan.training, static_cast<double>(plan.seq_len));
  const StageRates rates = ComputeRates(
      estimator.layout_context(),
      LayoutOf(of),
      of.devices,
      is_last ? std::vector<int>() : plan.stages[static_cast<std::size_t>(stage) + 1].devices);
  std::map<std::string, double> values;
  const std::vector<std::string> names = LayoutInputs::Names();
  const std::vector<double> inputs = rates.inputs.Values();
  for (std::size_t i = 0; i < names.size(); ++i) values[names[i]] = inputs[i];
  std::map<std::string, Expr> degrees;
  for (const char* degree : kDegrees) degrees.emplace(degree, Expr(values.at(degree)));

  StageFormulas result;
  std::set<std::string> used;
  const auto add = [&](const std::string& title, const LayerCost<Expr>& layer) {
    LayerFormulas& formulas = result.layers.emplace_back();
    formulas.title = title;
    for (const Field& field : kFields) {
      const Expr formula = symbolic::Substitute(layer.*field.formula, degrees);
      const double value = symbolic::Evaluate(formula, values);
      if (value == 0) continue;
      for (const std::string& symbol : symbolic::Symbols(formula)) used.insert(symbol);
      formulas.formulas.push_back({field.name, symbolic::ToText(formula), field.unit, value});
    }
  };
  const ModelCost<Expr>& model = estimator.ModelFor(of.ops).formulas();
  const StageContent<double> content = estimator.ContentOf(of);
  if (of.embedding) add("embedding", model.embedding);
  for (std::size_t kind = 0; kind < model.kinds.size(); ++kind) {
    const int again = static_cast<int>(content.recomputed[kind]);
    const int count = static_cast<int>(content.plain[kind]) + again;
    if (count > 0) add(Counted(count, again), model.kinds[kind]);
  }
  if (of.head) add("head", model.head);
  for (const std::string& name : names) {
    if (used.count(name) > 0) result.symbols.emplace_back(name, values.at(name));
  }
  return result;
}

}  // namespace palmist::cost
