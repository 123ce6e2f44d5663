#include <utility>

#include "palmist/model/transformer_graph.h"

namespace palmist::model::internal {
namespace {

/// The first projection's parameters: gate and up, or up alone. @param copies experts held.
std::vector<Parameter> InParameters(const MlpSpec& spec,
                                    std::int64_t hidden,
                                    std::int64_t copies,
                                    Sharding sharding,
                                    const Expr& divisor) {
  std::vector<Parameter> parameters;
  const auto add = [&](const std::string& name) {
    parameters.push_back(
        Divided(name + ".weight", Product({copies, hidden, spec.width}), sharding, divisor));
    if (!spec.bias) return;
    parameters.push_back(Divided(name + ".bias", Product({copies, spec.width}), sharding, divisor));
  };
  if (spec.gated) add("gate");
  add("up");
  return parameters;
}

TensorId AppendActivation(LayerBuilder& builder,
                          const std::string& name,
                          const MlpSpec& spec,
                          TensorId x) {
  if (!spec.gated) return builder.Activation(name, x, spec.activation);
  const Expr half = builder.Elements(x) / 2;
  Op& op = builder.Append(OpKind::kGatedActivation, name, {x}, half);
  op.activation = spec.activation;
  return builder.last();
}

/// Width of the first projection's output.
std::int64_t InWidth(const MlpSpec& spec) { return Product({spec.gated ? 2 : 1, spec.width}); }

void SetActiveFraction(const MoeSpec& spec, std::vector<Parameter>& parameters) {
  for (Parameter& parameter : parameters) {
    parameter.active_fraction = static_cast<double>(spec.top_k) / static_cast<double>(spec.experts);
  }
}

/// The experts' three steps on the tokens that reached this rank.
TensorId AppendExperts(const Context& context,
                       LayerBuilder& builder,
                       const MoeSpec& spec,
                       TensorId dispatched,
                       const Expr& routed) {
  const Symbols& symbols = context.symbols;
  const MlpSpec& expert = spec.expert;
  const Expr inner_divisor = symbols.ep * symbols.tp;
  std::vector<Parameter> parameters =
      InParameters(expert, context.hidden, spec.experts, Sharding::kExpert, inner_divisor);
  SetActiveFraction(spec, parameters);
  AppendLinear(builder,
               "experts_in",
               Parallelism::kExpert,
               dispatched,
               routed,
               context.hidden,
               InWidth(expert) / symbols.tp,
               std::move(parameters));
  const TensorId activated =
      AppendActivation(builder, "experts_activation", expert, builder.last());

  parameters = {Divided("down.weight",
                        Product({spec.experts, context.hidden, expert.width}),
                        Sharding::kExpert,
                        inner_divisor)};
  if (expert.output_bias) {
    parameters.push_back(Divided(
        "down.bias", Product({spec.experts, context.hidden}), Sharding::kExpert, symbols.ep));
  }
  SetActiveFraction(spec, parameters);
  AppendLinear(builder,
               "experts_out",
               Parallelism::kExpert,
               activated,
               routed,
               expert.width / symbols.tp,
               context.hidden,
               std::move(parameters));
  return builder.last();
}

TensorId AppendSharedExpert(const Context& context,
                            LayerBuilder& builder,
                            const MoeSpec& spec,
                            TensorId x) {
  const TensorId shared = AppendMlp(context, builder, "shared", *spec.shared, x);
  if (!spec.shared_gate) return shared;
  AppendLinear(builder,
               "shared_gate",
               Parallelism::kNone,
               x,
               context.sharded,
               context.hidden,
               1,
               {Replicated("weight", context.hidden)});
  builder.AppendLike(OpKind::kScale, "shared_scale", {shared, builder.last()});
  return builder.last();
}

}  // namespace

TensorId AppendMlp(const Context& context,
                   LayerBuilder& builder,
                   const std::string& prefix,
                   const MlpSpec& spec,
                   TensorId x) {
  const Expr& tp = context.symbols.tp;
  AppendLinear(builder,
               prefix + "_in",
               Parallelism::kColumn,
               x,
               context.tokens,
               context.hidden,
               InWidth(spec) / tp,
               InParameters(spec, context.hidden, 1, Sharding::kTensor, tp));
  TensorId inner = AppendActivation(builder, prefix + "_activation", spec, builder.last());
  inner = builder.Dropout(prefix + "_inner_dropout", inner, spec.dropout);

  std::vector<Parameter> parameters = {
      Divided("down.weight", Product({context.hidden, spec.width}), Sharding::kTensor, tp)};
  if (spec.output_bias) parameters.push_back(Replicated("down.bias", context.hidden));
  AppendLinear(builder,
               prefix + "_out",
               Parallelism::kRow,
               inner,
               context.tokens,
               spec.width / tp,
               context.hidden,
               std::move(parameters));
  return builder.last();
}

TensorId AppendMoe(const Context& context, LayerBuilder& builder, const MoeSpec& spec, TensorId x) {
  const Expr& tokens = context.tokens;
  Op& route =
      builder.Append(OpKind::kRoute, "router", {x}, tokens * spec.experts, Storage::kFloat32);
  route.parameters = {Replicated("weight", Product({context.hidden, spec.experts}))};
  if (spec.router_bias) route.parameters.push_back(Replicated("bias", spec.experts));
  route.forward_flops = 2 * tokens * context.hidden * spec.experts;
  const TensorId probabilities = route.outputs.front();

  // On the busiest rank: x times the mean.
  const Expr routed = tokens * spec.top_k * context.symbols.x;
  Op& dispatch =
      builder.Append(OpKind::kDispatch, "dispatch", {x, probabilities}, routed * context.hidden);
  dispatch.parallelism = Parallelism::kExpert;
  const TensorId expert_output = AppendExperts(context, builder, spec, builder.last(), routed);
  Op& combine = builder.Append(OpKind::kCombine,
                               "combine",
                               {expert_output, probabilities},
                               context.sharded * context.hidden);
  combine.parallelism = Parallelism::kExpert;
  const TensorId combined = builder.last();
  if (!spec.shared) return combined;
  const TensorId shared = AppendSharedExpert(context, builder, spec, x);
  return builder.Add("add_shared", combined, shared);
}

}  // namespace palmist::model::internal
