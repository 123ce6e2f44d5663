#include "palmist/report/test/example_page.h"

#include <numeric>

#include "palmist/report/plan_page.h"

namespace palmist::report::test {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

plan::StagePrediction Predict(int stage) {
  plan::StagePrediction prediction;
  plan::MemoryBytes& memory = prediction.memory;
  memory.weights = 1.45 * kGib;
  memory.grads = 1.45 * kGib;
  memory.optimizer = 2.2 * kGib;
  memory.activations = (9.0 - 2.0 * stage) * kGib;
  memory.transient = 0.6 * kGib;
  memory.buffers = 0.35 * kGib;
  memory.logits = stage == 3 ? 1.6 * kGib : 0.0;
  memory.communicators = 0.5 * kGib;
  memory.context = 0.45 * kGib;
  for (const auto& category : plan::kMemoryCategories) {
    memory.allocated_peak += memory.*category.bytes;
  }
  // The allocator sees neither of these.
  memory.allocated_peak -= memory.communicators + memory.context;
  memory.reserved_peak = memory.allocated_peak * 1.04;
  memory.limit = 21.6 * kGib;
  prediction.forward_s = 0.021;
  prediction.backward_s = 0.044;
  return prediction;
}

}  // namespace

plan::Plan ExamplePlan(const std::string& model_name, int stages) {
  plan::Plan plan;
  plan.model_name = model_name;
  plan.cluster_name = "l4-2x8";
  plan.cluster.groups.resize(1);
  plan.cluster.groups[0].nodes = (4 * stages + 7) / 8;
  plan.cluster.groups[0].devices_per_node = 8;
  plan.seq_len = 1024;
  plan.params = 1557611200;
  plan.training.global_batch = 256;
  plan.training.micro_batches = 64;
  for (int i = 0; i < stages; ++i) {
    plan::Stage stage;
    stage.devices.resize(4);
    std::iota(stage.devices.begin(), stage.devices.end(), 4 * i);
    stage.first_layer = 12 * i;
    stage.last_layer = 12 * i + 11;
    stage.embedding = i == 0;
    stage.head = i == stages - 1;
    stage.dp = i % 2 == 0 ? 4 : 2;
    stage.micro_batch = i % 2 == 0 ? 1 : 2;
    stage.tp = i % 2 == 0 ? 1 : 2;
    stage.sp = stage.tp > 1;
    stage.zero = 1;
    stage.zero_shard = stage.dp;
    if (i < 2) {
      stage.recompute = {{12 * i + 4 + 3 * i, 12 * i + 11, plan::RecomputeMode::kFull, {}}};
    }
    stage.offload.optimizer = i == 0 ? 0.5 : 0.0;
    stage.predicted = Predict(i % 4);
    plan.stages.push_back(stage);
  }
  plan::Prediction prediction;
  prediction.fits = true;
  prediction.iteration_time_s = 5.73;
  prediction.tokens_per_s = 45740;
  prediction.cost_usd_per_1e9_tokens = 68.2;
  prediction.model_flops_utilization = 0.412;
  prediction.bubble_fraction = 0.046;
  prediction.compute_s = 4.61;
  prediction.exposed_s = {.tp = 0.36, .dp = 0.21, .pp = 0.08, .offload = 0.12, .optimizer = 0.05};
  plan.predicted = prediction;
  plan.search =
      plan::SearchSummary{"optimal", 5.69, 0.007, "full", 48123456, 912345, 47211111, 38.4};
  plan.provenance = {
      {"palmist", "0.1.0"}, {"calibration", "l4, 2026-11-02"}, {"created", "2026-11-30"}};
  return plan;
}

Page ExamplePage(const std::string& model_name, int stages) {
  const plan::Plan plan = ExamplePlan(model_name, stages);
  plan::Plan slower = plan, unfit = plan;
  slower.predicted->iteration_time_s = 6.02;
  for (plan::Stage& stage : slower.stages) stage.recompute.clear();
  unfit.predicted->iteration_time_s = 5.41;
  unfit.predicted->fits = false;
  return PlanPage(plan,
                  {slower, unfit},
                  {"Memory of stage 0 binds: with 1.2 GiB more, four of its layers need not be "
                   "recomputed, and an iteration takes 5.58 s. Stage 1 sets the pace.",
                   {"The head's matrix is the embedding's: the first and the last stage both hold "
                    "it and add up its gradient."}});
}

}  // namespace palmist::report::test
