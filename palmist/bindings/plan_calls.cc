#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "palmist/base/text.h"
#include "palmist/base/thread_pool.h"
#include "palmist/base/units.h"
#include "palmist/base/version.h"
#include "palmist/bindings/call.h"
#include "palmist/cluster/presets.h"
#include "palmist/cost/predict.h"
#include "palmist/model/config.h"
#include "palmist/plan/plan.h"
#include "palmist/plan/summary.h"
#include "palmist/planner/planner.h"

namespace palmist::bindings {
namespace {

/// A configuration as an object, or what the commands take as MODEL.
model::Model ReadModel(const JsonReader& request) {
  if (request.Has("config")) return ReadConfig(request);
  return model::LoadModel(request.RequireString("model")).value();
}

planner::PlanRequest ReadPlanRequest(const JsonReader& request) {
  request.RejectUnknown(std::to_array<std::string>({"call",
                                                    "config",
                                                    "model",
                                                    "cluster",
                                                    "seq",
                                                    "global_batch",
                                                    "dtype",
                                                    "memory_limit",
                                                    "ops",
                                                    "target",
                                                    "fix",
                                                    "time_limit_s",
                                                    "threads"}));
  planner::PlanRequest result;
  result.model = ReadModel(request);
  result.cluster = cluster::LoadCluster(request.RequireString("cluster")).value();
  result.calibration = cluster::DefaultCalibration(result.cluster);
  if (result.model.spec.is_transformer()) {
    const model::TransformerSpec& transformer = result.model.spec.transformer();
    const bool learned = transformer.embedding.positions > 0;
    result.seq_len =
        request.RequireInt("seq", 1, learned ? transformer.max_positions : plan::kMaxSequence);
  }
  result.global_batch = request.RequireInt("global_batch", 1, 1 << 30);
  const auto choice =
      [&](const std::string& name, std::string& value, std::initializer_list<const char*> known) {
        value = request.OptionalString(name, value);
        std::string all;
        for (const char* candidate : known) {
          if (value == candidate) return;
          all += (all.empty() ? "" : ", ") + std::string(candidate);
        }
        request.Fail(name, "expected one of " + all + ", got " + Quote(value));
      };
  choice("dtype", result.dtype, {"bf16", "fp16", "fp32"});
  choice("ops", result.ops, {"auto", "eager", "sdpa", "fused", "tempo", "lean"});
  choice("target",
         result.target,
         {"none", "palmist", "megatron", "deepspeed", "torchtitan", "accelerate"});
  result.memory_limit = request.OptionalDouble("memory_limit", result.memory_limit, 1e-6);
  if (request.Has("fix")) {
    for (const std::string& fix : request.RequireStrings("fix")) {
      planner::ParseFix(fix, result.fixed).value();
    }
  }
  result.time_limit_s = request.OptionalDouble("time_limit_s", result.time_limit_s, 0);
  result.threads = static_cast<int>(request.OptionalInt("threads", HardwareThreads(), 1, 1024));
  result.top = 1;
  return result;
}

}  // namespace

nlohmann::ordered_json Plan(const JsonReader& request) {
  const planner::PlanRequest plan_request = ReadPlanRequest(request);
  planner::PlanResult result = planner::FindPlan(plan_request);
  if (result.plans.empty()) {
    double missing_bytes = 0;
    for (const plan::ClosestMiss& miss : result.closest) {
      missing_bytes = std::max(missing_bytes, miss.short_bytes);
    }
    throw Error(ErrorKind::kInfeasible,
                "expected a plan that fits, but the closest one (" +
                    plan::DescribeLayout(result.nearest) + ") is short of " +
                    FormatBytes(missing_bytes) + " a device",
                {},
                result.closest.empty() ? "" : result.closest.front().change);
  }
  plan::Plan& best = result.plans.front();
  best.provenance = {{"palmist", Version()}, {"calibration", plan_request.calibration.name}};
  return {{"plan", plan::ToJson(best)}, {"binding", result.binding}, {"notes", result.notes}};
}

nlohmann::ordered_json Predict(const JsonReader& request) {
  request.RejectUnknown(std::to_array<std::string>({"call", "plan"}));
  plan::Plan plan = plan::FromJson(request.Child("plan").json().dump()).value();
  const model::Model model = model::ParseConfig(plan.model_config, plan.model_name).value();
  const cluster::Calibration calibration = cluster::DefaultCalibration(plan.cluster);
  plan.search.reset();
  cost::Predict(plan, model::BuildGraph(model.spec), calibration);
  plan.provenance["calibration"] = calibration.name;
  return {{"plan", plan::ToJson(plan)}};
}

}  // namespace palmist::bindings
