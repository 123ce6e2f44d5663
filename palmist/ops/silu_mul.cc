#include "palmist/kernels/silu_mul.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <torch/library.h>

#include "palmist/ops/executor.h"
#include "palmist/ops/operators.h"
#include "palmist/ops/recompute.h"
#include "palmist/ops/tensors.h"

namespace palmist::ops {
namespace {

void Check(const at::Tensor& gate, const at::Tensor& up) {
  CheckFloating("silu_mul", "gate", gate);
  CheckSameKind("silu_mul", "up", up, "gate", gate);
  TORCH_CHECK(gate.sym_sizes() == up.sym_sizes(),
              "silu_mul: expected gate and up of one shape, got ",
              gate.sym_sizes(),
              " and ",
              up.sym_sizes());
}

Pair BackwardComposed(const at::Tensor& dy, const at::Tensor& gate, const at::Tensor& up) {
  const at::Tensor sigmoid = at::sigmoid(gate);
  return {dy * up * sigmoid * (1 + gate * (1 - sigmoid)), dy * gate * sigmoid};
}

at::Tensor ForwardCpu(const at::Tensor& gate, const at::Tensor& up) {
  Check(gate, up);
  const at::Tensor dense_gate = Dense(gate);
  const at::Tensor dense_up = DenseLike(up, dense_gate);
  at::Tensor y = at::empty_like(dense_gate);
  DispatchStorage(gate.scalar_type(), [&]<typename T>(T) {
    kernels::SiluMul<T>(
        ConstSpan<T>(dense_gate), ConstSpan<T>(dense_up), MutableSpan<T>(y), TorchExecutor());
  });
  return y;
}

void BackwardInto(const at::Tensor& dgate,
                  const at::Tensor& dup,
                  const at::Tensor& dy,
                  const at::Tensor& gate,
                  const at::Tensor& up) {
  DispatchStorage(gate.scalar_type(), [&]<typename T>(T) {
    kernels::SiluMulBackward<T>(ConstSpan<T>(dy),
                                ConstSpan<T>(gate),
                                ConstSpan<T>(up),
                                MutableSpan<T>(dgate),
                                MutableSpan<T>(dup),
                                TorchExecutor());
  });
}

Pair BackwardCpu(const at::Tensor& dy, const at::Tensor& gate, const at::Tensor& up) {
  CheckSameKind("silu_mul", "the gradient", dy, "gate", gate);
  const at::Tensor dense_gate = Dense(gate);
  const at::Tensor dense_up = DenseLike(up, dense_gate);
  const at::Tensor dense_dy = DenseLike(dy, dense_gate);
  at::Tensor dgate = at::empty_like(dense_gate);
  at::Tensor dup = at::empty_like(dense_gate);
  BackwardInto(dgate, dup, dense_dy, dense_gate, dense_up);
  return {dgate, dup};
}

// Turns dy into dgate and returns dup.
at::Tensor BackwardInPlaceCpu(at::Tensor& dy, const at::Tensor& gate, const at::Tensor& up) {
  CheckSameKind("silu_mul", "the gradient", dy, "gate", gate);
  if (!gate.is_non_overlapping_and_dense() || dy.strides() != gate.strides()) {
    auto [dgate, dup] = BackwardCpu(dy, gate, up);
    dy.copy_(dgate);
    return dup;
  }
  const at::Tensor dense_up = DenseLike(up, gate);
  at::Tensor dup = at::empty_like(gate);
  BackwardInto(dy, dup, dy, gate, dense_up);
  return dup;
}

at::Tensor ForwardComposed(const at::Tensor& gate, const at::Tensor& up) {
  Check(gate, up);
  return at::silu(gate) * up;
}

at::Tensor Forward(const at::Tensor& gate, const at::Tensor& up) {
  static const auto op = FindOperator<decltype(ForwardCpu)>("palmist::silu_mul_fwd");
  return op.call(gate, up);
}

Pair Backward(const at::Tensor& dy, const at::Tensor& gate, const at::Tensor& up) {
  static const auto op = FindOperator<decltype(BackwardCpu)>("palmist::silu_mul_bwd");
  return op.call(dy, gate, up);
}

Pair BackwardInPlace(const at::Tensor& dy, const at::Tensor& gate, const at::Tensor& up) {
  static const auto op = FindOperator<decltype(BackwardInPlaceCpu)>("palmist::silu_mul_bwd_");
  at::Tensor dgate = dy;
  at::Tensor dup = op.call(dgate, gate, up);
  return {std::move(dgate), std::move(dup)};
}

struct SiluMulFunction : torch::autograd::Function<SiluMulFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& gate, const at::Tensor& up) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({gate, up});
    return Forward(gate, up);
  }

  static at::Tensor Recompute(AutogradContext& ctx) {
    const variable_list saved = Saved(ctx);
    return at::GradMode::is_enabled() ? SiluMul(saved[0], saved[1]) : Forward(saved[0], saved[1]);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = TakeSaved(*ctx);
    const auto backward = at::GradMode::is_enabled()  ? BackwardComposed
                          : IsSoleCpuTensor(grads[0]) ? BackwardInPlace
                                                      : Backward;
    const auto [dgate, dup] = backward(grads[0], saved[0], saved[1]);
    return {dgate, dup};
  }
};
const bool kRegistered = RegisterProducer<SiluMulFunction>();

at::Tensor SiluMulAutograd(const at::Tensor& gate, const at::Tensor& up) {
  return SiluMulFunction::apply(gate, up);
}

}  // namespace

at::Tensor SiluMul(const at::Tensor& gate, const at::Tensor& up) {
  static const auto op =
      FindOperator<at::Tensor(const at::Tensor&, const at::Tensor&)>("palmist::silu_mul");
  return op.call(gate, up);
}

TORCH_LIBRARY_FRAGMENT(palmist, m) {
  m.def("silu_mul(Tensor gate, Tensor up) -> Tensor");
  m.def("silu_mul_fwd(Tensor gate, Tensor up) -> Tensor");
  m.def("silu_mul_bwd(Tensor grad, Tensor gate, Tensor up) -> (Tensor, Tensor)");
  m.def("silu_mul_bwd_(Tensor(a!) grad, Tensor gate, Tensor up) -> Tensor");
}
TORCH_LIBRARY_IMPL(palmist, Autograd, m) { m.impl("silu_mul", SiluMulAutograd); }
TORCH_LIBRARY_IMPL(palmist, CompositeExplicitAutograd, m) {
  m.impl("silu_mul", Forward);
  m.impl("silu_mul_fwd", ForwardComposed);
  m.impl("silu_mul_bwd", BackwardComposed);
}
TORCH_LIBRARY_IMPL(palmist, CPU, m) {
  m.impl("silu_mul_fwd", ForwardCpu);
  m.impl("silu_mul_bwd", BackwardCpu);
  m.impl("silu_mul_bwd_", BackwardInPlaceCpu);
}

}  // namespace palmist::ops
