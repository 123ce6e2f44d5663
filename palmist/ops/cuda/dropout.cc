#include <torch/library.h>

#include "palmist/ops/cuda/launch.h"
#include "palmist/ops/dropout_mask.h"

namespace palmist::ops {
namespace {

at::Tensor Apply(const at::Tensor& x, const at::Tensor& seed, double p) {
  CheckFloating("dropout", "input", x);
  TORCH_CHECK(p >= 0 && p <= 1, "dropout: expected a probability in [0, 1], got ", p);
  const at::Tensor input = Aligned(x.contiguous());
  at::Tensor y = at::empty_like(input);
  const kernels::DropoutSpec spec = ToSpec(seed, p);
  LaunchFor(input, [&]<typename T>(T, kernels::cuda::Stream stream) {
    kernels::cuda::Dropout<T>(
        ConstSpan<T>(input).data(), input.numel(), spec, MutableSpan<T>(y).data(), stream);
  });
  return y;
}

}  // namespace

TORCH_LIBRARY_IMPL(palmist, CUDA, m) { m.impl("dropout_apply", Apply); }

}  // namespace palmist::ops
