#include "palmist/kernels/gelu.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <torch/library.h>

#include "palmist/ops/executor.h"
#include "palmist/ops/operators.h"
#include "palmist/ops/recompute.h"
#include "palmist/ops/tensors.h"

namespace palmist::ops {
namespace {

at::Tensor ForwardCpu(const at::Tensor& x, std::string_view approximate) {
  CheckFloating("gelu", "input", x);
  const kernels::GeluKind kind = ParseGeluKind(approximate);
  const at::Tensor dense = Dense(x);
  at::Tensor y = at::empty_like(dense);
  DispatchStorage(x.scalar_type(), [&]<typename T>(T) {
    kernels::Gelu<T>(ConstSpan<T>(dense), MutableSpan<T>(y), kind, TorchExecutor());
  });
  return y;
}

void BackwardInto(const at::Tensor& dx,
                  const at::Tensor& dy,
                  const at::Tensor& x,
                  std::string_view approximate) {
  const kernels::GeluKind kind = ParseGeluKind(approximate);
  DispatchStorage(x.scalar_type(), [&]<typename T>(T) {
    kernels::GeluBackward<T>(
        ConstSpan<T>(dy), ConstSpan<T>(x), MutableSpan<T>(dx), kind, TorchExecutor());
  });
}

at::Tensor BackwardCpu(const at::Tensor& dy, const at::Tensor& x, std::string_view approximate) {
  CheckSameKind("gelu", "the gradient", dy, "the input", x);
  const at::Tensor dense = Dense(x);
  const at::Tensor dense_dy = DenseLike(dy, dense);
  at::Tensor dx = at::empty_like(dense);
  BackwardInto(dx, dense_dy, dense, approximate);
  return dx;
}

at::Tensor& BackwardInPlaceCpu(at::Tensor& dy, const at::Tensor& x, std::string_view approximate) {
  CheckSameKind("gelu", "the gradient", dy, "the input", x);
  if (!x.is_non_overlapping_and_dense() || dy.strides() != x.strides()) {
    return dy.copy_(BackwardCpu(dy, x, approximate));
  }
  BackwardInto(dy, dy, x, approximate);
  return dy;
}

at::Tensor ForwardComposed(const at::Tensor& x, std::string_view approximate) {
  CheckFloating("gelu", "input", x);
  ParseGeluKind(approximate);
  return at::gelu(x, approximate);
}

at::Tensor BackwardComposed(const at::Tensor& dy,
                            const at::Tensor& x,
                            std::string_view approximate) {
  return at::gelu_backward(dy, x, approximate);
}

at::Tensor Forward(const at::Tensor& x, std::string_view approximate) {
  static const auto op = FindOperator<decltype(ForwardCpu)>("palmist::gelu_fwd");
  return op.call(x, approximate);
}

at::Tensor Backward(const at::Tensor& dy, const at::Tensor& x, std::string_view approximate) {
  static const auto op = FindOperator<decltype(BackwardCpu)>("palmist::gelu_bwd");
  return op.call(dy, x, approximate);
}

at::Tensor BackwardInPlace(const at::Tensor& dy,
                           const at::Tensor& x,
                           std::string_view approximate) {
  static const auto op = FindOperator<decltype(BackwardInPlaceCpu)>("palmist::gelu_bwd_");
  at::Tensor dx = dy;
  return op.call(dx, x, approximate);
}

struct GeluFunction : torch::autograd::Function<GeluFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, std::string approximate) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({x});
    at::Tensor y = Forward(x, approximate);
    ctx->saved_data["approximate"] = std::move(approximate);
    return y;
  }

  static at::Tensor Recompute(AutogradContext& ctx) {
    const at::Tensor x = Saved(ctx)[0];
    const std::string approximate = ctx.saved_data["approximate"].toStringRef();
    return at::GradMode::is_enabled() ? Gelu(x, approximate) : Forward(x, approximate);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const at::Tensor x = TakeSaved(*ctx)[0];
    const std::string& approximate = ctx->saved_data["approximate"].toStringRef();
    // torch's own formula can be differentiated again.
    if (at::GradMode::is_enabled()) {
      return {at::gelu_backward(grads[0], x, approximate), at::Tensor()};
    }
    return {IsSoleCpuTensor(grads[0]) ? BackwardInPlace(grads[0], x, approximate)
                                      : Backward(grads[0], x, approximate),
            at::Tensor()};
  }
};
const bool kRegistered = RegisterProducer<GeluFunction>();

at::Tensor GeluAutograd(const at::Tensor& x, std::string_view approximate) {
  return GeluFunction::apply(x, std::string(approximate));
}

}  // namespace

at::Tensor Gelu(const at::Tensor& input, std::string_view approximate) {
  static const auto op =
      FindOperator<at::Tensor(const at::Tensor&, std::string_view)>("palmist::gelu");
  return op.call(input, approximate);
}

TORCH_LIBRARY_FRAGMENT(palmist, m) {
  m.def("gelu(Tensor input, *, str approximate='none') -> Tensor");
  m.def("gelu_fwd(Tensor input, str approximate) -> Tensor");
  m.def("gelu_bwd(Tensor grad, Tensor input, str approximate) -> Tensor");
  m.def("gelu_bwd_(Tensor(a!) grad, Tensor input, str approximate) -> Tensor(a!)");
}
TORCH_LIBRARY_IMPL(palmist, Autograd, m) { m.impl("gelu", GeluAutograd); }
TORCH_LIBRARY_IMPL(palmist, CompositeExplicitAutograd, m) {
  m.impl("gelu", Forward);
  m.impl("gelu_fwd", ForwardComposed);
  m.impl("gelu_bwd", BackwardComposed);
}
TORCH_LIBRARY_IMPL(palmist, CPU, m) {
  m.impl("gelu_fwd", ForwardCpu);
  m.impl("gelu_bwd", BackwardCpu);
  m.impl("gelu_bwd_", BackwardInPlaceCpu);
}

}  // namespace palmist::ops
