#include "cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "palmist/base/thread_pool.h"
#include "palmist/cluster/presets.h"
#include "palmist/model/zoo.h"

namespace palmist::studies {

planner::PlanRequest RequestFor(const std::string& model,
                                const std::string& cluster,
                                std::int64_t seq_len,
                                std::int64_t global_batch) {
  planner::PlanRequest request;
  request.model = model::LoadModel(model).value();
  request.cluster = cluster::LoadCluster(cluster).value();
  request.calibration = cluster::DefaultCalibration(request.cluster);
  request.seq_len = seq_len;
  request.global_batch = global_batch;
  request.space = planner::RulesOf("full");
  request.threads = HardwareThreads();
  request.top = 1;
  return request;
}

std::vector<planner::PlanRequest> ZooRequests() {
  constexpr double kBytesPerParameter = 20;
  constexpr double kMostOnL4 = 30e9;
  constexpr int kDevicesPerNode = 8, kSequencesPerDevice = 16;
  constexpr std::int64_t kMostTokens = 4096;
  constexpr double kMostSeconds = 40;  // of a search: few need more
  std::vector<planner::PlanRequest> requests;
  for (const std::string& name : model::ZooNames()) {
    const model::Model model = model::LoadModel(name).value();
    const model::Graph graph = model::BuildGraph(model.spec);
    const auto params = static_cast<double>(model::CountParameters(graph));
    std::int64_t seq_len = 0;
    if (graph.has_sequence) {
      const std::int64_t positions = model.spec.transformer().embedding.positions;
      seq_len = positions > 0 ? std::min(positions, kMostTokens) : kMostTokens;
    }
    for (const char* gpu : {"a100-sxm4-80gb", "l4"}) {
      if (gpu == std::string("l4") && params > kMostOnL4) continue;
      const double device_bytes = cluster::PresetDevice(gpu).value().usable_bytes();
      int nodes = 1;
      while (nodes * kDevicesPerNode * device_bytes < kBytesPerParameter * params) nodes *= 2;
      requests.push_back(RequestFor(name,
                                    fmt::format("{}-{}x{}", gpu, nodes, kDevicesPerNode),
                                    seq_len,
                                    kSequencesPerDevice * nodes * kDevicesPerNode));
      requests.back().time_limit_s = kMostSeconds;
    }
  }
  return requests;
}

std::optional<plan::Plan> BestPlan(const planner::PlanRequest& request) {
  const planner::PlanResult result = planner::FindPlan(request);
  if (result.plans.empty()) return std::nullopt;
  return result.plans.front();
}

double GeometricMean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

int RunStudy(const std::function<void()>& study) {
  try {
    study();
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}

void PrintRow(const std::vector<std::string>& cells) {
  fmt::print("|");
  for (const std::string& cell : cells) fmt::print(" {} |", cell);
  fmt::print("\n");
  std::fflush(stdout);
}

void PrintHeader(const std::vector<std::string>& cells) {
  PrintRow(cells);
  PrintRow(std::vector<std::string>(cells.size(), "---"));
}

}  // namespace palmist::studies
