/// Inputs that are made again in backward instead of being kept.
///
/// A *producer* is an autograd function that can make its output again, bitwise, from what it saves
/// for its own backward. A *consumer* is one whose backward needs only the value of an input.
/// Where the consumer's input is the untouched output of a producer, the consumer saves nothing:
/// the graph holds the producer's node already (it is the next edge of that input), and the node's
/// saved tensors live until its own backward, which comes after that of all its consumers.
///
///   forward:   z --LayerNorm--> y --Linear--> ...     saves z, mean, rstd; y is freed
///   backward:  Linear asks the node of LayerNorm for y, then LayerNorm needs z itself
#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>

namespace palmist::ops {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace internal {
using RecomputeFunction = at::Tensor (*)(AutogradContext&);
using ContextFunction = AutogradContext& (*)(torch::autograd::Node&);
bool RegisterProducer(const std::type_info& node, ContextFunction, RecomputeFunction);
}  // namespace internal

/// Makes autograd function `F` a producer; returns true. F::Recompute(AutogradContext&) makes the
/// output again: by `Saved`, and differentiably where gradients are recorded (double backward).
template <class F>
bool RegisterProducer() {
  using Node = torch::autograd::CppNode<F>;
  return internal::RegisterProducer(
      typeid(Node),
      [](torch::autograd::Node& node) -> AutogradContext& { return static_cast<Node&>(node).ctx_; },
      &F::Recompute);
}

/// Returns whether `input` is the output of a producer, as it left it, and notes one more consumer
/// of it. To be called in the forward of a consumer, once an input.
bool CanRecompute(const at::Tensor& input);

/// Returns the input number `index` of the function whose backward is running.
/// @pre CanRecompute was true for it in the forward
at::Tensor RecomputedInput(std::size_t index);

/// Returns what a producer saved for backward. Unpacks it once for all consumers and the producer:
/// hooks of saved tensors, as activation checkpointing sets them, allow one unpacking.
variable_list Saved(AutogradContext& context);

/// Returns the same, and forgets what was kept for consumers. To be called first in a producer's
/// own backward.
variable_list TakeSaved(AutogradContext& context);

}  // namespace palmist::ops
