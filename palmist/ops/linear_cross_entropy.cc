#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/library.h>

#include <algorithm>

#include "palmist/kernels/cross_entropy.h"
#include "palmist/ops/executor.h"
#include "palmist/ops/operators.h"
#include "palmist/ops/recompute.h"
#include "palmist/ops/tensors.h"

namespace palmist::ops {
namespace {

using Quad = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

constexpr const char* kName = "linear_cross_entropy";
constexpr int64_t kChunkBytes = int64_t{32}
                                << 20;  // of logits: small beside a model, large for a product

void Check(const at::Tensor& x,
           const at::Tensor& weight,
           const at::Tensor& target,
           const OptionalTensor& bias,
           std::string_view reduction,
           double label_smoothing,
           int64_t chunk_tokens) {
  CheckFloating(kName, "input", x);
  CheckSameKind(kName, "weight", weight, "input", x);
  TORCH_CHECK(weight.dim() == 2 && x.dim() >= 1 && x.sym_size(-1) == weight.sym_size(1),
              kName,
              ": expected an input [..., H] and a weight [V, H], got shapes ",
              x.sym_sizes(),
              " and ",
              weight.sym_sizes());
  TORCH_CHECK(target.scalar_type() == at::kLong,
              kName,
              ": expected a target of int64, got ",
              target.scalar_type(),
              "; convert it by .long()");
  TORCH_CHECK(target.sym_sizes() == x.sym_sizes().slice(0, x.dim() - 1),
              kName,
              ": expected a target of the input's leading shape, got shapes ",
              target.sym_sizes(),
              " and ",
              x.sym_sizes());
  TORCH_CHECK(target.device() == x.device(),
              kName,
              ": expected the target on ",
              x.device(),
              ", got ",
              target.device());
  if (bias && bias->defined()) {
    CheckSameKind(kName, "bias", *bias, "input", x);
    TORCH_CHECK(bias->dim() == 1 && bias->sym_size(0) == weight.sym_size(0),
                kName,
                ": expected a bias of shape [",
                weight.sym_size(0),
                "], got ",
                bias->sym_sizes());
  }
  TORCH_CHECK(reduction == "mean" || reduction == "sum" || reduction == "none",
              kName,
              ": expected reduction 'mean', 'sum' or 'none', got '",
              reduction,
              "'");
  TORCH_CHECK(label_smoothing >= 0 && label_smoothing <= 1,
              kName,
              ": expected label_smoothing in [0, 1], got ",
              label_smoothing);
  TORCH_CHECK(chunk_tokens >= 0,
              kName,
              ": expected chunk_tokens of at least 0 (0 chooses), got ",
              chunk_tokens);
}

void CheckTargets(const at::Tensor& target, int64_t n_classes, int64_t ignore_index) {
  if (!target.is_cpu()) return;  // elsewhere the look would wait for the device
  for (const int64_t t : ConstSpan<int64_t>(target)) {
    TORCH_CHECK_INDEX(t == ignore_index || (t >= 0 && t < n_classes),
                      kName,
                      ": expected targets in [0, ",
                      n_classes,
                      ") or ignore_index ",
                      ignore_index,
                      ", got ",
                      t);
  }
}

// Writes the losses [N] of logits [N, V] and, where asked, the gradient of each over its logits.
void RowsCpu(at::Tensor& logits,
             const at::Tensor& target,
             int64_t ignore_index,
             double label_smoothing,
             double z_loss,
             bool write_gradient,
             at::Tensor& loss) {
  DispatchStorage(logits.scalar_type(), [&]<typename T>(T) {
    kernels::CrossEntropy<T>(MutableSpan<T>(logits),
                             logits.size(1),
                             ConstSpan<int64_t>(target),
                             {ignore_index, label_smoothing, z_loss},
                             write_gradient,
                             MutableSpan<kernels::ComputeType<T>>(loss),
                             TorchExecutor());
  });
}

void RowsComposed(at::Tensor& logits,
                  const at::Tensor& target,
                  int64_t ignore_index,
                  double label_smoothing,
                  double z_loss,
                  bool write_gradient,
                  at::Tensor& loss) {
  const at::Tensor x = logits.to(loss.scalar_type());
  const at::Tensor ignored = target.eq(ignore_index);
  const at::Tensor index = target.masked_fill(ignored, 0).unsqueeze(1);
  const at::Tensor lse = at::logsumexp(x, {1});
  const double s = label_smoothing;
  at::Tensor value = lse - (1 - s) * x.gather(1, index).squeeze(1);
  if (s > 0) value = value - s * x.mean(1);
  if (z_loss > 0) value = value + z_loss * lse.square();
  loss.copy_(value.masked_fill(ignored, 0));
  if (!write_gradient) return;
  at::Tensor gradient = at::softmax(x, 1);
  if (z_loss > 0) gradient.mul_((1 + 2 * z_loss * lse).unsqueeze(1));
  if (s > 0) gradient.sub_(s / static_cast<double>(x.size(1)));
  gradient.scatter_add_(1, index, at::full_like(index, s - 1, gradient.options()));
  gradient.masked_fill_(ignored.unsqueeze(1), 0);
  logits.copy_(gradient);
}

// The whole operator on rows: losses [N] in the compute type and, for the asked ones, the gradients
// of sum(row_weight loss) by input [N, H], weight [V, H] and bias [V].
Quad ForwardRows(const at::Tensor& x,
                 const at::Tensor& weight,
                 const at::Tensor& target,
                 const OptionalTensor& bias,
                 const at::Tensor& row_weight,
                 int64_t ignore_index,
                 double label_smoothing,
                 double z_loss,
                 int64_t chunk_tokens,
                 std::array<bool, 3> mask) {
  const int64_t n = x.size(0);
  const int64_t n_classes = weight.size(0);
  CheckTargets(target, n_classes, ignore_index);
  const bool has_bias = bias && bias->defined();
  const bool gradients = mask[0] || mask[1] || mask[2];
  static const auto rows = FindOperator<decltype(RowsCpu)>("palmist::cross_entropy_rows_");
  const at::ScalarType compute = ComputeScalarType(x.scalar_type());
  const auto compute_options = x.options().dtype(compute);
  at::Tensor loss = at::empty({n}, compute_options);
  at::Tensor dx = mask[0] ? at::empty_like(x) : at::Tensor();
  // Many chunks add up, so halves are summed in float.
  at::Tensor dweight = mask[1] ? at::zeros(weight.sizes(), compute_options) : at::Tensor();
  at::Tensor dbias = mask[2] ? at::zeros({n_classes}, compute_options) : at::Tensor();
  if (chunk_tokens <= 0) {
    const int64_t row_bytes =
        std::max<int64_t>(1, n_classes * static_cast<int64_t>(x.element_size()));
    chunk_tokens = std::max<int64_t>(64, kChunkBytes / row_bytes);
  }
  for (int64_t begin = 0; begin < n; begin += chunk_tokens) {
    const int64_t count = std::min(chunk_tokens, n - begin);
    const at::Tensor x_chunk = x.narrow(0, begin, count);
    at::Tensor logits =
        has_bias ? at::addmm(*bias, x_chunk, weight.t()) : at::mm(x_chunk, weight.t());
    at::Tensor loss_chunk = loss.narrow(0, begin, count);
    rows.call(logits,
              target.narrow(0, begin, count),
              ignore_index,
              label_smoothing,
              z_loss,
              gradients,
              loss_chunk);
    if (!gradients) continue;
    logits.mul_(row_weight.narrow(0, begin, count).unsqueeze(1));
    if (mask[0]) {
      at::Tensor dx_chunk = dx.narrow(0, begin, count);
      at::mm_out(dx_chunk, logits, weight);
    }
    if (mask[1]) {
      if (x.scalar_type() == compute) {
        dweight.addmm_(logits.t(), x_chunk);
      } else {
        dweight.add_(at::mm(logits.t(), x_chunk));
      }
    }
    if (mask[2]) dbias.add_(logits.sum(0, false, compute));
  }
  const auto narrow = [&](const at::Tensor& t) { return t.defined() ? t.to(x.scalar_type()) : t; };
  return {loss, dx, narrow(dweight), narrow(dbias)};
}

Quad ForwardMeta(const at::Tensor& x,
                 const at::Tensor& weight,
                 const at::Tensor&,
                 const OptionalTensor&,
                 const at::Tensor&,
                 int64_t,
                 double,
                 double,
                 int64_t,
                 std::array<bool, 3> mask) {
  return {at::empty_symint({x.sym_size(0)}, x.options().dtype(ComputeScalarType(x.scalar_type()))),
          mask[0] ? at::empty_like(x) : at::Tensor(),
          mask[1] ? at::empty_like(weight) : at::Tensor(),
          mask[2] ? at::empty_symint({weight.sym_size(0)}, weight.options()) : at::Tensor()};
}

Quad Rows(const at::Tensor& x,
          const at::Tensor& weight,
          const at::Tensor& target,
          const OptionalTensor& bias,
          const at::Tensor& row_weight,
          int64_t ignore_index,
          double label_smoothing,
          double z_loss,
          int64_t chunk_tokens,
          std::array<bool, 3> mask) {
  static const auto op = FindOperator<decltype(ForwardRows)>("palmist::linear_cross_entropy_rows");
  return op.call(x,
                 weight,
                 target,
                 bias,
                 row_weight,
                 ignore_index,
                 label_smoothing,
                 z_loss,
                 chunk_tokens,
                 mask);
}

struct Settings {
  bool mean = false;
  int64_t ignore_index = -100;
  double label_smoothing = 0, z_loss = 0;
  int64_t chunk_tokens = 0;
};

at::Tensor RowWeights(const at::Tensor& target, const at::Tensor& x, const Settings& settings) {
  const at::Tensor counts = target.ne(settings.ignore_index)
                                .to(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  // No token that counts: gradients of zero, while the loss is NaN as in torch.
  return settings.mean ? counts / counts.sum().clamp_min(1) : counts;
}

// The loss as one number: gradients are made beside the losses, chunk by chunk.
struct ReducedLoss : torch::autograd::Function<ReducedLoss> {
  static at::Tensor forward(AutogradContext* ctx,
                            const at::Tensor& x,
                            const at::Tensor& weight,
                            const at::Tensor& target,
                            const OptionalTensor& bias,
                            bool grad_mode,
                            bool mean,
                            int64_t ignore_index,
                            double label_smoothing,
                            double z_loss,
                            int64_t chunk_tokens) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    const Settings settings = {mean, ignore_index, label_smoothing, z_loss, chunk_tokens};
    const at::Tensor weights = RowWeights(target, x, settings);
    const bool has_bias = bias && bias->defined();
    auto [loss, dx, dweight, dbias] = Rows(x,
                                           weight,
                                           target,
                                           bias,
                                           weights,
                                           ignore_index,
                                           label_smoothing,
                                           z_loss,
                                           chunk_tokens,
                                           {grad_mode && x.requires_grad(),
                                            grad_mode && weight.requires_grad(),
                                            grad_mode && has_bias && bias->requires_grad()});
    ctx->save_for_backward({dx, dweight, dbias});
    at::Tensor total = loss.sum();
    if (mean) total = total / target.ne(ignore_index).sum();
    return total;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    TORCH_CHECK(!at::GradMode::is_enabled(),
                "linear_cross_entropy: expected one differentiation, got a second; use "
                "torch.nn.functional.linear and cross_entropy for gradients of gradients");
    const variable_list saved = ctx->get_saved_variables();
    // The engine hands the gradient of a loss that is the root as 1: then what was saved is the
    // result itself, unless it will be needed again.
    const bool is_one =
        grads[0].is_cpu() && !grads[0].unsafeGetTensorImpl()->is_python_dispatch() &&
        grads[0].item<double>() == 1 && !torch::autograd::get_current_graph_task_keep_graph();
    variable_list result(10);
    constexpr std::array<std::size_t, 3> kPlaces = {0, 1, 3};
    for (std::size_t i = 0; i < 3; ++i) {
      if (!saved[i].defined()) continue;
      result[kPlaces[i]] = is_one ? saved[i] : saved[i] * grads[0].to(saved[i].scalar_type());
    }
    return result;
  }
};

// A loss for each token: its gradients wait for theirs, so logits are made again.
struct TokenLosses : torch::autograd::Function<TokenLosses> {
  static at::Tensor forward(AutogradContext* ctx,
                            const at::Tensor& x,
                            const at::Tensor& weight,
                            const at::Tensor& target,
                            const OptionalTensor& bias,
                            int64_t ignore_index,
                            double label_smoothing,
                            double z_loss,
                            int64_t chunk_tokens) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({x, weight, target, OrUndefined(bias)});
    ctx->saved_data["ignore_index"] = ignore_index;
    ctx->saved_data["label_smoothing"] = label_smoothing;
    ctx->saved_data["z_loss"] = z_loss;
    ctx->saved_data["chunk_tokens"] = chunk_tokens;
    return std::get<0>(Rows(x,
                            weight,
                            target,
                            bias,
                            target,
                            ignore_index,
                            label_smoothing,
                            z_loss,
                            chunk_tokens,
                            {false, false, false}));
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    TORCH_CHECK(!at::GradMode::is_enabled(),
                "linear_cross_entropy: expected one differentiation, got a second; use "
                "torch.nn.functional.linear and cross_entropy for gradients of gradients");
    const variable_list saved = ctx->get_saved_variables();
    auto& data = ctx->saved_data;
    auto [loss, dx, dweight, dbias] = Rows(saved[0],
                                           saved[1],
                                           saved[2],
                                           OrNone(saved[3]),
                                           grads[0].contiguous(),
                                           data["ignore_index"].toInt(),
                                           data["label_smoothing"].toDouble(),
                                           data["z_loss"].toDouble(),
                                           data["chunk_tokens"].toInt(),
                                           {ctx->needs_input_grad(0),
                                            ctx->needs_input_grad(1),
                                            saved[3].defined() && ctx->needs_input_grad(3)});
    variable_list result(8);
    result[0] = dx;
    result[1] = dweight;
    result[3] = dbias;
    return result;
  }
};

at::Tensor CallAutograd(const at::Tensor& input,
                        const at::Tensor& weight,
                        const at::Tensor& target,
                        const OptionalTensor& bias,
                        std::string_view reduction,
                        int64_t ignore_index,
                        double label_smoothing,
                        double z_loss,
                        int64_t chunk_tokens) {
  Check(input, weight, target, bias, reduction, label_smoothing, chunk_tokens);
  const at::Tensor x = input.dim() == 1 ? input.unsqueeze(0) : input.flatten(0, -2).contiguous();
  const at::Tensor t = target.flatten().contiguous();
  if (reduction != "none") {
    return ReducedLoss::apply(x,
                              weight,
                              t,
                              bias,
                              at::GradMode::is_enabled(),
                              reduction == "mean",
                              ignore_index,
                              label_smoothing,
                              z_loss,
                              chunk_tokens);
  }
  const at::Tensor losses =
      TokenLosses::apply(x, weight, t, bias, ignore_index, label_smoothing, z_loss, chunk_tokens);
  return losses.reshape_symint(target.sym_sizes());
}

using Signature = decltype(CallAutograd);

at::Tensor Call(const at::Tensor& input,
                const at::Tensor& weight,
                const at::Tensor& target,
                const OptionalTensor& bias,
                std::string_view reduction,
                int64_t ignore_index,
                double label_smoothing,
                double z_loss,
                int64_t chunk_tokens) {
  static const auto op = FindOperator<Signature>("palmist::linear_cross_entropy");
  return op.call(
      input, weight, target, bias, reduction, ignore_index, label_smoothing, z_loss, chunk_tokens);
}

template <c10::DeviceType device>
at::Tensor Autocast(const at::Tensor& input,
                    const at::Tensor& weight,
                    const at::Tensor& target,
                    const OptionalTensor& bias,
                    std::string_view reduction,
                    int64_t ignore_index,
                    double label_smoothing,
                    double z_loss,
                    int64_t chunk_tokens) {
  const c10::impl::ExcludeDispatchKeyGuard guard(
      at::autocast::get_autocast_dispatch_key_from_device_type(device));
  const at::ScalarType type =
      input.scalar_type() == at::kDouble ? at::kDouble : at::autocast::get_autocast_dtype(device);
  return Call(input.to(type),
              weight.to(type),
              target,
              bias && bias->defined() ? OptionalTensor(bias->to(type)) : bias,
              reduction,
              ignore_index,
              label_smoothing,
              z_loss,
              chunk_tokens);
}

}  // namespace

