// Lowering of every layer of every built-in model, under every variant.
#include "palmist/model/lower.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "palmist/model/config.h"
#include "palmist/model/zoo.h"

namespace palmist::model {
namespace {

constexpr Variant kVariants[] = {Variant::kEager,
                                 Variant::kSdpa,
                                 Variant::kFused,
                                 Variant::kFusedSoftmax,
                                 Variant::kTempo,
                                 Variant::kLean};

const std::map<std::string, double> kPoint = {
    {"b", 2}, {"s", 512}, {"tp", 1}, {"sd", 1}, {"cp", 1}, {"ep", 1}, {"x", 1}};

double Value(const Expr& expr) { return symbolic::Evaluate(expr, kPoint); }

/// Bytes that stay until backward, each storage once.
double KeptBytes(const LoweredLayer& layer) {
  std::set<int> storages;
  for (const std::vector<int>& of_step : KeptBuffers(layer)) {
    for (int buffer : of_step) {
      while (layer.buffers[buffer].storage != buffer) buffer = layer.buffers[buffer].storage;
      storages.insert(buffer);
    }
  }
  double bytes = 0;
  for (const int storage : storages) bytes += Value(layer.buffers[storage].bytes);
  return bytes;
}

/// Checks that a lowered layer is sound by itself: indices, order, signs.
void CheckSound(const LoweredLayer& layer) {
  const int buffers = static_cast<int>(layer.buffers.size());
  ASSERT_GE(layer.input, 0);
  ASSERT_LT(layer.input, buffers);
  ASSERT_GE(layer.output, 0);
  ASSERT_LT(layer.output, buffers);
  std::set<int> written;
  for (std::size_t i = 0; i < layer.steps.size(); ++i) {
    const Step& step = layer.steps[i];
    SCOPED_TRACE(step.name);
    EXPECT_FALSE(step.inputs.empty() && step.outputs.empty());
    for (const int buffer : step.outputs) {
      EXPECT_TRUE(written.insert(buffer).second) << "written twice";
      EXPECT_NE(buffer, layer.input);
    }
    for (const auto* list : {&step.inputs, &step.outputs, &step.saved}) {
      for (const int buffer : *list) {
        ASSERT_GE(buffer, 0);
        ASSERT_LT(buffer, buffers);
      }
    }
    for (const int buffer : step.saved) {
      // What can be made again names the step that does so, unless the layer before does.
      const Buffer& saved = layer.buffers[buffer];
      EXPECT_LT(saved.recompute_step, static_cast<int>(layer.steps.size()));
      EXPECT_TRUE(saved.recompute_step < 0 || !saved.recompute_from.empty());
    }
    for (const Expr* amount : {&step.forward_flops,
                               &step.backward_flops,
                               &step.forward_bytes,
                               &step.backward_bytes,
                               &step.forward_scratch,
                               &step.backward_scratch,
                               &step.weight_elements,
                               &step.largest_weight}) {
      EXPECT_GE(Value(*amount), 0);
    }
    EXPECT_LE(Value(step.largest_weight), Value(step.weight_elements + step.tied_elements));
    EXPECT_LE(Value(step.expert_elements), Value(step.weight_elements));
    for (const auto* collectives : {&step.forward_collectives, &step.backward_collectives}) {
      for (const Collective& collective : *collectives) {
        EXPECT_EQ(Value(collective.bytes), 0) << "a single rank has nobody to talk to";
      }
    }
  }
  for (const Buffer& buffer : layer.buffers) {
    EXPECT_GE(Value(buffer.bytes), 0) << buffer.name;
  }
  EXPECT_TRUE(layer.steps.empty() || written.contains(layer.output));
}

/// One check of all layers of the models whose position in the zoo is `part` modulo four, so that
/// each test stays short.
void CheckZoo(std::size_t part) {
  const std::vector<std::string> names = ZooNames();
  for (std::size_t m = part; m < names.size(); m += 4) {
    const Graph graph = BuildGraph(LoadModel(names[m]).value().spec);
    std::vector<const Layer*> layers = {&graph.embedding, &graph.head};
    for (const Layer& kind : graph.kinds) layers.push_back(&kind);
    for (const Layer* layer : layers) {
      if (layer->ops.empty()) continue;
      std::map<Variant, double> kept;
      double parameters = -1;
      for (const Variant variant : kVariants) {
        SCOPED_TRACE(names[m] + " " + layer->name + " " + std::string(ToString(variant)));
        LoweringOptions options;
        options.variants = UniformVariants(variant);
        const LoweredLayer lowered = Lower(*layer, options);
        ASSERT_NO_FATAL_FAILURE(CheckSound(lowered));
        kept[variant] = KeptBytes(lowered);
        double elements = 0;
        for (const Step& step : lowered.steps) elements += Value(step.weight_elements);
        if (parameters >= 0) {
          EXPECT_EQ(elements, parameters) << "variants have the same parameters";
        }
        parameters = elements;
      }
      SCOPED_TRACE(names[m] + " " + layer->name);
      EXPECT_LE(kept[Variant::kLean], kept[Variant::kFused]);
      EXPECT_LE(kept[Variant::kFused], kept[Variant::kEager]);
      EXPECT_LE(kept[Variant::kSdpa], kept[Variant::kEager]);
      EXPECT_LE(kept[Variant::kTempo], kept[Variant::kEager]);
    }
  }
}

TEST(LowerTest, EveryLayerOfTheZooFirstQuarter) { CheckZoo(0); }
TEST(LowerTest, EveryLayerOfTheZooSecondQuarter) { CheckZoo(1); }
TEST(LowerTest, EveryLayerOfTheZooThirdQuarter) { CheckZoo(2); }
TEST(LowerTest, EveryLayerOfTheZooFourthQuarter) { CheckZoo(3); }

TEST(LowerTest, VariantsHaveNamesThatAreReadBack) {
  for (const Variant variant : kVariants) {
    EXPECT_EQ(ParseVariant(ToString(variant)).value(), variant);
  }
  const Result<Variant> unknown = ParseVariant("leen");
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().hint().find("lean"), std::string::npos);
}

TEST(LowerTest, OnlyAttentionHasAFusedSoftmax) {
  const OpVariants ops = UniformVariants(Variant::kFusedSoftmax);
  EXPECT_EQ(ops.attention, Variant::kFusedSoftmax);
  EXPECT_EQ(ops.norm, Variant::kFused);
  EXPECT_EQ(ops.loss, Variant::kFused);
}

TEST(LowerTest, FullPrecisionDoublesActivations) {
  const Graph graph = BuildGraph(LoadModel("llama-2-7b").value().spec);
  LoweringOptions half, full;
  half.variants = full.variants = UniformVariants(Variant::kFused);
  full.activation_bytes = 4;
  const double statistics = 2 * 512 * (8 + 4 * 32);  // fp32 in both
  const double half_kept = KeptBytes(Lower(graph.kinds.front(), half));
  const double full_kept = KeptBytes(Lower(graph.kinds.front(), full));
  EXPECT_DOUBLE_EQ(full_kept - statistics, 2 * (half_kept - statistics));
}

}  // namespace
}  // namespace palmist::model
