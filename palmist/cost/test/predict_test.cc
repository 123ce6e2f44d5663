#include "palmist/cost/predict.h"

#include <gtest/gtest.h>

#include <numeric>

#include "palmist/cost/test/uniform_plan.h"

namespace palmist::cost {
namespace {

using test::MakePlan;
using test::MemoryOf;
using test::Predicted;
using test::Recompute;
using test::SetZero;

double SumOfCategories(const plan::MemoryBytes& memory) {
  double sum = 0;
  for (const plan::MemoryCategory& category : plan::kMemoryCategories) {
    sum += memory.*category.bytes;
  }
  return sum;
}

double Iteration(const plan::Plan& plan) { return plan.predicted.value().iteration_time_s; }

TEST(PredictTest, CategoriesSumToThePeak) {
  plan::Plan plan = MakePlan({.model = "qwen3-0.6b", .layers = {9, 9, 10}, .dp = 2});
  SetZero(plan, 2);
  plan.stages[1].offload = {.weights = 0.5, .grads = 0, .optimizer = 0.25, .activations = 0.5};
  Recompute(plan.stages[2], 4);
  plan = Predicted(std::move(plan));
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const plan::MemoryBytes& memory = MemoryOf(plan, i);
    EXPECT_NEAR(
        SumOfCategories(memory), memory.allocated_peak + memory.communicators + memory.context, 1);
    EXPECT_GT(memory.reserved_peak, memory.allocated_peak);
    EXPECT_GT(memory.limit, memory.reserved_peak);
  }
  EXPECT_GT(MemoryOf(plan, 2).logits, 0);
  EXPECT_EQ(MemoryOf(plan, 0).logits, 0);
}

TEST(PredictTest, TimesSumToTheIteration) {
  plan::Plan plan = MakePlan({.model = "gpt2", .layers = {5, 7}, .dp = 2, .tp = 2});
  SetZero(plan, 1);
  plan = Predicted(std::move(plan));
  const plan::Prediction& predicted = *plan.predicted;
  double sum = predicted.compute_s + predicted.bubble_fraction * predicted.iteration_time_s;
  for (const plan::ExposedCause& cause : plan::kExposedCauses) {
    sum += predicted.exposed_s.*cause.seconds;
  }
  EXPECT_NEAR(sum, predicted.iteration_time_s, 1e-9 * predicted.iteration_time_s);
  EXPECT_NEAR(
      predicted.tokens_per_s,
      static_cast<double>(plan.training.global_batch * plan.seq_len) / predicted.iteration_time_s,
      1e-6 * predicted.tokens_per_s);
}

TEST(PredictTest, ZeroDividesItsStates) {
  const auto with_zero = [](int zero) {
    plan::Plan plan = MakePlan({.model = "gpt2-medium", .dp = 8});
    SetZero(plan, zero);
    return MemoryOf(Predicted(std::move(plan)));
  };
  const plan::MemoryBytes plain = with_zero(0), one = with_zero(1), two = with_zero(2),
                          three = with_zero(3);
  EXPECT_DOUBLE_EQ(plain.optimizer, 6 * plain.weights);  // 12 bytes beside 2
  EXPECT_DOUBLE_EQ(one.optimizer, plain.optimizer / 8);
  EXPECT_DOUBLE_EQ(one.grads, plain.grads);
  EXPECT_DOUBLE_EQ(two.optimizer, plain.optimizer / 8);
  EXPECT_DOUBLE_EQ(two.grads, plain.grads / 8);
  EXPECT_DOUBLE_EQ(two.weights, plain.weights);
  EXPECT_DOUBLE_EQ(three.weights, plain.weights / 8);
  EXPECT_LT(one.allocated_peak, plain.allocated_peak);
  EXPECT_LT(three.allocated_peak, one.allocated_peak);
  EXPECT_GT(three.buffers, plain.buffers);  // gathered layers
}

TEST(PredictTest, TensorParallelismDividesTheParameters) {
  const auto weights = [](int tp) {
    return MemoryOf(Predicted(MakePlan({.model = "llama-2-7b", .tp = tp}))).weights;
  };
  // All but the norms are divided.
  EXPECT_NEAR(weights(4), weights(1) / 4, 0.001 * weights(1));
}

/// The estimate of the only stage, for what a plan file does not hold.
StageEstimate EstimateOf(const plan::Plan& plan) {
  const model::Graph graph = model::BuildGraph(test::ModelOf(plan.model_config).spec);
  const cluster::Calibration calibration = cluster::DefaultCalibration(plan.cluster);
  Estimator estimator(
      graph, plan.cluster, calibration, plan.training, static_cast<double>(plan.seq_len));
  const plan::Stage& stage = plan.stages.front();
  const StageRates rates =
      ComputeRates(estimator.layout_context(), LayoutOf(stage), stage.devices, {});
  const ModelCost<double> layers =
      estimator.ModelFor(stage.ops).Evaluate(std::span(&rates.inputs, 1)).front();
  const StageTerms terms = estimator.Terms(stage,
                                           estimator.ContentOf(stage),
                                           {0, 1, static_cast<int>(stage.devices.size())},
                                           layers,
                                           rates,
                                           {});
  return Compose(terms, stage.offload);
}

TEST(PredictTest, OffloadMovesBytesToTheHost) {
  const plan::Plan plan = MakePlan({.model = "gpt2-medium", .dp = 2});
  const StageEstimate whole = EstimateOf(plan);
  EXPECT_EQ(whole.host_bytes, 0);
  const auto offloaded = [&](double plan::OffloadRatios::*ratio, double value) {
    plan::Plan changed = plan;
    changed.stages.front().offload.*ratio = value;
    return EstimateOf(changed);
  };
  struct Tensor {
    double plan::OffloadRatios::*ratio;
    double plan::MemoryBytes::*bytes;
  };
  for (const auto& [ratio, bytes] :
       {Tensor{&plan::OffloadRatios::weights, &plan::MemoryBytes::weights},
        Tensor{&plan::OffloadRatios::grads, &plan::MemoryBytes::grads},
        Tensor{&plan::OffloadRatios::optimizer, &plan::MemoryBytes::optimizer}}) {
    for (const double share : {0.25, 0.5, 1.0}) {
      const StageEstimate moved = offloaded(ratio, share);
      EXPECT_NEAR(moved.memory.*bytes, (1 - share) * (whole.memory.*bytes), 1);
      EXPECT_NEAR(moved.host_bytes, share * (whole.memory.*bytes), 1);
    }
  }
  double before = 0;
  for (const double share : {0.25, 0.5, 1.0}) {
    const StageEstimate moved = offloaded(&plan::OffloadRatios::activations, share);
    EXPECT_LT(moved.memory.activations, whole.memory.activations);
    EXPECT_NEAR(moved.host_bytes, share * whole.memory.activations, 1);
    EXPECT_GT(moved.offload_s, before);
    before = moved.offload_s;
  }
}

TEST(PredictTest, HostMemoryIsALimitToo) {
  plan::Plan plan = MakePlan({.model = "gpt2-medium", .dp = 2});
  plan.stages.front().offload.optimizer = 1;
  EXPECT_TRUE(Predicted(plan).predicted->fits);
  plan.cluster.groups.front().host_memory_bytes = 8e9;  // 1 GB a device
  const plan::Plan tight = Predicted(plan);
  EXPECT_FALSE(tight.predicted->fits);
  ASSERT_EQ(tight.closest.size(), 1u);
  EXPECT_NEAR(tight.closest.front().short_bytes, 12.0 * 354'823'168 - 1e9, 1e6);
}

TEST(PredictTest, RecomputationTradesTimeForMemory) {
  double memory = 0, backward = 0;
  for (const int count : {12, 8, 4, 0}) {
    plan::Plan plan = MakePlan({.model = "gpt2"});
    Recompute(plan.stages.front(), count);
    plan = Predicted(std::move(plan));
    const plan::StagePrediction& stage = *plan.stages.front().predicted;
    EXPECT_GT(stage.memory.activations, memory);
    if (count < 12) {
      EXPECT_LT(stage.backward_s, backward);
    }
    memory = stage.memory.activations;
    backward = stage.backward_s;
  }
}

TEST(PredictTest, RecomputingAllAddsOneForwardOfTheLayers) {
  plan::Plan plan = MakePlan({.model = "gpt2-xl"});
  const plan::StagePrediction plain = *Predicted(plan).stages.front().predicted;
  Recompute(plan.stages.front(), 48);
  const plan::StagePrediction again = *Predicted(plan).stages.front().predicted;
  EXPECT_DOUBLE_EQ(again.forward_s, plain.forward_s);
  const double added = again.backward_s - plain.backward_s;
  EXPECT_LT(added, plain.forward_s);  // embedding and head are not run again
  EXPECT_GT(added, 0.85 * plain.forward_s);
}

TEST(PredictTest, OneRankCommunicatesNothing) {
  const plan::Plan plan = Predicted(MakePlan({.model = "gpt2"}));
  const plan::ExposedSeconds& exposed = plan.predicted->exposed_s;
  EXPECT_EQ(exposed.tp, 0);
  EXPECT_NEAR(exposed.dp, 0, 1e-12);
  EXPECT_EQ(exposed.pp, 0);
  EXPECT_EQ(exposed.cp, 0);
  EXPECT_EQ(exposed.ep, 0);
  EXPECT_NEAR(exposed.offload, 0, 1e-12);
  EXPECT_NEAR(plan.predicted->bubble_fraction, 0, 1e-12);
  EXPECT_EQ(MemoryOf(plan).communicators, 0);
  EXPECT_EQ(plan.stages.front().predicted->last_extra_s, 0);
}

// H100 has no measured collectives among the defaults, which would hold whatever the links.
TEST(PredictTest, SlowerLinksMakeCommunicationSlower) {
  const auto exposed = [](int dp, int tp, double factor) {
    cluster::Cluster cluster = cluster::PresetCluster("h100-sxm5-80gb-2x4").value();
    cluster::NodeGroup& group = cluster.groups.front();
    group.intra_node.bytes_per_s *= factor;
    group.inter_node.bytes_per_s *= factor;
    group.node_bytes_per_s *= factor;
    return Predicted(MakePlan({.model = "gpt2-large",
                               .cluster = cluster,
                               .dp = dp,
                               .tp = tp,
                               .micro_batches = 1}))
        .predicted->exposed_s;
  };
  EXPECT_GT(exposed(1, 4, 0.1).tp, 2 * exposed(1, 4, 1).tp);
  EXPECT_GT(exposed(8, 1, 0.1).dp, 2 * exposed(8, 1, 1).dp);
  EXPECT_EQ(exposed(8, 1, 0.1).tp, 0);
  EXPECT_NEAR(exposed(1, 4, 0.1).dp, 0, 1e-12);
}

TEST(PredictTest, LaterStagesHoldFewerMicroBatches) {
  const plan::Plan plan =
      Predicted(MakePlan({.model = "gpt2", .layers = {3, 3, 3, 3}, .micro_batches = 8}));
  for (std::size_t i = 1; i < plan.stages.size(); ++i) {
    EXPECT_LT(MemoryOf(plan, i).activations, MemoryOf(plan, i - 1).activations);
  }
  plan::Plan gpipe = MakePlan({.model = "gpt2", .layers = {3, 3, 3, 3}, .micro_batches = 8});
  gpipe.training.schedule = "gpipe";
  gpipe = Predicted(std::move(gpipe));
  EXPECT_GT(MemoryOf(gpipe, 1).activations, MemoryOf(plan, 1).activations);
}

TEST(PredictTest, ClippingKeepsTheOptimizerStepFromHiding) {
  plan::Plan plan = MakePlan({.model = "gpt2-medium"});
  const plan::Plan clipped = Predicted(plan);
  plan.training.grad_clip = 0;
  const plan::Plan deferred = Predicted(plan);
  EXPECT_GT(clipped.predicted->exposed_s.optimizer, 0);
  // What is deferred may hide beside other work, never the other way round.
  EXPECT_LE(deferred.predicted->exposed_s.optimizer,
            clipped.predicted->exposed_s.optimizer * (1 + 1e-9));
  EXPECT_GT(deferred.stages.front().predicted->first_extra_s,
            clipped.stages.front().predicted->first_extra_s);
}

TEST(PredictTest, MemoryLimitIsAShareOrBytes) {
  const plan::Plan plan = MakePlan({.model = "gpt2"});
  const double whole = MemoryOf(Predicted(plan)).limit;
  EXPECT_DOUBLE_EQ(MemoryOf(Predicted(plan, {.memory_limit = 0.5})).limit, whole / 2);
  EXPECT_DOUBLE_EQ(MemoryOf(Predicted(plan, {.memory_limit = 1e9})).limit, 1e9);
  EXPECT_DOUBLE_EQ(MemoryOf(Predicted(plan, {.memory_limit = 1e15})).limit, whole);
  const plan::Plan tight = Predicted(plan, {.memory_limit = 1e9});
  EXPECT_FALSE(tight.predicted->fits);
  ASSERT_EQ(tight.closest.size(), 1u);
  const plan::MemoryBytes& memory = MemoryOf(tight);
  EXPECT_NEAR(tight.closest.front().short_bytes,
              memory.reserved_peak + memory.communicators + memory.context - 1e9,
              1);
}

TEST(PredictTest, PriceFollowsDevicesAndTime) {
  plan::Plan plan = MakePlan({.model = "gpt2", .dp = 4});
  EXPECT_FALSE(Predicted(plan).predicted->cost_usd_per_1e9_tokens.has_value());
  plan.cluster.groups.front().price_usd_per_device_hour = 3.6;
  const plan::Prediction predicted = *Predicted(plan).predicted;
  EXPECT_NEAR(predicted.cost_usd_per_1e9_tokens.value(),
              4 * 3.6 / 3600 * 1e9 / predicted.tokens_per_s,
              1e-6);
}

TEST(PredictTest, SaysWhatItCannotPrice) {
  const auto kind_of = [](const plan::Plan& plan) {
    try {
      Predicted(plan);
    } catch (const Error& error) {
      return std::pair(error.kind(), error.field());
    }
    return std::pair(ErrorKind::kInternal, std::string("priced"));
  };
  plan::Plan plan = MakePlan({.model = "gpt2", .layers = {6, 6}});
  plan.stages[1].recompute.push_back({.first_layer = 6,
                                      .last_layer = 6,
                                      .mode = plan::RecomputeMode::kSelective,
                                      .modules = {"attention"}});
  EXPECT_EQ(kind_of(plan), std::pair(ErrorKind::kUnavailable, std::string("stages[1].recompute")));
  plan.stages[1].recompute.clear();
  EXPECT_EQ(kind_of(plan).second, "priced");
  plan.training.schedule = "zb-h1";
  EXPECT_EQ(kind_of(plan).second, "priced");
}

TEST(PredictTest, AStrongerClusterIsQuicker) {
  const auto seconds = [](const std::string& preset) {
    return Iteration(Predicted(
        MakePlan({.model = "gpt2", .cluster = cluster::PresetCluster(preset).value(), .dp = 8})));
  };
  EXPECT_LT(seconds("a100-sxm4-80gb-1x8"), seconds("l4-1x8"));
  EXPECT_LT(seconds("h100-sxm5-80gb-1x8"), seconds("a100-sxm4-80gb-1x8"));
}

// Utilization counts the model's own arithmetic, whatever an implementation computes besides.
TEST(PredictTest, ModelFlopsDoNotDependOnTheVariant) {
  plan::Plan plan = MakePlan({.model = "gpt2", .dp = 2, .tp = 4});
  const auto flops_per_s = [&](model::Variant variant) {
    for (plan::Stage& stage : plan.stages) stage.ops = model::UniformVariants(variant);
    const plan::Prediction predicted = *Predicted(plan).predicted;
    return predicted.model_flops_utilization * predicted.iteration_time_s;
  };
  const double fused = flops_per_s(model::Variant::kFused);
  EXPECT_NEAR(flops_per_s(model::Variant::kEager), fused, 1e-12 * fused);
  EXPECT_NEAR(flops_per_s(model::Variant::kFusedSoftmax), fused, 1e-12 * fused);
}

}  // namespace
}  // namespace palmist::cost