at::Tensor LinearCrossEntropy(const at::Tensor& input,
                              const at::Tensor& weight,
                              const at::Tensor& target,
                              const OptionalTensor& bias,
                              const LossOptions& options) {
  return Call(input,
              weight,
              target,
              bias,
              options.reduction,
              options.ignore_index,
              options.label_smoothing,
              options.z_loss,
              options.chunk_tokens);
}

TORCH_LIBRARY_FRAGMENT(palmist, m) {
  m.def(
      "linear_cross_entropy(Tensor input, Tensor weight, Tensor target, Tensor? bias=None, *, "
      "str reduction='mean', int ignore_index=-100, float label_smoothing=0.0, float z_loss=0.0, "
      "int chunk_tokens=0) -> Tensor");
  m.def(
      "linear_cross_entropy_rows(Tensor input, Tensor weight, Tensor target, Tensor? bias, "
      "Tensor row_weight, int ignore_index, float label_smoothing, float z_loss, "
      "int chunk_tokens, bool[3] output_mask) -> (Tensor, Tensor, Tensor, Tensor)");
  m.def(
      "cross_entropy_rows_(Tensor(a!) logits, Tensor target, int ignore_index, "
      "float label_smoothing, float z_loss, bool write_gradient, Tensor(b!) loss) -> ()");
}
TORCH_LIBRARY_IMPL(palmist, Autograd, m) { m.impl("linear_cross_entropy", CallAutograd); }
TORCH_LIBRARY_IMPL(palmist, CPU, m) { m.impl("cross_entropy_rows_", RowsCpu); }
TORCH_LIBRARY_IMPL(palmist, CompositeExplicitAutograd, m) {
  m.impl("linear_cross_entropy", CallAutograd);
  m.impl("linear_cross_entropy_rows", ForwardRows);
  m.impl("cross_entropy_rows_", RowsComposed);
}
TORCH_LIBRARY_IMPL(palmist, Meta, m) { m.impl("linear_cross_entropy_rows", ForwardMeta); }
TORCH_LIBRARY_IMPL(palmist, AutocastCPU, m) { m.impl("linear_cross_entropy", Autocast<at::kCPU>); }
TORCH_LIBRARY_IMPL(palmist, AutocastCUDA, m) {
  m.impl("linear_cross_entropy", Autocast<at::kCUDA>);
}

}  // namespace palmist::ops
