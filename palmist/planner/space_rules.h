/// What each named search space allows, as data.
#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace palmist::planner {

/// How much stages may differ from each other.
enum class Likeness {
  kAll,      ///< in nothing but what `even_split` leaves: layers and recomputed layers
  kShape,    ///< also in operators, ZeRO and offload; devices and degrees are the same
  kSamples,  ///< also in devices and tensor parallelism; micro-batch and dp are the same
  kFree      ///< in everything but the samples of a micro-batch
};

enum class OffloadChoice {
  kNone,
  kWhole,  ///< optimizer states, or those and weights: all of them or none (ZeRO-Offload)
  kGrid    ///< each tensor's ratio on a grid
};

/// A space; by default the full one. Degrees that a request fixes are allowed by every space.
struct SpaceRules {
  std::string name = "full";
  Likeness likeness = Likeness::kFree;
  /// All stages hold L/S layers and recompute as many of them.
  bool even_split = false;
  /// The layers of a stage differ from L/S by this at most.
  int layers_around_mean = std::numeric_limits<int>::max();
  bool partial_recompute = true;  ///< some layers of a stage; else all or none
  bool recompute = true;
  bool sequence_parallel = true;
  bool expert_parallel = true;
  bool context_parallel = true;             ///< searched, for long sequences
  bool power_of_two_micro_batches = false;  ///< micro-batches of an iteration
  int most_micro_batch = std::numeric_limits<int>::max();
  int least_zero = 0, most_zero = 3;
  int most_zero_in_pipeline = 3;
  bool hybrid_zero = true;  ///< shards within a node
  OffloadChoice offload = OffloadChoice::kGrid;
  bool lean_ops = true;  ///< operators that only Palmist has

  /// Whether stages may differ in more than their layers.
  bool has_free_stages() const { return likeness != Likeness::kAll; }
};

/// Returns the rules of a space.
///
/// - full: all of it. uniform: every stage alike, no offload, any split.
/// - mist: the space of Mist's artifact (EuroSys'25): one shape of stage, layers within 2 of the
///   mean, micro-batches of up to 4, ZeRO 1 to 3, recomputed layers and offload ratios a stage.
/// - megatron: what Megatron-LM's arguments say: even stages, as many recomputed layers on each,
///   the distributed optimizer or none, sequence parallelism.
/// - deepspeed: ZeRO 0 to 3, at most 1 with a pipeline; whole recomputation; ZeRO-Offload.
/// - sailor: data, tensor and pipeline parallelism and the micro-batch (Sailor, SOSP'25).
/// @throws Error(kUsage) naming the spaces where there is none of that name.
SpaceRules RulesOf(std::string_view space);

/// Returns the names `RulesOf` knows.
std::vector<std::string> SpaceNames();

}  // namespace palmist::planner
