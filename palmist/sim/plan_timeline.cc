#include "palmist/sim/plan_timeline.h"

#include <fmt/format.h>

#include <algorithm>

#include "palmist/base/error.h"
#include "palmist/base/file.h"
#include "palmist/sim/trace.h"

namespace palmist::sim {

Pipeline PipelineOf(const plan::Plan& plan) {
  Pipeline pipeline;
  pipeline.schedule = plan.training.schedule;
  pipeline.micro_batches = plan.training.micro_batches;
  pipeline.chunks = plan.stages.front().num_chunks();
  std::vector<schedule::StagePoint> points;
  for (const plan::Stage& stage : plan.stages) {
    const plan::StagePrediction& predicted = stage.predicted.value();
    points.push_back({.forward_s = predicted.forward_s,
                      .backward_s = predicted.backward_s,
                      .first_extra_s = predicted.first_extra_s,
                      .last_extra_s = predicted.last_extra_s,
                      .weight_grad_s = predicted.weight_grad_s});
    pipeline.stages.push_back({.point = points.back()});
  }
  const double pipeline_s = schedule::IterationSeconds(
      pipeline.schedule, points, pipeline.micro_batches, pipeline.chunks);
  pipeline.tail_s = std::max(0.0, plan.predicted.value().iteration_time_s - pipeline_s);
  return pipeline;
}

std::int64_t CountSlots(const plan::Plan& plan) {
  const int passes = plan.training.schedule == "zb-h1" ? 3 : 2;
  return static_cast<std::int64_t>(passes) * plan.training.micro_batches *
         plan.stages.front().num_chunks() * static_cast<std::int64_t>(plan.stages.size());
}

double WriteTrace(const plan::Plan& plan, const std::string& path) {
  const std::int64_t slots = CountSlots(plan);
  if (slots > kMaxSimulatedSlots) {
    throw UsageError("--trace",
                     fmt::format("the plan has {} passes through stages in an iteration, expected "
                                 "at most {}",
                                 slots,
                                 kMaxSimulatedSlots),
                     "trace a plan of fewer micro-batches");
  }
  const Timeline timeline = Simulate(PipelineOf(plan));
  const std::int64_t shown =
      std::max<std::int64_t>(1, kMaxTracedSlots * plan.training.micro_batches / slots);
  const nlohmann::ordered_json trace = ToChromeTrace(
      timeline, static_cast<int>(std::min<std::int64_t>(shown, plan.training.micro_batches)));
  WriteFileAtomic(path, trace.dump() + "\n").value();
  return timeline.iteration_s;
}

}  // namespace palmist::sim
