// Norms. Sources: torch.nn.functional.layer_norm (saves its input, mean and rstd in fp32);
// transformers' LlamaRMSNorm (the eager composition); Tempo and apex `memory_efficient` (output and
// rstd); flash-attention's LayerNormLinear (input kept, output made again).
#include "palmist/model/lowering/lowering.h"

namespace palmist::model::internal {

bool IsFusedNorm(Variant variant) {
  return variant != Variant::kEager && variant != Variant::kSdpa;
}

void LowerNorm(Lowering& lowering, const Op& op) {
  const Variant variant = lowering.variants().norm;
  const bool rms = op.norm.kind == NormKind::kRmsNorm;
  const TensorId x = op.inputs[0], y = op.outputs[0];
  // A norm of queries and keys leaves the values in the same tensor alone.
  const bool partial = op.normalised != Expr(0);
  const Expr n = partial ? op.normalised : lowering.elements(x);
  const Expr act = lowering.act();
  Step step = lowering.Begin(op);
  int x_buffer = step.inputs[0];
  if (partial) {
    x_buffer = lowering.NewBuffer(op.name + ".input", act * n, false);
    step.outputs.push_back(x_buffer);
  }
  // fp32 statistics of a row: mean and reciprocal deviation; RMSNorm and Tempo keep the latter
  // only.
  const double statistics = rms || variant == Variant::kTempo ? 4 : 8;
  const int stats = lowering.NewBuffer(op.name + ".statistics", statistics * op.rows, false);
  step.outputs.push_back(stats);

  if (rms && !IsFusedNorm(variant)) {
    // x.float(), pow, mean, rsqrt, mul, cast, scale: six kernels; the scaled gradient needs the
    // normalised value, the fp32 chain needs x in fp32.
    const bool half = lowering.options().activation_bytes < 4;
    const int normalised = lowering.NewBuffer(op.name + ".normalised", act * n, false);
    step.outputs.push_back(normalised);
    step.saved = {normalised, stats};
    if (half) {
      const int wide = lowering.NewBuffer(op.name + ".fp32", 4 * n, false);
      step.outputs.push_back(wide);
      step.saved.push_back(wide);
    } else {
      step.saved.push_back(x_buffer);
    }
    step.forward_scratch = 4 * n;
    step.backward_scratch = half ? 8 * n : 4 * n;
    step.forward_bytes = n * (3 * act + 4 * 6);
    step.backward_bytes = n * (4 * act + 4 * 8);
    step.forward_kernels = 6;
    step.backward_kernels = 9;
  } else {
    step.saved = {variant == Variant::kTempo ? step.outputs[0] : x_buffer, stats};
    step.forward_bytes = 2 * act * n;
    step.backward_bytes = 3 * act * n;
    step.backward_kernels = 2;
    if (variant == Variant::kLean && !partial) lowering.Recomputable(y, {x_buffer, stats});
  }
  lowering.Add(std::move(step));
}

}  // namespace palmist::model::internal
