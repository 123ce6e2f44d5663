#include "palmist/kernels/dropout.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <mutex>

#include "palmist/ops/dropout_mask.h"
#include "palmist/ops/executor.h"
#include "palmist/ops/operators.h"
#include "palmist/ops/recompute.h"
#include "palmist/ops/tensors.h"

namespace palmist::ops {
namespace {

void CheckProbability(double p) {
  TORCH_CHECK(p >= 0 && p <= 1, "dropout: expected a probability in [0, 1], got ", p);
}

at::Tensor Apply(const at::Tensor& x, const at::Tensor& seed, double p) {
  static const auto op = FindOperator<at::Tensor(const at::Tensor&, const at::Tensor&, double)>(
      "palmist::dropout_apply");
  return op.call(x, seed, p);
}

// Linear in its input: the gradient is the same operator, to any order.
struct ApplyFunction : torch::autograd::Function<ApplyFunction> {
  static at::Tensor forward(AutogradContext* ctx,
                            const at::Tensor& x,
                            const at::Tensor& seed,
                            double p) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({seed});
    ctx->saved_data["p"] = p;
    return Apply(x, seed, p);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {Apply(grads[0], ctx->get_saved_variables()[0], ctx->saved_data["p"].toDouble()),
            at::Tensor(),
            at::Tensor()};
  }
};

at::Tensor Draw(const at::Tensor& like) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  at::Tensor seed = at::empty({1}, at::kLong);
  {
    const std::lock_guard lock(generator.mutex());
    *seed.mutable_data_ptr<int64_t>() =
        static_cast<int64_t>(generator.get<at::CPUGeneratorImpl>()->random64());
  }
  return seed.to(like.device(), /*non_blocking=*/true);
}

at::Tensor DrawMeta(const at::Tensor& like) {
  return at::empty({1}, like.options().dtype(at::kLong));
}

at::Tensor ApplyCpu(const at::Tensor& x, const at::Tensor& seed, double p) {
  CheckFloating("dropout", "input", x);
  CheckProbability(p);
  // An element's bits go by its place in the contiguous order, whatever the strides.
  const at::Tensor contiguous = x.contiguous();
  at::Tensor y = at::empty_like(contiguous);
  DispatchStorage(x.scalar_type(), [&]<typename T>(T) {
    kernels::Dropout<T>(
        ConstSpan<T>(contiguous), ToSpec(seed, p), MutableSpan<T>(y), TorchExecutor());
  });
  return y;
}

at::Tensor ApplyComposed(const at::Tensor& x, const at::Tensor& seed, double p) {
  CheckFloating("dropout", "input", x);
  CheckProbability(p);
  if (p >= 1 || x.numel() == 0) return at::zeros_like(x, at::MemoryFormat::Contiguous);
  const at::Tensor kept = DropoutMask(seed, p, 1, x.numel(), x.device()).view(x.sizes());
  return (x.contiguous() * (1 / (1 - p))).masked_fill_(kept.logical_not(), 0);
}

at::Tensor ApplyMeta(const at::Tensor& x, const at::Tensor&, double p) {
  CheckFloating("dropout", "input", x);
  CheckProbability(p);
  return at::empty_like(x, at::MemoryFormat::Contiguous);
}

at::Tensor DropoutAutograd(const at::Tensor& x, double p, bool training) {
  CheckProbability(p);
  if (!training || p == 0) return x.clone();
  return ApplyFunction::apply(x, DrawSeed(x), p);
}

at::Tensor DropoutForwardOnly(const at::Tensor& x, double p, bool training) {
  CheckProbability(p);
  return training && p > 0 ? Apply(x, DrawSeed(x), p) : x.clone();
}

at::Tensor ApplyAutograd(const at::Tensor& x, const at::Tensor& seed, double p) {
  return ApplyFunction::apply(x, seed, p);
}

}  // namespace

at::Tensor Dropout(const at::Tensor& input, double p, bool training) {
  CheckProbability(p);
  if (!training || p == 0) return input;  // the operator itself may not return its argument
  static const auto op =
      FindOperator<at::Tensor(const at::Tensor&, double, bool)>("palmist::dropout");
  return op.call(input, p, training);
}

TORCH_LIBRARY_FRAGMENT(palmist, m) {
  m.def("dropout(Tensor input, float p=0.5, bool training=True) -> Tensor",
        {at::Tag::nondeterministic_seeded});
  m.def("dropout_seed(Tensor like) -> Tensor", {at::Tag::nondeterministic_seeded});
  m.def("dropout_apply(Tensor input, Tensor seed, float p) -> Tensor");
}
TORCH_LIBRARY_IMPL(palmist, Autograd, m) {
  m.impl("dropout", DropoutAutograd);
  m.impl("dropout_apply", ApplyAutograd);
}
TORCH_LIBRARY_IMPL(palmist, CompositeExplicitAutograd, m) {
  m.impl("dropout", DropoutForwardOnly);
  m.impl("dropout_seed", Draw);
  m.impl("dropout_apply", ApplyComposed);
}
TORCH_LIBRARY_IMPL(palmist, CPU, m) { m.impl("dropout_apply", ApplyCpu); }
TORCH_LIBRARY_IMPL(palmist, Meta, m) {
  m.impl("dropout_seed", DrawMeta);
  m.impl("dropout_apply", ApplyMeta);
}

}  // namespace palmist::ops
