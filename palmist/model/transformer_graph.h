/// Builds the parts of a transformer's layer (internal to the builders of graphs).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "palmist/model/graph.h"
#include "palmist/model/layer_builder.h"

namespace palmist::model::internal {

/// What all layers of one model share.
struct Context {
  Context(std::int64_t hidden_size, std::int64_t multiple);

  std::int64_t hidden;
  std::int64_t vocab_multiple;
  Symbols symbols;
  Expr tokens;   ///< b*s/cp: inside tensor-parallel regions
  Expr sharded;  ///< b*s/cp/sd: outside
};

/// Appends a self-attention block that reads `x`, or a cross-attention block that reads `x` and
/// `memory`. Returns its output, before dropout and residual.
TensorId AppendAttention(const Context& context,
                         LayerBuilder& builder,
                         const std::string& prefix,
                         const AttentionSpec& spec,
                         TensorId x,
                         TensorId memory);

/// Appends a dense MLP and returns its output.
TensorId AppendMlp(const Context& context,
                   LayerBuilder& builder,
                   const std::string& prefix,
                   const MlpSpec& spec,
                   TensorId x);

/// Appends a mixture of experts and returns its output.
TensorId AppendMoe(const Context& context, LayerBuilder& builder, const MoeSpec& spec, TensorId x);

/// Appends a product with a weight. @param rows vectors multiplied on this rank.
/// @param in, out widths on this rank.
Op& AppendLinear(LayerBuilder& builder,
                 std::string name,
                 Parallelism parallelism,
                 TensorId x,
                 const Expr& rows,
                 const Expr& in,
                 const Expr& out,
                 std::vector<Parameter> parameters);

/// A parameter of which each rank holds 1 / `divisor`.
Parameter Divided(std::string name, std::int64_t elements, Sharding sharding, const Expr& divisor);

}  // namespace palmist::model::internal
