/// How long searches take, with the gap that is proven: large models in the full space, and
/// Sailor's own space (data, tensor and pipeline parallelism and the micro-batch) on the clusters
/// of its paper (SOSP'25): 32 to 128 A100, and half A100, half V100.
///
///   build/bench/bin/studies/plan_search_times
#include <fmt/format.h>

#include <cstdio>

#include "cases.h"
#include "palmist/base/units.h"
#include "palmist/cluster/presets.h"
#include "palmist/plan/summary.h"

namespace palmist::studies {
namespace {

using planner::PlanRequest;

/// A cluster of `devices`, half of them V100, on nodes of four.
cluster::Cluster MixedCluster(int devices) {
  constexpr int kDevicesPerNode = 4;
  const int nodes = devices / 2 / kDevicesPerNode;
  cluster::Cluster mixed =
      cluster::PresetCluster(fmt::format("a100-sxm4-40gb-{}x4", nodes)).value();
  const cluster::Cluster slower =
      cluster::PresetCluster(fmt::format("v100-sxm2-16gb-{}x4", nodes)).value();
  mixed.name = fmt::format("a100+v100-{}", devices);
  mixed.groups.push_back(slower.groups.front());
  return mixed;
}

PlanRequest InSailorsSpace(const std::string& model, const cluster::Cluster& cluster) {
  PlanRequest request = RequestFor(model, "a100-sxm4-40gb-1x4", 2048, 2048);
  request.cluster = cluster;
  request.calibration = cluster::DefaultCalibration(cluster);
  request.space = planner::RulesOf("sailor");
  request.dtype = "fp16";
  return request;
}

std::vector<PlanRequest> Requests() {
  std::vector<PlanRequest> requests = {
      RequestFor("gpt-22b", "l4-4x8", 2048, 256),
      RequestFor("gpt3-175b", "a100-sxm4-80gb-128x8", 2048, 1536),
  };
  for (const char* model : {"opt-350m", "gpt3-2.7b"}) {
    for (const int devices : {32, 64, 128}) {
      requests.push_back(InSailorsSpace(
          model, cluster::PresetCluster(fmt::format("a100-sxm4-40gb-{}x4", devices / 4)).value()));
    }
    for (const int devices : {128, 256, 512}) {
      requests.push_back(InSailorsSpace(model, MixedCluster(devices)));
    }
  }
  return requests;
}

void Main() {
  PrintHeader(
      {"model", "cluster", "space", "search", "gap", "configurations", "iteration", "plan"});
  for (const PlanRequest& request : Requests()) {
    const planner::PlanResult result = planner::FindPlan(request);
    if (result.plans.empty()) {
      PrintRow({request.model.name,
                request.cluster.name,
                request.space.name,
                "none fits",
                "",
                "",
                "",
                ""});
      continue;
    }
    const plan::Plan& best = result.plans.front();
    PrintRow({request.model.name,
              request.cluster.name,
              request.space.name,
              FormatSeconds(result.search.seconds),
              FormatPercent(result.search.gap),
              FormatCount(static_cast<double>(result.search.evaluated)),
              FormatSeconds(best.predicted->iteration_time_s),
              plan::DescribeLayout(best)});
  }
}

}  // namespace
}  // namespace palmist::studies

int main() { return palmist::studies::RunStudy(palmist::studies::Main); }
