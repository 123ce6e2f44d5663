/// Memory of one lowered layer over time, derived from its steps by liveness.
#pragma once

#include "palmist/model/lower.h"
#include "palmist/symbolic/expr.h"

namespace palmist::cost {

using symbolic::Expr;

/// Bytes on one rank for one micro-batch, as expressions over the symbols of `model/graph.h`.
struct LayerMemory {
  Expr input;  ///< the layer's input: all that a recomputed layer keeps
  /// What a layer that is not recomputed keeps, with its input where needed, without its output,
  /// which is the next layer's input.
  Expr kept;
  /// What the first such layer of a stage keeps besides: its input, which later ones make again
  /// from the layer before. 0 for layers that keep their input anyway.
  Expr boundary;
  /// The encoder's output, which all decoder layers of a stage keep together.
  Expr memory;
  Expr forward_peak;  ///< largest sum of live buffers while forward runs, with what it keeps
  /// The same in backward, starting from `kept` and the output's gradient. A weight's gradient is
  /// made beside the sum it is then added to: `grad_bytes` (GradBytes()) times its elements.
  Expr backward_peak;
};

/// Returns the symbol for the bytes of a gradient's element.
Expr GradBytes();

/// Walks a layer's steps forward and backward and returns its memory.
///
/// Forward: a buffer lives from the step that writes it to the last one that reads it, or to the
/// end where it is kept. Backward runs the steps in reverse: each makes the gradients of its
/// inputs, makes again what was not kept, and frees what no earlier step needs.
/// Complexity: O(steps * buffers) expression operations.
LayerMemory AnalyzeMemory(const model::LoweredLayer& layer);

}  // namespace palmist::cost
