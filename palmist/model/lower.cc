#include "palmist/model/lower.h"

#include <algorithm>
#include <array>
#include <utility>

#include "palmist/model/lowering/lowering.h"

namespace palmist::model {
namespace {

constexpr std::array<std::pair<Variant, std::string_view>, 6> kVariantNames = {{
    {Variant::kEager, "eager"},
    {Variant::kSdpa, "sdpa"},
    {Variant::kFused, "fused"},
    {Variant::kFusedSoftmax, "fused_softmax"},
    {Variant::kTempo, "tempo"},
    {Variant::kLean, "lean"},
}};

}  // namespace

std::string_view ToString(Variant variant) {
  for (const auto& [value, name] : kVariantNames) {
    if (value == variant) return name;
  }
  PALMIST_ASSERT(false);
  return {};
}

Result<Variant> ParseVariant(std::string_view name) {
  std::string known;
  for (const auto& [value, known_name] : kVariantNames) {
    if (known_name == name) return value;
    known += (known.empty() ? "" : ", ") + std::string(known_name);
  }
  return UsageError("ops",
                    "expected an operator variant, got '" + std::string(name) + "'",
                    "use one of " + known);
}

OpVariants UniformVariants(Variant variant) {
  // Only attention has a variant with a fused softmax alone.
  const Variant other = variant == Variant::kFusedSoftmax ? Variant::kFused : variant;
  return {
      .attention = variant, .norm = other, .activation = other, .dropout = other, .loss = other};
}

namespace internal {

Lowering::Lowering(const Layer& layer, const LoweringOptions& options)
    : layer_(layer), options_(options) {
  result_.name = layer.name;
}

int Lowering::NewBuffer(std::string name, Expr bytes, bool differentiable) {
  const int index = static_cast<int>(result_.buffers.size());
  result_.buffers.push_back({.name = std::move(name),
                             .bytes = std::move(bytes),
                             .differentiable = differentiable,
                             .storage = index,
                             .recompute_from = {},
                             .recompute_step = -1});
  return index;
}

int Lowering::buffer(TensorId id) {
  const auto found = buffer_of_.find(id);
  if (found != buffer_of_.end()) return found->second;
  const Tensor& tensor = layer_.tensors[id];
  double element_bytes = 0;
  switch (tensor.storage) {
    case Storage::kActivation:
      element_bytes = options_.activation_bytes;
      break;
    case Storage::kFloat32:
      element_bytes = 4;
      break;
    case Storage::kIndex:
      element_bytes = 8;
      break;
  }
  const int index = NewBuffer(tensor.name, tensor.elements * element_bytes, tensor.differentiable);
  buffer_of_[id] = index;
  return index;
}

std::vector<int> Lowering::buffers(const std::vector<TensorId>& tensors) {
  std::vector<int> result(tensors.size());
  std::transform(tensors.begin(), tensors.end(), result.begin(), [&](TensorId tensor) {
    return buffer(tensor);
  });
  return result;
}

void Lowering::Recomputable(TensorId tensor, std::vector<int> sources) {
  Buffer& target = at(buffer(tensor));
  target.recompute_from = std::move(sources);
  target.recompute_step = static_cast<int>(result_.steps.size());
}

Step Lowering::Begin(const Op& op) {
  Step step;
  step.name = op.name;
  step.inputs = buffers(op.inputs);
  step.outputs = buffers(op.outputs);
  std::vector<Expr> sizes = {Expr(0)};
  for (const Parameter& parameter : op.parameters) {
    if (!parameter.trainable) continue;
    sizes.push_back(parameter.elements_per_rank);
    (parameter.tied ? step.tied_elements : step.weight_elements) += parameter.elements_per_rank;
    if (parameter.sharding == Sharding::kExpert) {
      step.expert_elements += parameter.elements_per_rank;
    }
  }
  step.largest_weight = Max(sizes);
  return step;
}

void Lowering::Add(Step step) { result_.steps.push_back(std::move(step)); }

/// Shares memory where steps work in place. A step whose first input is needed afterwards takes
/// another one, or none.
void Lowering::ShareStorage() {
  std::vector<char> kept(result_.buffers.size(), 0);
  for (const std::vector<int>& of_step : KeptBuffers(result_)) {
    for (const int buffer : of_step) kept[buffer] = 1;
  }
  std::vector<int> last_reader(result_.buffers.size(), -1);
  for (std::size_t i = 0; i < result_.steps.size(); ++i) {
    for (const int input : result_.steps[i].inputs) last_reader[input] = static_cast<int>(i);
  }
  for (std::size_t i = 0; i < result_.steps.size(); ++i) {
    Step& step = result_.steps[i];
    if (step.view_outputs > 0) {
      for (int v = 0; v < step.view_outputs; ++v) {
        at(step.outputs[v]).storage = at(step.inputs[0]).storage;
      }
    }
    if (!step.in_place) continue;
    const auto target = std::find_if(step.inputs.begin(), step.inputs.end(), [&](int input) {
      return !kept[input] && input != result_.input && last_reader[input] == static_cast<int>(i);
    });
    step.in_place = target != step.inputs.end();
    if (!step.in_place) continue;
    std::iter_swap(step.inputs.begin(), target);
    at(step.outputs[0]).storage = at(step.inputs[0]).storage;
  }
}

bool Lowering::FeedsLoss(TensorId tensor) const {
  return std::any_of(layer_.ops.begin(), layer_.ops.end(), [&](const Op& op) {
    if (std::find(op.inputs.begin(), op.inputs.end(), tensor) == op.inputs.end()) return false;
    // Logits may be soft-capped on their way (Gemma 2).
    return op.kind == OpKind::kLoss || (op.kind == OpKind::kActivation && FeedsLoss(op.outputs[0]));
  });
}

Expr Traffic(Lowering& lowering, const Step& step) {
  Expr bytes = 0;
  for (const int input : step.inputs) bytes += lowering.at(input).bytes;
  for (const int output : step.outputs) bytes += lowering.at(output).bytes;
  return bytes;
}

namespace {

/// An operator that keeps the named buffers and moves its inputs and outputs once.
void LowerPlain(Lowering& lowering, const Op& op, std::vector<int> saved) {
  Step step = lowering.Begin(op);
  step.saved = std::move(saved);
  step.forward_flops = op.forward_flops;
  step.backward_flops = 2 * op.forward_flops;
  step.forward_bytes = Traffic(lowering, step);
  step.backward_bytes = 2 * step.forward_bytes;
  if (op.kind == OpKind::kConv) step.step_class = StepClass::kGemm;
  lowering.Add(std::move(step));
}

void LowerAdd(Lowering& lowering, const Op& op) {
  Step step = lowering.Begin(op);
  // Fused norms add the residual over the branch's output.
  step.in_place = IsFusedNorm(lowering.variants().norm);
  step.gradient_in_place = true;
  step.forward_bytes = 3 * lowering.at(step.outputs[0]).bytes;
  step.backward_bytes = 0;
  step.backward_kernels = 0;
  lowering.Add(std::move(step));
}

void LowerRotary(Lowering& lowering, const Op& op) {
  const Variant variant = lowering.variants().attention;
  Step step = lowering.Begin(op);
  step.in_place = step.gradient_in_place = variant != Variant::kEager && variant != Variant::kSdpa;
  step.forward_bytes = 2 * lowering.at(step.inputs[0]).bytes;
  step.backward_bytes = step.forward_bytes;
  step.forward_kernels = step.backward_kernels = step.in_place ? 1 : 8;
  lowering.Add(std::move(step));
}

void LowerEmbedding(Lowering& lowering, const Op& op) {
  Step step = lowering.Begin(op);
  step.saved = step.inputs;
  step.forward_bytes = 2 * lowering.at(step.outputs[0]).bytes;
  step.backward_bytes = step.forward_bytes;
  // Only a table split by vocabulary leaves partial sums.
  if (op.parallelism == Parallelism::kVocabulary) {
    AddRowCollectives(lowering, step, lowering.at(step.outputs[0]).bytes);
  }
  lowering.Add(std::move(step));
}

void LowerRoute(Lowering& lowering, const Op& op) {
  Step step = lowering.Begin(op);
  step.step_class = StepClass::kGemm;
  step.saved = {step.inputs[0], step.outputs[0]};
  step.forward_flops = op.forward_flops;
  step.backward_flops = 2 * op.forward_flops;
  step.forward_bytes = Traffic(lowering, step);
  step.backward_bytes = 2 * step.forward_bytes;
  step.forward_kernels = step.backward_kernels = 4;
  lowering.Add(std::move(step));
}

/// Tokens that move to the ranks of their experts or back: `moved` bytes are permuted through a
/// buffer and, with expert parallelism, exchanged.
void AddExpertExchange(Lowering& lowering, Step& step, const Expr& moved) {
  const Expr sent = Select(lowering.symbols().ep - 1, moved, 0);
  const Collective exchange = {CollectiveKind::kAllToAll, CollectiveGroup::kExpert, sent};
  step.forward_collectives.push_back(exchange);
  step.backward_collectives.push_back(exchange);
  step.forward_scratch = step.backward_scratch = sent;
  step.forward_bytes = 2 * moved;
  step.backward_bytes = 3 * moved;
  step.forward_kernels = step.backward_kernels = 3;
}

void LowerDispatch(Lowering& lowering, const Op& op) {
  Step step = lowering.Begin(op);
  AddExpertExchange(lowering, step, lowering.at(step.outputs[0]).bytes);
  // The permutation, eight bytes a routed token.
  const Symbols& symbols = lowering.symbols();
  const Expr width =
      lowering.elements(op.inputs[0]) * symbols.sd / (symbols.b * symbols.s / symbols.cp);
  const Expr tokens = lowering.elements(op.outputs[0]) / symbols.x / width;
  const int order = lowering.NewBuffer(op.name + ".order", 8 * tokens, false);
  step.outputs.push_back(order);
  step.saved = {order};
  AddColumnCollectives(lowering, step, lowering.at(step.inputs[0]).bytes);
  lowering.Add(std::move(step));
}

void LowerCombine(Lowering& lowering, const Op& op) {
  Step step = lowering.Begin(op);
  AddExpertExchange(lowering, step, lowering.at(step.inputs[0]).bytes);
  step.saved = step.inputs;  // the gradient of the routing weights needs the experts' outputs
  AddRowCollectives(lowering, step, lowering.at(step.outputs[0]).bytes);
  lowering.Add(std::move(step));
}

void LowerOp(Lowering& lowering, const Op& op) {
  switch (op.kind) {
    case OpKind::kEmbedding:
      return LowerEmbedding(lowering, op);
    case OpKind::kNorm:
      return LowerNorm(lowering, op);
    case OpKind::kLinear:
      return LowerLinear(lowering, op);
    case OpKind::kRotary:
      return LowerRotary(lowering, op);
    case OpKind::kAttention:
      return LowerAttention(lowering, op);
    case OpKind::kActivation:
      return LowerActivation(lowering, op);
    case OpKind::kGatedActivation:
      return LowerGatedActivation(lowering, op);
    case OpKind::kDropout:
      return LowerDropout(lowering, op);
    case OpKind::kAdd:
      return LowerAdd(lowering, op);
    case OpKind::kRoute:
      return LowerRoute(lowering, op);
    case OpKind::kDispatch:
      return LowerDispatch(lowering, op);
    case OpKind::kCombine:
      return LowerCombine(lowering, op);
    case OpKind::kLoss:
      return LowerLoss(lowering, op);
    case OpKind::kConv:
    case OpKind::kPool:
    case OpKind::kScale:
    case OpKind::kBatchNorm:
      return LowerPlain(lowering, op, lowering.buffers(op.inputs));
    case OpKind::kReshape:
      return LowerPlain(lowering, op, {});
  }
}

}  // namespace
}  // namespace internal

std::vector<std::vector<int>> KeptBuffers(const LoweredLayer& layer) {
  std::vector<std::vector<int>> result;
  for (const Step& step : layer.steps) {
    std::vector<int> kept;
    std::vector<int> pending = step.saved;
    while (!pending.empty()) {
      const int buffer = pending.back();
      pending.pop_back();
      if (std::find(kept.begin(), kept.end(), buffer) != kept.end()) continue;
      const std::vector<int>& sources = layer.buffers[buffer].recompute_from;
      if (sources.empty()) {
        kept.push_back(buffer);
      } else {
        pending.insert(pending.end(), sources.begin(), sources.end());
      }
    }
    std::sort(kept.begin(), kept.end());
    result.push_back(std::move(kept));
  }
  return result;
}

LoweredLayer Lower(const Layer& layer, const LoweringOptions& options, bool input_recomputable) {
  internal::Lowering lowering(layer, options);
  if (layer.ops.empty()) return lowering.result();
  const int input = lowering.buffer(layer.input);
  lowering.result().input = input;
  if (input_recomputable) {
    // Sources outside this layer: kept by the layer before, at no cost here.
    const int before = lowering.NewBuffer("previous_layer", 0, false);
    lowering.at(input).recompute_from = {before};
  }
  for (const Op& op : layer.ops) internal::LowerOp(lowering, op);
  lowering.result().output = lowering.buffer(layer.output);
  lowering.ShareStorage();
  if (layer.memory != kNoTensor && layer.memory != layer.input) {
    lowering.result().memory = lowering.buffer(layer.memory);
  }
  return std::move(lowering.result());
}

}  // namespace palmist::model
