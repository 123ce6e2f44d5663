/// Plays one training iteration of a pipeline event by event.
#pragma once

#include <string>
#include <vector>

#include "palmist/schedule/order.h"
#include "palmist/schedule/pipeline.h"

namespace palmist::sim {

/// Seconds of one pass through a chunk.
struct ChunkTime {
  double forward_s = 0;
  double backward_s = 0;
};

struct StageWork {
  schedule::StagePoint point;
  /// What each chunk takes, interleaved only; empty: an even part of `point` each.
  std::vector<ChunkTime> chunks = {};
};

struct Pipeline {
  std::string schedule = "1f1b";  ///< gpipe, 1f1b, interleaved or zb-h1
  std::vector<StageWork> stages;
  int micro_batches = 1;
  int chunks = 1;     ///< of each stage; two or more with interleaved, else one
  double tail_s = 0;  ///< after everything, such as an optimizer step that all stages wait for
};

/// A piece of work and when it ran, in seconds from the start of the iteration.
struct SlotTime {
  schedule::Slot slot;
  double start_s = 0;
  double end_s = 0;

  bool operator==(const SlotTime&) const = default;
};

/// A transfer of one micro-batch's activations, or of their gradient, between two stages.
struct HopTime {
  schedule::Slot slot;  ///< whose result is sent: a forward or a backward
  int from_stage = 0;
  int to_stage = 0;
  double start_s = 0;
  double end_s = 0;

  bool operator==(const HopTime&) const = default;
};

struct StageTimeline {
  std::vector<SlotTime> slots;  ///< in the order they ran
  double first_extra_s = 0;     ///< runs from 0
  double last_extra_start_s = 0;
  double last_extra_s = 0;
  double busy_s = 0;      ///< slots and extras
  double idle_share = 0;  ///< of the time before the tail: 1 - busy / (iteration - tail)
  /// The most passes held at once, with the one that runs: micro-batches, or with interleaved
  /// micro-batches of one chunk. See `schedule::InFlight`, which counts without the one that runs.
  int most_held = 0;

  bool operator==(const StageTimeline&) const = default;
};

struct Timeline {
  double iteration_s = 0;  ///< with the tail
  double tail_s = 0;
  double idle_share = 0;  ///< the mean of the stages' shares: the pipeline's bubble
  std::vector<StageTimeline> stages;
  std::vector<HopTime> hops;  ///< only those that take time; of one boundary and way by their start

  bool operator==(const Timeline&) const = default;
};

/// Plays the pipeline: each stage runs its slots in the order of `schedule::SlotOrder`, each as
/// soon as the stage is free and what it needs has arrived.
///
/// A forward needs the same micro-batch's forward of the stage before (of the last stage's chunk
/// before, on the first stage), a backward that of the stage behind or, at the end of the model,
/// its own forward. A hop occupies no stage; over a boundary goes one transfer at a time and way.
/// Extras occupy their stage: the first one from time 0, the last one right after the stage's last
/// slot. With zb-h1 a backward takes backward_s - weight_grad_s.
///
/// The same input gives the same bits. Time and memory are O(slots).
/// @throws Error (kInput) for what `schedule::CheckSchedule` refuses, for negative or infinite
///   times, a weight gradient longer than its backward, a wrong number of chunk times, and more
///   than 50 million slots.
Timeline Simulate(const Pipeline& pipeline);

}  // namespace palmist::sim
