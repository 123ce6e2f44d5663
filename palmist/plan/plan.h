/// The plan: how a model is trained on a cluster. The planner writes it, the executor reads it.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "palmist/base/result.h"
#include "palmist/cluster/cluster.h"
#include "palmist/model/config.h"
#include "palmist/model/lower.h"

namespace palmist::plan {

inline constexpr int kPlanVersion = 1;
inline constexpr int kMaxStages = 10'000;
/// The largest degree, and the largest number of devices.
inline constexpr int kMaxDegree = 1 << 20;
inline constexpr std::int64_t kMaxSequence = std::int64_t{1} << 30;
inline constexpr std::string_view kCpKinds[] = {"ring", "all_to_all"};
inline constexpr std::string_view kSchedules[] = {"gpipe", "1f1b", "interleaved", "zb-h1"};

/// Memory by category, in bytes on the fullest rank of a stage. The names are the same in plans,
/// logs and reports.
struct MemoryBytes {
  double weights = 0;
  double grads = 0;
  double optimizer = 0;
  double activations = 0;  ///< kept for backward, of all micro-batches in flight
  double transient = 0;    ///< what lives only while a layer runs, beyond what it keeps
  double buffers = 0;      ///< gathered weights, staging, library workspaces
  double logits = 0;       ///< logits and their gradient, beside the last layer's transients
  double communicators = 0;
  double context = 0;         ///< driver and runtime
  double allocated_peak = 0;  ///< what torch.cuda.max_memory_allocated shows
  double reserved_peak = 0;   ///< what torch.cuda.max_memory_reserved shows
  double limit = 0;           ///< what the device may use

  /// Returns what must be free on the device, to be held against `limit`.
  double needed() const { return reserved_peak + communicators + context; }
  bool operator==(const MemoryBytes&) const = default;
};

/// A category of memory: its name in files, logs and reports, and where its bytes are.
struct MemoryCategory {
  std::string_view name;
  double MemoryBytes::*bytes;
};

/// The categories that add up to a rank's memory, in the order they are shown.
inline constexpr MemoryCategory kMemoryCategories[] = {
    {"weights", &MemoryBytes::weights},
    {"grads", &MemoryBytes::grads},
    {"optimizer", &MemoryBytes::optimizer},
    {"activations", &MemoryBytes::activations},
    {"transient", &MemoryBytes::transient},
    {"buffers", &MemoryBytes::buffers},
    {"logits", &MemoryBytes::logits},
    {"communicators", &MemoryBytes::communicators},
    {"context", &MemoryBytes::context},
};

enum class RecomputeMode { kFull, kSelective };

/// Layers whose activations are made again in backward; both ends are part of it.
struct RecomputeRange {
  int first_layer = 0;
  int last_layer = 0;
  RecomputeMode mode = RecomputeMode::kFull;
  std::vector<std::string> modules;  ///< kSelective only
  bool operator==(const RecomputeRange&) const = default;
};

/// Shares kept in host memory, each in [0, 1].
struct OffloadRatios {
  double weights = 0, grads = 0, optimizer = 0, activations = 0;
  bool operator==(const OffloadRatios&) const = default;
};

struct LayerRange {
  int first_layer = 0;
  int last_layer = 0;
  bool operator==(const LayerRange&) const = default;
};

/// One of several unlike replicas of a stage.
struct Replica {
  std::vector<int> devices;
  int tp = 1;
  int micro_batch = 1;
  bool operator==(const Replica&) const = default;
};

struct StagePrediction {
  double forward_s = 0;  ///< one steady micro-batch
  double backward_s = 0;
  /// The part of `backward_s` that only gradients of weights need, which zb-h1 runs on its own.
  double weight_grad_s = 0;
  double first_extra_s = 0;  ///< before the first forward: gathers, deferred optimizer step
  double last_extra_s = 0;   ///< after the last backward: gradient reductions
  MemoryBytes memory;
  bool operator==(const StagePrediction&) const = default;
};

struct Stage {
  std::vector<int> devices;
  int first_layer = 0;
  int last_layer = 0;  ///< inclusive
  bool embedding = false;
  bool head = false;
  int micro_batch = 1;  ///< sequences (or images) of one rank in one micro-batch
  int dp = 1;
  int tp = 1;
  bool sp = false;
  int cp = 1;
  std::string cp_kind = "ring";  ///< of kCpKinds
  int ep = 1;
  std::vector<LayerRange> chunks;  ///< interleaved: from `first_layer` to `last_layer`, with gaps
  std::vector<Replica> replicas;   ///< if any, `dp` of them; their tp and micro_batch count
  int zero = 0;
  int zero_shard = 1;  ///< ranks that share states; 1 with zero 0
  std::vector<RecomputeRange> recompute;
  model::OpVariants ops;
  OffloadRatios offload;
  std::optional<StagePrediction> predicted;

