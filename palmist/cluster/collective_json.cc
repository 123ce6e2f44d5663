#include "palmist/cluster/collective_json.h"

#include <fmt/format.h>

#include <set>
#include <tuple>

#include "palmist/base/nearest.h"
#include "palmist/cluster/cluster_file.h"
#include "palmist/cluster/units_in_files.h"

namespace palmist::cluster {
namespace {

CollectiveKind ReadKind(const JsonReader& reader) {
  const std::string name = reader.RequireString("kind");
  if (const auto kind = ParseCollectiveKind(name)) return *kind;
  std::vector<std::string> names;
  for (const CollectiveKind kind : kCollectiveKinds) names.emplace_back(ToString(kind));
  reader.Fail("kind",
              fmt::format("expected {}, got {}", fmt::join(names, ", "), DescribeJson(name)),
              DidYouMean(name, names));
}

CollectiveFit ReadCollective(const JsonReader& reader) {
  const std::vector<std::string> known = {
      "kind", "ranks_in_node", "nodes", "alpha_us", "bandwidth_gb_per_s", "n", "relative_error"};
  reader.RejectUnknown(known);
  constexpr double kMaxAlphaUs = 1e8;
  constexpr double kMinGbPerS = 1e-6;
  constexpr double kMaxGbPerS = 1e7;
  constexpr std::int64_t kMaxMeasurements = 1'000'000'000;
  constexpr double kMaxError = 1e6;
  CollectiveFit fit;
  fit.kind = ReadKind(reader);
  fit.ranks_in_node = static_cast<int>(reader.RequireInt("ranks_in_node", 1, kMaxDevices));
  fit.nodes = static_cast<int>(reader.RequireInt("nodes", 1, kMaxDevices));
  if (std::int64_t{fit.ranks_in_node} * fit.nodes < 2 ||
      std::int64_t{fit.ranks_in_node} * fit.nodes > kMaxDevices) {
    reader.Fail("ranks_in_node",
                fmt::format("expected 2 to {} ranks in all, got {}",
                            kMaxDevices,
                            std::int64_t{fit.ranks_in_node} * fit.nodes));
  }
  fit.alpha_s = reader.RequireDouble("alpha_us", 0.0, kMaxAlphaUs) * kMicro;
  fit.bytes_per_s = reader.RequireDouble("bandwidth_gb_per_s", kMinGbPerS, kMaxGbPerS) * kGiga;
  fit.n = static_cast<int>(reader.OptionalInt("n", 0, 0, kMaxMeasurements));
  fit.relative_error = reader.OptionalDouble("relative_error", 0.0, 0.0, kMaxError);
  return fit;
}

}  // namespace

std::vector<CollectiveFit> ReadCollectives(const JsonReader& reader, const std::string& key) {
  std::vector<CollectiveFit> fits;
  std::set<std::tuple<CollectiveKind, int, int>> seen;
  for (const JsonReader& each : reader.OptionalArray(key)) {
    CollectiveFit fit = ReadCollective(each);
    if (!seen.emplace(fit.kind, fit.ranks_in_node, fit.nodes).second) {
      each.Fail("kind", "expected each collective once per group shape, got one again");
    }
    fits.push_back(fit);
  }
  return fits;
}

nlohmann::ordered_json CollectivesJson(const std::vector<CollectiveFit>& collectives) {
  auto list = nlohmann::ordered_json::array();
  for (const CollectiveFit& fit : collectives) {
    nlohmann::ordered_json json;
    json["kind"] = ToString(fit.kind);
    json["ranks_in_node"] = fit.ranks_in_node;
    json["nodes"] = fit.nodes;
    json["alpha_us"] = InUnit(fit.alpha_s, kMicro);
    json["bandwidth_gb_per_s"] = InUnit(fit.bytes_per_s, kGiga);
    json["n"] = fit.n;
    json["relative_error"] = fit.relative_error;
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace palmist::cluster
