/// Scores the cost model against measured runs.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "palmist/accuracy/runs.h"
#include "palmist/base/result.h"
#include "palmist/cluster/calibration.h"

namespace palmist::accuracy {

struct ValidateOptions {
  std::vector<std::string> group_by;  ///< names of `kGroupKeys`
  double expert_imbalance = 1.0;      ///< busiest expert rank over the mean
};

/// A prediction beside what was measured: seconds or bytes.
struct Score {
  double predicted = 0;
  double measured = 0;
  /// Returns predicted over measured less one; above 0 where the prediction is too high.
  double error() const { return predicted / measured - 1; }
};

inline constexpr int kFullestStage = -1;

/// The memory of one stage, by one kind of figure.
struct MemoryScore {
  int stage = kFullestStage;  ///< `kFullestStage` where the source does not say which
  MemoryKind kind = MemoryKind::kAllocated;
  bool primary = false;  ///< the first kind, in the order of `kMemoryKinds`, of this stage
  Score bytes;
};

/// A run's scores. `predicted` plans with the measurement at hand are never made.
struct RunScore {
  std::string id;
  std::map<std::string, std::string> keys;
  std::vector<std::string> assumed;
  double predicted_s = 0;
  std::optional<Score> seconds;
  std::vector<MemoryScore> memory;
  bool predicted_fits = false;
  bool ran = false;  ///< it was not out of memory, nor measured above the device's limit

  bool false_fit() const { return predicted_fits && !ran; }
  bool false_misfit() const { return !predicted_fits && ran; }
};

/// Errors of several scores. The three rates are fractions and 0 where n is 0.
struct ErrorStatistics {
  int n = 0;
  double mean_absolute = 0;
  double bias = 0;   ///< mean of the signed errors
  double worst = 0;  ///< largest absolute error
};

/// Returns the statistics of `scores`.
ErrorStatistics Summarize(const std::vector<Score>& scores);

struct GroupScore {
  std::map<std::string, std::string> key;  ///< empty for all runs
  int runs = 0;
  ErrorStatistics seconds;
  ErrorStatistics memory;  ///< of the primary figures
  std::map<MemoryKind, ErrorStatistics> memory_by_kind;
  int false_fits = 0;
  int false_misfits = 0;  ///< predicted not to fit, but ran
};

struct ValidationReport {
  std::string schema;
  std::string calibration;  ///< its name
  GroupScore all;
  std::vector<GroupScore> groups;  ///< by key, where `group_by` asks for it
  std::vector<RunScore> rows;
  std::map<std::string, int> skipped;  ///< reason to number of runs
};

/// Predicts every run and scores it. What is handed to the prediction holds no measurement.
///
/// A run whose plan turns out invalid, or that this version cannot price, is counted in `skipped`.
/// @param calibration null for the defaults of each run's cluster.
/// @returns a usage error where `group_by` names no key.
Result<ValidationReport> Validate(const RunsFile& file,
                                  const cluster::Calibration* calibration = nullptr,
                                  const ValidateOptions& options = {});

/// Returns the report as `palmist validate --json` prints it.
nlohmann::ordered_json ToJson(const ValidationReport& report);

/// Returns the report as text: a table of the runs, then one of the groups.
std::string FormatReport(const ValidationReport& report);

}  // namespace palmist::accuracy
