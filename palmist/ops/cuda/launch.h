/// What the adapters of CUDA kernels share.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdint>

#include "palmist/kernels/cuda/kernels.h"
#include "palmist/ops/tensors.h"

namespace palmist::ops {

/// Calls fn(T{}, stream) with the storage type of `tensor`, on its device and that device's current
/// stream, and throws where a kernel could not be queued.
template <class Fn>
void LaunchFor(const at::Tensor& tensor, const Fn& fn) {
  const c10::cuda::CUDAGuard guard(tensor.device());
  const kernels::cuda::Stream stream = c10::cuda::getCurrentCUDAStream().stream();
  DispatchStorage(tensor.scalar_type(), [&]<typename T>(T) { fn(T{}, stream); });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

/// Returns the tensor itself, or a copy where it does not begin at a multiple of 16 bytes, as
/// kernels want it.
inline at::Tensor Aligned(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % 16 == 0;
  return is_aligned ? tensor : at::empty_like(tensor).copy_(tensor);
}

}  // namespace palmist::ops
