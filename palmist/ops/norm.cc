#include "palmist/ops/norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include <numeric>

#include "palmist/ops/tensors.h"

namespace palmist::ops {

std::vector<int64_t> LastDims(int64_t n_dims) {
  std::vector<int64_t> dims(n_dims);
  std::iota(dims.begin(), dims.end(), -n_dims);
  return dims;
}

int64_t CheckedDims(const char* name,
                    const at::Tensor& input,
                    at::SymIntArrayRef normalized_shape) {
  const auto n_dims = static_cast<int64_t>(normalized_shape.size());
  TORCH_CHECK(n_dims >= 1, name, ": expected normalized_shape of at least one dimension, got []");
  TORCH_CHECK(
      input.dim() >= n_dims && input.sym_sizes().slice(input.dim() - n_dims) == normalized_shape,
      name,
      ": expected an input whose last dimensions are ",
      normalized_shape,
      ", got shape ",
      input.sym_sizes());
  return n_dims;
}

int64_t CheckNorm(const char* name,
                  const at::Tensor& input,
                  int64_t n_dims,
                  const std::optional<at::Tensor>& weight,
                  const std::optional<at::Tensor>& bias) {
  CheckFloating(name, "input", input);
  const auto row = input.sizes().slice(input.dim() - n_dims);
  for (const auto& [argument, tensor] : {std::pair("weight", weight), std::pair("bias", bias)}) {
    if (!tensor || !tensor->defined()) continue;
    CheckFloating(name, argument, *tensor);
    TORCH_CHECK(tensor->sizes() == row,
                name,
                ": expected ",
                argument,
                " of shape ",
                row,
                ", got ",
                tensor->sizes());
    TORCH_CHECK(tensor->device() == input.device(),
                name,
                ": expected ",
                argument,
                " on ",
                input.device(),
                " as the input, got ",
                tensor->device(),
                "; move one of them");
  }
  const int64_t n = c10::multiply_integers(row);
  TORCH_CHECK(n > 0 || input.numel() == 0, name, ": expected rows of at least one element");
  return n;
}

at::Tensor Statistics(const at::Tensor& input, int64_t n_dims) {
  std::vector<int64_t> sizes = input.sizes().vec();
  std::fill(sizes.end() - n_dims, sizes.end(), 1);
  return at::empty(sizes, input.options().dtype(ComputeScalarType(input.scalar_type())));
}

at::Tensor Affine(const std::optional<at::Tensor>& tensor, const at::Tensor& input) {
  if (!tensor || !tensor->defined()) return {};
  return tensor->to(ComputeScalarType(input.scalar_type())).contiguous();
}

at::Tensor AffineGradient(const at::Tensor& input, int64_t n_dims) {
  return at::empty(input.sizes().slice(input.dim() - n_dims),
                   input.options().dtype(ComputeScalarType(input.scalar_type())));
}

std::optional<at::Tensor> AsTypeOf(const std::optional<at::Tensor>& tensor,
                                   const at::Tensor& input) {
  if (!tensor || !tensor->defined()) return std::nullopt;
  return tensor->to(input.scalar_type());
}

at::Tensor ToTypeOf(const at::Tensor& gradient,
                    const std::optional<at::Tensor>& weight,
                    const at::Tensor& input) {
  if (!gradient.defined()) return gradient;
  return gradient.to(weight && weight->defined() ? weight->scalar_type() : input.scalar_type());
}

std::vector<at::Tensor> NormBackward(const at::Tensor& dy,
                                     const at::Tensor& input,
                                     const at::Tensor& xhat,
                                     const at::Tensor& rstd,
                                     const at::Tensor& weight,
                                     at::IntArrayRef dims,
                                     bool centred,
                                     std::array<bool, 3> mask) {
  const at::Tensor dyf = dy.to(xhat.scalar_type());
  std::vector<at::Tensor> grads(5);
  if (mask[0]) {
    const at::Tensor g = weight.defined() ? dyf * weight : dyf;
    at::Tensor inner = g - xhat * (g * xhat).mean(dims, true);
    if (centred) inner = inner - g.mean(dims, true);
    grads[0] = (rstd * inner).to(input.scalar_type());
  }
  std::vector<int64_t> rows(input.dim() - static_cast<int64_t>(dims.size()));
  std::iota(rows.begin(), rows.end(), 0);
  const auto sum_rows = [&](const at::Tensor& t) { return rows.empty() ? t : t.sum(rows); };
  if (mask[1]) grads[1] = sum_rows(dyf * xhat).to(weight.scalar_type());
  if (mask[2]) {
    grads[2] = sum_rows(dyf).to(weight.defined() ? weight.scalar_type() : input.scalar_type());
  }
  return grads;
}

}  // namespace palmist::ops
