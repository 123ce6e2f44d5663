#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <array>
#include <optional>
#include <tuple>

#include "palmist/ops/cuda/launch.h"
#include "palmist/ops/norm.h"

namespace palmist::ops {
namespace {

constexpr const char* kName = "rms_norm";

// With a weight of another type the result has the wider of the two, as Hugging Face's norms do.
bool IsMixed(const at::Tensor& x, const OptionalTensor& weight) {
  return weight && weight->defined() && weight->scalar_type() != x.scalar_type();
}

Pair Forward(const at::Tensor& input, int64_t n_dims, const OptionalTensor& weight, double eps) {
  const int64_t n = CheckNorm(kName, input, n_dims, weight, {});
  const bool is_mixed = IsMixed(input, weight);
  const at::Tensor x = Aligned(input.contiguous());
  const at::Tensor gamma = is_mixed ? at::Tensor() : Aligned(Affine(weight, x));
  at::Tensor y = at::empty_like(x);
  at::Tensor rstd = Statistics(x, n_dims);
  LaunchFor(x, [&]<typename T>(T, kernels::cuda::Stream stream) {
    using Compute = kernels::ComputeType<T>;
    kernels::cuda::RmsNorm<T>(ConstSpan<T>(x).data(),
                              rstd.numel(),
                              n,
                              ConstSpan<Compute>(gamma).data(),
                              eps,
                              MutableSpan<T>(y).data(),
                              MutableSpan<Compute>(rstd).data(),
                              stream);
  });
  return {is_mixed ? y * *weight : y, rstd};
}

Pair Backward(const at::Tensor& grad,
              const at::Tensor& input,
              int64_t n_dims,
              const OptionalTensor& weight,
              const at::Tensor& rstd,
              std::array<bool, 2> mask) {
  const int64_t n = CheckNorm(kName, input, n_dims, weight, {});
  // The gradient of a result of another type has more digits than the input's type.
  const at::ScalarType type =
      IsMixed(input, weight) ? ComputeScalarType(input.scalar_type()) : input.scalar_type();
  const at::Tensor x = Aligned(input.to(type).contiguous());
  const at::Tensor dy = Aligned(grad.to(type).contiguous());
  const at::Tensor gamma = Aligned(Affine(weight, x));
  at::Tensor dx = mask[0] ? at::empty_like(x) : at::Tensor();
  at::Tensor dgamma = mask[1] ? AffineGradient(x, n_dims) : at::Tensor();
  const at::Tensor workspace =
      mask[1] ? at::empty({kernels::cuda::RmsNormWorkspace(rstd.numel(), n)}, rstd.options())
              : at::Tensor();
  LaunchFor(x, [&]<typename T>(T, kernels::cuda::Stream stream) {
    using Compute = kernels::ComputeType<T>;
    kernels::cuda::RmsNormBackward<T>(ConstSpan<T>(dy).data(),
                                      ConstSpan<T>(x).data(),
                                      rstd.numel(),
                                      n,
                                      ConstSpan<Compute>(gamma).data(),
                                      ConstSpan<Compute>(rstd).data(),
                                      MutableSpan<T>(dx).data(),
                                      MutableSpan<Compute>(dgamma).data(),
                                      MutableSpan<Compute>(workspace).data(),
                                      stream);
  });
  return {dx.defined() ? dx.to(input.scalar_type()) : dx, ToTypeOf(dgamma, weight, input)};
}

}  // namespace

TORCH_LIBRARY_IMPL(palmist, CUDA, m) {
  m.impl("rms_norm_fwd", Forward);
  m.impl("rms_norm_bwd", Backward);
}

}  // namespace palmist::ops
