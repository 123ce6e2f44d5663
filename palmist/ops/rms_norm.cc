#include "palmist/kernels/rms_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <limits>

#include "palmist/ops/executor.h"
#include "palmist/ops/norm.h"
#include "palmist/ops/operators.h"
#include "palmist/ops/recompute.h"
#include "palmist/ops/tensors.h"

namespace palmist::ops {
namespace {

using RmsNormSignature = at::Tensor(const at::Tensor&,
                                    at::SymIntArrayRef,
                                    const OptionalTensor&,
                                    std::optional<double>);

constexpr const char* kName = "rms_norm";

double Epsilon(at::ScalarType type, std::optional<double> eps) {
  if (eps) return *eps;
  switch (type) {
    case at::kDouble:
      return std::numeric_limits<double>::epsilon();
    case at::kBFloat16:
      return 0x1p-7;
    case at::kHalf:
      return 0x1p-10;
    default:
      return std::numeric_limits<float>::epsilon();
  }
}

at::Tensor Rstd(const at::Tensor& x, int64_t n_dims, double eps) {
  const at::Tensor xf = x.to(ComputeScalarType(x.scalar_type()));
  return (xf.square().mean(LastDims(n_dims), true) + eps).rsqrt();
}

Pair ForwardComposed(const at::Tensor& x,
                     int64_t n_dims,
                     const OptionalTensor& weight,
                     double eps) {
  CheckNorm(kName, x, n_dims, weight, {});
  const at::Tensor rstd = Rstd(x, n_dims, eps);
  at::Tensor y = (x.to(rstd.scalar_type()) * rstd).to(x.scalar_type());
  if (weight && weight->defined()) y = y * *weight;
  return {y, rstd};
}

// With a weight of another type the result has the wider of the two, as Hugging Face's norms do.
bool IsMixed(const at::Tensor& x, const OptionalTensor& weight) {
  return weight && weight->defined() && weight->scalar_type() != x.scalar_type();
}

Pair ForwardCpu(const at::Tensor& x, int64_t n_dims, const OptionalTensor& weight, double eps) {
  const int64_t n = CheckNorm(kName, x, n_dims, weight, {});
  if (IsMixed(x, weight)) return ForwardComposed(x, n_dims, weight, eps);
  const at::Tensor contiguous = x.contiguous();
  at::Tensor y = at::empty_like(contiguous);
  at::Tensor rstd = Statistics(x, n_dims);
  const at::Tensor gamma = Affine(weight, x);
  DispatchStorage(x.scalar_type(), [&]<typename T>(T) {
    using Compute = kernels::ComputeType<T>;
    kernels::RmsNorm<T>(ConstSpan<T>(contiguous),
                        n,
                        ConstSpan<Compute>(gamma),
                        eps,
                        MutableSpan<T>(y),
                        MutableSpan<Compute>(rstd),
                        TorchExecutor());
  });
  return {y, rstd};
}

Pair BackwardComposed(const at::Tensor& dy,
                      const at::Tensor& x,
                      int64_t n_dims,
                      const OptionalTensor& weight,
                      const at::Tensor& rstd,
                      std::array<bool, 2> mask) {
  const at::Tensor xhat = x.to(rstd.scalar_type()) * rstd;
  const variable_list grads = NormBackward(
      dy, x, xhat, rstd, OrUndefined(weight), LastDims(n_dims), false, {mask[0], mask[1], false});
  return {grads[0], grads[1]};
}

Pair BackwardCpu(const at::Tensor& dy,
                 const at::Tensor& x,
                 int64_t n_dims,
                 const OptionalTensor& weight,
                 const at::Tensor& rstd,
                 std::array<bool, 2> mask) {
  const int64_t n = CheckNorm(kName, x, n_dims, weight, {});
  if (IsMixed(x, weight)) return BackwardComposed(dy, x, n_dims, weight, rstd, mask);
  const at::Tensor contiguous = x.contiguous();
  const at::Tensor contiguous_dy = dy.contiguous();
  const at::Tensor gamma = Affine(weight, x);
  at::Tensor dx = mask[0] ? at::empty_like(contiguous) : at::Tensor();
  at::Tensor dgamma = mask[1] ? AffineGradient(x, n_dims) : at::Tensor();
  DispatchStorage(x.scalar_type(), [&]<typename T>(T) {
    using Compute = kernels::ComputeType<T>;
    kernels::RmsNormBackward<T>(ConstSpan<T>(contiguous_dy),
                                ConstSpan<T>(contiguous),
                                n,
                                ConstSpan<Compute>(gamma),
                                ConstSpan<Compute>(rstd),
                                MutableSpan<T>(dx),
                                MutableSpan<Compute>(dgamma),
                                TorchExecutor());
  });
  return {dx, ToTypeOf(dgamma, weight, x)};
}

Pair Forward(const at::Tensor& x, int64_t n_dims, const OptionalTensor& weight, double eps) {
  static const auto op = FindOperator<decltype(ForwardCpu)>("palmist::rms_norm_fwd");
  return op.call(x, n_dims, weight, eps);
}

Pair Backward(const at::Tensor& dy,
              const at::Tensor& x,
              int64_t n_dims,
              const OptionalTensor& weight,
              const at::Tensor& rstd,
              std::array<bool, 2> mask) {
  static const auto op = FindOperator<decltype(BackwardCpu)>("palmist::rms_norm_bwd");
  return op.call(dy, x, n_dims, weight, rstd, mask);
}

struct RmsNormFunction : torch::autograd::Function<RmsNormFunction> {
  static at::Tensor forward(AutogradContext* ctx,
                            const at::Tensor& x,
                            const OptionalTensor& weight,
                            int64_t n_dims,
                            double eps) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    auto [y, rstd] = Forward(x, n_dims, weight, eps);
    ctx->save_for_backward({x, OrUndefined(weight), rstd});
    ctx->saved_data["n_dims"] = n_dims;
    ctx->saved_data["eps"] = eps;
    return y;
  }

