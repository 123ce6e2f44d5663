#include <torch/library.h>

#include "palmist/ops/cuda/launch.h"

namespace palmist::ops {
namespace {

constexpr const char* kName = "cross_entropy_rows_";

// Writes the losses of rows of logits and, where asked, the gradient of each over its logits.
void Rows(at::Tensor& logits,
          const at::Tensor& target,
          int64_t ignore_index,
          double label_smoothing,
          double z_loss,
          bool write_gradient,
          at::Tensor& loss) {
  CheckFloating(kName, "logits", logits);
  TORCH_CHECK(logits.dim() == 2 && logits.is_contiguous() &&
                  reinterpret_cast<std::uintptr_t>(logits.const_data_ptr()) % 16 == 0,
              kName,
              ": expected logits [N, V], contiguous from a multiple of 16 bytes on, got shape ",
              logits.sizes(),
              " with strides ",
              logits.strides());
  for (const auto& [argument, tensor, type] :
       {std::tuple("target", &target, at::kLong),
        std::tuple("loss", &std::as_const(loss), ComputeScalarType(logits.scalar_type()))}) {
    TORCH_CHECK(tensor->sizes() == logits.sizes().slice(0, 1) && tensor->is_contiguous() &&
                    tensor->scalar_type() == type && tensor->device() == logits.device(),
                kName,
                ": expected ",
                argument,
                " [",
                logits.size(0),
                "], contiguous, of ",
                type,
                " on ",
                logits.device(),
                ", got shape ",
                tensor->sizes(),
                " of ",
                tensor->scalar_type(),
                " on ",
                tensor->device());
  }
  LaunchFor(logits, [&]<typename T>(T, kernels::cuda::Stream stream) {
    kernels::cuda::CrossEntropy<T>(MutableSpan<T>(logits).data(),
                                   logits.size(0),
                                   logits.size(1),
                                   ConstSpan<int64_t>(target).data(),
                                   {ignore_index, label_smoothing, z_loss},
                                   write_gradient,
                                   MutableSpan<kernels::ComputeType<T>>(loss).data(),
                                   stream);
  });
}

}  // namespace

TORCH_LIBRARY_IMPL(palmist, CUDA, m) { m.impl("cross_entropy_rows_", Rows); }

}  // namespace palmist::ops
