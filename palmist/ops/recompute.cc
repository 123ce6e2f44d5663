#include "palmist/ops/recompute.h"

#include <ATen/core/grad_mode.h>

#include <typeindex>
#include <unordered_map>

namespace palmist::ops {
namespace {

struct Producer {
  internal::ContextFunction context;
  internal::RecomputeFunction recompute;
};

std::unordered_map<std::type_index, Producer>& Producers() {
  static std::unordered_map<std::type_index, Producer> producers;
  return producers;
}

const Producer* FindProducer(const torch::autograd::Node* node) {
  if (node == nullptr) return nullptr;
  const auto found = Producers().find(typeid(*node));
  return found == Producers().end() ? nullptr : &found->second;
}

// Keys of saved_data. Tensors there are not those of save_for_backward: they exist in backward
// only.
constexpr const char* kConsumers = "consumers";
constexpr const char* kOutput = "output";
constexpr const char* kUnpacked = "unpacked";

// Backward of one graph may run on several threads where the graph was kept (retain_graph).
std::recursive_mutex& MemoMutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

}  // namespace

bool internal::RegisterProducer(const std::type_info& node,
                                ContextFunction context,
                                RecomputeFunction recompute) {
  return Producers().emplace(node, Producer{context, recompute}).second;
}

bool CanRecompute(const at::Tensor& input) {
  // In-place changes without a gradient leave the node and raise the version.
  if (!input.defined() || !input.requires_grad() || input.is_inference() || input._version() != 0) {
    return false;
  }
  const auto& node = input.grad_fn();
  const Producer* producer = FindProducer(node.get());
  if (producer == nullptr) return false;
  auto& data = producer->context(*node).saved_data;
  const auto count = data.find(kConsumers);
  data[kConsumers] = count == data.end() ? int64_t{1} : count->second.toInt() + 1;
  return true;
}

at::Tensor RecomputedInput(std::size_t index) {
  const auto consumer = torch::autograd::get_current_node();
  TORCH_CHECK(consumer != nullptr && index < consumer->num_outputs(),
              "palmist: expected to run inside torch's autograd engine, got a backward traced by "
              "compiled autograd; switch torch._dynamo.config.compiled_autograd off");
  torch::autograd::Node* node = consumer->next_edge(index).function.get();
  const Producer* producer = FindProducer(node);
  TORCH_CHECK(producer != nullptr,
              "palmist: expected the producer of a recomputed input to be in the graph; the graph "
              "was changed after the forward pass");
  AutogradContext& context = producer->context(*node);
  if (at::GradMode::is_enabled()) return producer->recompute(context);

  const std::lock_guard lock(MemoMutex());
  const auto memo = context.saved_data.find(kOutput);
  if (memo != context.saved_data.end()) return memo->second.toTensor();
  at::Tensor output = producer->recompute(context);
  if (context.saved_data[kConsumers].toInt() > 1) context.saved_data[kOutput] = output;
  return output;
}

variable_list Saved(AutogradContext& context) {
  const std::lock_guard lock(MemoMutex());
  const auto memo = context.saved_data.find(kUnpacked);
  if (memo != context.saved_data.end()) {
    variable_list unpacked;
    for (const at::IValue& value : memo->second.toListRef()) {
      unpacked.push_back(value.isNone() ? at::Tensor() : value.toTensor());
    }
    return unpacked;
  }
  variable_list unpacked = context.get_saved_variables();
  c10::List<std::optional<at::Tensor>> list;
  for (const at::Tensor& tensor : unpacked) {
    list.push_back(tensor.defined() ? std::optional(tensor) : std::nullopt);
  }
  context.saved_data[kUnpacked] = list;
  return unpacked;
}

variable_list TakeSaved(AutogradContext& context) {
  const std::lock_guard lock(MemoMutex());
  variable_list saved = Saved(context);
  context.saved_data.erase(kUnpacked);
  context.saved_data.erase(kOutput);
  return saved;
}

}  // namespace palmist::ops
