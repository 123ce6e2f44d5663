/// What every adapter needs: checks of arguments, tensors as spans, calls through the dispatcher.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_like.h>

#include <optional>
#include <span>
#include <tuple>

#include "palmist/kernels/gelu.h"
#include "palmist/kernels/scalar.h"

namespace palmist::ops {

using OptionalTensor = std::optional<at::Tensor>;
using Pair = std::tuple<at::Tensor, at::Tensor>;
using Triple = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

inline at::Tensor OrUndefined(const OptionalTensor& tensor) {
  return tensor.value_or(at::Tensor());
}
inline OptionalTensor OrNone(const at::Tensor& tensor) {
  return tensor.defined() ? OptionalTensor(tensor) : std::nullopt;
}

/// Returns the operator `name` with the C++ signature `Signature`, to be kept in a static.
template <class Signature>
auto FindOperator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").template typed<Signature>();
}

/// Throws unless `tensor` is of a floating type that operators take.
inline void CheckFloating(const char* name, const char* argument, const at::Tensor& tensor) {
  const at::ScalarType type = tensor.scalar_type();
  TORCH_CHECK(
      type == at::kFloat || type == at::kDouble || type == at::kBFloat16 || type == at::kHalf,
      name,
      ": expected ",
      argument,
      " of float32, float64, bfloat16 or float16, got ",
      type,
      "; convert it, for example by .float()");
}

/// Throws unless the types, and the devices, of two tensors are the same.
inline void CheckSameKind(const char* name,
                          const char* argument,
                          const at::Tensor& tensor,
                          const char* other_argument,
                          const at::Tensor& other) {
  TORCH_CHECK(tensor.scalar_type() == other.scalar_type(),
              name,
              ": expected ",
              argument,
              " of the type of ",
              other_argument,
              ", ",
              other.scalar_type(),
              ", got ",
              tensor.scalar_type(),
              "; convert one of them");
  TORCH_CHECK(tensor.device() == other.device(),
              name,
              ": expected ",
              argument,
              " on ",
              other.device(),
              " as ",
              other_argument,
              ", got ",
              tensor.device(),
              "; move one of them");
}

/// Returns `approximate` as a kind of GELU.
inline kernels::GeluKind ParseGeluKind(std::string_view approximate) {
  TORCH_CHECK(approximate == "none" || approximate == "tanh",
              "gelu: expected approximate to be 'none' or 'tanh', got '",
              approximate,
              "'");
  return approximate == "none" ? kernels::GeluKind::kErf : kernels::GeluKind::kTanh;
}

/// Calls fn(T{}) with the storage type of kernels that `type` is.
template <class Fn>
void DispatchStorage(at::ScalarType type, const Fn& fn) {
  switch (type) {
    case at::kFloat:
      return fn(float{});
    case at::kDouble:
      return fn(double{});
    case at::kBFloat16:
      return fn(kernels::BFloat16{});
    case at::kHalf:
      return fn(kernels::Float16{});
    default:
      TORCH_INTERNAL_ASSERT(false, "not a floating type: ", type);
  }
}

/// Returns the elements of a dense tensor in the order of memory; empty where it is undefined.
template <typename T>
std::span<const T> ConstSpan(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  return {static_cast<const T*>(tensor.const_data_ptr()), static_cast<std::size_t>(tensor.numel())};
}
template <typename T>
std::span<T> MutableSpan(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  return {static_cast<T*>(tensor.mutable_data_ptr()), static_cast<std::size_t>(tensor.numel())};
}

/// Returns the tensor itself, or a contiguous copy where elements overlap or have gaps.
inline at::Tensor Dense(const at::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense() ? tensor : tensor.contiguous();
}

/// Returns `tensor` with the strides of the dense `like`, of the same sizes.
inline at::Tensor DenseLike(const at::Tensor& tensor, const at::Tensor& like) {
  return tensor.strides() == like.strides() ? tensor : at::empty_like(like).copy_(tensor);
}

/// Returns whether nobody but the caller can see the memory of a plain, dense CPU tensor. A
/// backward function may overwrite such a gradient: what a user, a hook or another branch holds is
/// counted.
inline bool IsSoleCpuTensor(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && !tensor.unsafeGetTensorImpl()->is_python_dispatch() &&
         tensor.use_count() == 1 && tensor.has_storage() && tensor.storage().use_count() == 1 &&
         tensor.is_non_overlapping_and_dense();
}

/// Returns the type in which `type` is computed: double for double, else float.
inline at::ScalarType ComputeScalarType(at::ScalarType type) {
  return type == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace palmist::ops
