#include "palmist/ops/attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>
#include <limits>

#include "palmist/kernels/attention.h"
#include "palmist/ops/dropout_mask.h"
#include "palmist/ops/executor.h"
#include "palmist/ops/operators.h"
#include "palmist/ops/recompute.h"
#include "palmist/ops/tensors.h"

namespace palmist::ops {

double CheckAttention(const char* name,
                      const at::Tensor& query,
                      const at::Tensor& key,
                      const at::Tensor& value,
                      const std::optional<at::Tensor>& mask,
                      double dropout_p,
                      std::optional<double> scale) {
  CheckFloating(name, "query", query);
  CheckSameKind(name, "key", key, "query", query);
  CheckSameKind(name, "value", value, "query", query);
  TORCH_CHECK(query.dim() == 4 && key.dim() == 4 && value.dim() == 4,
              name,
              ": expected query, key and value of shape [batch, heads, length, head_dim], got ",
              query.sym_sizes(),
              ", ",
              key.sym_sizes(),
              ", ",
              value.sym_sizes());
  TORCH_CHECK(key.sym_sizes() == value.sym_sizes() && key.sym_size(0) == query.sym_size(0) &&
                  key.sym_size(3) == query.sym_size(3),
              name,
              ": expected key and value of one shape, with the batch and head_dim of query ",
              query.sym_sizes(),
              ", got ",
              key.sym_sizes(),
              " and ",
              value.sym_sizes());
  TORCH_CHECK(key.sym_size(1) > 0 && query.sym_size(1) % key.sym_size(1) == 0,
              name,
              ": expected query heads to be a multiple of key heads, got ",
              query.sym_size(1),
              " and ",
              key.sym_size(1));
  TORCH_CHECK(dropout_p >= 0 && dropout_p <= 1,
              name,
              ": expected a dropout probability in [0, 1], got ",
              dropout_p);
  if (mask && mask->defined()) {
    TORCH_CHECK(mask->scalar_type() == at::kBool || mask->is_floating_point(),
                name,
                ": expected a mask of bool (true is seen) or of a floating type (added), got ",
                mask->scalar_type(),
                "; for 0 and 1 use mask.bool()");
    TORCH_CHECK(mask->device() == query.device(),
                name,
                ": expected the mask on ",
                query.device(),
                ", got ",
                mask->device());
    const std::array<c10::SymInt, 4> shape = {
        query.sym_size(0), query.sym_size(1), query.sym_size(2), key.sym_size(2)};
    bool fits = mask->dim() <= 4;
    for (int64_t i = 1; fits && i <= mask->dim(); ++i) {
      fits = mask->sym_size(-i) == 1 || mask->sym_size(-i) == shape[4 - i];
    }
    TORCH_CHECK(fits,
                name,
                ": expected a mask that broadcasts to [batch, heads, queries, keys] = ",
                at::SymIntArrayRef(shape),
                ", got ",
                mask->sym_sizes());
  }
  if (scale) return *scale;
  return 1 / std::sqrt(static_cast<double>(query.sym_size(3).guard_int(__FILE__, __LINE__)));
}

std::optional<at::Tensor> SeedOf(const at::Tensor& query, double dropout_p) {
  return dropout_p > 0 ? OptionalTensor(DrawSeed(query)) : std::nullopt;
}

at::Tensor EmptyHeads(const at::Tensor& like) {
  return at::empty_symint({like.sym_size(0), like.sym_size(2), like.sym_size(1), like.sym_size(3)},
                          like.options())
      .transpose(1, 2);
}

at::Tensor RepeatHeads(const at::Tensor& tensor, c10::SymInt heads) {
  const c10::SymInt groups = heads / tensor.sym_size(1);
  if (groups == 1) return tensor;
  return tensor.unsqueeze(2)
      .expand_symint(
          {tensor.sym_size(0), tensor.sym_size(1), groups, tensor.sym_size(2), tensor.sym_size(3)})
      .flatten(1, 2);
}

at::Tensor SumHeads(const at::Tensor& tensor, c10::SymInt kv_heads) {
  if (tensor.sym_size(1) == kv_heads) return tensor;
  return tensor.unflatten_symint(1, {kv_heads, tensor.sym_size(1) / kv_heads}).sum(2);
}

at::Tensor Scores(const at::Tensor& query,
                  const at::Tensor& key,
                  const std::optional<at::Tensor>& mask,
                  const AttentionOptions& options) {
  at::Tensor scores = at::matmul(query, key.transpose(-2, -1)) * options.scale;
  const double hidden = -std::numeric_limits<double>::infinity();
  if (options.is_causal) {
    const at::Tensor seen =
        at::ones_symint({query.sym_size(2), key.sym_size(2)}, query.options().dtype(at::kBool))
            .tril();
    scores = scores.masked_fill(seen.logical_not(), hidden);
  }
  if (mask && mask->defined()) {
    scores = mask->scalar_type() == at::kBool ? scores.masked_fill(mask->logical_not(), hidden)
                                              : scores + mask->to(scores.scalar_type());
  }
  return scores;
}

at::Tensor TorchAttention(const at::Tensor& query,
                          const at::Tensor& key,
                          const at::Tensor& value,
                          const std::optional<at::Tensor>& mask,
                          const AttentionOptions& options) {
  const bool grouped = query.sym_size(1) != key.sym_size(1);
  return at::scaled_dot_product_attention(
      query, key, value, mask, options.dropout_p, options.is_causal, options.scale, grouped);
}

namespace {

constexpr const char* kName = "attention";

at::Tensor WithUnitStride(const at::Tensor& tensor) {
  return tensor.stride(-1) == 1 || tensor.size(-1) <= 1 ? tensor : tensor.contiguous();
}

template <typename T>
kernels::HeadsView<const T> View(const at::Tensor& tensor) {
  return {static_cast<const T*>(tensor.const_data_ptr()),
          tensor.stride(0),
          tensor.stride(1),
          tensor.stride(2)};
}
template <typename T>
kernels::HeadsView<T> MutableView(const at::Tensor& tensor) {
  return {static_cast<T*>(tensor.mutable_data_ptr()),
          tensor.stride(0),
          tensor.stride(1),
          tensor.stride(2)};
}

kernels::AttentionShape Shape(const at::Tensor& query,
                              const at::Tensor& key,
                              const OptionalTensor& seed,
                              const AttentionOptions& options) {
  return {.batch = query.size(0),
          .heads = query.size(1),
          .kv_heads = key.size(1),
          .queries = query.size(2),
          .keys = key.size(2),
          .head_dim = query.size(3),
          .scale = options.scale,
          .causal = options.is_causal,
          .dropout = ToSpec(seed, options.dropout_p)};
}

// The mask in the shape of the scores and, where it is added, in the type of the query.
at::Tensor ExpandMask(const OptionalTensor& mask, const at::Tensor& query, const at::Tensor& key) {
  if (!mask || !mask->defined()) return {};
  const at::Tensor typed = mask->scalar_type() == at::kBool ? *mask : mask->to(query.scalar_type());
  return typed.expand({query.size(0), query.size(1), query.size(2), key.size(2)});
}

template <typename T>
kernels::AttentionMask<T> MaskView(const at::Tensor& mask) {
  kernels::AttentionMask<T> view;
  if (!mask.defined()) return view;
  std::copy_n(mask.strides().begin(), 4, view.strides.begin());
  if (mask.scalar_type() == at::kBool) {
    view.keep = static_cast<const std::uint8_t*>(mask.const_data_ptr());
  } else {
    view.added = static_cast<const T*>(mask.const_data_ptr());
  }
  return view;
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
  const at::Tensor q = WithUnitStride(query), k = WithUnitStride(key), v = WithUnitStride(value);
  const at::Tensor expanded = ExpandMask(mask, query, key);
  at::Tensor o = EmptyHeads(query);
  at::Tensor lse = at::empty({query.size(0), query.size(1), query.size(2)},
                             query.options().dtype(ComputeScalarType(query.scalar_type())));
  DispatchStorage(query.scalar_type(), [&]<typename T>(T) {
    kernels::Attention<T>(Shape(q, k, seed, {dropout_p, is_causal, scale}),
                          View<T>(q),
                          View<T>(k),
                          View<T>(v),
                          MaskView<T>(expanded),
                          MutableView<T>(o),
                          lse.mutable_data_ptr<kernels::ComputeType<T>>(),
                          TorchExecutor());
  });
  return {o, lse};
}

Triple BackwardCpu(const at::Tensor& d_o,
                   const at::Tensor& query,
                   const at::Tensor& key,
                   const at::Tensor& value,
                   const OptionalTensor& mask,
                   const at::Tensor& o,
                   const at::Tensor& lse,
                   const OptionalTensor& seed,
                   double dropout_p,
                   bool is_causal,
                   double scale) {
  const at::Tensor q = WithUnitStride(query), k = WithUnitStride(key), v = WithUnitStride(value);
  const at::Tensor dense_d_o = WithUnitStride(d_o);
  const at::Tensor expanded = ExpandMask(mask, query, key);
  at::Tensor dq = EmptyHeads(query), dk = EmptyHeads(key), dv = EmptyHeads(value);
  DispatchStorage(query.scalar_type(), [&]<typename T>(T) {
    kernels::AttentionBackward<T>(Shape(q, k, seed, {dropout_p, is_causal, scale}),
                                  View<T>(dense_d_o),
                                  View<T>(q),
                                  View<T>(k),
                                  View<T>(v),
                                  MaskView<T>(expanded),
                                  View<T>(o),
                                  lse.const_data_ptr<kernels::ComputeType<T>>(),
                                  MutableView<T>(dq),
                                  MutableView<T>(dk),
                                  MutableView<T>(dv),
                                  TorchExecutor());
  });
  return {dq, dk, dv};
}

Pair ForwardMeta(const at::Tensor& query,
                 const at::Tensor& key,
                 const at::Tensor& value,
                 const OptionalTensor& mask,
                 const OptionalTensor&,
                 double dropout_p,
                 bool,
                 double scale) {
  CheckAttention(kName, query, key, value, mask, dropout_p, scale);
  return {EmptyHeads(query),
          at::empty_symint({query.sym_size(0), query.sym_size(1), query.sym_size(2)},
                           query.options().dtype(ComputeScalarType(query.scalar_type())))};
}

Triple BackwardMeta(const at::Tensor&,
                    const at::Tensor& query,
                    const at::Tensor& key,
                    const at::Tensor& value,
                    const OptionalTensor&,
                    const at::Tensor&,
                    const at::Tensor&,
                    const OptionalTensor&,
                    double,
                    bool,
                    double) {
  return {EmptyHeads(query), EmptyHeads(key), EmptyHeads(value)};
}

Pair Forward(const at::Tensor& query,
             const at::Tensor& key,
             const at::Tensor& value,
             const OptionalTensor& mask,
             const OptionalTensor& seed,
             const AttentionOptions& options) {
  static const auto op = FindOperator<decltype(ForwardCpu)>("palmist::attention_fwd");
  return op.call(
      query, key, value, mask, seed, options.dropout_p, options.is_causal, options.scale);
}

/// Gradients by torch's operators, which can be differentiated again.
Triple BackwardComposed(const at::Tensor& d_o,
                        const at::Tensor& query,
                        const at::Tensor& key,
                        const at::Tensor& value,
                        const OptionalTensor& mask,
                        const at::Tensor& seed,
                        const AttentionOptions& options) {
  const c10::SymInt heads = query.sym_size(1);
  const at::Tensor keys = RepeatHeads(key, heads);
  const at::Tensor values = RepeatHeads(value, heads);
  const at::Tensor scores = Scores(query, keys, mask, options);
  // A query that sees no key has no probabilities.
  at::Tensor p = at::softmax(scores, -1);
  p = p.masked_fill(scores.detach().isneginf().all(-1, true), 0);
  at::Tensor factor;  // of dropout
  if (options.dropout_p > 0) {
    const int64_t columns = scores.size(-1);
    const int64_t rows = columns == 0 ? 0 : scores.numel() / columns;
    factor = DropoutMask(seed, options.dropout_p, rows, columns, scores.device())
                 .view(scores.sizes())
                 .to(scores.scalar_type());
    if (options.dropout_p < 1) factor = factor / (1 - options.dropout_p);
  }
  const auto drop = [&](const at::Tensor& t) { return factor.defined() ? t * factor : t; };
  const at::Tensor dv = at::matmul(drop(p).transpose(-2, -1), d_o);
  const at::Tensor dp = drop(at::matmul(d_o, values.transpose(-2, -1)));
  const at::Tensor ds = p * (dp - (dp * p).sum(-1, true)) * options.scale;
  return {at::matmul(ds, keys),
          SumHeads(at::matmul(ds.transpose(-2, -1), query), key.sym_size(1)),
          SumHeads(dv, key.sym_size(1))};
}

struct AttentionFunction : torch::autograd::Function<AttentionFunction> {
  static at::Tensor forward(AutogradContext* ctx,
                            const at::Tensor& query,
                            const at::Tensor& key,
                            const at::Tensor& value,
                            const OptionalTensor& mask,
                            const OptionalTensor& seed,
                            double dropout_p,
                            bool is_causal,
                            double scale) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    auto [o, lse] = Forward(query, key, value, mask, seed, {dropout_p, is_causal, scale});
    ctx->save_for_backward({query, key, value, OrUndefined(mask), o, lse, OrUndefined(seed)});
    ctx->saved_data["p"] = dropout_p;
    ctx->saved_data["is_causal"] = is_causal;
    ctx->saved_data["scale"] = scale;
    return o;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    static const auto op = FindOperator<decltype(BackwardCpu)>("palmist::attention_bwd");
    const variable_list s = ctx->get_saved_variables();
    const AttentionOptions options = {ctx->saved_data["p"].toDouble(),
                                      ctx->saved_data["is_causal"].toBool(),
                                      ctx->saved_data["scale"].toDouble()};
    const auto [dq, dk, dv] =
        at::GradMode::is_enabled()
            ? BackwardComposed(grads[0], s[0], s[1], s[2], OrNone(s[3]), s[6], options)
            : op.call(grads[0],
                      s[0],
                      s[1],
                      s[2],
                      OrNone(s[3]),
                      s[4],
                      s[5],
                      OrNone(s[6]),
                      options.dropout_p,
                      options.is_causal,
                      options.scale);
    return {dq, dk, dv, {}, {}, {}, {}, {}};
  }
};

at::Tensor AttentionAutograd(const at::Tensor& query,
                             const at::Tensor& key,
                             const at::Tensor& value,
                             const OptionalTensor& mask,
                             double dropout_p,
                             bool is_causal,
                             std::optional<double> scale) {
  const AttentionOptions options = {
      dropout_p, is_causal, CheckAttention(kName, query, key, value, mask, dropout_p, scale)};
  const bool has_kernel = (query.is_cpu() || query.is_meta()) && query.sym_size(3) <= 256;
  if (!has_kernel || (mask && mask->requires_grad())) {
    return TorchAttention(query, key, value, mask, options);
  }
  return AttentionFunction::apply(
      query, key, value, mask, SeedOf(query, dropout_p), dropout_p, is_causal, options.scale);
}

at::Tensor ForwardOnly(const at::Tensor& query,
                       const at::Tensor& key,
                       const at::Tensor& value,
                       const OptionalTensor& mask,
                       double dropout_p,
                       bool is_causal,
                       std::optional<double> scale) {
  const AttentionOptions options = {
      dropout_p, is_causal, CheckAttention(kName, query, key, value, mask, dropout_p, scale)};
  if (!(query.is_cpu() || query.is_meta()) || query.sym_size(3) > 256) {
    return TorchAttention(query, key, value, mask, options);
  }
  return std::get<0>(Forward(query, key, value, mask, SeedOf(query, dropout_p), options));
}

// In the narrow type, as torch's own attention.
template <c10::DeviceType device>
at::Tensor AttentionAutocast(const at::Tensor& query,
                             const at::Tensor& key,
                             const at::Tensor& value,
                             const OptionalTensor& mask,
                             double dropout_p,
                             bool is_causal,
                             std::optional<double> scale) {
  const c10::impl::ExcludeDispatchKeyGuard guard(
      at::autocast::get_autocast_dispatch_key_from_device_type(device));
  const at::ScalarType type =
      query.scalar_type() == at::kDouble ? at::kDouble : at::autocast::get_autocast_dtype(device);
  return Attention(query.to(type), key.to(type), value.to(type), mask, dropout_p, is_causal, scale);
}

}  // namespace

