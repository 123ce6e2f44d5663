#include <torch/library.h>

#include <tuple>

#include "palmist/ops/cuda/launch.h"

namespace palmist::ops {
namespace {

constexpr const char* kName = "silu_mul";

void CheckLike(const char* argument, const at::Tensor& tensor, const at::Tensor& gate) {
  CheckSameKind(kName, argument, tensor, "gate", gate);
  TORCH_CHECK(tensor.sizes() == gate.sizes(),
              kName,
              ": expected ",
              argument,
              " of the shape of gate, ",
              gate.sizes(),
              ", got ",
              tensor.sizes());
}

at::Tensor Forward(const at::Tensor& gate, const at::Tensor& up) {
  CheckFloating(kName, "gate", gate);
  CheckLike("up", up, gate);
  const at::Tensor x = Aligned(Dense(gate));
  const at::Tensor factor = Aligned(DenseLike(up, x));
  at::Tensor y = at::empty_like(x);
  LaunchFor(x, [&]<typename T>(T, kernels::cuda::Stream stream) {
    kernels::cuda::SiluMul<T>(ConstSpan<T>(x).data(),
                              ConstSpan<T>(factor).data(),
                              x.numel(),
                              MutableSpan<T>(y).data(),
                              stream);
  });
  return y;
}

std::tuple<at::Tensor, at::Tensor> Backward(const at::Tensor& dy,
                                            const at::Tensor& gate,
                                            const at::Tensor& up) {
  CheckLike("up", up, gate);
  CheckLike("the gradient", dy, gate);
  const at::Tensor x = Aligned(Dense(gate));
  const at::Tensor factor = Aligned(DenseLike(up, x));
  const at::Tensor gradient = Aligned(DenseLike(dy, x));
  at::Tensor dgate = at::empty_like(x);
  at::Tensor dup = at::empty_like(x);
  LaunchFor(x, [&]<typename T>(T, kernels::cuda::Stream stream) {
    kernels::cuda::SiluMulBackward<T>(ConstSpan<T>(gradient).data(),
                                      ConstSpan<T>(x).data(),
                                      ConstSpan<T>(factor).data(),
                                      x.numel(),
                                      MutableSpan<T>(dgate).data(),
                                      MutableSpan<T>(dup).data(),
                                      stream);
  });
  return {dgate, dup};
}

}  // namespace

TORCH_LIBRARY_IMPL(palmist, CUDA, m) {
  m.impl("silu_mul_fwd", Forward);
  m.impl("silu_mul_bwd", Backward);
}

}  // namespace palmist::ops
