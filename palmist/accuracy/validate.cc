#include "palmist/accuracy/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "palmist/base/text.h"
#include "palmist/cost/predict.h"

namespace palmist::accuracy {
namespace {

/// Returns the last name of a path, such as "tp" of "stages[1].tp", which is the same for all runs.
std::string LastName(const std::string& field) { return field.substr(field.find_last_of('.') + 1); }

/// Fills the predictions of a run's plan. Returns why that cannot be done; empty where it can.
std::string Predict(plan::Plan& plan,
                    const RunModel& model,
                    const cluster::Calibration* calibration,
                    const ValidateOptions& options) {
  if (const auto valid = plan::Validate(plan, model.graph, model.spec); !valid.ok()) {
    return "plan not valid: " + LastName(valid.error().field());
  }
  const cluster::Calibration used = calibration != nullptr
                                        ? cluster::WithDefaults(*calibration, plan.cluster)
                                        : cluster::DefaultCalibration(plan.cluster);
  try {
    cost::Predict(plan, model.graph, used, {.expert_imbalance = options.expert_imbalance});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnavailable) throw;
    return LastName(error.field()) + " not priced";
  }
  const double seconds = plan.predicted->iteration_time_s;
  return std::isfinite(seconds) && seconds > 0 ? std::string() : "no finite prediction";
}

double PredictedBytes(const plan::MemoryBytes& memory, MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kAllocated:
      return memory.allocated_peak;
    case MemoryKind::kReserved:
      return memory.reserved_peak;
    case MemoryKind::kNvidiaSmi:
      return memory.needed();
  }
  PALMIST_ASSERT(false);
  return 0;
}

double FullestStage(const plan::Plan& plan, MemoryKind kind) {
  double fullest = 0;
  for (const plan::Stage& stage : plan.stages) {
    fullest = std::max(fullest, PredictedBytes(stage.predicted->memory, kind));
  }
  return fullest;
}

/// Compares a priced plan with what was measured.
class Scorer {
 public:
  Scorer(const plan::Plan& plan, const Measurement& measured, RunScore& score)
      : plan_(plan), measured_(measured), score_(score) {}

  void Run() {
    score_.predicted_s = plan_.predicted->iteration_time_s;
    if (measured_.iteration_s) score_.seconds = {score_.predicted_s, *measured_.iteration_s};
    score_.predicted_fits = plan_.predicted->fits;
    score_.ran = !measured_.out_of_memory;
    for (std::size_t i = 0; i < measured_.stages.size(); ++i) {
      const plan::MemoryBytes& predicted = plan_.stages[i].predicted->memory;
      Add(static_cast<int>(i), measured_.stages[i], plan_.stages[i], [&](MemoryKind kind) {
        return PredictedBytes(predicted, kind);
      });
    }
    Add(kFullestStage, measured_.fullest_stage, plan_.stages.front(), [&](MemoryKind kind) {
      return FullestStage(plan_, kind);
    });
  }

 private:
  template <typename Predicted>
  void Add(int index,
           const MeasuredMemory& memory,
           const plan::Stage& stage,
           const Predicted& predicted) {
    bool primary = true;
    for (const MemoryKind kind : kMemoryKinds) {
      if (!memory[kind]) continue;
      score_.memory.push_back({index, kind, primary, {predicted(kind), *memory[kind]}});
      primary = false;
      // nvidia-smi counts what the driver holds, too.
      const double limit = kind == MemoryKind::kNvidiaSmi
                               ? plan_.cluster.DeviceAt(stage.devices.front()).memory_bytes
                               : stage.predicted->memory.limit;
      if (*memory[kind] > limit) score_.ran = false;
    }
  }

  const plan::Plan& plan_;
  const Measurement& measured_;
  RunScore& score_;
};

GroupScore Sum(std::map<std::string, std::string> key, const std::vector<const RunScore*>& runs) {
  GroupScore group;
  group.key = std::move(key);
  group.runs = static_cast<int>(runs.size());
  std::vector<Score> seconds, memory;
  std::map<MemoryKind, std::vector<Score>> by_kind;
  for (const MemoryKind kind : kMemoryKinds) by_kind[kind];
  for (const RunScore* run : runs) {
    if (run->seconds) seconds.push_back(*run->seconds);
    for (const MemoryScore& score : run->memory) {
      if (score.primary) memory.push_back(score.bytes);
      by_kind[score.kind].push_back(score.bytes);
    }
    group.false_fits += run->false_fit();
    group.false_misfits += run->false_misfit();
  }
  group.seconds = Summarize(seconds);
  group.memory = Summarize(memory);
  for (const auto& [kind, scores] : by_kind) group.memory_by_kind[kind] = Summarize(scores);
  return group;
}

std::vector<GroupScore> SumGroups(const std::vector<RunScore>& rows,
                                  const std::vector<std::string>& group_by) {
  std::map<std::map<std::string, std::string>, std::vector<const RunScore*>> groups;
  if (group_by.empty()) return {};
  for (const RunScore& row : rows) {
    std::map<std::string, std::string> key;
    for (const std::string& name : group_by) key[name] = row.keys.at(name);
    groups[key].push_back(&row);
  }
  std::vector<GroupScore> sums;
  for (const auto& [key, runs] : groups) sums.push_back(Sum(key, runs));
  return sums;
}

}  // namespace

ErrorStatistics Summarize(const std::vector<Score>& scores) {
  ErrorStatistics statistics;
  statistics.n = static_cast<int>(scores.size());
  if (scores.empty()) return statistics;
  for (const Score& score : scores) {
    statistics.mean_absolute += std::abs(score.error());
    statistics.bias += score.error();
    statistics.worst = std::max(statistics.worst, std::abs(score.error()));
  }
  statistics.mean_absolute /= statistics.n;
  statistics.bias /= statistics.n;
  return statistics;
}

Result<ValidationReport> Validate(const RunsFile& file,
                                  const cluster::Calibration* calibration,
                                  const ValidateOptions& options) {
  for (const std::string& name : options.group_by) {
    if (std::find(std::begin(kGroupKeys), std::end(kGroupKeys), name) == std::end(kGroupKeys)) {
      return UsageError(
          "by", fmt::format("expected {}, got {}", fmt::join(kGroupKeys, ", "), Quote(name)));
    }
  }
  ValidationReport report;
  report.schema = file.schema;
  report.calibration = calibration != nullptr ? calibration->name : "defaults";
  report.skipped = file.skipped;
  for (const MeasuredRun& run : file.runs) {
    plan::Plan plan = run.plan;
    if (const std::string reason = Predict(plan, *run.model, calibration, options);
        !reason.empty()) {
      ++report.skipped[reason];
      continue;
    }
    RunScore score;
    score.id = run.id;
    score.keys = run.keys;
    score.assumed = run.assumed;
    Scorer(plan, run.measured, score).Run();
    report.rows.push_back(std::move(score));
  }
  std::vector<const RunScore*> all;
  for (const RunScore& row : report.rows) all.push_back(&row);
  report.all = Sum({}, all);
  report.groups = SumGroups(report.rows, options.group_by);
  return report;
}

}  // namespace palmist::accuracy
