// A validation report as JSON and as text.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "palmist/accuracy/validate.h"
#include "palmist/base/text.h"
#include "palmist/base/units.h"

namespace palmist::accuracy {
namespace {

using nlohmann::ordered_json;

/// Rounds to a hundred-thousandth, which is more than any measurement holds.
double Percent(double fraction) { return std::round(fraction * 1e7) / 1e5; }

ordered_json StatisticsJson(const ErrorStatistics& statistics) {
  const auto percent = [&](double fraction) {
    return statistics.n > 0 ? ordered_json(Percent(fraction)) : ordered_json(nullptr);
  };
  return {{"n", statistics.n},
          {"mape_percent", percent(statistics.mean_absolute)},
          {"bias_percent", percent(statistics.bias)},
          {"worst_percent", percent(statistics.worst)}};
}

ordered_json MemoryJson(const GroupScore& group) {
  ordered_json json = StatisticsJson(group.memory);
  json["false_fits"] = group.false_fits;
  json["false_misfits"] = group.false_misfits;
  return json;
}

ordered_json ByKindJson(const GroupScore& group) {
  ordered_json json = ordered_json::object();
  for (const auto& [kind, statistics] : group.memory_by_kind) {
    json[std::string(ToString(kind))] = StatisticsJson(statistics);
  }
  return json;
}

ordered_json RowJson(const RunScore& row) {
  ordered_json json = {{"id", row.id}, {"key", row.keys}};
  json["time"] = {{"predicted_s", row.predicted_s}};
  if (row.seconds) {
    json["time"]["measured_s"] = row.seconds->measured;
    json["time"]["error_percent"] = Percent(row.seconds->error());
  }
  json["memory"] = ordered_json::array();
  for (const MemoryScore& score : row.memory) {
    json["memory"].push_back(
        {{"stage",
          score.stage == kFullestStage ? ordered_json("fullest") : ordered_json(score.stage)},
         {"kind", ToString(score.kind)},
         {"predicted_bytes", std::round(score.bytes.predicted)},
         {"measured_bytes", std::round(score.bytes.measured)},
         {"error_percent", Percent(score.bytes.error())}});
  }
  json["predicted_fits"] = row.predicted_fits;
  json["ran"] = row.ran;
  json["false_fit"] = row.false_fit();
  json["assumed"] = row.assumed;
  return json;
}

std::string Signed(double fraction) { return fmt::format("{:+.1f} %", 100 * fraction); }

/// Cuts a text to about `width` bytes of a column, between characters.
std::string Cut(const std::string& text, std::size_t width) {
  std::string printable = Printable(text);
  if (printable.size() <= width) return printable;
  std::size_t end = width - 1;
  while (end > 0 && (static_cast<unsigned char>(printable[end]) & 0xC0) == 0x80) --end;
  return printable.substr(0, end) + "~";
}

std::string FitText(const RunScore& row) {
  if (row.false_fit()) return "FALSE FIT";
  if (row.false_misfit()) return "ran, predicted not to fit";
  return row.ran ? "" : "out of memory, as predicted";
}

void AppendRow(const RunScore& row, std::string& text) {
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "{:<46} {:>10}", Cut(row.id, 46), FormatSeconds(row.predicted_s));
  if (row.seconds) {
    fmt::format_to(
        out, " {:>10} {:>9}", FormatSeconds(row.seconds->measured), Signed(row.seconds->error()));
  } else {
    fmt::format_to(out, " {:>10} {:>9}", "-", "-");
  }
  const MemoryScore* worst = nullptr;
  for (const MemoryScore& score : row.memory) {
    const bool more =
        worst == nullptr || std::abs(score.bytes.error()) > std::abs(worst->bytes.error());
    if (score.primary && more) worst = &score;
  }
  if (worst != nullptr) {
    fmt::format_to(
        out,
        "  {:>9} {:>10} {:>10} {:>9}",
        worst->stage == kFullestStage ? "fullest" : fmt::format("stage {}", worst->stage),
        FormatBytes(worst->bytes.predicted),
        FormatBytes(worst->bytes.measured),
        Signed(worst->bytes.error()));
  }
  const std::string fit = FitText(row);
  if (!fit.empty()) fmt::format_to(out, "  {}", fit);
  text += '\n';
}

void AppendStatistics(std::string_view name, const ErrorStatistics& statistics, std::string& text) {
  if (statistics.n == 0) return;
  fmt::format_to(std::back_inserter(text),
                 "  {:<22} {:>4} scores   mean {:>6.1f} %   bias {:>+6.1f} %   worst {:>6.1f} %\n",
                 name,
                 statistics.n,
                 100 * statistics.mean_absolute,
                 100 * statistics.bias,
                 100 * statistics.worst);
}

void AppendGroup(const GroupScore& group, std::string& text) {
  const auto out = std::back_inserter(text);
  std::string name;
  for (const auto& [key, value] : group.key) {
    name += (name.empty() ? "" : ", ") + key + " " + Cut(value, 60);
  }
  fmt::format_to(out,
                 "{} ({} {})\n",
                 name.empty() ? "All" : name,
                 group.runs,
                 group.runs == 1 ? "run" : "runs");
  AppendStatistics("time", group.seconds, text);
  AppendStatistics("memory", group.memory, text);
  const auto kinds = std::count_if(group.memory_by_kind.begin(),
                                   group.memory_by_kind.end(),
                                   [](const auto& entry) { return entry.second.n > 0; });
  for (const auto& [kind, statistics] : group.memory_by_kind) {
    if (kinds > 1) AppendStatistics(fmt::format("  {}", ToString(kind)), statistics, text);
  }
  fmt::format_to(out,
                 "  false fits {}, ran but predicted not to fit {}\n",
                 group.false_fits,
                 group.false_misfits);
}

}  // namespace

ordered_json ToJson(const ValidationReport& report) {
  ordered_json json = {{"schema", report.schema},
                       {"calibration", report.calibration},
                       {"runs", report.all.runs},
                       {"time", StatisticsJson(report.all.seconds)},
                       {"memory", MemoryJson(report.all)},
                       {"memory_by_kind", ByKindJson(report.all)}};
  json["groups"] = ordered_json::array();
  for (const GroupScore& group : report.groups) {
    json["groups"].push_back({{"key", group.key},
                              {"runs", group.runs},
                              {"time", StatisticsJson(group.seconds)},
                              {"memory", MemoryJson(group)},
                              {"memory_by_kind", ByKindJson(group)}});
  }
  json["rows"] = ordered_json::array();
  for (const RunScore& row : report.rows) json["rows"].push_back(RowJson(row));
  json["skipped"] = report.skipped;
  return json;
}

std::string FormatReport(const ValidationReport& report) {
  std::string text = fmt::format("{:<46} {:>10} {:>10} {:>9}  {:>9} {:>10} {:>10} {:>9}\n",
                                 "run",
                                 "predicted",
                                 "measured",
                                 "error",
                                 "memory",
                                 "predicted",
                                 "measured",
                                 "error");
  for (const RunScore& row : report.rows) AppendRow(row, text);
  text += "\nMemory is of the stage with the largest error.\n\n";
  AppendGroup(report.all, text);
  for (const GroupScore& group : report.groups) AppendGroup(group, text);
  if (!report.skipped.empty()) text += "Skipped\n";
  for (const auto& [reason, count] : report.skipped) {
    fmt::format_to(std::back_inserter(text), "  {:>4}  {}\n", count, reason);
  }
  return text;
}

}  // namespace palmist::accuracy