  /// Returns how many layers the stage holds, of all its chunks.
  int num_layers() const;
  /// Returns the parts that passes go through one at a time: those of `chunks`, else 1.
  int num_chunks() const;
  /// Returns how many layers are made again in backward, wholly or in part.
  int num_recomputed() const;
  /// Whether `layer` is made again in backward, wholly.
  bool recomputes(int layer) const;
  bool operator==(const Stage&) const = default;
};

struct Optimizer {
  std::string name = "adamw";
  double state_bytes_per_param = 12;  ///< with the fp32 master copy, where there is one
  bool operator==(const Optimizer&) const = default;
};

struct Training {
  std::int64_t global_batch = 1;
  int micro_batches = 1;
  std::string schedule = "1f1b";  ///< of kSchedules
  std::string dtype = "bf16";     ///< bf16, fp16, fp32
  std::string grad_dtype = "bf16";
  double grad_clip = 1.0;  ///< 0: none, and the optimizer step may be deferred
  std::string trainable = "all";
  Optimizer optimizer;
  bool operator==(const Training&) const = default;
};

/// Seconds of one iteration that no computation hides, by cause, on the slowest stage.
struct ExposedSeconds {
  double tp = 0, dp = 0, pp = 0, cp = 0, ep = 0, offload = 0, optimizer = 0;
  bool operator==(const ExposedSeconds&) const = default;
};

/// A cause of exposed time: its name in files and reports, and where its seconds are.
struct ExposedCause {
  std::string_view name;
  double ExposedSeconds::*seconds;
};

inline constexpr ExposedCause kExposedCauses[] = {
    {"tp", &ExposedSeconds::tp},
    {"dp", &ExposedSeconds::dp},
    {"pp", &ExposedSeconds::pp},
    {"cp", &ExposedSeconds::cp},
    {"ep", &ExposedSeconds::ep},
    {"offload", &ExposedSeconds::offload},
    {"optimizer", &ExposedSeconds::optimizer},
};

struct Prediction {
  bool fits = false;
  double iteration_time_s = 0;
  double tokens_per_s = 0;  ///< samples per second for models without a sequence
  std::optional<double> cost_usd_per_1e9_tokens;
  double model_flops_utilization = 0;
  double bubble_fraction = 0;
  double compute_s = 0;  ///< arithmetic and memory traffic of the slowest stage
  ExposedSeconds exposed_s;
  bool operator==(const Prediction&) const = default;
};

/// What keeps a stage from fitting.
struct ClosestMiss {
  int stage = 0;
  double short_bytes = 0;
  std::string change;  ///< what would make it fit
  bool operator==(const ClosestMiss&) const = default;
};

struct SearchSummary {
  std::string status = "feasible";  ///< optimal, feasible, time_limit, interrupted
  double lower_bound_s = 0;
  double gap = 0;
  std::string space = "full";
  std::int64_t candidates = 0, evaluated = 0, pruned = 0;
  double seconds = 0;
  bool operator==(const SearchSummary&) const = default;
};

struct Plan {
  std::string model_name;
  std::string model_config;  ///< the configuration's JSON, whole
  std::int64_t seq_len = 0;  ///< 0 for convolutional models
  std::int64_t params = 0;
  std::string cluster_name;
  cluster::Cluster cluster;
  Training training;
  std::vector<Stage> stages;
  std::optional<Prediction> predicted;
  std::vector<ClosestMiss> closest;
  std::optional<SearchSummary> search;
  std::map<std::string, std::string> provenance;  ///< palmist, calibration, created
  /// Unknown keys as an object from JSON pointer (`/stages/1/x_note`) to value; see `FromJson`.
  nlohmann::ordered_json extra = nlohmann::ordered_json::object();
  bool operator==(const Plan&) const = default;
};

/// Writes the plan as JSON, keys in the documented order.
/// @pre `plan.model_config` is JSON.
nlohmann::ordered_json ToJson(const Plan& plan);

/// Writes the plan to `path` as indented JSON, whole or not at all.
Result<void> SavePlan(const Plan& plan, const std::string& path);

/// Reads and validates a plan: types, ranges, then `Validate`.
///
/// Keys with an obvious default may be left out (docs/guide/plan-files.md). An unknown key is kept
/// in `extra` with `x_` in front of its name, unless that begins so already, and `ToJson` writes it
/// back at its place.
Result<Plan> FromJson(std::string_view text);

/// Reads the plan file at `path`, at most 64 MiB; see `FromJson`.
Result<Plan> LoadPlan(const std::string& path);

/// Checks a plan's invariants against its model and cluster; the error names the path of the bad
/// value and how to mend it. See docs/guide/plan-files.md for the list.
/// @param graph of the model that `plan.model_config` describes.
Result<void> Validate(const Plan& plan, const model::Graph& graph);

/// The same for a caller who has the model's description at hand, which saves reading it again.
Result<void> Validate(const Plan& plan, const model::Graph& graph, const model::ModelSpec& spec);

/// Returns the vocabulary rounded up so that each of `tp` ranks holds the same number of rows.
/// @pre vocab >= 0, 1 <= tp <= kMaxDegree, and the result fits 63 bits
std::int64_t PaddedVocabulary(std::int64_t vocab, int tp);

/// Returns how many tensor-parallel ranks hold the same key and value head; 1 where each rank has
/// its own. @pre kv_heads >= 1, tp >= 1
std::int64_t KvReplication(std::int64_t kv_heads, int tp);

/// Returns what is legal but should be said about a valid plan, one sentence each: a padded
/// vocabulary, replicated KV heads, tied embeddings on two stages.
std::vector<std::string> Notes(const Plan& plan,
                               const model::Graph& graph,
                               const model::ModelSpec& spec);

}  // namespace palmist::plan
