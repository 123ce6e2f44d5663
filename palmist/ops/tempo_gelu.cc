#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <c10/core/TensorOptions.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "palmist/kernels/gelu.h"
#include "palmist/ops/executor.h"
#include "palmist/ops/operators.h"
#include "palmist/ops/recompute.h"
#include "palmist/ops/tensors.h"

namespace palmist::ops {
namespace {

Pair ForwardCpu(const at::Tensor& x, std::string_view approximate) {
  CheckFloating("tempo_gelu", "input", x);
  const kernels::GeluKind kind = ParseGeluKind(approximate);
  const at::Tensor dense = Dense(x);
  at::Tensor y = at::empty_like(dense);
  at::Tensor bits = at::empty({kernels::GeluBitBytes(x.numel())}, x.options().dtype(at::kByte));
  DispatchStorage(x.scalar_type(), [&]<typename T>(T) {
    kernels::GeluWithBits<T>(
        ConstSpan<T>(dense), MutableSpan<T>(y), MutableSpan<uint8_t>(bits), kind, TorchExecutor());
  });
  return {y, bits};
}

at::Tensor BackwardCpu(const at::Tensor& dy,
                       const at::Tensor& y,
                       const at::Tensor& bits,
                       std::string_view approximate) {
  const kernels::GeluKind kind = ParseGeluKind(approximate);
  const at::Tensor dense_dy = DenseLike(dy, y);
  at::Tensor dx = at::empty_like(y);
  DispatchStorage(y.scalar_type(), [&]<typename T>(T) {
    kernels::GeluOutputBackward<T>(ConstSpan<T>(dense_dy),
                                   ConstSpan<T>(y),
                                   ConstSpan<uint8_t>(bits),
                                   MutableSpan<T>(dx),
                                   kind,
                                   TorchExecutor());
  });
  return dx;
}

Pair ForwardMeta(const at::Tensor& x, std::string_view) {
  CheckFloating("tempo_gelu", "input", x);
  return {at::empty_like(x),
          at::empty_symint({(x.sym_numel() + 7) / 8}, x.options().dtype(at::kByte))};
}

at::Tensor BackwardMeta(const at::Tensor&,
                        const at::Tensor& y,
                        const at::Tensor&,
                        std::string_view) {
  return at::empty_like(y);
}

const auto& ForwardOperator() {
  static const auto op = FindOperator<decltype(ForwardCpu)>("palmist::tempo_gelu_fwd");
  return op;
}

// Asked of the device, since a fake tensor's own key is Meta's.
bool HasKernel(const at::Tensor& x) {
  if (x.is_cpu() || x.is_meta()) return true;
  const c10::DispatchKey key =
      c10::computeDispatchKey(/*dtype=*/std::nullopt, /*layout=*/std::nullopt, x.device());
  return x.scalar_type() != at::kDouble && ForwardOperator().hasKernelForDispatchKey(key);
}

at::Tensor Backward(const at::Tensor& dy,
                    const at::Tensor& y,
                    const at::Tensor& bits,
                    std::string_view approximate) {
  static const auto op = FindOperator<decltype(BackwardCpu)>("palmist::tempo_gelu_bwd");
  return op.call(dy, y, bits, approximate);
}

struct TempoGeluFunction : torch::autograd::Function<TempoGeluFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, std::string approximate) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    auto [y, bits] = ForwardOperator().call(x, approximate);
    ctx->save_for_backward({y, bits});
    ctx->saved_data["approximate"] = std::move(approximate);
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    TORCH_CHECK(!at::GradMode::is_enabled(),
                "tempo_gelu: expected one differentiation, got a second: its backward knows the "
                "output only; use palmist::gelu for gradients of gradients");
    const variable_list saved = ctx->get_saved_variables();
    const std::string& approximate = ctx->saved_data["approximate"].toStringRef();
    return {Backward(grads[0], saved[0], saved[1], approximate), at::Tensor()};
  }
};

at::Tensor TempoGeluAutograd(const at::Tensor& x, std::string_view approximate) {
  // Without a kernel of its own, a device gets the exact operator: never a wrong number.
  if (!HasKernel(x)) return Gelu(x, approximate);
  return TempoGeluFunction::apply(x, std::string(approximate));
}

}  // namespace

at::Tensor TempoGelu(const at::Tensor& input, std::string_view approximate) {
  static const auto op =
      FindOperator<at::Tensor(const at::Tensor&, std::string_view)>("palmist::tempo_gelu");
  return op.call(input, approximate);
}

TORCH_LIBRARY_FRAGMENT(palmist, m) {
  m.def("tempo_gelu(Tensor input, *, str approximate='none') -> Tensor");
  m.def("tempo_gelu_fwd(Tensor input, str approximate) -> (Tensor, Tensor)");
  m.def("tempo_gelu_bwd(Tensor grad, Tensor output, Tensor bits, str approximate) -> Tensor");
}
TORCH_LIBRARY_IMPL(palmist, Autograd, m) { m.impl("tempo_gelu", TempoGeluAutograd); }
TORCH_LIBRARY_IMPL(palmist, CompositeExplicitAutograd, m) { m.impl("tempo_gelu", Gelu); }
TORCH_LIBRARY_IMPL(palmist, CPU, m) {
  m.impl("tempo_gelu_fwd", ForwardCpu);
  m.impl("tempo_gelu_bwd", BackwardCpu);
}
TORCH_LIBRARY_IMPL(palmist, Meta, m) {
  m.impl("tempo_gelu_fwd", ForwardMeta);
  m.impl("tempo_gelu_bwd", BackwardMeta);
}

}  // namespace palmist::ops
