/// Measured training runs: what was run, as a plan, and apart from it what was measured.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "palmist/base/result.h"
#include "palmist/model/graph.h"
#include "palmist/plan/plan.h"

namespace palmist::accuracy {

/// What a memory figure counts.
enum class MemoryKind {
  kAllocated,  ///< torch.cuda.max_memory_allocated
  kReserved,   ///< torch.cuda.max_memory_reserved
  kNvidiaSmi   ///< nvidia-smi's "used": reserved, communicators and context
};

/// In the order in which one is scored where a run has several.
inline constexpr MemoryKind kMemoryKinds[] = {
    MemoryKind::kAllocated, MemoryKind::kReserved, MemoryKind::kNvidiaSmi};

/// Returns the name used in files: "allocated", "reserved", "nvidia_smi".
std::string_view ToString(MemoryKind kind);

/// Peak device memory of the fullest rank, in bytes, by kind.
class MeasuredMemory {
 public:
  std::optional<double>& operator[](MemoryKind kind) { return bytes_[static_cast<int>(kind)]; }
  const std::optional<double>& operator[](MemoryKind kind) const {
    return bytes_[static_cast<int>(kind)];
  }
  bool empty() const { return !bytes_[0] && !bytes_[1] && !bytes_[2]; }

 private:
  std::array<std::optional<double>, std::size(kMemoryKinds)> bytes_;
};

/// What was measured of a run.
struct Measurement {
  std::optional<double> iteration_s;
  std::vector<MeasuredMemory> stages;  ///< one a stage, or none at all
  MeasuredMemory fullest_stage;        ///< where the source does not say which stage it was
  bool out_of_memory = false;

  bool empty() const;
};

/// A model's description, shared by the runs that trained it.
struct RunModel {
  std::string name;
  std::string config_json;
  model::ModelSpec spec;
  model::Graph graph;
};

/// What runs may be grouped by.
inline constexpr std::string_view kGroupKeys[] = {
    "gpu", "model", "system", "nodes", "gpus", "stages", "precision", "source"};

struct MeasuredRun {
  std::string id;
  std::map<std::string, std::string> keys;  ///< a value for each of `kGroupKeys`
  std::shared_ptr<const RunModel> model;
  plan::Plan plan;                   ///< without predictions; `Validate` holds unless it is odd
  std::vector<std::string> assumed;  ///< defaults used, and what was rounded, one phrase each
  Measurement measured;
};

struct RunsFile {
  std::string schema;  ///< "public", "mist" or "aceso"
  std::vector<MeasuredRun> runs;
  std::map<std::string, int> skipped;  ///< reason to number of runs
};

/// Reads a runs file. The header tells which schema it has; docs/guide/validation.md lists them.
///
/// A run that lacks shape, batches, degrees or a measurement, or that this version cannot price, is
/// skipped and counted; what else is missing is taken from defaults and listed in `assumed`.
/// @returns an input error naming line and column for a cell that cannot be read, and one for a
/// file too large.
Result<RunsFile> ReadRuns(std::string_view text);

}  // namespace palmist::accuracy
