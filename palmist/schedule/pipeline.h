/// The time of one iteration from the times of its stages.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "palmist/schedule/order.h"

namespace palmist::schedule {

/// A stage's point: seconds of a steady micro-batch, and of what comes before and after all.
struct StagePoint {
  double forward_s = 0;
  double backward_s = 0;
  double first_extra_s = 0;  ///< before the first forward
  double last_extra_s = 0;   ///< after the last backward
  double hop_s = 0;          ///< from here to the next stage, and back; occupies no stage
  double weight_grad_s = 0;  ///< the part of backward_s that only weights need, for zb-h1

  double total_s() const { return forward_s + backward_s; }
};

/// Returns X of a stage under 1F1B (see `Iteration1F1B`): from its first forward to the end of the
/// last micro-batch's backward through it, with `behind_s` the sum of the times of the
/// `stages_behind` stages after it.
double Bracket1F1B(const StagePoint& stage, double behind_s, int stages_behind, int micro_batches);

/// Returns the iteration time under 1F1B with G = `micro_batches`.
///
/// Without hops, with K stages behind stage i and R the sum of their times t:
///   X_i = G t - K b + max(0, R - K f) + max(K b, R)     if G > K
///   X_i = max(G t, R + max(f + G b, G f + b))           otherwise
///   T = max_i(sum_{j<i} t_j + X_i) + max(0, max_i(dF_i - sum_{j<i} f_j))
///                                  + max(0, max_i(dB_i - sum_{j<i} b_j)).
/// Equal to the simulation of the schedule (`sim::Simulate`) for stages within 20 % of each other;
/// at 50 % it was up to 3 % too short and, with extras, up to 5 % too long on random pipelines. A
/// search can build it up stage by stage; `Path1F1B` is exact for uneven stages too.
///
/// With hops between stages it is `Path1F1B`, whose steady period at stage i is at least
///   max_j((sum of t_i .. t_j + 2 sum of their hops) / (j - i + 1)).
/// @pre stages is not empty, micro_batches >= 1
double Iteration1F1B(std::span<const StagePoint> stages, int micro_batches);

/// The parts of a 1F1B iteration without hops, along the stage that decides it.
struct IterationTerms {
  int stage = 0;
  double before_s = 0;  ///< one micro-batch in the stages in front
  double steady_s = 0;  ///< all micro-batches on the stage
  double behind_s = 0;  ///< what waiting for the stages behind adds
  double extra_s = 0;   ///< extras that nothing hides
};

/// Returns the parts of `Iteration1F1B`, which is their sum.
/// @pre as Iteration1F1B, without hops
IterationTerms Terms1F1B(std::span<const StagePoint> stages, int micro_batches);

/// Returns the iteration time under GPipe: all forwards, then all backwards.
///   T = sum f + (G-1) max f + sum b + (G-1) max b + 2 sum c, and the extras as in 1F1B, with the
///       hops c before a stage beside the f and b before it.
/// Equal to the simulation without extras. With them never too short, but up to 12 % too long for
/// stages within 20 % and extras up to four micro-batches: a stage that starts late may catch up.
/// A search can build it up stage by stage; `PathGPipe` is exact.
/// @pre stages is not empty, micro_batches >= 1
double IterationGPipe(std::span<const StagePoint> stages, int micro_batches);

/// Returns the time under any schedule of `SlotOrder`, hops and extras with it: `Iteration1F1B`,
/// `IterationGPipe`, `PathZbH1` or `PathInterleaved` (schedule/paths.h).
/// @param chunks of each stage, equal parts; two or more with interleaved, else one
/// @throws Error (kUnavailable, field training.schedule) for zb-h1 where no stage says what its
///   weight gradients take, and interleaved without chunks; else as `CheckSchedule`
double IterationSeconds(std::string_view schedule,
                        std::span<const StagePoint> stages,
                        int micro_batches,
                        int chunks = 1);

}  // namespace palmist::schedule
