/// The order in which a stage runs its work on micro-batches, as data.
#pragma once

#include <string_view>
#include <vector>

namespace palmist::schedule {

/// A piece of a stage's work: one pass of one micro-batch through one of the stage's chunks.
struct Slot {
  enum Kind {
    kForward,
    kBackward,   ///< with zb-h1 only the gradient of the input, else of input and weights
    kWeightGrad  ///< zb-h1 only: the gradient of the weights
  };
  Kind kind = kForward;
  int micro_batch = 0;
  int chunk = 0;

  bool operator==(const Slot&) const = default;
};

/// Returns all slots of stage `stage` of `stages` in the order in which the stage runs them.
///
/// With K = stages - 1 - stage stages behind, G micro-batches and v = `chunks`:
///   gpipe        G forwards, then G backwards, both from micro-batch 0.
///   1f1b         min(K, G) forwards, then a forward and a backward in turn, then backwards
///                (PipeDream-Flush: Narayanan et al., Memory-Efficient Pipeline-Parallel DNN
///                Training, ICML 2021).
///   interleaved  passes go in groups of `stages` micro-batches: a group through chunk 0, then
///                through chunk 1 and so on, backwards from chunk v - 1 down; min(2 K + (v - 1)
///                stages, G v) forwards, then in turn (Narayanan et al., Efficient Large-Scale
///                Language Model Training on GPU Clusters, SC 2021; the warm-up is that of
///                Megatron-Core, pipeline_parallel/schedules.py).
///   zb-h1        as 1f1b, and the weight gradient of micro-batch k - stage follows the backward
///                of micro-batch k; the last ones come at the end (Qi et al., Zero Bubble Pipeline
///                Parallelism, ICLR 2024, figure 3 above).
///
/// A stage holds chunk c of micro-batch m from its forward to its backward, with zb-h1 to its
/// weight gradient; `InFlight` tells how many.
/// @throws Error (kInput) for an unknown schedule, a count below one, a stage out of range,
/// `chunks`
///   other than 1 where the schedule is not interleaved and below 2 where it is, and an interleaved
///   schedule whose micro-batches are no multiple of its stages, and more than 2^30 passes.
std::vector<Slot> SlotOrder(
    std::string_view schedule, int stages, int stage, int micro_batches, int chunks = 1);

/// Checks what `SlotOrder` asks of a pipeline. @throws Error as it does
void CheckSchedule(std::string_view schedule, int stages, int micro_batches, int chunks);

/// Returns the passes that stage `stage` of `stages` holds at most, beside the one that runs:
///   gpipe        G - 1
///   1f1b         min(K, G - 1)
///   interleaved  min(2 K + (v - 1) stages, G v - 1), each of one chunk, so 1/v of the stage
///   zb-h1        min(stages - 1, G - 1) on every stage: what 1f1b holds on its first one
/// with the letters of `SlotOrder`, from whose orders this follows (the test counts).
///
/// With zb-h1 the count is up to the weight gradient. Between a micro-batch's backward and its
/// weight gradient a stage needs less than all its activations, so memory by this count is an upper
/// bound. `interleaved` with `chunks` 1 is counted as 1f1b.
int InFlight(std::string_view schedule, int stages, int stage, int micro_batches, int chunks = 1);

}  // namespace palmist::schedule
