#include <ATen/autocast_mode.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <torch/library.h>

#include "palmist/ops/operators.h"
#include "palmist/ops/recompute.h"
#include "palmist/ops/tensors.h"

namespace palmist::ops {
namespace {

using OptionalType = std::optional<at::ScalarType>;
using LinearSignature = at::Tensor(const at::Tensor&,
                                   const at::Tensor&,
                                   const OptionalTensor&,
                                   OptionalType);

void Check(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias) {
  CheckFloating("linear", "input", x);
  CheckFloating("linear", "weight", weight);
  TORCH_CHECK(weight.device() == x.device(),
              "linear: expected the weight on ",
              x.device(),
              " as the input, got ",
              weight.device(),
              "; move one of them");
  TORCH_CHECK(weight.dim() == 2,
              "linear: expected a weight of two dimensions [out, in], got shape ",
              weight.sym_sizes());
  TORCH_CHECK(x.dim() >= 1 && x.sym_size(-1) == weight.sym_size(1),
              "linear: expected an input of ",
              weight.sym_size(1),
              " features as the weight has, got shape ",
              x.sym_sizes());
  TORCH_CHECK(
      !bias || !bias->defined() || (bias->dim() == 1 && bias->sym_size(0) == weight.sym_size(0)),
      "linear: expected a bias of shape [",
      weight.sym_size(0),
      "], got ",
      bias->sym_sizes());
}

at::Tensor Cast(const at::Tensor& tensor, OptionalType type) {
  return type && tensor.defined() ? tensor.to(*type) : tensor;
}

at::Tensor ForwardOnly(const at::Tensor& x,
                       const at::Tensor& weight,
                       const OptionalTensor& bias,
                       OptionalType compute_type) {
  Check(x, weight, bias);
  const at::Tensor cast_bias = Cast(OrUndefined(bias), compute_type);
  return at::linear(Cast(x, compute_type), Cast(weight, compute_type), OrNone(cast_bias));
}

struct LinearFunction : torch::autograd::Function<LinearFunction> {
  static at::Tensor forward(AutogradContext* ctx,
                            const at::Tensor& x,
                            const at::Tensor& weight,
                            const OptionalTensor& bias,
                            OptionalType compute_type) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    // A frozen weight needs no input.
    const bool recomputes = weight.requires_grad() && CanRecompute(x);
    const bool keeps_input = weight.requires_grad() && !recomputes;
    ctx->save_for_backward({keeps_input ? Cast(x, compute_type) : at::Tensor(),
                            x.requires_grad() ? weight : at::Tensor()});
    ctx->saved_data["recomputes"] = recomputes;
    if (compute_type) ctx->saved_data["compute_type"] = *compute_type;
    ctx->saved_data["x_type"] = x.scalar_type();
    ctx->saved_data["weight_type"] = weight.scalar_type();
    if (bias && bias->defined()) ctx->saved_data["bias_type"] = bias->scalar_type();
    return ForwardOnly(x, weight, bias, compute_type);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    auto& data = ctx->saved_data;
    const OptionalType compute_type = (data.count("compute_type") > 0)
                                          ? OptionalType(data["compute_type"].toScalarType())
                                          : std::nullopt;
    const at::Tensor& dy = grads[0];
    const at::Tensor rows = dy.dim() == 1 ? dy.unsqueeze(0) : dy.flatten(0, -2);
    at::Tensor dx, dweight, dbias;
    // First, so that an input made again is gone before its gradient comes.
    if (ctx->needs_input_grad(1)) {
      const at::Tensor x =
          data["recomputes"].toBool() ? Cast(RecomputedInput(0), compute_type) : saved[0];
      dweight = at::mm(rows.t(), x.dim() == 1 ? x.unsqueeze(0) : x.flatten(0, -2))
                    .to(data["weight_type"].toScalarType());
    }
    if (data.count("bias_type") > 0 && ctx->needs_input_grad(2)) {
      dbias = rows.sum(0).to(data["bias_type"].toScalarType());
    }
    if (ctx->needs_input_grad(0)) {
      dx = at::matmul(dy, Cast(saved[1], compute_type)).to(data["x_type"].toScalarType());
    }
    return {dx, dweight, dbias, at::Tensor()};
  }
};

at::Tensor LinearAutograd(const at::Tensor& x,
                          const at::Tensor& weight,
                          const OptionalTensor& bias,
                          OptionalType compute_type) {
  return LinearFunction::apply(x, weight, bias, compute_type);
}

at::Tensor Call(const at::Tensor& x,
                const at::Tensor& weight,
                const OptionalTensor& bias,
                OptionalType compute_type) {
  static const auto op = FindOperator<LinearSignature>("palmist::linear");
  return op.call(x, weight, bias, compute_type);
}

// The casts belong inside the operator, so that their copies are not kept.
template <c10::DeviceType device>
at::Tensor LinearAutocast(const at::Tensor& x,
                          const at::Tensor& weight,
                          const OptionalTensor& bias,
                          OptionalType compute_type) {
  const c10::impl::ExcludeDispatchKeyGuard guard(
      at::autocast::get_autocast_dispatch_key_from_device_type(device));
  if (!compute_type && x.scalar_type() != at::kDouble) {
    compute_type = at::autocast::get_autocast_dtype(device);
  }
  return Call(x, weight, bias, compute_type);
}

}  // namespace

at::Tensor Linear(const at::Tensor& input, const at::Tensor& weight, const OptionalTensor& bias) {
  return Call(input, weight, bias, std::nullopt);
}

TORCH_LIBRARY_FRAGMENT(palmist, m) {
  // compute_type: what autocast sets; gradients have the types of the arguments.
  m.def(
      "linear(Tensor input, Tensor weight, Tensor? bias=None, *, ScalarType? compute_type=None) -> "
      "Tensor");
}
TORCH_LIBRARY_IMPL(palmist, Autograd, m) { m.impl("linear", LinearAutograd); }
TORCH_LIBRARY_IMPL(palmist, CompositeExplicitAutograd, m) { m.impl("linear", ForwardOnly); }
TORCH_LIBRARY_IMPL(palmist, AutocastCPU, m) { m.impl("linear", LinearAutocast<at::kCPU>); }
TORCH_LIBRARY_IMPL(palmist, AutocastCUDA, m) { m.impl("linear", LinearAutocast<at::kCUDA>); }

}  // namespace palmist::ops
