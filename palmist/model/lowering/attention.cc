// Attention. Sources: transformers' eager_attention_forward; torch's
// _scaled_dot_product_attention_math (half precision is computed in fp32); Megatron's fused masked
// softmax; Tempo's softmax -> dropout -> product; FlashAttention-2 (log-sum-exp kept, an fp32
// accumulator of the queries' gradient, 2.5 times the forward arithmetic in backward:
// arXiv:2307.08691, section 4).
#include "palmist/model/lowering/lowering.h"

namespace palmist::model::internal {
namespace {

/// Arithmetic and traffic of one of the two batched products.
void SetProduct(Step& step, const Expr& flops, const Expr& bytes) {
  step.step_class = StepClass::kGemm;
  step.forward_flops = flops;
  step.backward_flops = 2 * flops;
  step.forward_bytes = bytes;
  step.backward_bytes = 2 * bytes;
  step.backward_kernels = 2;
}

/// Elements of keys and values on a rank. One input packs queries, keys and values; with two, the
/// second one packs keys and values.
Expr KeyValueElements(Lowering& lowering, const Op& op) {
  if (op.inputs.size() > 1) return lowering.elements(op.inputs[1]);
  return lowering.elements(op.inputs[0]) -
         op.score_rows * static_cast<double>(op.attention.head_dim);
}

Expr ValueElements(Lowering& lowering, const Op& op) {
  const double value_dim = static_cast<double>(op.attention.value_dim);
  return KeyValueElements(lowering, op) *
         (value_dim / (static_cast<double>(op.attention.head_dim) + value_dim));
}

/// Gathered keys and values under context parallelism.
void AddContextExchange(Lowering& lowering, const Op& op, Step& step) {
  const Symbols& symbols = lowering.symbols();
  const Expr kv = KeyValueElements(lowering, op);
  const Expr bytes = Select(symbols.cp - 1, kv * symbols.cp * lowering.act(), 0);
  // Keys and values of all ranks, and in backward their gradient before it is reduced.
  step.forward_scratch += bytes;
  step.backward_scratch += 2 * bytes;
  step.forward_collectives.push_back(
      {CollectiveKind::kAllGather, CollectiveGroup::kContext, bytes});
  step.backward_collectives.push_back(
      {CollectiveKind::kAllGather, CollectiveGroup::kContext, bytes});
  step.backward_collectives.push_back(
      {CollectiveKind::kReduceScatter, CollectiveGroup::kContext, bytes});
}

void LowerFlash(Lowering& lowering, const Op& op) {
  Step step = lowering.Begin(op);
  const int lse = lowering.NewBuffer(op.name + ".log_sum_exp", 4 * op.score_rows, false);
  step.saved = step.inputs;
  step.saved.push_back(step.outputs[0]);
  step.saved.push_back(lse);
  step.outputs.push_back(lse);
  step.step_class = StepClass::kAttention;
  step.forward_flops = op.forward_flops;
  step.backward_flops = 2.5 * op.forward_flops;
  step.forward_bytes = Traffic(lowering, step);
  step.backward_bytes = 2 * step.forward_bytes;
  step.backward_kernels = 3;
  step.backward_scratch += 4 * op.score_rows * (static_cast<double>(op.attention.head_dim) + 1);
  AddContextExchange(lowering, op, step);
  lowering.Add(std::move(step));
}

}  // namespace

void LowerAttention(Lowering& lowering, const Op& op) {
  const Variant variant = lowering.variants().attention;
  const bool math =
      variant == Variant::kSdpa && lowering.options().sdpa_dropout_unfused && op.dropout > 0;
  if ((variant == Variant::kSdpa && !math) || variant == Variant::kFused ||
      variant == Variant::kLean) {
    LowerFlash(lowering, op);
    return;
  }
  const bool eager = variant == Variant::kEager || math;
  const bool half = lowering.options().activation_bytes < 4;
  const Expr n = op.score_rows * op.score_keys;
  const Expr act = math ? Expr(4) : lowering.act();
  const bool wide_softmax = eager && !math && op.attention.softmax_fp32 && half;
  const double value_share = static_cast<double>(op.attention.value_dim) /
                             static_cast<double>(op.attention.head_dim + op.attention.value_dim);
  // Unfused products compute all keys, masked or not.
  const Expr flops = 2 * n * static_cast<double>(op.attention.head_dim + op.attention.value_dim);

  Step product = lowering.Begin(op);
  product.name = op.name + ".scores";
  const std::vector<int> outputs = product.outputs;
  // Queries, keys and values are views of the projection's output; their gradients are not.
  const int packed = product.inputs.back();
  const Expr packed_bytes = lowering.elements(op.inputs.back()) * act;
  const Expr value_bytes = ValueElements(lowering, op) * act;
  const int keys = lowering.NewBuffer(op.name + ".keys", packed_bytes - value_bytes);
  const int values = lowering.NewBuffer(op.name + ".values", value_bytes);
  {
    Step split;
    split.name = op.name + ".split";
    split.inputs = {packed};
    split.outputs = {keys, values};
    split.view_outputs = math && half ? 0 : 2;
    split.forward_kernels = split.view_outputs > 0 ? 0 : 3;
    if (split.view_outputs == 0) split.forward_bytes = packed_bytes + lowering.at(packed).bytes;
    split.backward_bytes = 2 * lowering.at(packed).bytes;
    lowering.Add(std::move(split));
  }
  product.inputs.back() = keys;
  product.saved = product.inputs;
  int scores = lowering.NewBuffer(op.name + ".scores", act * n);
  product.outputs = {scores};
  SetProduct(product, (1 - value_share) * flops, act * n + Traffic(lowering, product));
  AddContextExchange(lowering, op, product);
  lowering.Add(std::move(product));

  const auto pointwise = [&](const std::string& name, Expr bytes, bool differentiable = true) {
    Step step;
    step.name = op.name + name;
    step.inputs = {scores};
    scores = lowering.NewBuffer(step.name, bytes, differentiable);
    step.outputs = {scores};
    step.forward_bytes = 2 * act * n;
    step.backward_bytes = 3 * act * n;
    return step;
  };

  if (op.attention.softcap) {
    Step step = pointwise(".softcap", act * n);
    step.saved = {scores};
    step.in_place = step.gradient_in_place = !eager;
    step.forward_kernels = step.backward_kernels = eager ? 3 : 1;
    lowering.Add(std::move(step));
  }
  if (eager) lowering.Add(pointwise(".mask", act * n));
  {
    Step step = pointwise(".softmax", (wide_softmax ? Expr(4) : act) * n);
    step.saved = {scores};
    step.in_place = !eager && !op.attention.softcap;
    lowering.Add(std::move(step));
  }
  if (wide_softmax) lowering.Add(pointwise(".cast", act * n));
  if (op.dropout > 0) {
    const int kept = scores;
    Step step = pointwise(".dropout", act * n);
    if (variant == Variant::kTempo) lowering.at(scores).recompute_from = {kept};
    const Variant dropout = lowering.variants().dropout;
    // Eager attention calls torch's dropout itself, whatever stands elsewhere in the layer.
    if (eager || (dropout != Variant::kTempo && dropout != Variant::kLean)) {
      const Expr mask_bytes = n * (math ? act : lowering.options().dropout_mask_bytes);
      const int mask = lowering.NewBuffer(op.name + ".dropout_mask", mask_bytes, false);
      step.outputs.push_back(mask);
      step.saved.push_back(mask);
      step.forward_flops = n * lowering.options().mask_draw_flops;
      if (variant == Variant::kTempo) lowering.at(scores).recompute_from.push_back(mask);
    }
    lowering.Add(std::move(step));
    if (variant == Variant::kTempo) {
      lowering.at(scores).recompute_step = static_cast<int>(lowering.result().steps.size()) - 1;
    }
  }

  Step context;
  context.name = op.name + ".context";
  context.inputs = {values, scores};
  context.saved = context.inputs;
  context.outputs = outputs;
  SetProduct(context, value_share * flops, act * n + Traffic(lowering, context));
  lowering.Add(std::move(context));
}

}  // namespace palmist::model::internal
