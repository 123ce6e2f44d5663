/// The simulated timeline as a Chrome trace, which Perfetto (ui.perfetto.dev) opens.
#pragma once

#include <limits>
#include <nlohmann/json.hpp>

#include "palmist/sim/simulate.h"

namespace palmist::sim {

/// Returns the timeline as a Chrome trace in the object form, times in microseconds.
///
/// A process for each stage, with tracks (threads) 0 `compute` (spans named F3, B3, W3 with the
/// micro-batch; with interleaved F3.1 with the chunk), 1 `send forward` and 2 `send backward` (its
/// hops), 3 `extras` (first_extra, last_extra, tail). Times are whole nanoseconds, so spans of one
/// track do not overlap. `otherData` holds the iteration's seconds and idle share, and how many
/// micro-batches the trace shows.
/// @param micro_batches how many are shown, the first ones; the timeline has them all
/// Source of the format: "Trace Event Format", the Chromium project; complete events (ph X) and
/// metadata events (ph M).
nlohmann::ordered_json ToChromeTrace(const Timeline& timeline,
                                     int micro_batches = std::numeric_limits<int>::max());

}  // namespace palmist::sim
