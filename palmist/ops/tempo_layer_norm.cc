#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "palmist/kernels/layer_norm.h"
#include "palmist/ops/executor.h"
#include "palmist/ops/norm.h"
#include "palmist/ops/operators.h"
#include "palmist/ops/recompute.h"
#include "palmist/ops/tensors.h"

namespace palmist::ops {
namespace {

using ForwardSignature =
    Triple(const at::Tensor&, int64_t, const OptionalTensor&, const OptionalTensor&, double);

constexpr const char* kName = "tempo_layer_norm";

// The output tells the input only while it was not rounded too coarsely; without values (fake
// tensors) nobody can say.
bool CanInvert(const at::Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias) {
  if (!x.is_cpu()) return false;
  if (!weight || !weight->defined()) return !bias || !bias->defined();
  const auto has_values = [](const at::Tensor& tensor) {
    return !tensor.key_set().has_any(c10::DispatchKeySet({c10::DispatchKey::Python,
                                                          c10::DispatchKey::Functionalize,
                                                          c10::DispatchKey::FuncTorchBatched}));
  };
  if (!has_values(*weight) || (bias && bias->defined() && !has_values(*bias))) return false;
  const at::Tensor gamma = Affine(weight, x);
  const at::Tensor beta = Affine(bias, x);
  if (x.scalar_type() == at::kDouble) {
    return kernels::CanInvertLayerNorm<double>(ConstSpan<double>(gamma), ConstSpan<double>(beta));
  }
  return kernels::CanInvertLayerNorm<float>(ConstSpan<float>(gamma), ConstSpan<float>(beta));
}

Triple BackwardCpu(const at::Tensor& dy,
                   const at::Tensor& y,
                   int64_t n_dims,
                   const OptionalTensor& weight,
                   const OptionalTensor& bias,
                   const at::Tensor& rstd,
                   std::array<bool, 3> mask) {
  const int64_t n = CheckNorm(kName, y, n_dims, weight, bias);
  const at::Tensor contiguous_dy = dy.contiguous();
  const at::Tensor gamma = Affine(weight, y);
  const at::Tensor beta = Affine(bias, y);
  at::Tensor dx = mask[0] ? at::empty_like(y) : at::Tensor();
  at::Tensor dgamma = mask[1] ? AffineGradient(y, n_dims) : at::Tensor();
  at::Tensor dbeta = mask[2] ? AffineGradient(y, n_dims) : at::Tensor();
  DispatchStorage(y.scalar_type(), [&]<typename T>(T) {
    using Compute = kernels::ComputeType<T>;
    kernels::LayerNormOutputBackward<T>(ConstSpan<T>(contiguous_dy),
                                        ConstSpan<T>(y),
                                        n,
                                        ConstSpan<Compute>(gamma),
                                        ConstSpan<Compute>(beta),
                                        ConstSpan<Compute>(rstd),
                                        MutableSpan<T>(dx),
                                        MutableSpan<Compute>(dgamma),
                                        MutableSpan<Compute>(dbeta),
                                        TorchExecutor());
  });
  return {dx, ToTypeOf(dgamma, weight, y), ToTypeOf(dbeta, weight, y)};
}

Triple BackwardMeta(const at::Tensor&,
                    const at::Tensor& y,
                    int64_t n_dims,
                    const OptionalTensor& weight,
                    const OptionalTensor& bias,
                    const at::Tensor&,
                    std::array<bool, 3> mask) {
  const auto row = y.sym_sizes().slice(y.dim() - n_dims);
  const auto like = [&](const OptionalTensor& tensor) {
    return at::empty_symint(row, (tensor && tensor->defined() ? *tensor : y).options());
  };
  return {mask[0] ? at::empty_like(y) : at::Tensor(),
          mask[1] ? like(weight) : at::Tensor(),
          mask[2] ? like(bias) : at::Tensor()};
}

struct TempoLayerNormFunction : torch::autograd::Function<TempoLayerNormFunction> {
  static at::Tensor forward(AutogradContext* ctx,
                            const at::Tensor& x,
                            const OptionalTensor& weight,
                            const OptionalTensor& bias,
                            int64_t n_dims,
                            double eps) {
    static const auto op = FindOperator<ForwardSignature>("palmist::layer_norm_fwd");
    const at::AutoDispatchBelowADInplaceOrView guard;
    auto [y, mean, rstd] = op.call(x, n_dims, weight, bias, eps);
    ctx->save_for_backward({y, OrUndefined(weight), OrUndefined(bias), rstd});
    ctx->saved_data["n_dims"] = n_dims;
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    static const auto op = FindOperator<decltype(BackwardCpu)>("palmist::tempo_layer_norm_bwd");
    TORCH_CHECK(!at::GradMode::is_enabled(),
                "tempo_layer_norm: expected one differentiation, got a second: its backward knows "
                "the output only; use palmist::layer_norm for gradients of gradients");
    const variable_list saved = ctx->get_saved_variables();
    const bool has_weight = saved[1].defined();
    const bool has_bias = saved[2].defined();
    auto [dx, dweight, dbias] = op.call(grads[0],
                                        saved[0],
                                        ctx->saved_data["n_dims"].toInt(),
                                        OrNone(saved[1]),
                                        OrNone(saved[2]),
                                        saved[3],
                                        {ctx->needs_input_grad(0),
                                         has_weight && ctx->needs_input_grad(1),
                                         has_bias && ctx->needs_input_grad(has_weight ? 2 : 1)});
    return {dx, dweight, dbias, at::Tensor(), at::Tensor()};
  }
};

at::Tensor Exact(const at::Tensor& x,
                 at::SymIntArrayRef normalized_shape,
                 const OptionalTensor& weight,
                 const OptionalTensor& bias,
                 double eps) {
  static const auto op = FindOperator<NormSignature>("palmist::layer_norm");
  return op.call(x, normalized_shape, weight, bias, eps);
}

at::Tensor TempoLayerNormAutograd(const at::Tensor& x,
                                  at::SymIntArrayRef normalized_shape,
                                  const OptionalTensor& weight,
                                  const OptionalTensor& bias,
                                  double eps) {
  const int64_t n_dims = CheckedDims(kName, x, normalized_shape);
  if (!CanInvert(x, weight, bias)) return Exact(x, normalized_shape, weight, bias, eps);
  return TempoLayerNormFunction::apply(x, weight, bias, n_dims, eps);
}

}  // namespace

at::Tensor TempoLayerNorm(const at::Tensor& input,
                          at::IntArrayRef normalized_shape,
                          const OptionalTensor& weight,
                          const OptionalTensor& bias,
                          double eps) {
  static const auto op = FindOperator<NormSignature>("palmist::tempo_layer_norm");
  return op.call(input, c10::fromIntArrayRefSlow(normalized_shape), weight, bias, eps);
}

TORCH_LIBRARY_FRAGMENT(palmist, m) {
  m.def(
      "tempo_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, "
      "Tensor? bias=None, float eps=1e-05) -> Tensor");
  m.def(
      "tempo_layer_norm_bwd(Tensor grad, Tensor output, int n_dims, Tensor? weight, Tensor? bias, "
      "Tensor rstd, bool[3] output_mask) -> (Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(palmist, Autograd, m) { m.impl("tempo_layer_norm", TempoLayerNormAutograd); }
TORCH_LIBRARY_IMPL(palmist, CompositeExplicitAutograd, m) { m.impl("tempo_layer_norm", Exact); }
TORCH_LIBRARY_IMPL(palmist, CPU, m) { m.impl("tempo_layer_norm_bwd", BackwardCpu); }
TORCH_LIBRARY_IMPL(palmist, Meta, m) { m.impl("tempo_layer_norm_bwd", BackwardMeta); }

}  // namespace palmist::ops