  static at::Tensor Recompute(AutogradContext& ctx) {
    const variable_list saved = Saved(ctx);
    const int64_t n_dims = ctx.saved_data["n_dims"].toInt();
    const double eps = ctx.saved_data["eps"].toDouble();
    if (at::GradMode::is_enabled()) {
      return RmsNorm(
          saved[0], saved[0].sizes().slice(saved[0].dim() - n_dims), OrNone(saved[1]), eps);
    }
    return std::get<0>(Forward(saved[0], n_dims, OrNone(saved[1]), eps));
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = TakeSaved(*ctx);
    const at::Tensor& x = saved[0];
    const int64_t n_dims = ctx->saved_data["n_dims"].toInt();
    const bool needs_weight = saved[1].defined() && ctx->needs_input_grad(1);
    if (!at::GradMode::is_enabled()) {
      auto [dx, dweight] = Backward(grads[0],
                                    x,
                                    n_dims,
                                    OrNone(saved[1]),
                                    saved[2],
                                    {ctx->needs_input_grad(0), needs_weight});
      return {dx, dweight, at::Tensor(), at::Tensor()};
    }
    const at::Tensor rstd = Rstd(x, n_dims, ctx->saved_data["eps"].toDouble());
    variable_list result = NormBackward(grads[0],
                                        x,
                                        x.to(rstd.scalar_type()) * rstd,
                                        rstd,
                                        saved[1],
                                        LastDims(n_dims),
                                        false,
                                        {ctx->needs_input_grad(0), needs_weight, false});
    result.resize(4);
    return result;
  }
};
const bool kRegistered = RegisterProducer<RmsNormFunction>();

at::Tensor RmsNormAutograd(const at::Tensor& x,
                           at::SymIntArrayRef normalized_shape,
                           const OptionalTensor& weight,
                           std::optional<double> eps) {
  return RmsNormFunction::apply(
      x, weight, CheckedDims(kName, x, normalized_shape), Epsilon(x.scalar_type(), eps));
}

at::Tensor RmsNormForwardOnly(const at::Tensor& x,
                              at::SymIntArrayRef normalized_shape,
                              const OptionalTensor& weight,
                              std::optional<double> eps) {
  return std::get<0>(
      Forward(x, CheckedDims(kName, x, normalized_shape), weight, Epsilon(x.scalar_type(), eps)));
}

}  // namespace

at::Tensor RmsNorm(const at::Tensor& input,
                   at::IntArrayRef normalized_shape,
                   const OptionalTensor& weight,
                   std::optional<double> eps) {
  static const auto op = FindOperator<RmsNormSignature>("palmist::rms_norm");
  return op.call(input, c10::fromIntArrayRefSlow(normalized_shape), weight, eps);
}

TORCH_LIBRARY_FRAGMENT(palmist, m) {
  m.def(
      "rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> "
      "Tensor");
  m.def("rms_norm_fwd(Tensor input, int n_dims, Tensor? weight, float eps) -> (Tensor, Tensor)");
  m.def(
      "rms_norm_bwd(Tensor grad, Tensor input, int n_dims, Tensor? weight, Tensor rstd, "
      "bool[2] output_mask) -> (Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(palmist, Autograd, m) { m.impl("rms_norm", RmsNormAutograd); }
TORCH_LIBRARY_IMPL(palmist, CompositeExplicitAutograd, m) {
  m.impl("rms_norm", RmsNormForwardOnly);
  m.impl("rms_norm_fwd", ForwardComposed);
  m.impl("rms_norm_bwd", BackwardComposed);
}
TORCH_LIBRARY_IMPL(palmist, CPU, m) {
  m.impl("rms_norm_fwd", ForwardCpu);
  m.impl("rms_norm_bwd", BackwardCpu);
}

}  // namespace palmist::ops
