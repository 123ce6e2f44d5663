/// What the adapters of the norms share. Rows are the last `n_dims` dimensions; statistics keep
/// those dimensions with size 1.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace palmist::ops {

using NormSignature = at::Tensor(const at::Tensor&,
                                 at::SymIntArrayRef,
                                 const std::optional<at::Tensor>&,
                                 const std::optional<at::Tensor>&,
                                 double);

/// Returns -n_dims, ..., -1.
std::vector<int64_t> LastDims(int64_t n_dims);

/// Returns how many dimensions `normalized_shape` has, or throws where they are not the last ones
/// of the input.
int64_t CheckedDims(const char* name, const at::Tensor& input, at::SymIntArrayRef normalized_shape);

/// Returns the elements of a row, or throws where types, devices or shapes do not fit.
int64_t CheckNorm(const char* name,
                  const at::Tensor& input,
                  int64_t n_dims,
                  const std::optional<at::Tensor>& weight,
                  const std::optional<at::Tensor>& bias);

/// Returns an empty tensor for one statistic a row.
at::Tensor Statistics(const at::Tensor& input, int64_t n_dims);

/// Returns a weight or bias, contiguous, in the compute type of the input; undefined where absent.
at::Tensor Affine(const std::optional<at::Tensor>& tensor, const at::Tensor& input);

/// Returns an empty tensor for the gradient of a weight or bias, in the compute type of the input.
at::Tensor AffineGradient(const at::Tensor& input, int64_t n_dims);

/// Returns a weight or bias in the input's type; nullopt where absent.
std::optional<at::Tensor> AsTypeOf(const std::optional<at::Tensor>& tensor,
                                   const at::Tensor& input);

/// Returns a gradient in the type of the weight, or of the input where there is none.
at::Tensor ToTypeOf(const at::Tensor& gradient,
                    const std::optional<at::Tensor>& weight,
                    const at::Tensor& input);

/// Returns the gradients of input, weight and bias, and undefined tensors for two more arguments,
/// by operators that can be differentiated again. xhat and rstd are in the compute type; `centred`
/// says whether the norm takes the mean away.
std::vector<at::Tensor> NormBackward(const at::Tensor& dy,
                                     const at::Tensor& input,
                                     const at::Tensor& xhat,
                                     const at::Tensor& rstd,
                                     const at::Tensor& weight,
                                     at::IntArrayRef dims,
                                     bool centred,
                                     std::array<bool, 3> mask);

}  // namespace palmist::ops
