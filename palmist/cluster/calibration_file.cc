#include <fmt/format.h>

#include <set>

#include "palmist/base/file.h"
#include "palmist/base/text.h"
#include "palmist/cluster/calibration.h"
#include "palmist/cluster/collective_json.h"
#include "palmist/cluster/units_in_files.h"

namespace palmist::cluster {
namespace {

using nlohmann::ordered_json;

constexpr double kMaxUs = 1e9;
constexpr double kMaxSeconds = 1e6;
constexpr double kMaxMib = 1e9;
constexpr double kMinFraction = 1e-6;
constexpr double kMaxFactor = 1e3;
constexpr double kMaxError = 1e6;
constexpr double kMaxGflop = 1e9;
constexpr double kMaxSize = 1e15;
constexpr std::int64_t kMaxCount = 1'000'000'000;
constexpr std::int64_t kMaxRanks = 1 << 20;

void CheckKnown(const JsonReader& reader, const std::vector<std::string>& known) {
  reader.RejectUnknown(known);
}

double RequireFraction(const JsonReader& reader, const std::string& key) {
  return reader.RequireDouble(key, kMinFraction, 1.0);
}

int ReadCount(const JsonReader& reader, const std::string& key) {
  return static_cast<int>(reader.OptionalInt(key, 0, 0, kMaxCount));
}

SaturationCurve ReadCurve(const JsonReader& reader) {
  CheckKnown(reader, {"max_fraction", "half_gflop"});
  return {.max_fraction = RequireFraction(reader, "max_fraction"),
          .half_flops = reader.RequireDouble("half_gflop", 0.0, kMaxGflop) * kGiga};
}

ComputeEfficiency ReadCompute(const JsonReader& reader) {
  CheckKnown(reader,
             {"gemm",
              "gemm_by_dtype",
              "attention_fraction",
              "memory_bound_fraction",
              "optimizer_fraction",
              "launch_us"});
  ComputeEfficiency compute;
  compute.gemm = ReadCurve(reader.Child("gemm"));
  if (const auto by_dtype = reader.OptionalChild("gemm_by_dtype")) {
    CheckKnown(*by_dtype, std::vector<std::string>(std::begin(kDtypes), std::end(kDtypes)));
    for (const std::string_view dtype : kDtypes) {
      const auto curve = by_dtype->OptionalChild(std::string(dtype));
      if (curve) compute.gemm_by_dtype[std::string(dtype)] = ReadCurve(*curve);
    }
  }
  compute.attention_fraction = RequireFraction(reader, "attention_fraction");
  compute.memory_bound_fraction = RequireFraction(reader, "memory_bound_fraction");
  compute.optimizer_fraction = RequireFraction(reader, "optimizer_fraction");
  compute.launch_s = reader.RequireDouble("launch_us", 0.0, kMaxUs) * kMicro;
  return compute;
}

LinkEfficiency ReadLinks(const JsonReader& reader) {
  CheckKnown(reader,
             {"intra_node_fraction",
              "inter_node_fraction",
              "host_to_device_fraction",
              "device_to_host_fraction",
              "collective_launch_us"});
  return {
      .intra_node_fraction = RequireFraction(reader, "intra_node_fraction"),
      .inter_node_fraction = RequireFraction(reader, "inter_node_fraction"),
      .host_to_device_fraction = RequireFraction(reader, "host_to_device_fraction"),
      .device_to_host_fraction = RequireFraction(reader, "device_to_host_fraction"),
      .collective_launch_s = reader.RequireDouble("collective_launch_us", 0.0, kMaxUs) * kMicro};
}

std::string SetName(unsigned active) {
  std::string name;
  for (int i = 0; i < kNumResources; ++i) {
    const auto resource = static_cast<Resource>(i);
    if ((active & Bit(resource)) == 0) continue;
    if (!name.empty()) name += '+';
    name += ToString(resource);
  }
  return name;
}

bool IsMixture(unsigned active) { return (active & (active - 1)) != 0; }

Interference ReadInterference(const JsonReader& reader) {
  CheckKnown(reader, {"factors", "measured", "n", "relative_error"});
  Interference interference;
  interference.measured = reader.RequireBool("measured");
  interference.n = ReadCount(reader, "n");
  interference.relative_error = reader.OptionalDouble("relative_error", 0.0, 0.0, kMaxError);
  const JsonReader factors = reader.Child("factors");
  std::vector<std::string> sets;
  for (unsigned active = 0; active < interference.factor.size(); ++active) {
    if (IsMixture(active)) sets.push_back(SetName(active));
  }
  CheckKnown(factors, sets);
  for (unsigned active = 0; active < interference.factor.size(); ++active) {
    if (!IsMixture(active)) continue;
    const JsonReader set = factors.Child(SetName(active));
    std::vector<std::string> names;
    for (int i = 0; i < kNumResources; ++i) {
      const auto resource = static_cast<Resource>(i);
      if ((active & Bit(resource)) == 0) continue;
      names.emplace_back(ToString(resource));
      interference.factor[active][static_cast<std::size_t>(i)] =
          set.RequireDouble(names.back(), 1.0, kMaxFactor);
    }
    CheckKnown(set, names);
  }
  return interference;
}

MemoryOverheads ReadMemory(const JsonReader& reader) {
  CheckKnown(reader, {"context_mib", "allocator_mib", "reserved_over_allocated", "communicators"});
  MemoryOverheads memory;
  memory.context_bytes = reader.RequireDouble("context_mib", 0.0, kMaxMib) * kMib;
  memory.allocator_bytes = reader.RequireDouble("allocator_mib", 0.0, kMaxMib) * kMib;
  memory.reserved_over_allocated = reader.RequireDouble("reserved_over_allocated", 1.0, kMaxFactor);
  int last = 1;
  for (const JsonReader& each : reader.Array("communicators")) {
    CheckKnown(each, {"max_ranks", "mib"});
    last = static_cast<int>(each.RequireInt("max_ranks", last + 1, kMaxRanks));
    memory.communicators.push_back({last, each.RequireDouble("mib", 0.0, kMaxMib) * kMib});
  }
  return memory;
}

OperatorTime ReadOperator(const JsonReader& reader) {
  CheckKnown(
      reader,
      {"op", "shape", "dtype", "variant", "forward_s", "backward_s", "relative_spread", "n"});
  OperatorTime time;
  time.op = reader.RequireString("op");
  const JsonReader shape = reader.Child("shape");
  for (const auto& [name, size] : shape.json().items()) {
    time.shape[name] = shape.RequireDouble(name, 0.0, kMaxSize);
  }
  time.dtype = reader.RequireString("dtype");
  time.variant = reader.OptionalString("variant", "");
  time.forward_s = reader.RequireDouble("forward_s", 0.0, kMaxSeconds);
  time.backward_s = reader.OptionalDouble("backward_s", 0.0, 0.0, kMaxSeconds);
  time.relative_spread = reader.OptionalDouble("relative_spread", 0.0, 0.0, kMaxError);
  time.n = ReadCount(reader, "n");
  return time;
}

DeviceCalibration ReadDeviceCalibration(const JsonReader& reader) {
  CheckKnown(reader,
             {"source",
              "measured",
              "compute",
              "links",
              "interference",
              "interference_inter_node",
              "memory",
              "collectives",
              "operators"});
  DeviceCalibration device;
  device.source = reader.OptionalString("source", "");
  device.measured = reader.RequireBool("measured");
  device.compute = ReadCompute(reader.Child("compute"));
  device.links = ReadLinks(reader.Child("links"));
  device.interference = ReadInterference(reader.Child("interference"));
  const auto across = reader.OptionalChild("interference_inter_node");
  device.interference_inter_node = across ? ReadInterference(*across) : device.interference;
  device.memory = ReadMemory(reader.Child("memory"));
  device.collectives = ReadCollectives(reader, "collectives");
  for (const JsonReader& each : reader.OptionalArray("operators")) {
    device.operators.push_back(ReadOperator(each));
  }
  return device;
}

Calibration ReadCalibrationJson(const JsonReader& reader) {
  const std::int64_t version = reader.RequireInt("palmist_calibration");
  if (version != 1) {
    reader.Fail("palmist_calibration",
                fmt::format("expected version 1 of the calibration file, got {}", version));
  }
  CheckKnown(reader, {"palmist_calibration", "name", "where", "when", "source", "devices"});
  Calibration calibration;
  calibration.name = reader.OptionalString("name", "");
  calibration.where = reader.OptionalString("where", "");
  calibration.when = reader.OptionalString("when", "");
  calibration.source = reader.OptionalString("source", "");
  const JsonReader devices = reader.Child("devices");
  for (const auto& [name, entry] : devices.json().items()) {
    if (name.starts_with("x_")) continue;
    if (calibration.Find(name) != nullptr) {
      devices.Fail(name, "expected each device once without regard to case, got one again");
    }
    calibration.devices[name] = ReadDeviceCalibration(devices.Child(name));
  }
  return calibration;
}

ordered_json CurveJson(const SaturationCurve& curve) {
  return {{"max_fraction", curve.max_fraction}, {"half_gflop", InUnit(curve.half_flops, kGiga)}};
}

ordered_json ComputeJson(const ComputeEfficiency& compute) {
  ordered_json json;
  json["gemm"] = CurveJson(compute.gemm);
  for (const auto& [dtype, curve] : compute.gemm_by_dtype) {
    json["gemm_by_dtype"][dtype] = CurveJson(curve);
  }
  json["attention_fraction"] = compute.attention_fraction;
  json["memory_bound_fraction"] = compute.memory_bound_fraction;
  json["optimizer_fraction"] = compute.optimizer_fraction;
  json["launch_us"] = InUnit(compute.launch_s, kMicro);
  return json;
}

ordered_json LinksJson(const LinkEfficiency& links) {
  return {{"intra_node_fraction", links.intra_node_fraction},
          {"inter_node_fraction", links.inter_node_fraction},
          {"host_to_device_fraction", links.host_to_device_fraction},
          {"device_to_host_fraction", links.device_to_host_fraction},
          {"collective_launch_us", InUnit(links.collective_launch_s, kMicro)}};
}

ordered_json InterferenceJson(const Interference& interference) {
  ordered_json json;
  json["measured"] = interference.measured;
  json["n"] = interference.n;
  json["relative_error"] = interference.relative_error;
  for (unsigned active = 0; active < interference.factor.size(); ++active) {
    if (!IsMixture(active)) continue;
    for (int i = 0; i < kNumResources; ++i) {
      const auto resource = static_cast<Resource>(i);
      if ((active & Bit(resource)) == 0) continue;
      json["factors"][SetName(active)][std::string(ToString(resource))] =
          interference.Factor(active, resource);
    }
  }
  return json;
}

ordered_json MemoryJson(const MemoryOverheads& memory) {
  ordered_json json;
  json["context_mib"] = InUnit(memory.context_bytes, kMib);
  json["allocator_mib"] = InUnit(memory.allocator_bytes, kMib);
  json["reserved_over_allocated"] = memory.reserved_over_allocated;
  json["communicators"] = ordered_json::array();
  for (const CommunicatorCost& cost : memory.communicators) {
    json["communicators"].push_back(
        {{"max_ranks", cost.max_ranks}, {"mib", InUnit(cost.bytes, kMib)}});
  }
  return json;
}

ordered_json OperatorJson(const OperatorTime& time) {
  ordered_json json;
  json["op"] = time.op;
  json["shape"] = time.shape.empty() ? ordered_json::object() : ordered_json(time.shape);
  json["dtype"] = time.dtype;
  json["variant"] = time.variant;
  json["forward_s"] = time.forward_s;
  json["backward_s"] = time.backward_s;
  json["relative_spread"] = time.relative_spread;
  json["n"] = time.n;
  return json;
}

ordered_json DeviceJson(const DeviceCalibration& device) {
  ordered_json json;
  json["source"] = device.source;
  json["measured"] = device.measured;
  json["compute"] = ComputeJson(device.compute);
  json["links"] = LinksJson(device.links);
  json["interference"] = InterferenceJson(device.interference);
  json["interference_inter_node"] = InterferenceJson(device.interference_inter_node);
  json["memory"] = MemoryJson(device.memory);
  json["collectives"] = CollectivesJson(device.collectives);
  json["operators"] = ordered_json::array();
  for (const OperatorTime& time : device.operators) json["operators"].push_back(OperatorJson(time));
  return json;
}

}  // namespace

Result<Calibration> CalibrationFromJson(const nlohmann::json& json, const std::string& field) {
  try {
    return ReadCalibrationJson(JsonReader(json, field));
  } catch (const Error& error) {
    return error;
  }
}

Result<Calibration> ParseCalibration(std::string_view text) {
  JsonLimits limits;
  limits.max_bytes = kMaxCalibrationFileBytes;
  PALMIST_ASSIGN_OR_RETURN(const nlohmann::json parsed, ParseJson(text, limits));
  return CalibrationFromJson(parsed);
}

Result<Calibration> ReadCalibration(const std::string& path) {
  PALMIST_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxCalibrationFileBytes));
  return ParseCalibration(text);
}

ordered_json ToJson(const Calibration& calibration) {
  ordered_json json;
  json["palmist_calibration"] = 1;
  json["name"] = calibration.name;
  json["where"] = calibration.where;
  json["when"] = calibration.when;
  json["source"] = calibration.source;
  json["devices"] = ordered_json::object();
  for (const auto& [name, device] : calibration.devices) json["devices"][name] = DeviceJson(device);
  return json;
}

}  // namespace palmist::cluster
