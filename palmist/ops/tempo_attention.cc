#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "palmist/kernels/softmax.h"
#include "palmist/ops/attention.h"
#include "palmist/ops/dropout_mask.h"
#include "palmist/ops/executor.h"
#include "palmist/ops/operators.h"
#include "palmist/ops/recompute.h"
#include "palmist/ops/tensors.h"

namespace palmist::ops {
namespace {

constexpr const char* kName = "tempo_attention";

// Drops scores of [..., Sq, Sk], contiguous, as palmist::attention would.
at::Tensor DropScores(const at::Tensor& p, const OptionalTensor& seed, double dropout_p) {
  at::Tensor dropped = at::empty_like(p);
  if (p.numel() == 0) return dropped;
  DispatchStorage(p.scalar_type(), [&]<typename T>(T) {
    kernels::DropoutRows<T>(ConstSpan<T>(p),
                            p.size(-1),
                            ToSpec(seed, dropout_p),
                            MutableSpan<T>(dropped),
                            TorchExecutor());
  });
  return dropped;
}

Pair ForwardCpu(const at::Tensor& query,
                const at::Tensor& key,
                const at::Tensor& value,
                const OptionalTensor& mask,
                const OptionalTensor& seed,
                double dropout_p,
                bool is_causal,
                double scale) {
  CheckAttention(kName, query, key, value, mask, dropout_p, scale);
  const int64_t heads = query.size(1);
  at::Tensor p =
      Scores(query, RepeatHeads(key, heads), mask, {dropout_p, is_causal, scale}).contiguous();
  DispatchStorage(p.scalar_type(), [&]<typename T>(T) {
    kernels::Softmax<T>(ConstSpan<T>(p), key.size(2), MutableSpan<T>(p), TorchExecutor());
  });
  at::Tensor o = EmptyHeads(query);
  o.copy_(
      at::matmul(dropout_p > 0 ? DropScores(p, seed, dropout_p) : p, RepeatHeads(value, heads)));
  return {o, p};
}

Triple BackwardCpu(const at::Tensor& d_o,
                   const at::Tensor& query,
                   const at::Tensor& key,
                   const at::Tensor& value,
                   const at::Tensor& p,
                   const OptionalTensor& seed,
                   double dropout_p,
                   double scale) {
  const int64_t heads = query.size(1);
  const int64_t kv_heads = key.size(1);
  const at::Tensor dv = [&] {
    const at::Tensor dropped = dropout_p > 0 ? DropScores(p, seed, dropout_p) : p;
    return SumHeads(at::matmul(dropped.transpose(-2, -1), d_o), kv_heads);
  }();
  at::Tensor ds = at::matmul(d_o, RepeatHeads(value, heads).transpose(-2, -1)).contiguous();
  if (dropout_p > 0) ds = DropScores(ds, seed, dropout_p);
  DispatchStorage(p.scalar_type(), [&]<typename T>(T) {
    kernels::SoftmaxBackward<T>(
        ConstSpan<T>(ds), ConstSpan<T>(p), key.size(2), MutableSpan<T>(ds), TorchExecutor());
  });
  ds.mul_(scale);
  return {at::matmul(ds, RepeatHeads(key, heads)),
          SumHeads(at::matmul(ds.transpose(-2, -1), query), kv_heads),
          dv};
}

struct TempoAttentionFunction : torch::autograd::Function<TempoAttentionFunction> {
  static at::Tensor forward(AutogradContext* ctx,
                            const at::Tensor& query,
                            const at::Tensor& key,
                            const at::Tensor& value,
                            const OptionalTensor& mask,
                            const OptionalTensor& seed,
                            double dropout_p,
                            bool is_causal,
                            double scale) {
    static const auto op = FindOperator<decltype(ForwardCpu)>("palmist::tempo_attention_fwd");
    const at::AutoDispatchBelowADInplaceOrView guard;
    auto [o, p] = op.call(query, key, value, mask, seed, dropout_p, is_causal, scale);
    ctx->save_for_backward({query, key, value, p, OrUndefined(seed)});
    ctx->saved_data["p"] = dropout_p;
    ctx->saved_data["scale"] = scale;
    return o;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    static const auto op = FindOperator<decltype(BackwardCpu)>("palmist::tempo_attention_bwd");
    TORCH_CHECK(!at::GradMode::is_enabled(),
                "tempo_attention: expected one differentiation, got a second; use "
                "palmist::attention for gradients of gradients");
    const variable_list s = ctx->get_saved_variables();
    const auto [dq, dk, dv] = op.call(grads[0],
                                      s[0],
                                      s[1],
                                      s[2],
                                      s[3],
                                      OrNone(s[4]),
                                      ctx->saved_data["p"].toDouble(),
                                      ctx->saved_data["scale"].toDouble());
    return {dq, dk, dv, {}, {}, {}, {}, {}};
  }
};

at::Tensor TempoAttentionAutograd(const at::Tensor& query,
                                  const at::Tensor& key,
                                  const at::Tensor& value,
                                  const OptionalTensor& mask,
                                  double dropout_p,
                                  bool is_causal,
                                  std::optional<double> scale) {
  // Elsewhere the exact operator is the better one.
  if (!query.is_cpu() || (mask && mask->requires_grad())) {
    return Attention(query, key, value, mask, dropout_p, is_causal, scale);
  }
  const double checked = CheckAttention(kName, query, key, value, mask, dropout_p, scale);
  return TempoAttentionFunction::apply(
      query, key, value, mask, SeedOf(query, dropout_p), dropout_p, is_causal, checked);
}

Pair ForwardMeta(const at::Tensor& query,
                 const at::Tensor& key,
                 const at::Tensor&,
                 const OptionalTensor&,
                 const OptionalTensor&,
                 double,
                 bool,
                 double) {
  return {
      EmptyHeads(query),
      at::empty_symint({query.sym_size(0), query.sym_size(1), query.sym_size(2), key.sym_size(2)},
                       query.options())};
}

Triple BackwardMeta(const at::Tensor&,
                    const at::Tensor& query,
                    const at::Tensor& key,
                    const at::Tensor& value,
                    const at::Tensor&,
                    const OptionalTensor&,
                    double,
                    double) {
  return {at::empty_symint(query.sym_sizes(), query.options()),
          at::empty_symint(key.sym_sizes(), key.options()),
          at::empty_symint(value.sym_sizes(), value.options())};
}

}  // namespace

at::Tensor TempoAttention(const at::Tensor& query,
                          const at::Tensor& key,
                          const at::Tensor& value,
                          const OptionalTensor& mask,
                          double dropout_p,
                          bool is_causal,
                          std::optional<double> scale) {
  static const auto op = FindOperator<decltype(TempoAttentionAutograd)>("palmist::tempo_attention");
  return op.call(query, key, value, mask, dropout_p, is_causal, scale);
}

TORCH_LIBRARY_FRAGMENT(palmist, m) {
  m.def(
      "tempo_attention(Tensor query, Tensor key, Tensor value, Tensor? mask=None, "
      "float dropout_p=0.0, bool is_causal=False, *, float? scale=None) -> Tensor",
      {at::Tag::nondeterministic_seeded});
  m.def(
      "tempo_attention_fwd(Tensor query, Tensor key, Tensor value, Tensor? mask, Tensor? seed, "
      "float dropout_p, bool is_causal, float scale) -> (Tensor, Tensor)");
  m.def(
      "tempo_attention_bwd(Tensor grad, Tensor query, Tensor key, Tensor value, "
      "Tensor probabilities, Tensor? seed, float dropout_p, float scale) -> "
      "(Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(palmist, Autograd, m) { m.impl("tempo_attention", TempoAttentionAutograd); }
TORCH_LIBRARY_IMPL(palmist, CompositeExplicitAutograd, m) { m.impl("tempo_attention", Attention); }
TORCH_LIBRARY_IMPL(palmist, CPU, m) {
  m.impl("tempo_attention_fwd", ForwardCpu);
  m.impl("tempo_attention_bwd", BackwardCpu);
}
TORCH_LIBRARY_IMPL(palmist, Meta, m) {
  m.impl("tempo_attention_fwd", ForwardMeta);
  m.impl("tempo_attention_bwd", BackwardMeta);
}

}  // namespace palmist::ops
