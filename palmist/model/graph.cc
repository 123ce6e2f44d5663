#include "palmist/model/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "palmist/base/units.h"
#include "palmist/model/graph_builders.h"

namespace palmist::model {
namespace {

std::int64_t Total(const Layer& layer, bool active_only) {
  std::int64_t total = 0;
  for (const Op& op : layer.ops) {
    for (const Parameter& parameter : op.parameters) {
      if (parameter.tied) continue;
      std::int64_t elements = parameter.elements;
      if (active_only && parameter.active_fraction < 1) {
        elements = std::llround(static_cast<double>(elements) * parameter.active_fraction);
      }
      total = CheckedAdd(total, elements).value();
    }
  }
  return total;
}

std::int64_t Count(const Graph& graph, bool active_only) {
  std::int64_t total =
      CheckedAdd(Total(graph.embedding, active_only), Total(graph.head, active_only)).value();
  for (std::size_t kind = 0; kind < graph.kinds.size(); ++kind) {
    const auto layers =
        std::count(graph.layers.begin(), graph.layers.end(), static_cast<int>(kind));
    const std::int64_t of_kind = CheckedMul(Total(graph.kinds[kind], active_only), layers).value();
    total = CheckedAdd(total, of_kind).value();
  }
  return total;
}

/// Checks one layer; throws the first thing found.
void CheckLayer(const Layer& layer) {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorKind::kInternal, fmt::format("graph, layer '{}': {}", layer.name, what));
  };
  const auto count = static_cast<TensorId>(layer.tensors.size());
  const auto is_tensor = [count](TensorId id) { return id >= 0 && id < count; };
  if (layer.ops.empty()) return;

  std::vector<char> made(layer.tensors.size(), 0), used(layer.tensors.size(), 0);
  for (TensorId id = 0; id < count; ++id) {
    const auto i = static_cast<std::size_t>(id);
    const bool given = id == layer.input || id == layer.memory || !layer.tensors[i].differentiable;
    made[i] = given ? 1 : 0;
  }
  if (!is_tensor(layer.input)) fail("it has no input");
  for (const Op& op : layer.ops) {
    if (op.inputs.empty() || op.outputs.empty()) {
      fail(op.name + " has no input or no output");
    }
    for (const TensorId input : op.inputs) {
      if (!is_tensor(input)) fail(op.name + " reads a tensor that does not exist");
      const auto i = static_cast<std::size_t>(input);
      if (!made[i]) fail(op.name + " reads " + layer.tensors[i].name + " before it is made");
      used[i] = 1;
    }
    for (const TensorId output : op.outputs) {
      if (!is_tensor(output)) fail(op.name + " makes a tensor that does not exist");
      const auto i = static_cast<std::size_t>(output);
      if (made[i]) fail(op.name + " makes " + layer.tensors[i].name + " a second time");
      made[i] = 1;
    }
  }
  if (!is_tensor(layer.output) || !made[static_cast<std::size_t>(layer.output)]) {
    fail("its output is not made");
  }
  used[static_cast<std::size_t>(layer.output)] = 1;
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) fail(layer.tensors[i].name + " is never read");
  }
}

}  // namespace

Symbols::Symbols()
    : b(Expr::Symbol("b")),
      s(Expr::Symbol("s")),
      tp(Expr::Symbol("tp")),
      sd(Expr::Symbol("sd")),
      cp(Expr::Symbol("cp")),
      ep(Expr::Symbol("ep")),
      x(Expr::Symbol("x")) {}

Expr PaddedVocabulary(std::int64_t vocab, const Expr& tp, std::int64_t multiple) {
  const Expr unit = multiple * tp;
  return symbolic::CeilDiv(vocab, unit) * unit;
}

Graph BuildGraph(const ModelSpec& spec, const GraphOptions& options) {
  if (options.vocab_multiple < 1) {
    throw UsageError("vocab_multiple",
                     fmt::format("expected at least 1, got {}", options.vocab_multiple));
  }
  return spec.is_transformer() ? internal::BuildTransformerGraph(spec.transformer(), options)
                               : internal::BuildConvGraph(spec.conv_net());
}

Result<void> CheckGraph(const Graph& graph) {
  try {
    for (const Layer& kind : graph.kinds) CheckLayer(kind);
    CheckLayer(graph.embedding);
    CheckLayer(graph.head);
    for (const int kind : graph.layers) {
      if (kind < 0 || kind >= static_cast<int>(graph.kinds.size())) {
        return Error(ErrorKind::kInternal, fmt::format("graph: no layer kind {}", kind));
      }
    }
  } catch (const Error& error) {
    return error;
  }
  return {};
}

std::int64_t CountParameters(const Graph& graph) { return Count(graph, false); }

std::int64_t CountActiveParameters(const Graph& graph) { return Count(graph, true); }

}  // namespace palmist::model