at::Tensor Attention(const at::Tensor& query,
                     const at::Tensor& key,
                     const at::Tensor& value,
                     const OptionalTensor& mask,
                     double dropout_p,
                     bool is_causal,
                     std::optional<double> scale) {
  static const auto op = FindOperator<decltype(AttentionAutograd)>("palmist::attention");
  return op.call(query, key, value, mask, dropout_p, is_causal, scale);
}

TORCH_LIBRARY_FRAGMENT(palmist, m) {
  m.def(
      "attention(Tensor query, Tensor key, Tensor value, Tensor? mask=None, float dropout_p=0.0, "
      "bool is_causal=False, *, float? scale=None) -> Tensor",
      {at::Tag::nondeterministic_seeded});
  m.def(
      "attention_fwd(Tensor query, Tensor key, Tensor value, Tensor? mask, Tensor? seed, "
      "float dropout_p, bool is_causal, float scale) -> (Tensor, Tensor)");
  m.def(
      "attention_bwd(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor? mask, "
      "Tensor output, Tensor log_sum_exp, Tensor? seed, float dropout_p, bool is_causal, "
      "float scale) -> (Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(palmist, Autograd, m) { m.impl("attention", AttentionAutograd); }
TORCH_LIBRARY_IMPL(palmist, CompositeExplicitAutograd, m) { m.impl("attention", ForwardOnly); }
TORCH_LIBRARY_IMPL(palmist, CPU, m) {
  m.impl("attention_fwd", ForwardCpu);
  m.impl("attention_bwd", BackwardCpu);
}
TORCH_LIBRARY_IMPL(palmist, Meta, m) {
  m.impl("attention_fwd", ForwardMeta);
  m.impl("attention_bwd", BackwardMeta);
}
TORCH_LIBRARY_IMPL(palmist, AutocastCPU, m) { m.impl("attention", AttentionAutocast<at::kCPU>); }
TORCH_LIBRARY_IMPL(palmist, AutocastCUDA, m) { m.impl("attention", AttentionAutocast<at::kCUDA>); }

}  // namespace palmist::ops
