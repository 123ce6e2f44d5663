// Products with a weight, and what their splitting costs. Source of the collectives: Megatron-LM
// (arXiv:1909.08053, section 3) and its sequence parallelism (arXiv:2205.05198, section 4.2: the
// sharded input is kept and gathered again in backward).
#include "palmist/model/lowering/lowering.h"

namespace palmist::model::internal {

using enum CollectiveKind;

void AddColumnCollectives(Lowering& lowering, Step& step, const Expr& sharded_bytes) {
  const Symbols& symbols = lowering.symbols();
  const Expr whole = sharded_bytes * symbols.sd;
  const Expr gathered = Select(symbols.sd - 1, whole, 0);
  const Expr reduced = Select(symbols.sd - 1, 0, Select(symbols.tp - 1, whole, 0));
  constexpr auto kGroup = CollectiveGroup::kTensor;
  step.forward_collectives.push_back({kAllGather, kGroup, gathered});
  step.backward_collectives.push_back({kAllGather, kGroup, gathered});
  step.backward_collectives.push_back({kReduceScatter, kGroup, gathered});
  step.backward_collectives.push_back({kAllReduce, kGroup, reduced});
  step.forward_scratch += gathered;
  step.backward_scratch += 2 * gathered;
}

void AddRowCollectives(Lowering& lowering, Step& step, const Expr& sharded_bytes) {
  const Symbols& symbols = lowering.symbols();
  const Expr whole = sharded_bytes * symbols.sd;
  const Expr scattered = Select(symbols.sd - 1, whole, 0);
  const Expr reduced = Select(symbols.sd - 1, 0, Select(symbols.tp - 1, whole, 0));
  constexpr auto kGroup = CollectiveGroup::kTensor;
  step.forward_collectives.push_back({kReduceScatter, kGroup, scattered});
  step.forward_collectives.push_back({kAllReduce, kGroup, reduced});
  step.backward_collectives.push_back({kAllGather, kGroup, scattered});
  step.forward_scratch += scattered;
  step.backward_scratch += scattered;
}

void LowerLinear(Lowering& lowering, const Op& op) {
  Step step = lowering.Begin(op);
  step.step_class = StepClass::kGemm;
  step.saved = {step.inputs[0]};
  step.forward_flops = op.forward_flops;
  step.backward_flops = 2 * op.forward_flops;
  step.forward_bytes = Traffic(lowering, step) + lowering.act() * step.weight_elements;
  step.backward_bytes = 2 * step.forward_bytes;
  step.backward_kernels = 2;
  const Expr in_bytes = lowering.at(step.inputs[0]).bytes;
  switch (op.parallelism) {
    case Parallelism::kColumn:
      AddColumnCollectives(lowering, step, in_bytes);
      break;
    case Parallelism::kVocabulary: {
      AddColumnCollectives(lowering, step, in_bytes);
      if (lowering.variants().loss == Variant::kLean && lowering.FeedsLoss(op.outputs[0])) {
        // One operator with the loss: the logits exist a chunk at a time (see loss.cc).
        lowering.at(step.outputs[0]).bytes = 0;
        lowering.logits_flops = op.forward_flops;
        lowering.logits_input_bytes = in_bytes;
        lowering.logits_weights = step.largest_weight;
      }
      break;
    }
    case Parallelism::kRow:
      AddRowCollectives(lowering, step, lowering.at(step.outputs[0]).bytes);
      break;
    case Parallelism::kNone:
    case Parallelism::kExpert:
      break;
  }
  lowering.Add(std::move(step));
}

}  // namespace palmist::model::internal
