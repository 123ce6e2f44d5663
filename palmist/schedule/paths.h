/// The time of an iteration as the longest of the paths that can decide it.
///
/// A schedule fixes which slot follows which, on a stage and between stages, so an iteration takes
/// as long as the longest path through its slots. The forms below take the maximum over the kinds
/// of paths that decide it for stages of similar size:
///   into a stage        down the forwards of the first micro-batches, staying on the slowest stage
///                       on the way, to the last stage and up the first backward;
///   along one stage     through its steady alternation of forwards and backwards, or, where hops
///                       take long, round and round between it and another one;
///   out of the stage    the same as into it, with time reversed.
/// Every candidate is a path of the schedule, so no form exceeds the simulation (`sim::Simulate`).
/// What they leave out: changes between stages in the middle of the steady part, and transfers that
/// wait for each other (except in gpipe).
///
/// How far they fall short, on 1 500 random pipelines each (1 to 8 stages, 1 to 64 micro-batches,
/// stages within 20 %; sim/test/closed_form_test.cc prints it):
///                  without hops          hops up to a tenth of a micro-batch's time
///                  mean       most       mean       most
///   gpipe          0          0          0          0
///   1f1b           0          0          0.013 %    0.71 %
///   interleaved    0.000 %    0.12 %     0.000 %    0.14 %
///   zb-h1          0          0          0.011 %    0.73 %
/// where 0 is below 1e-9; extras up to four micro-batches make it less. Stages that differ by half:
/// at most 1.4 %; by 90 %: at most 4 %.
///
/// Own derivation. With equal stages, and no hops and extras, they reduce to what the papers give,
/// G t and a bubble:
///   gpipe, 1f1b   (S - 1) t
///   interleaved   (S - 1) t / v   (Narayanan et al., SC 2021, section 2.2)
///   zb-h1         (S - 1) (f + x - min(f, x, w)), with w the weight gradient's part and x the rest
///                 of the backward; the paper has w (Qi et al., ICLR 2024, table 2: T_F + T_B -
///                 T_W), which holds where w is the least of the three.
#pragma once

#include <span>
#include <string_view>

#include "palmist/schedule/pipeline.h"

namespace palmist::schedule {

/// Returns the seconds of an iteration under GPipe, equal to the simulation.
/// O(stages). @pre stages is not empty, micro_batches >= 1
double PathGPipe(std::span<const StagePoint> stages, int micro_batches);

/// Returns the seconds of an iteration under 1F1B; without hops equal to the simulation, also for
/// very uneven stages.
/// O(stages^2). @pre stages is not empty, micro_batches >= 1
double Path1F1B(std::span<const StagePoint> stages, int micro_batches);

/// Returns the seconds of an iteration under ZB-H1, in the order of `SlotOrder`; without hops equal
/// to the simulation for stages within half of each other. A stage whose `weight_grad_s` is 0 runs
/// as under 1F1B. O(stages^2). @pre stages is not empty, micro_batches >= 1, weight_grad_s <=
/// backward_s
double PathZbH1(std::span<const StagePoint> stages, int micro_batches);

/// Returns the seconds of an iteration under interleaved 1F1B, with `chunks` equal parts of each
/// stage and the hop of the last stage leading to the first one.
/// O(chunks stages^2). @pre stages is not empty, micro_batches a multiple of their number,
///   chunks >= 2
double PathInterleaved(std::span<const StagePoint> stages, int micro_batches, int chunks);

/// Returns the form of `schedule`. @throws Error as `CheckSchedule`
double PathSeconds(std::string_view schedule,
                   std::span<const StagePoint> stages,
                   int micro_batches,
                   int chunks = 1);

}  // namespace palmist::schedule
