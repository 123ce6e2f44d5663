// Activations, gates and dropout. Sources: torch's derivatives.yaml (relu and tanh keep their
// result, gelu and silu their input); transformers' NewGELUActivation (a composition that keeps
// four tensors); Tempo's output-only GELU; Liger's swiglu.
#include "palmist/model/lowering/lowering.h"

namespace palmist::model::internal {
namespace {

bool KeepsOutput(ActivationKind kind) {
  return kind == ActivationKind::kRelu || kind == ActivationKind::kTanh;
}

}  // namespace

void LowerActivation(Lowering& lowering, const Op& op) {
  const Variant variant = lowering.variants().activation;
  const Expr n = lowering.elements(op.inputs[0]);
  const Expr act = lowering.act();
  Step step = lowering.Begin(op);
  if (lowering.variants().loss == Variant::kLean && lowering.FeedsLoss(op.outputs[0])) {
    // A soft cap of the logits: part of the loss's chunks, which pay for its traffic.
    lowering.at(step.outputs[0]).bytes = 0;
    lowering.Add(std::move(step));
    return;
  }
  const int x = step.inputs[0], y = step.outputs[0];
  step.forward_bytes = 2 * act * n;
  step.backward_bytes = 3 * act * n;
  if (KeepsOutput(op.activation)) {
    step.saved = {y};
    step.in_place = step.gradient_in_place =
        variant != Variant::kEager && variant != Variant::kSdpa;
  } else if (variant == Variant::kTempo) {
    const Expr mask_bytes = n * (lowering.options().tempo_mask_bits / 8);
    const int mask = lowering.NewBuffer(op.name + ".mask", mask_bytes, false);
    step.outputs.push_back(mask);
    step.saved = {y, mask};
  } else if (variant == Variant::kLean) {
    step.saved = {x};
    lowering.Recomputable(op.outputs[0], {x});
  } else if (op.activation == ActivationKind::kGeluTanh &&
             (variant == Variant::kEager || variant == Variant::kSdpa)) {
    // 0.5 x (1 + tanh(c (x + 0.044715 x^3))): x, the tanh, 0.5 x and 1 + tanh are kept.
    step.saved = {x};
    for (const char* name : {".tanh", ".half", ".one_plus_tanh"}) {
      const int kept = lowering.NewBuffer(op.name + name, act * n, false);
      step.outputs.push_back(kept);
      step.saved.push_back(kept);
    }
    step.forward_bytes = 16 * act * n;
    step.backward_bytes = 22 * act * n;
    step.forward_kernels = 8;
    step.backward_kernels = 10;
  } else {
    step.saved = {x};
  }
  lowering.Add(std::move(step));
}

void LowerGatedActivation(Lowering& lowering, const Op& op) {
  const Variant variant = lowering.variants().activation;
  const Expr n = lowering.elements(op.outputs[0]);
  const Expr act = lowering.act();
  Step step = lowering.Begin(op);
  const int gate_up = step.inputs[0];
  step.saved = {gate_up};
  step.forward_bytes = 3 * act * n;
  step.backward_bytes = 5 * act * n;
  if (variant == Variant::kEager || variant == Variant::kSdpa) {
    const int gate = lowering.NewBuffer(op.name + ".activated_gate", act * n, false);
    step.outputs.push_back(gate);
    step.saved.push_back(gate);
    step.backward_scratch = act * n;
    step.forward_bytes = 5 * act * n;
    step.backward_bytes = 8 * act * n;
    step.forward_kernels = 2;
    step.backward_kernels = 3;
  } else if (variant == Variant::kLean) {
    lowering.Recomputable(op.outputs[0], {gate_up});
  }
  lowering.Add(std::move(step));
}

void LowerDropout(Lowering& lowering, const Op& op) {
  const Variant variant = lowering.variants().dropout;
  const Expr n = lowering.elements(op.inputs[0]);
  Step step = lowering.Begin(op);
  step.forward_bytes = 2 * lowering.act() * n;
  step.backward_bytes = 2 * lowering.act() * n;
  if (variant != Variant::kTempo && variant != Variant::kLean) {
    const Expr mask_bytes = n * lowering.options().dropout_mask_bytes;
    const int mask = lowering.NewBuffer(op.name + ".mask", mask_bytes, false);
    step.outputs.push_back(mask);
    step.saved = {mask};
    step.forward_flops = n * lowering.options().mask_draw_flops;
    step.forward_bytes += mask_bytes;
    step.backward_bytes += mask_bytes;
  }
  step.in_place = step.gradient_in_place = variant != Variant::kEager && variant != Variant::kSdpa;
  lowering.Add(std::move(step));
}

}  // namespace palmist::model::internal
