#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <string_view>
#include <tuple>
#include <type_traits>

#include "palmist/ops/cuda/launch.h"

namespace palmist::ops {
namespace {

constexpr const char* kName = "tempo_gelu";

void Check(const char* argument, const at::Tensor& tensor) {
  CheckFloating(kName, argument, tensor);
  TORCH_CHECK(tensor.scalar_type() != at::kDouble,
              kName,
              ": expected ",
              argument,
              " of float32, bfloat16 or float16 on CUDA, got float64; use palmist::gelu");
}

std::tuple<at::Tensor, at::Tensor> Forward(const at::Tensor& input, std::string_view approximate) {
  Check("input", input);
  const kernels::GeluKind kind = ParseGeluKind(approximate);
  const at::Tensor x = Aligned(Dense(input));
  at::Tensor y = at::empty_like(x);
  at::Tensor bits = at::empty({kernels::GeluBitBytes(x.numel())}, x.options().dtype(at::kByte));
  LaunchFor(x, [&]<typename T>(T, kernels::cuda::Stream stream) {
    if constexpr (!std::is_same_v<T, double>) {
      kernels::cuda::GeluWithBits<T>(ConstSpan<T>(x).data(),
                                     x.numel(),
                                     MutableSpan<T>(y).data(),
                                     MutableSpan<uint8_t>(bits).data(),
                                     kind,
                                     stream);
    }
  });
  return {y, bits};
}

// The order of the bits is that of the output's memory, so that its strides may not change.
at::Tensor Backward(const at::Tensor& grad,
                    const at::Tensor& output,
                    const at::Tensor& bits,
                    std::string_view approximate) {
  Check("output", output);
  CheckSameKind(kName, "the gradient", grad, "output", output);
  TORCH_CHECK(bits.scalar_type() == at::kByte && bits.device() == output.device() &&
                  bits.numel() == kernels::GeluBitBytes(output.numel()),
              kName,
              ": expected the bits of the output, ",
              kernels::GeluBitBytes(output.numel()),
              " bytes on ",
              output.device(),
              ", got ",
              bits.numel(),
              " of ",
              bits.scalar_type(),
              " on ",
              bits.device());
  const kernels::GeluKind kind = ParseGeluKind(approximate);
  const at::Tensor y = Aligned(output);
  const at::Tensor dy = Aligned(DenseLike(grad, y));
  at::Tensor dx = at::empty_like(y);
  LaunchFor(y, [&]<typename T>(T, kernels::cuda::Stream stream) {
    if constexpr (!std::is_same_v<T, double>) {
      kernels::cuda::GeluOutputBackward<T>(ConstSpan<T>(dy).data(),
                                           ConstSpan<T>(y).data(),
                                           ConstSpan<uint8_t>(bits).data(),
                                           y.numel(),
                                           MutableSpan<T>(dx).data(),
                                           kind,
                                           stream);
    }
  });
  return dx;
}

}  // namespace

TORCH_LIBRARY_IMPL(palmist, CUDA, m) {
  m.impl("tempo_gelu_fwd", Forward);
  m.impl("tempo_gelu_bwd", Backward);
}

}  // namespace palmist::ops
