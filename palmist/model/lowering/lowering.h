/// Internal: the state of lowering one layer, and one function an operator family.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "palmist/model/lower.h"

namespace palmist::model::internal {

/// Builds a `LoweredLayer` op by op.
class Lowering {
 public:
  Lowering(const Layer& layer, const LoweringOptions& options);

  const LoweringOptions& options() const { return options_; }
  const OpVariants& variants() const { return options_.variants; }
  /// Bytes of an activation element.
  Expr act() const { return options_.activation_bytes; }
  const Symbols& symbols() const { return symbols_; }
  LoweredLayer& result() { return result_; }

  /// Returns the elements of a tensor of the graph.
  const Expr& elements(TensorId tensor) const { return layer_.tensors[tensor].elements; }
  /// Returns the buffer that holds a tensor of the graph.
  int buffer(TensorId tensor);
  std::vector<int> buffers(const std::vector<TensorId>& tensors);
  /// Makes a buffer that no tensor of the graph names.
  int NewBuffer(std::string name, Expr bytes, bool differentiable = true);
  Buffer& at(int buffer) { return result_.buffers[buffer]; }
  /// Lets `tensor` be made again from `sources` by the step that comes next.
  void Recomputable(TensorId tensor, std::vector<int> sources);

  /// Starts a step for `op` with its inputs, outputs, parameters and name filled in.
  Step Begin(const Op& op);
  void Add(Step step);
  void ShareStorage();

  /// Of the product that makes the logits, where it is one operator with the loss: its arithmetic,
  /// its input, and the elements of its weight.
  Expr logits_flops, logits_input_bytes, logits_weights;

  /// Returns whether `tensor` is the loss's input, directly or through a soft cap.
  bool FeedsLoss(TensorId tensor) const;

 private:
  const Layer& layer_;
  const LoweringOptions& options_;
  Symbols symbols_;
  std::map<TensorId, int> buffer_of_;
  LoweredLayer result_;
};

void LowerNorm(Lowering& lowering, const Op& op);
void LowerActivation(Lowering& lowering, const Op& op);
void LowerGatedActivation(Lowering& lowering, const Op& op);
void LowerDropout(Lowering& lowering, const Op& op);
void LowerAttention(Lowering& lowering, const Op& op);
void LowerLinear(Lowering& lowering, const Op& op);
void LowerLoss(Lowering& lowering, const Op& op);

/// Collectives of an operator that reads whole features with split weights: backward sums dx.
/// `sharded_bytes` is the input as a rank holds it under sequence parallelism.
void AddColumnCollectives(Lowering& lowering, Step& step, const Expr& sharded_bytes);

/// Collectives of an operator whose ranks hold partial sums of y (of `sharded_bytes`).
void AddRowCollectives(Lowering& lowering, Step& step, const Expr& sharded_bytes);

/// Returns whether norms run as one kernel, with the residual added in place.
bool IsFusedNorm(Variant variant);

/// Memory traffic of reading and writing the given buffers once.
Expr Traffic(Lowering& lowering, const Step& step);

}  // namespace palmist::model::internal
