/// Random pipelines for the tests of the simulator.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "palmist/base/rng.h"
#include "palmist/sim/simulate.h"

namespace palmist::sim::test {

struct Ranges {
  double imbalance = 0.2;  // of forwards around 1 s and backwards around 2 s
  double extra_s = 0;      // up to, before and after
  double hop_s = 0;        // up to, the same on all boundaries
};

/// 1 to 8 stages, 1 to 64 micro-batches, 2 to 4 chunks where interleaved; weight gradients take 35
/// to 55 % of a backward.
inline Pipeline RandomPipeline(Rng& rng, const std::string& schedule, const Ranges& ranges) {
  const auto around = [&] { return 1 + ranges.imbalance * (2 * rng.Uniform() - 1); };
  Pipeline pipeline;
  pipeline.schedule = schedule;
  pipeline.stages.resize(static_cast<std::size_t>(1 + rng.Integer(8)));
  const int stages = static_cast<int>(pipeline.stages.size());
  // Few micro-batches are the hard cases, so they come up often.
  pipeline.micro_batches = static_cast<int>(1 + rng.Integer(rng.Integer(3) == 0 ? 12 : 64));
  if (schedule == "interleaved") {
    pipeline.micro_batches = std::max(1, pipeline.micro_batches / stages) * stages;
    pipeline.chunks = static_cast<int>(2 + rng.Integer(3));
  }
  const double hop_s = ranges.hop_s * rng.Uniform();
  for (StageWork& stage : pipeline.stages) {
    stage.point.forward_s = around();
    stage.point.backward_s = 2 * around();
    stage.point.first_extra_s = ranges.extra_s * rng.Uniform();
    stage.point.last_extra_s = ranges.extra_s * rng.Uniform();
    stage.point.hop_s = hop_s;
    if (schedule == "zb-h1") {
      stage.point.weight_grad_s = stage.point.backward_s * (0.35 + 0.2 * rng.Uniform());
    }
  }
  return pipeline;
}

inline std::vector<schedule::StagePoint> Points(const Pipeline& pipeline) {
  std::vector<schedule::StagePoint> points;
  for (const StageWork& stage : pipeline.stages) points.push_back(stage.point);
  return points;
}

}  // namespace palmist::sim::test
