#include "palmist/kernels/layer_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <torch/library.h>

#include "palmist/ops/executor.h"
#include "palmist/ops/norm.h"
#include "palmist/ops/operators.h"
#include "palmist/ops/recompute.h"
#include "palmist/ops/tensors.h"

namespace palmist::ops {
namespace {

constexpr const char* kName = "layer_norm";

Triple ForwardCpu(const at::Tensor& x,
                  int64_t n_dims,
                  const OptionalTensor& weight,
                  const OptionalTensor& bias,
                  double eps) {
  const int64_t n = CheckNorm(kName, x, n_dims, weight, bias);
  const at::Tensor contiguous = x.contiguous();
  at::Tensor y = at::empty_like(contiguous);
  at::Tensor mean = Statistics(x, n_dims);
  at::Tensor rstd = at::empty_like(mean);
  const at::Tensor gamma = Affine(weight, x);
  const at::Tensor beta = Affine(bias, x);
  DispatchStorage(x.scalar_type(), [&]<typename T>(T) {
    using Compute = kernels::ComputeType<T>;
    kernels::LayerNorm<T>(ConstSpan<T>(contiguous),
                          n,
                          ConstSpan<Compute>(gamma),
                          ConstSpan<Compute>(beta),
                          eps,
                          MutableSpan<T>(y),
                          MutableSpan<Compute>(mean),
                          MutableSpan<Compute>(rstd),
                          TorchExecutor());
  });
  return {y, mean, rstd};
}

Triple BackwardCpu(const at::Tensor& dy,
                   const at::Tensor& x,
                   int64_t n_dims,
                   const OptionalTensor& weight,
                   const at::Tensor& mean,
                   const at::Tensor& rstd,
                   std::array<bool, 3> mask) {
  const int64_t n = CheckNorm(kName, x, n_dims, weight, {});
  const at::Tensor contiguous = x.contiguous();
  const at::Tensor contiguous_dy = dy.contiguous();
  const at::Tensor gamma = Affine(weight, x);
  at::Tensor dx = mask[0] ? at::empty_like(contiguous) : at::Tensor();
  at::Tensor dgamma = mask[1] ? AffineGradient(x, n_dims) : at::Tensor();
  at::Tensor dbeta = mask[2] ? AffineGradient(x, n_dims) : at::Tensor();
  DispatchStorage(x.scalar_type(), [&]<typename T>(T) {
    using Compute = kernels::ComputeType<T>;
    kernels::LayerNormBackward<T>(ConstSpan<T>(contiguous_dy),
                                  ConstSpan<T>(contiguous),
                                  n,
                                  ConstSpan<Compute>(gamma),
                                  ConstSpan<Compute>(mean),
                                  ConstSpan<Compute>(rstd),
                                  MutableSpan<T>(dx),
                                  MutableSpan<Compute>(dgamma),
                                  MutableSpan<Compute>(dbeta),
                                  TorchExecutor());
  });
  return {dx, ToTypeOf(dgamma, weight, x), ToTypeOf(dbeta, weight, x)};
}

Triple ForwardComposed(const at::Tensor& x,
                       int64_t n_dims,
                       const OptionalTensor& weight,
                       const OptionalTensor& bias,
                       double eps) {
  CheckNorm(kName, x, n_dims, weight, bias);
  return at::native_layer_norm(
      x, x.sizes().slice(x.dim() - n_dims), AsTypeOf(weight, x), AsTypeOf(bias, x), eps);
}

Triple BackwardComposed(const at::Tensor& dy,
                        const at::Tensor& x,
                        int64_t n_dims,
                        const OptionalTensor& weight,
                        const at::Tensor& mean,
                        const at::Tensor& rstd,
                        std::array<bool, 3> mask) {
  // A bias is there whenever its gradient is asked for; its value plays no part.
  auto [dx, dweight, dbias] = at::native_layer_norm_backward(dy,
                                                             x,
                                                             x.sizes().slice(x.dim() - n_dims),
                                                             mean,
                                                             rstd,
                                                             AsTypeOf(weight, x),
                                                             AsTypeOf(weight, x),
                                                             mask);
  return {dx, ToTypeOf(dweight, weight, x), ToTypeOf(dbias, weight, x)};
}

Triple Forward(const at::Tensor& x,
               int64_t n_dims,
               const OptionalTensor& weight,
               const OptionalTensor& bias,
               double eps) {
  static const auto op = FindOperator<decltype(ForwardCpu)>("palmist::layer_norm_fwd");
  return op.call(x, n_dims, weight, bias, eps);
}

Triple Backward(const at::Tensor& dy,
                const at::Tensor& x,
                int64_t n_dims,
                const OptionalTensor& weight,
                const at::Tensor& mean,
                const at::Tensor& rstd,
                std::array<bool, 3> mask) {
  static const auto op = FindOperator<decltype(BackwardCpu)>("palmist::layer_norm_bwd");
  return op.call(dy, x, n_dims, weight, mean, rstd, mask);
}

struct LayerNormFunction : torch::autograd::Function<LayerNormFunction> {
  static at::Tensor forward(AutogradContext* ctx,
                            const at::Tensor& x,
                            const OptionalTensor& weight,
                            const OptionalTensor& bias,
                            int64_t n_dims,
                            double eps) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    auto [y, mean, rstd] = Forward(x, n_dims, weight, bias, eps);
    ctx->save_for_backward({x, OrUndefined(weight), OrUndefined(bias), mean, rstd});
    ctx->saved_data["n_dims"] = n_dims;
    ctx->saved_data["eps"] = eps;
    return y;
  }

