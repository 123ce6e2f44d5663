#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "palmist/base/text.h"
#include "palmist/bindings/call.h"
#include "palmist/cluster/presets.h"
#include "palmist/planner/operator_choice.h"

namespace palmist::bindings {
namespace {

using planner::OperatorAnswer;
using planner::OperatorChoice;
using planner::OperatorRequest;
using planner::Techniques;

struct NamedTechnique {
  std::string_view name;
  bool Techniques::*member;
};

constexpr std::array<NamedTechnique, 6> kTechniques = {{
    {"attention", &Techniques::attention},
    {"norm", &Techniques::norm},
    {"activation", &Techniques::activation},
    {"dropout", &Techniques::dropout},
    {"loss", &Techniques::loss},
    {"recompute", &Techniques::recompute},
}};

Techniques ReadTechniques(const JsonReader& request) {
  Techniques techniques;
  if (!request.Has("techniques")) return techniques;
  for (const NamedTechnique& technique : kTechniques) techniques.*technique.member = false;
  for (const std::string& name : request.RequireStrings("techniques")) {
    const auto found =
        std::find_if(kTechniques.begin(), kTechniques.end(), [&](const NamedTechnique& technique) {
          return technique.name == name;
        });
    if (found == kTechniques.end()) {
      request.Fail("techniques",
                   "expected names of techniques, got " + Quote(name),
                   "use some of attention, norm, activation, dropout, loss, recompute");
    }
    techniques.*found->member = true;
  }
  return techniques;
}

OperatorRequest ReadRequest(const JsonReader& request) {
  request.RejectUnknown(std::to_array<std::string>({"call",
                                                    "config",
                                                    "seq",
                                                    "batch",
                                                    "dtype",
                                                    "device",
                                                    "budget_bytes",
                                                    "optimizer_bytes_per_param",
                                                    "grad_bytes_per_param",
                                                    "techniques",
                                                    "allow_tempo",
                                                    "baseline_attention"}));
  OperatorRequest result;
  result.model = ReadConfig(request).spec;
  const std::string device = request.OptionalString("device", "cpu");
  if (device != "cpu") cluster::PresetDevice(device).value();
  result.cluster = cluster::PresetCluster(device + "-1x1").value();
  result.calibration = cluster::DefaultCalibration(result.cluster);
  result.seq_len = request.RequireInt("seq");
  result.batch = request.RequireInt("batch");
  result.dtype = request.OptionalString("dtype", result.dtype);
  result.budget_bytes = request.RequireDouble("budget_bytes");
  result.optimizer_bytes_per_param =
      request.OptionalDouble("optimizer_bytes_per_param", result.optimizer_bytes_per_param);
  if (request.Has("grad_bytes_per_param")) {
    result.grad_bytes_per_param = request.RequireDouble("grad_bytes_per_param");
  }
  result.techniques = ReadTechniques(request);
  result.allow_tempo = request.OptionalBool("allow_tempo", false);
  result.baseline_attention =
      model::ParseVariant(request.OptionalString("baseline_attention", "sdpa")).value();
  return result;
}

std::int64_t WholeBytes(double bytes) { return static_cast<std::int64_t>(std::ceil(bytes)); }

nlohmann::ordered_json LayersJson(const OperatorChoice& choice) {
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < choice.layers.size(); ++i) {
    const planner::LayerChoice& layer = choice.layers[i];
    layers.push_back({{"layer", i},
                      {"attention", model::ToString(layer.ops.attention)},
                      {"norm", model::ToString(layer.ops.norm)},
                      {"activation", model::ToString(layer.ops.activation)},
                      {"dropout", model::ToString(layer.ops.dropout)},
                      {"recompute", layer.recompute}});
  }
  return layers;
}

nlohmann::ordered_json ChoiceJson(const OperatorChoice& choice) {
  const cost::StageMemory<double>& memory = choice.memory;
  return {{"layers", LayersJson(choice)},
          {"loss", model::ToString(choice.loss)},
          {"peak_bytes", WholeBytes(choice.peak_bytes())},
          {"breakdown",
           {{"weights", WholeBytes(memory.weights)},
            {"grads", WholeBytes(memory.grads)},
            {"optimizer", WholeBytes(memory.optimizer)},
            {"activations", WholeBytes(memory.activations)},
            {"transient", WholeBytes(memory.transient)},
            {"buffers", WholeBytes(memory.buffers)},
            {"logits", WholeBytes(memory.logits)}}},
          {"step_time_s", choice.step_time_s}};
}

}  // namespace

nlohmann::ordered_json ChooseOperators(const JsonReader& request) {
  const OperatorAnswer answer = planner::ChooseOperators(ReadRequest(request));
  nlohmann::ordered_json json = {{"fits", answer.fits}};
  json.update(ChoiceJson(answer.best));
  json["missing_bytes"] = WholeBytes(answer.missing_bytes);
  json["baseline"] = {{"peak_bytes", WholeBytes(answer.baseline.peak_bytes())},
                      {"step_time_s", answer.baseline.step_time_s},
                      {"largest_batch", answer.baseline_largest_batch}};
  json["min_peak_bytes"] = WholeBytes(answer.leanest.peak_bytes());
  json["min_peak"] = {{"layers", LayersJson(answer.leanest)},
                      {"loss", model::ToString(answer.leanest.loss)},
                      {"step_time_s", answer.leanest.step_time_s}};
  json["largest_batch"] = answer.largest_batch;
  return json;
}

}  // namespace palmist::bindings
