#include "palmist/cost/liveness.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace palmist::cost {
namespace {

using model::LoweredLayer;
using model::Step;

/// The storages that a set of buffers occupies.
class Walk {
 public:
  explicit Walk(const LoweredLayer& layer) : layer_(layer), kept_(model::KeptBuffers(layer)) {
    for (const std::vector<int>& of_step : kept_) {
      for (const int buffer : of_step) kept_storages_.insert(root(buffer));
    }
  }

  int root(int buffer) const {
    int storage = buffer;
    while (layer_.buffers[storage].storage != storage) storage = layer_.buffers[storage].storage;
    return storage;
  }

  Expr Bytes(const std::set<int>& storages) const {
    std::vector<Expr> sizes;
    for (const int storage : storages) sizes.push_back(layer_.buffers[storage].bytes);
    return symbolic::Sum(sizes);
  }

  const std::set<int>& kept_storages() const { return kept_storages_; }

  Expr ForwardPeak() const {
    const int steps = static_cast<int>(layer_.steps.size());
    std::vector<int> last_use(layer_.buffers.size(), -1);
    for (int i = 0; i < steps; ++i) {
      for (const int buffer : layer_.steps[i].inputs) last_use[root(buffer)] = i;
      for (const int buffer : layer_.steps[i].outputs) {
        last_use[root(buffer)] = std::max(last_use[root(buffer)], i);
      }
    }
    last_use[root(layer_.output)] = steps;
    std::set<int> live = {root(layer_.input)};
    std::vector<Expr> points;
    for (int i = 0; i < steps; ++i) {
      const Step& step = layer_.steps[i];
      for (const int buffer : step.outputs) live.insert(root(buffer));
      points.push_back(Bytes(live) + step.forward_scratch);
      std::erase_if(live, [&](int storage) {
        return last_use[storage] <= i && !kept_storages_.contains(storage);
      });
    }
    return symbolic::Max(points);
  }

  Expr BackwardPeak() const {
    const int steps = static_cast<int>(layer_.steps.size());
    // A kept storage is freed once the earliest step that needs it has run backward; a recomputed
    // buffer once the step that made it has.
    std::vector<int> first_need(layer_.buffers.size(), steps);
    for (int i = 0; i < steps; ++i) {
      for (const int buffer : kept_[i]) {
        first_need[root(buffer)] = std::min(first_need[root(buffer)], i);
      }
    }
    std::vector<int> made_by(layer_.buffers.size(), 0);
    for (int i = 0; i < steps; ++i) {
      for (const int buffer : layer_.steps[i].outputs) made_by[buffer] = i;
    }

    std::set<int> kept = kept_storages_;
    std::set<int> recomputed;
    Gradients gradients(layer_);
    gradients.Make(layer_.output);
    std::vector<Expr> points;
    for (int i = steps - 1; i >= 0; --i) {
      const Step& step = layer_.steps[i];
      for (const int buffer : step.saved) {
        if (!layer_.buffers[buffer].recompute_from.empty()) recomputed.insert(root(buffer));
      }
      const Expr accumulated = gradients.Backward(step);
      points.push_back(Bytes(kept) + Bytes(recomputed) + gradients.Bytes() + accumulated +
                       step.backward_scratch + step.largest_weight * GradBytes());
      gradients.Finish(step);
      std::erase_if(kept, [&](int storage) { return first_need[storage] >= i; });
      std::erase_if(recomputed, [&](int storage) { return made_by[storage] >= i; });
    }
    return symbolic::Max(points);
  }

 private:
  /// The gradients that are live; several buffers may share one.
  class Gradients {
   public:
    explicit Gradients(const LoweredLayer& layer) : layer_(layer), of_(layer.buffers.size(), -1) {}

    void Make(int buffer) {
      of_[buffer] = static_cast<int>(sizes_.size());
      sizes_.push_back(layer_.buffers[buffer].bytes);
    }

    /// Makes the gradients of the inputs; returns the bytes of those that are added to one that
    /// exists, which live only during this step.
    Expr Backward(const Step& step) {
      Expr accumulated = 0;
      const int incoming = step.outputs.empty() ? -1 : of_[step.outputs[0]];
      for (const int input : step.inputs) {
        if (!layer_.buffers[input].differentiable) continue;
        if (of_[input] >= 0) {
          if (!step.gradient_in_place) accumulated += layer_.buffers[input].bytes;
        } else if (step.gradient_in_place && incoming >= 0) {
          of_[input] = incoming;
        } else if (step.gradient_over >= 0 && input == step.inputs[0]) {
          of_[input] = static_cast<int>(sizes_.size());
          sizes_.push_back(0);
          sizes_.back() = layer_.buffers[step.gradient_over].bytes;
          overwritten_ = sizes_.back();
        } else {
          Make(input);
        }
      }
      // What is written over a kept buffer adds nothing while both are counted.
      return accumulated - std::exchange(overwritten_, Expr(0));
    }

    void Finish(const Step& step) {
      for (const int output : step.outputs) of_[output] = -1;
    }

    Expr Bytes() const {
      std::set<int> live;
      for (const int gradient : of_) {
        if (gradient >= 0) live.insert(gradient);
      }
      std::vector<Expr> sizes;
      for (const int gradient : live) sizes.push_back(sizes_[gradient]);
      return symbolic::Sum(sizes);
    }

   private:
    const LoweredLayer& layer_;
    std::vector<int> of_;      // buffer -> gradient, -1 where there is none
    std::vector<Expr> sizes_;  // gradient -> bytes
    Expr overwritten_ = 0;
  };

  const LoweredLayer& layer_;
  std::vector<std::vector<int>> kept_;
  std::set<int> kept_storages_;
};

}  // namespace

Expr GradBytes() { return Expr::Symbol("grad_bytes", symbolic::Domain::kNonnegative); }

LayerMemory AnalyzeMemory(const LoweredLayer& layer) {
  LayerMemory memory;
  if (layer.steps.empty()) return memory;
  const Walk walk(layer);
  memory.input = layer.buffers[layer.input].bytes;
  // The output is the next layer's input, and counted there.
  std::set<int> kept = walk.kept_storages();
  kept.erase(walk.root(layer.output));
  if (layer.memory >= 0) {
    memory.memory = layer.buffers[layer.memory].bytes;
    kept.erase(walk.root(layer.memory));
  }
  if (!layer.buffers[layer.input].recompute_from.empty()) memory.boundary = memory.input;
  memory.kept = walk.Bytes(kept);
  memory.forward_peak = walk.ForwardPeak();
  memory.backward_peak = walk.BackwardPeak();
  return memory;
}

}  // namespace palmist::cost