  static at::Tensor Recompute(AutogradContext& ctx) {
    const variable_list saved = Saved(ctx);
    const int64_t n_dims = ctx.saved_data["n_dims"].toInt();
    const double eps = ctx.saved_data["eps"].toDouble();
    if (at::GradMode::is_enabled()) {
      return LayerNorm(saved[0],
                       saved[0].sizes().slice(saved[0].dim() - n_dims),
                       OrNone(saved[1]),
                       OrNone(saved[2]),
                       eps);
    }
    return std::get<0>(Forward(saved[0], n_dims, OrNone(saved[1]), OrNone(saved[2]), eps));
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = TakeSaved(*ctx);
    const at::Tensor& x = saved[0];
    const int64_t n_dims = ctx->saved_data["n_dims"].toInt();
    // Edges count tensors that are there.
    const std::size_t bias_edge = saved[1].defined() ? 2 : 1;
    const std::array<bool, 3> mask = {ctx->needs_input_grad(0),
                                      saved[1].defined() && ctx->needs_input_grad(1),
                                      saved[2].defined() && ctx->needs_input_grad(bias_edge)};
    if (!at::GradMode::is_enabled()) {
      auto [dx, dweight, dbias] =
          Backward(grads[0], x, n_dims, OrNone(saved[1]), saved[3], saved[4], mask);
      return {dx, dweight, dbias, at::Tensor(), at::Tensor()};
    }
    // To be differentiated again: statistics that know where they come from.
    const at::Tensor xf = x.to(ComputeScalarType(x.scalar_type()));
    const std::vector<int64_t> dims = LastDims(n_dims);
    const at::Tensor centred = xf - xf.mean(dims, true);
    const at::Tensor rstd =
        (centred.square().mean(dims, true) + ctx->saved_data["eps"].toDouble()).rsqrt();
    return NormBackward(grads[0], x, centred * rstd, rstd, saved[1], dims, true, mask);
  }
};
const bool kRegistered = RegisterProducer<LayerNormFunction>();

at::Tensor LayerNormAutograd(const at::Tensor& x,
                             at::SymIntArrayRef normalized_shape,
                             const OptionalTensor& weight,
                             const OptionalTensor& bias,
                             double eps) {
  return LayerNormFunction::apply(x, weight, bias, CheckedDims(kName, x, normalized_shape), eps);
}

at::Tensor LayerNormForwardOnly(const at::Tensor& x,
                                at::SymIntArrayRef normalized_shape,
                                const OptionalTensor& weight,
                                const OptionalTensor& bias,
                                double eps) {
  return std::get<0>(Forward(x, CheckedDims(kName, x, normalized_shape), weight, bias, eps));
}

}  // namespace

at::Tensor LayerNorm(const at::Tensor& input,
                     at::IntArrayRef normalized_shape,
                     const OptionalTensor& weight,
                     const OptionalTensor& bias,
                     double eps) {
  static const auto op = FindOperator<NormSignature>("palmist::layer_norm");
  return op.call(input, c10::fromIntArrayRefSlow(normalized_shape), weight, bias, eps);
}

TORCH_LIBRARY_FRAGMENT(palmist, m) {
  m.def(
      "layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
      "float eps=1e-05) -> Tensor");
  m.def(
      "layer_norm_fwd(Tensor input, int n_dims, Tensor? weight, Tensor? bias, float eps) -> "
      "(Tensor, Tensor, Tensor)");
  m.def(
      "layer_norm_bwd(Tensor grad, Tensor input, int n_dims, Tensor? weight, Tensor mean, "
      "Tensor rstd, bool[3] output_mask) -> (Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(palmist, Autograd, m) { m.impl("layer_norm", LayerNormAutograd); }
TORCH_LIBRARY_IMPL(palmist, CompositeExplicitAutograd, m) {
  m.impl("layer_norm", LayerNormForwardOnly);
  m.impl("layer_norm_fwd", ForwardComposed);
  m.impl("layer_norm_bwd", BackwardComposed);
}
TORCH_LIBRARY_IMPL(palmist, CPU, m) {
  m.impl("layer_norm_fwd", ForwardCpu);
  m.impl("layer_norm_bwd", BackwardCpu);
}

}  // namespace palmist::ops
