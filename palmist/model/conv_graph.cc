#include <algorithm>
#include <utility>
#include <vector>

#include "palmist/model/graph_builders.h"
#include "palmist/model/layer_builder.h"

namespace palmist::model::internal {
namespace {

class BlockGraph {
 public:
  BlockGraph(const ConvBlock& block, bool is_first) : block_(block), builder_(block.name) {
    input_ = builder_.Input("x", Image(block.in_channels, block.in_height, block.in_width));
    if (is_first) builder_.SetDifferentiable(input_, false);
  }

  Layer Build() {
    for (const ConvOp& op : block_.ops) {
      Append(op);
      outputs_.push_back(builder_.last());
    }
    return builder_.Finish(outputs_.back());
  }

 private:
  Expr Image(std::int64_t channels, std::int64_t height, std::int64_t width) const {
    return symbols_.b * Product({channels, height, width});
  }

  Expr Output(const ConvOp& op) const { return Image(op.channels, op.height, op.width); }

  TensorId Read(int index) const {
    if (index >= 0) return outputs_[static_cast<std::size_t>(index)];
    const bool from_input = index == -2 || outputs_.empty();
    return from_input ? input_ : outputs_.back();
  }

  void Append(const ConvOp& op) {
    const TensorId x = Read(op.input);
    switch (op.kind) {
      case ConvOpKind::kConv:
        return Weighted(OpKind::kConv, op, x);
      case ConvOpKind::kLinear:
        return Weighted(OpKind::kLinear, op, x);
      case ConvOpKind::kBatchNorm:
        builder_.Append(OpKind::kBatchNorm, op.name, {x}, Output(op)).parameters = {
            Replicated("weight", op.channels), Replicated("bias", op.channels)};
        return;
      case ConvOpKind::kRelu:
        builder_.Activation(op.name, x, ActivationKind::kRelu);
        return;
      case ConvOpKind::kMaxPool:
      case ConvOpKind::kGlobalPool:
        builder_.Append(OpKind::kPool, op.name, {x}, Output(op));
        return;
      case ConvOpKind::kPixelShuffle:
        builder_.Append(OpKind::kReshape, op.name, {x}, Output(op));
        return;
      case ConvOpKind::kAddResidual:
        builder_.Add(op.name, x, Read(op.residual));
        return;
      case ConvOpKind::kSigmoidScale:
        builder_.AppendLike(OpKind::kScale, op.name, {Read(op.residual), x});
        return;
      case ConvOpKind::kMseLoss:
        return Loss(op, x, Storage::kFloat32, Output(op));
      case ConvOpKind::kCrossEntropy:
        return Loss(op, x, Storage::kIndex, symbols_.b);
    }
  }

  void Weighted(OpKind kind, const ConvOp& op, TensorId x) {
    const ConvSpec& conv = op.conv;
    const std::int64_t weight =
        Product({conv.in_channels / conv.groups, conv.out_channels, conv.kernel, conv.kernel});
    Op& result = builder_.Append(kind, op.name, {x}, Output(op));
    result.parameters = {Replicated("weight", weight)};
    if (conv.bias) result.parameters.push_back(Replicated("bias", conv.out_channels));
    result.forward_flops = 2 * symbols_.b * Product({weight, conv.out_height, conv.out_width});
  }

  void Loss(const ConvOp& op, TensorId x, Storage storage, const Expr& targets) {
    const TensorId target = builder_.Given("target", targets, storage);
    builder_.Append(OpKind::kLoss, op.name, {x, target}, 1, Storage::kFloat32).rows = symbols_.b;
  }

  const ConvBlock& block_;
  Symbols symbols_;
  LayerBuilder builder_;
  TensorId input_ = kNoTensor;
  std::vector<TensorId> outputs_;
};

/// Equal but for the name.
bool SameBlock(const ConvBlock& a, const ConvBlock& b) {
  return a.in_channels == b.in_channels && a.in_height == b.in_height && a.in_width == b.in_width &&
         a.ops == b.ops;
}

}  // namespace

Graph BuildConvGraph(const ConvNetSpec& spec) {
  Graph graph;
  graph.has_sequence = false;
  std::vector<const ConvBlock*> kinds;
  for (const ConvBlock& block : spec.blocks) {
    const auto same = std::find_if(
        kinds.begin(), kinds.end(), [&](const ConvBlock* kind) { return SameBlock(*kind, block); });
    graph.layers.push_back(static_cast<int>(same - kinds.begin()));
    if (same != kinds.end()) continue;
    graph.kinds.push_back(BlockGraph(block, kinds.empty()).Build());
    kinds.push_back(&block);
  }
  return graph;
}

}  // namespace palmist::model::internal
