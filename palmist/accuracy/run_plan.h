/// Turns what a row states into a plan. For the readers of this folder.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "palmist/accuracy/runs.h"
#include "palmist/cluster/cluster.h"
#include "palmist/plan/plan.h"

namespace palmist::accuracy {

/// Why a run is not scored: stable texts, which scripts may count.
namespace skip {
inline constexpr std::string_view kShape = "missing shape";
inline constexpr std::string_view kBatches = "missing batches";
inline constexpr std::string_view kDegrees = "missing degrees";
inline constexpr std::string_view kMeasurement = "missing measurement";
inline constexpr std::string_view kUnknownGpu = "unknown GPU";
inline constexpr std::string_view kMixedGpus = "mixed GPUs";
inline constexpr std::string_view kUnlikeReplicas = "unlike replicas";
inline constexpr std::string_view kBadShape = "shape does not fit the model family";
inline constexpr std::string_view kBatchesDoNotDivide = "batches do not divide";
inline constexpr std::string_view kDegreesDoNotMultiply = "degrees do not multiply to the GPUs";
inline constexpr std::string_view kFewLayers = "fewer layers than stages";
inline constexpr std::string_view kPrecision = "precision not priced";
inline constexpr std::string_view kInterleaved = "interleaved stages not priced";
inline constexpr std::string_view kSelective = "selective recompute not priced";
inline constexpr std::string_view kOffload = "offload not understood";
inline constexpr std::string_view kRecompute = "recompute not understood";
inline constexpr std::string_view kConvolutional = "unknown convolutional model";
inline constexpr std::string_view kExperts = "expert placement not priced";
inline constexpr std::string_view kRepeats = "repeats disagree";
}  // namespace skip

enum class ModelFamily { kGpt, kLlama, kMixtral, kBert };

/// The shape of a transformer, as tables of runs state it.
struct ModelShape {
  ModelFamily family = ModelFamily::kGpt;
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, ffn = 0, vocab = 0;
  std::int64_t seq = 0;      ///< also the rows of a learned position table
  std::int64_t experts = 0;  ///< kMixtral
  std::int64_t top_k = 0;
  double dropout = 0;
  bool bias = true;  ///< of linear layers; kGpt
  bool tied = true;  ///< the head is the embedding's matrix
};

/// Returns the shape as a Hugging Face configuration.
std::string ConfigJson(const ModelShape& shape);

/// Makes each model once, and keeps the whole file within bounds.
class RunBuilder {
 public:
  /// Returns the model of a configuration; null where the family refuses its sizes.
  std::shared_ptr<const RunModel> ModelOf(const std::string& name, const std::string& config_json);

  /// Throws an input error where the runs so far and this one together are too large: a file of
  /// some kilobytes must not ask for gigabytes.
  void Charge(std::int64_t gpus, std::int64_t stages, std::int64_t layers);

 private:
  std::map<std::string, std::shared_ptr<const RunModel>> models_;  // by configuration
  std::int64_t charged_ = 0;
};

/// Returns `count` GPUs called `gpu` (a comment in parentheses is left out), `per_node` to a node
/// at most; nothing where the presets do not know it.
std::optional<cluster::Cluster> ClusterOf(std::string_view gpu,
                                          std::int64_t count,
                                          std::int64_t per_node);

/// Returns how many GPUs a node of this kind has.
std::int64_t GpusPerNode(std::string_view gpu);

/// Sets the network of `cluster` to what `text` says ("800 Gbps/node", "400Gb/s RDMA per GPU",
/// "4x Omni-Path links per node"), if it says it.
void SetNetwork(std::string_view text, cluster::Cluster& cluster);

/// One stage, before its layers and devices are numbered.
struct StageShape {
  std::int64_t layers = 0;
  std::int64_t recomputed = 0;  ///< the last ones of the stage
  std::int64_t micro_batch = 1, dp = 1, tp = 1, cp = 1, ep = 1;
  bool sp = false;
  int zero = 0;
  plan::OffloadRatios offload;
  model::OpVariants ops;
};

/// Appends the stages to a plan with model and cluster: devices in order, layers in order.
void AddStages(const std::vector<StageShape>& stages, plan::Plan& plan);

/// Divides `layers` among `stages`, as evenly as can be.
std::vector<std::int64_t> SplitEvenly(std::int64_t layers, std::int64_t stages);

inline constexpr std::string_view kRoundedCuts =
    "stages cut inside layers are rounded to whole layers";

/// Rounds stages that are cut inside layers to whole layers, at least one each: each cut goes to
/// the nearest layer. @param ops operators of each stage of the list in data/mist/README.md:
/// embedding, 13 a layer, final norm, head. @pre 1 <= ops.size() <= layers
std::vector<std::int64_t> SplitAtOperators(const std::vector<std::int64_t>& ops,
                                           std::int64_t layers);

inline constexpr std::int64_t kOperatorsPerLayer = 13;

/// Fills `model`, the plan's model fields and the keys of a run whose plan has a cluster.
void SetModel(std::shared_ptr<const RunModel> model, std::int64_t seq, MeasuredRun& run);

}  // namespace palmist::accuracy
