/// Appends operators to one layer (internal to the builders of graphs).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "palmist/model/graph.h"

namespace palmist::model::internal {

/// Returns the product; throws Error(kInput) where it does not fit 64 bits.
std::int64_t Product(std::initializer_list<std::int64_t> factors);

/// How one layer is built up: tensors by name and size, operators in the order they run.
class LayerBuilder {
 public:
  explicit LayerBuilder(std::string name) { layer_.name = std::move(name); }

  /// Adds a tensor; its producer is the operator that names it as an output.
  TensorId Tensor(std::string name, const Expr& elements, Storage storage = Storage::kActivation);
  /// Adds a tensor that comes from outside and takes no gradient.
  TensorId Given(std::string name, const Expr& elements, Storage storage);
  /// Adds the layer's input.
  TensorId Input(std::string name, const Expr& elements);
  void SetInput(TensorId tensor) { layer_.input = tensor; }
  void SetMemory(TensorId tensor) { layer_.memory = tensor; }
  void SetDifferentiable(TensorId tensor, bool value);
  const Expr& Elements(TensorId tensor) const;
  void SetElements(TensorId tensor, const Expr& elements);

  /// Appends an operator with one output named after it; the caller may set further fields of the
  /// returned reference before the next call.
  Op& Append(OpKind kind,
             std::string name,
             std::vector<TensorId> inputs,
             const Expr& output_elements,
             Storage storage = Storage::kActivation);
  /// Appends an operator whose output is like its first input.
  Op& AppendLike(OpKind kind, std::string name, std::vector<TensorId> inputs);
  Op& last_op() { return layer_.ops.back(); }
  /// Returns the first output of the last operator.
  TensorId last() const { return layer_.ops.back().outputs.front(); }

  /// x -> x or dropout(x), where the rate is above zero.
  TensorId Dropout(const std::string& name, TensorId x, double rate);
  TensorId Add(const std::string& name, TensorId a, TensorId b);
  TensorId Activation(const std::string& name, TensorId x, ActivationKind kind);
  /// @param rows vectors on this rank. @param width elements of a vector.
  TensorId Norm(const std::string& name,
                TensorId x,
                const NormSpec& norm,
                const Expr& rows,
                std::int64_t width);

  /// Sets the output and returns the layer.
  Layer Finish(TensorId output);

 private:
  Layer layer_;
};

/// A parameter that every tensor-parallel rank holds whole.
Parameter Replicated(std::string name, std::int64_t elements);

}  // namespace palmist::model::internal
