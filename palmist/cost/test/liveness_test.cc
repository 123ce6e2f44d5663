// Peaks of tiny layers by hand, and what must hold of the layers of every built-in model.
#include "palmist/cost/liveness.h"

#include <gtest/gtest.h>

#include <set>

#include "palmist/model/config.h"
#include "palmist/model/zoo.h"

namespace palmist::cost {
namespace {

using model::Buffer;
using model::LoweredLayer;
using model::Step;

/// Builds a layer of buffers and steps.
class Maker {
 public:
  int Add(double bytes, bool differentiable = true) {
    const int index = static_cast<int>(layer.buffers.size());
    layer.buffers.push_back({.name = "b" + std::to_string(index),
                             .bytes = bytes,
                             .differentiable = differentiable,
                             .storage = index,
                             .recompute_from = {},
                             .recompute_step = -1});
    return index;
  }
  Step& Run(std::vector<int> inputs, std::vector<int> outputs, std::vector<int> saved) {
    Step step;
    step.inputs = std::move(inputs);
    step.outputs = std::move(outputs);
    step.saved = std::move(saved);
    layer.steps.push_back(std::move(step));
    return layer.steps.back();
  }
  LayerMemory Analyze(int input, int output) {
    layer.input = input;
    layer.output = output;
    return AnalyzeMemory(layer);
  }
  LoweredLayer layer;
};

double Value(const Expr& bytes) { return symbolic::Evaluate(bytes, {{"grad_bytes", 2}}); }

TEST(LivenessTest, ALayerWithoutStepsHoldsNothing) {
  const LayerMemory memory = AnalyzeMemory(LoweredLayer());
  EXPECT_EQ(Value(memory.input), 0);
  EXPECT_EQ(Value(memory.kept), 0);
  EXPECT_EQ(Value(memory.forward_peak), 0);
  EXPECT_EQ(Value(memory.backward_peak), 0);
}

// x -> y -> z, both inputs kept.
TEST(LivenessTest, AChainThatKeepsItsInputs) {
  Maker maker;
  const int x = maker.Add(10), y = maker.Add(20), z = maker.Add(5);
  maker.Run({x}, {y}, {x});
  maker.Run({y}, {z}, {y});
  const LayerMemory memory = maker.Analyze(x, z);
  EXPECT_EQ(Value(memory.input), 10);
  EXPECT_EQ(Value(memory.kept), 30);
  EXPECT_EQ(Value(memory.forward_peak), 35);        // x, y, z
  EXPECT_EQ(Value(memory.backward_peak), 30 + 25);  // x, y, dz, dy
}

// The middle buffer is needed by nobody's backward: it lives from its writer to its last reader.
TEST(LivenessTest, WhatIsNotKeptIsFreedAfterItsLastReader) {
  Maker maker;
  const int x = maker.Add(10), y = maker.Add(20), z = maker.Add(5), w = maker.Add(12);
  maker.Run({x}, {y}, {});
  maker.Run({y}, {z}, {});
  maker.Run({z}, {w}, {z});
  const LayerMemory memory = maker.Analyze(x, w);
  EXPECT_EQ(Value(memory.kept), 5);
  EXPECT_EQ(Value(memory.forward_peak), 30);   // x, y; then y, z: 25; then z, w: 17
  EXPECT_EQ(Value(memory.backward_peak), 30);  // dy, dx; before: z, dw, dz: 22 and dz, dy: 25
}

TEST(LivenessTest, AResidualLivesUntilItIsAdded) {
  Maker maker;
  const int x = maker.Add(10), y = maker.Add(40), z = maker.Add(10), out = maker.Add(10);
  maker.Run({x}, {y}, {});
  maker.Run({y}, {z}, {});
  maker.Run({x, z}, {out}, {});
  const LayerMemory memory = maker.Analyze(x, out);
  EXPECT_EQ(Value(memory.kept), 0);
  EXPECT_EQ(Value(memory.forward_peak), 60);  // x, y, z
  // d(out), dx and dz; then dx, dz, dy; then dx, dy and what is added to dx.
  EXPECT_EQ(Value(memory.backward_peak), 60);
}

TEST(LivenessTest, StepsInPlaceAddNothing) {
  Maker maker;
  const int x = maker.Add(10), y = maker.Add(20), z = maker.Add(20), w = maker.Add(5);
  maker.Run({x}, {y}, {});
  Step& in_place = maker.Run({y}, {z}, {});
  in_place.in_place = in_place.gradient_in_place = true;
  maker.layer.buffers[static_cast<std::size_t>(z)].storage = y;
  maker.Run({z}, {w}, {z});
  const LayerMemory memory = maker.Analyze(x, w);
  EXPECT_EQ(Value(memory.kept), 20);
  EXPECT_EQ(Value(memory.forward_peak), 30);        // x, y = z
  EXPECT_EQ(Value(memory.backward_peak), 20 + 25);  // z, dw, dz
}

TEST(LivenessTest, RecomputableBuffersAreHeldInBackwardOnly) {
  Maker maker;
  const int x = maker.Add(10), y = maker.Add(30), z = maker.Add(5);
  maker.Run({x}, {y}, {x});
  maker.Run({y}, {z}, {y});
  Buffer& made_again = maker.layer.buffers[static_cast<std::size_t>(y)];
  made_again.recompute_from = {x};
  made_again.recompute_step = 0;
  const LayerMemory memory = maker.Analyze(x, z);
  EXPECT_EQ(Value(memory.kept), 10);
  EXPECT_EQ(Value(memory.forward_peak), 45);  // x, y, z
  // x, y again (held until the step that made it has run), dy, dx.
  EXPECT_EQ(Value(memory.backward_peak), 10 + 30 + 40);
}

TEST(LivenessTest, ScratchAndAWeightsGradientCountWhileTheStepRuns) {
  Maker maker;
  const int x = maker.Add(10), y = maker.Add(20);
  Step& step = maker.Run({x}, {y}, {x});
  step.forward_scratch = 7;
  step.backward_scratch = 9;
  step.largest_weight = 100;
  const LayerMemory memory = maker.Analyze(x, y);
  EXPECT_EQ(Value(memory.kept), 10);
  EXPECT_EQ(Value(memory.forward_peak), 37);
  EXPECT_EQ(Value(memory.backward_peak), 10 + 30 + 9 + 2 * 100);
}

TEST(LivenessTest, AGradientWrittenOverAKeptBufferTakesItsPlace) {
  Maker maker;
  const int x = maker.Add(10), y = maker.Add(40), loss = maker.Add(1);
  Step& step = maker.Run({y}, {loss}, {y});
  step.gradient_over = y;
  Step first = maker.layer.steps.back();
  maker.layer.steps.clear();
  maker.Run({x}, {y}, {x});
  maker.layer.steps.push_back(first);
  const LayerMemory memory = maker.Analyze(x, loss);
  EXPECT_EQ(Value(memory.kept), 50);
  // x, y (its own gradient), d(loss); then x, dy, dx.
  EXPECT_EQ(Value(memory.backward_peak), 60);
}

TEST(LivenessTest, IndicesHaveNoGradient) {
  Maker maker;
  const int ids = maker.Add(8, false), x = maker.Add(100);
  maker.Run({ids}, {x}, {ids});
  const LayerMemory memory = maker.Analyze(ids, x);
  EXPECT_EQ(Value(memory.kept), 8);
  EXPECT_EQ(Value(memory.backward_peak), 108);
}

// The output is the next layer's input and counted there, even where this layer keeps it.
TEST(LivenessTest, TheOutputIsNotCountedAsKept) {
  Maker maker;
  const int x = maker.Add(10), y = maker.Add(20);
  maker.Run({x}, {y}, {y});
  const LayerMemory memory = maker.Analyze(x, y);
  EXPECT_EQ(Value(memory.kept), 0);
  EXPECT_EQ(Value(memory.forward_peak), 30);
  EXPECT_EQ(Value(memory.backward_peak), 20 + 30);
}

// One model of each family, so that every lowering is met.
TEST(LivenessTest, PeaksHoldWhatIsKeptInEveryFamily) {
  std::set<std::string> seen;
  for (const std::string& name : model::ZooNames()) {
    const model::Model loaded = model::LoadModel(name).value();
    if (!seen.insert(loaded.spec.family).second) continue;
    const model::Graph graph = model::BuildGraph(loaded.spec);
    std::vector<const model::Layer*> layers = {&graph.embedding, &graph.head};
    for (const model::Layer& kind : graph.kinds) layers.push_back(&kind);
    for (const model::Variant variant :
         {model::Variant::kEager, model::Variant::kFused, model::Variant::kLean}) {
      model::LoweringOptions options;
      options.variants = model::UniformVariants(variant);
      for (const model::Layer* layer : layers) {
        SCOPED_TRACE(name + " " + layer->name + " " + std::string(model::ToString(variant)));
        const LayerMemory memory = AnalyzeMemory(model::Lower(*layer, options));
        const auto value = [](const Expr& bytes) {
          return symbolic::Evaluate(bytes,
                                    {{"b", 2},
                                     {"s", 512},
                                     {"tp", 1},
                                     {"sd", 1},
                                     {"cp", 1},
                                     {"ep", 1},
                                     {"x", 1},
                                     {"grad_bytes", 2}});
        };
        const double kept = value(memory.kept);
        EXPECT_GE(kept, 0);
        EXPECT_GE(value(memory.forward_peak), kept);
        EXPECT_GE(value(memory.backward_peak), kept);
        EXPECT_GE(value(memory.forward_peak), value(memory.input));
      }
    }
  }
  EXPECT_GE(seen.size(), 15u);
}

}  // namespace
}  // namespace palmist::cost
