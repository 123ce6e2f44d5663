#include "palmist/cost/stage.h"

#include <gtest/gtest.h>

#include "palmist/base/rng.h"
#include "palmist/cost/cost_model.h"
#include "palmist/cost/test/uniform_plan.h"

namespace palmist::cost {
namespace {

using symbolic::Domain;

/// What a stage is made of, once as symbols and once as the numbers they stand for.
struct Point {
  std::map<std::string, double> values;
  StageContent<double> content;
  StateLayout<double> states;
};

Expr Count(const std::string& name) { return Expr::Symbol(name, Domain::kNonnegative); }

StageContent<Expr> SymbolicContent(std::size_t kinds, bool tied) {
  StageContent<Expr> content;
  for (std::size_t k = 0; k < kinds; ++k) {
    content.plain.push_back(Count("plain" + std::to_string(k)));
    content.recomputed.push_back(Count("recomputed" + std::to_string(k)));
  }
  content.in_flight = Count("in_flight");
  content.embedding = Count("embedding");
  content.head = Count("head");
  content.tied = tied;
  return content;
}

StateLayout<Expr> SymbolicStates() {
  StateLayout<Expr> states;
  states.weight_shards = Expr::Symbol("weight_shards");
  states.grad_shards = Expr::Symbol("grad_shards");
  states.optimizer_shards = Expr::Symbol("optimizer_shards");
  states.expert_weight_shards = Expr::Symbol("expert_weight_shards");
  states.expert_grad_shards = Expr::Symbol("expert_grad_shards");
  states.expert_optimizer_shards = Expr::Symbol("expert_optimizer_shards");
  states.offload_weights = Count("offload_weights");
  states.offload_grads = Count("offload_grads");
  states.offload_optimizer = Count("offload_optimizer");
  states.offload_activations = Count("offload_activations");
  return states;
}

Point Draw(Rng& rng, std::size_t kinds, bool tied) {
  Point point;
  const auto set = [&](const std::string& name, double value) {
    point.values[name] = value;
    return value;
  };
  const auto whole = [&](std::int64_t n) { return static_cast<double>(rng.Integer(n)); };
  for (std::size_t k = 0; k < kinds; ++k) {
    point.content.plain.push_back(set("plain" + std::to_string(k), whole(4)));
    point.content.recomputed.push_back(set("recomputed" + std::to_string(k), whole(4)));
  }
  point.content.in_flight = set("in_flight", whole(5));
  point.content.embedding = set("embedding", whole(2));
  point.content.head = set("head", whole(2));
  point.content.tied = tied;
  StateLayout<double>& states = point.states;
  const auto shards = [&](const std::string& name) { return set(name, 1 + whole(8)); };
  states.weight_shards = shards("weight_shards");
  states.grad_shards = shards("grad_shards");
  states.optimizer_shards = shards("optimizer_shards");
  states.expert_weight_shards = shards("expert_weight_shards");
  states.expert_grad_shards = shards("expert_grad_shards");
  states.expert_optimizer_shards = shards("expert_optimizer_shards");
  const auto share = [&](const std::string& name) {
    return set(name, rng.Integer(3) == 0 ? 0.0 : rng.Uniform());
  };
  states.offload_weights = share("offload_weights");
  states.offload_grads = share("offload_grads");
  states.offload_optimizer = share("offload_optimizer");
  states.offload_activations = share("offload_activations");
  return point;
}

LayoutInputs DrawInputs(Rng& rng) {
  LayoutInputs inputs;
  inputs.b = static_cast<double>(1 + rng.Integer(4));
  inputs.s = 128.0 * static_cast<double>(1 + rng.Integer(16));
  inputs.tp = static_cast<double>(std::int64_t{1} << rng.Integer(3));
  inputs.sd = rng.Integer(2) == 0 ? 1 : inputs.tp;
  inputs.ep = static_cast<double>(std::int64_t{1} << rng.Integer(3));
  inputs.gemm_s_per_flop = 1e-14 * (1 + rng.Uniform());
  inputs.attention_s_per_flop = 1e-14 * (1 + rng.Uniform());
  inputs.memory_s_per_byte = 1e-12 * (1 + rng.Uniform());
  inputs.gemm_launch_s = inputs.launch_s = 1e-5 * rng.Uniform();
  inputs.tp_group.all_reduce_s = inputs.ep_group.all_to_all_s = 1e-5 * rng.Uniform();
  inputs.tp_group.all_reduce_s_per_byte = inputs.ep_group.all_to_all_s_per_byte =
      1e-11 * rng.Uniform();
  return inputs;
}

void ExpectEqual(double actual, double expected, double scale) {
  EXPECT_NEAR(actual, expected, 1e-9 * std::max(scale, 1e-12));
}

/// Formulas and numbers agree at random points: with dense layers, tied ends, and experts.
void CheckModel(const std::string& name, std::uint64_t seed) {
  const model::Graph graph = model::BuildGraph(model::LoadModel(name).value().spec);
  const CostModel cost_model(graph, {});
  const std::size_t kinds = graph.kinds.size();
  const StageContent<Expr> content = SymbolicContent(kinds, graph.tied_head);
  const StageMemory<Expr> memory = ComposeMemory(cost_model.formulas(), content, SymbolicStates());
  const StageTime<Expr> time = ComposeTime(cost_model.formulas(), content);
  Rng rng(seed);
  for (int trial = 0; trial < 10; ++trial) {
    SCOPED_TRACE(name + " trial " + std::to_string(trial));
    Point point = Draw(rng, kinds, graph.tied_head);
    const LayoutInputs inputs = DrawInputs(rng);
    const std::vector<std::string> names = LayoutInputs::Names();
    const std::vector<double> values = inputs.Values();
    for (std::size_t i = 0; i < names.size(); ++i) point.values[names[i]] = values[i];
    const auto value = [&](const Expr& expr) { return symbolic::Evaluate(expr, point.values); };
    const ModelCost<double> layers = cost_model.Evaluate(std::span(&inputs, 1)).front();

    const StageMemory<double> bytes = ComposeMemory(layers, point.content, point.states);
    const double sum = bytes.Sum();
    ExpectEqual(value(memory.weights), bytes.weights, sum);
    ExpectEqual(value(memory.grads), bytes.grads, sum);
    ExpectEqual(value(memory.optimizer), bytes.optimizer, sum);
    ExpectEqual(value(memory.activations), bytes.activations, sum);
    ExpectEqual(value(memory.transient), bytes.transient, sum);
    ExpectEqual(value(memory.buffers), bytes.buffers, sum);
    ExpectEqual(value(memory.logits), bytes.logits, sum);
    ExpectEqual(value(memory.Sum()), sum, sum);

    const StageTime<double> seconds = ComposeTime(layers, point.content);
    const double all = seconds.forward_s + seconds.backward_s;
    ExpectEqual(value(time.forward_s), seconds.forward_s, all);
    ExpectEqual(value(time.backward_s), seconds.backward_s, all);
    ExpectEqual(value(time.tp_forward_s), seconds.tp_forward_s, all);
    ExpectEqual(value(time.tp_backward_s), seconds.tp_backward_s, all);
    ExpectEqual(value(time.ep_forward_s), seconds.ep_forward_s, all);
    ExpectEqual(value(time.ep_backward_s), seconds.ep_backward_s, all);
  }
}

TEST(StageTest, FormulasEqualNumbersForDenseLayers) { CheckModel("llama-2-7b", 1); }
TEST(StageTest, FormulasEqualNumbersForTiedEnds) { CheckModel("gpt2", 2); }
TEST(StageTest, FormulasEqualNumbersForMixedLayers) { CheckModel("deepseek-v2-lite", 3); }

/// One kind of layer with round numbers.
ModelCost<double> HandModel() {
  ModelCost<double> model;
  LayerCost<double> layer;
  layer.input = 10;
  layer.kept = 100;
  layer.forward_peak = 120;
  layer.backward_peak = 150;
  layer.weights = 1000;
  layer.forward_s = 3;
  layer.backward_s = 5;
  layer.tp_forward_s = 1;
  layer.tp_backward_s = 2;
  model.kinds.push_back(layer);
  model.embedding.kept = 7;
  model.embedding.weights = 400;
  model.embedding.forward_s = 0.5;
  model.head.kept = 20;
  model.head.forward_peak = 60;
  model.head.backward_peak = 80;
  model.head.weights = 30;
  model.head.tied_weights = 300;
  model.head.backward_s = 0.25;
  return model;
}

StageContent<double> HandContent() {
  StageContent<double> content;
  content.plain = {2};
  content.recomputed = {3};
  content.in_flight = 4;
  content.tied = true;
  return content;
}

TEST(StageTest, MemoryOfAMiddleStageByHand) {
  const StageMemory<double> memory = ComposeMemory(HandModel(), HandContent(), {});
  EXPECT_EQ(memory.weights, 2 * 5000);
  EXPECT_EQ(memory.grads, 2 * 5000);
  EXPECT_EQ(memory.optimizer, 12 * 5000);
  EXPECT_EQ(memory.activations, 5 * (2 * 100 + 3 * 10));  // four in flight and the one that runs
  EXPECT_EQ(memory.transient, 150 - 10);  // a recomputed layer makes all of it again
  EXPECT_EQ(memory.logits, 0);
  EXPECT_EQ(memory.buffers, 0);
}

TEST(StageTest, TransientOfPlainLayersIsBeyondWhatTheyKeep) {
  StageContent<double> content = HandContent();
  content.recomputed = {0};
  EXPECT_EQ(ComposeMemory(HandModel(), content, {}).transient, 150 - 100);
}

TEST(StageTest, MemoryOfTheEndsByHand) {
  StageContent<double> content = HandContent();
  content.embedding = 1;
  StageMemory<double> memory = ComposeMemory(HandModel(), content, {});
  EXPECT_EQ(memory.weights, 2 * (5000 + 400));
  EXPECT_EQ(memory.activations, 5 * (230 + 7));
  // The head of a tied model, apart from the embedding, holds the table too.
  content.embedding = 0;
  content.head = 1;
  memory = ComposeMemory(HandModel(), content, {});
  EXPECT_EQ(memory.weights, 2 * (5000 + 30 + 300));
  EXPECT_EQ(memory.activations, 5 * 230 + 4 * 20);
  EXPECT_EQ(memory.logits, 80);
  EXPECT_EQ(memory.transient, 140 - 80);
  // On one stage it is held once.
  content.embedding = 1;
  EXPECT_EQ(ComposeMemory(HandModel(), content, {}).weights, 2 * (5000 + 400 + 30));
}

TEST(StageTest, ShardsDivideTheirStateAndNeedBuffers) {
  StateLayout<double> states;
  states.optimizer_shards = 4;
  StageMemory<double> memory = ComposeMemory(HandModel(), HandContent(), states);
  EXPECT_EQ(memory.optimizer, 12 * 5000 / 4);
  EXPECT_EQ(memory.weights, 2 * 5000);
  EXPECT_EQ(memory.buffers, 0);
  states.grad_shards = 4;
  memory = ComposeMemory(HandModel(), HandContent(), states);
  EXPECT_EQ(memory.grads, 2 * 5000 / 4);
  EXPECT_EQ(memory.buffers, 2 * 2 * 1000);  // two of the largest layer
  states.weight_shards = 4;
  memory = ComposeMemory(HandModel(), HandContent(), states);
  EXPECT_EQ(memory.weights, 2 * 5000 / 4);
  EXPECT_EQ(memory.buffers, 4 * 2 * 1000);
}

TEST(StageTest, OffloadLeavesItsShareAndTwoLayersOfStaging) {
  StateLayout<double> states;
  states.offload_optimizer = 0.25;
  states.offload_activations = 0.5;
  const StageMemory<double> memory = ComposeMemory(HandModel(), HandContent(), states);
  EXPECT_EQ(memory.optimizer, 0.75 * 12 * 5000);
  EXPECT_EQ(memory.activations, 0.5 * 5 * 230 + 2 * 100);
}

TEST(StageTest, TimesByHand) {
  StageContent<double> content = HandContent();
  content.embedding = content.head = 1;
  const StageTime<double> time = ComposeTime(HandModel(), content);
  EXPECT_EQ(time.forward_s, 5 * 3 + 0.5);
  EXPECT_EQ(time.backward_s, 5 * 5 + 3 * 3 + 0.25);  // three forwards again
  EXPECT_EQ(time.tp_forward_s, 5);
  EXPECT_EQ(time.tp_backward_s, 5 * 2 + 3);
}

TEST(StageTest, CountsLayersByKind) {
  const model::Graph graph = model::BuildGraph(model::LoadModel("deepseek-v2-lite").value().spec);
  ASSERT_EQ(graph.kinds.size(), 2u);
  const StageContent<double> content = CountLayers(graph, 0, 3, {false, true, false, true});
  const auto dense = static_cast<std::size_t>(graph.layers.front());
  EXPECT_EQ(content.plain[dense], 1);
  EXPECT_EQ(content.recomputed[dense], 0);
  EXPECT_EQ(content.plain[1 - dense], 1);
  EXPECT_EQ(content.recomputed[1 - dense], 2);
}

// T5 with an untied head: the decoder's first layer looks its tokens up in the encoder's table.
TEST(StageTest, ATableTiedToTheEmbeddingIsHeldAgainAwayFromIt) {
  ModelCost<double> model;
  model.kinds.resize(2);
  model.kinds[0].weights = 3;
  model.kinds[0].tied_weights = 5;
  model.kinds[1].weights = 2;
  model.embedding.weights = 5;
  StageContent<double> content;
  content.plain = {1, 4};
  content.recomputed = {0, 0};
  EXPECT_EQ(CountWeights(model, content).dense, 3 + 4 * 2 + 5);
  EXPECT_EQ(CountWeights(model, content).tied, 5);
  content.embedding = 1;
  EXPECT_EQ(CountWeights(model, content).dense, 3 + 4 * 2 + 5);
  EXPECT_EQ(CountWeights(model, content).tied, 0);
}

}  // namespace
}  // namespace palmist::cost
