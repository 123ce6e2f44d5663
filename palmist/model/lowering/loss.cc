// Cross-entropy. Sources: transformers' ForCausalLMLoss (logits cast to fp32, log-softmax kept);
// Megatron's vocabulary-parallel cross-entropy (the softmax kept, its gradient in place); Liger's
// fused linear cross-entropy (chunks of tokens, no logits).
#include "palmist/model/lowering/lowering.h"

namespace palmist::model::internal {

void LowerLoss(Lowering& lowering, const Op& op) {
  const Variant variant = lowering.variants().loss;
  const Expr n = lowering.elements(op.inputs[0]);
  const Expr act = lowering.act();
  const Symbols& symbols = lowering.symbols();
  Step step = lowering.Begin(op);
  const int logits = step.inputs[0];
  step.forward_bytes = 3 * act * n;
  step.backward_bytes = 2 * act * n;
  if (variant == Variant::kLean) {
    const Expr tokens = op.rows;
    const Expr chunk = Min(Expr(lowering.options().loss_chunk_tokens), tokens);
    // fp32 logits of the chunk, and their gradient in the training dtype.
    step.forward_scratch = step.backward_scratch = chunk * (n / tokens) * (4 + act);
    if (lowering.options().loss_gradients_in_forward) {
      for (const Expr& bytes : {lowering.logits_input_bytes, 4 * lowering.logits_weights}) {
        step.saved.push_back(lowering.NewBuffer(op.name + ".gradient", bytes, false));
        step.outputs.push_back(step.saved.back());
      }
    } else {
      // Backward makes each chunk's logits again.
      step.backward_flops = lowering.logits_flops;
    }
  } else if (variant == Variant::kEager || variant == Variant::kSdpa) {
    const bool half = lowering.options().activation_bytes < 4;
    const int kept = lowering.NewBuffer(op.name + ".log_softmax", 4 * n, false);
    step.outputs.push_back(kept);
    step.saved = {kept, logits};  // the caller holds the logits it was handed
    if (half) {
      const int wide = lowering.NewBuffer(op.name + ".fp32", 4 * n, false);
      step.outputs.push_back(wide);
      step.saved.push_back(wide);
      step.backward_scratch = 4 * n;
    }
    step.forward_bytes = n * (act + 4 * 5);
    step.backward_bytes = n * (act + 4 * 4);
    step.forward_kernels = step.backward_kernels = 3;
  } else {
    const int kept = lowering.NewBuffer(op.name + ".softmax", act * n, false);
    step.outputs.push_back(kept);
    step.saved = {kept};
    step.gradient_over = kept;
  }
  // A vocabulary-parallel loss exchanges three numbers a token: maximum, sum and target logit.
  const Expr exchanged = 12 * op.rows;
  step.forward_collectives.push_back(
      {CollectiveKind::kAllReduce, CollectiveGroup::kTensor, Select(symbols.tp - 1, exchanged, 0)});
  lowering.Add(std::move(step));
}

}  // namespace palmist::model::internal
