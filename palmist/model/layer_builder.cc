#include "palmist/model/layer_builder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "palmist/base/units.h"

namespace palmist::model::internal {

std::int64_t Product(std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) {
    const auto next = CheckedMul(product, factor);
    if (!next.ok()) {
      throw InputError("",
                       fmt::format("expected sizes whose products fit 64 bits, got {}",
                                   fmt::join(factors, " x ")));
    }
    product = *next;
  }
  return product;
}

TensorId LayerBuilder::Tensor(std::string name, const Expr& elements, Storage storage) {
  model::Tensor tensor;
  tensor.name = std::move(name);
  tensor.elements = elements;
  tensor.storage = storage;
  layer_.tensors.push_back(std::move(tensor));
  return static_cast<TensorId>(layer_.tensors.size()) - 1;
}

TensorId LayerBuilder::Given(std::string name, const Expr& elements, Storage storage) {
  const TensorId tensor = Tensor(std::move(name), elements, storage);
  SetDifferentiable(tensor, false);
  return tensor;
}

TensorId LayerBuilder::Input(std::string name, const Expr& elements) {
  layer_.input = Tensor(std::move(name), elements);
  return layer_.input;
}

void LayerBuilder::SetDifferentiable(TensorId tensor, bool value) {
  layer_.tensors[static_cast<std::size_t>(tensor)].differentiable = value;
}

const Expr& LayerBuilder::Elements(TensorId tensor) const {
  return layer_.tensors[static_cast<std::size_t>(tensor)].elements;
}

void LayerBuilder::SetElements(TensorId tensor, const Expr& elements) {
  layer_.tensors[static_cast<std::size_t>(tensor)].elements = elements;
}

Op& LayerBuilder::Append(OpKind kind,
                         std::string name,
                         std::vector<TensorId> inputs,
                         const Expr& output_elements,
                         Storage storage) {
  Op op;
  op.kind = kind;
  op.inputs = std::move(inputs);
  op.outputs = {Tensor(name, output_elements, storage)};
  op.name = std::move(name);
  layer_.ops.push_back(std::move(op));
  return layer_.ops.back();
}

Op& LayerBuilder::AppendLike(OpKind kind, std::string name, std::vector<TensorId> inputs) {
  const Expr elements = Elements(inputs.front());
  return Append(kind, std::move(name), std::move(inputs), elements);
}

TensorId LayerBuilder::Dropout(const std::string& name, TensorId x, double rate) {
  if (rate <= 0) return x;
  Op& op = AppendLike(OpKind::kDropout, name, {x});
  op.dropout = rate;
  return last();
}

TensorId LayerBuilder::Add(const std::string& name, TensorId a, TensorId b) {
  AppendLike(OpKind::kAdd, name, {a, b});
  return last();
}

TensorId LayerBuilder::Activation(const std::string& name, TensorId x, ActivationKind kind) {
  Op& op = AppendLike(OpKind::kActivation, name, {x});
  op.activation = kind;
  return last();
}

TensorId LayerBuilder::Norm(const std::string& name,
                            TensorId x,
                            const NormSpec& norm,
                            const Expr& rows,
                            std::int64_t width) {
  Op& op = AppendLike(OpKind::kNorm, name, {x});
  op.norm = norm;
  op.rows = rows;
  if (norm.scale) op.parameters.push_back(Replicated("weight", width));
  if (norm.bias) op.parameters.push_back(Replicated("bias", width));
  return last();
}

Layer LayerBuilder::Finish(TensorId output) {
  layer_.output = output;
  layer_.output_is_norm = !layer_.ops.empty() && layer_.ops.back().kind == OpKind::kNorm;
  return std::move(layer_);
}

Parameter Replicated(std::string name, std::int64_t elements) {
  Parameter parameter;
  parameter.name = std::move(name);
  parameter.elements = elements;
  parameter.elements_per_rank = elements;
  return parameter;
}

}  // namespace palmist::model::internal
