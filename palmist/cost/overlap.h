/// Work on several resources at once, with the slowdown they cause each other.
#pragma once

#include <array>

#include "palmist/cluster/calibration.h"

namespace palmist::cost {

/// Seconds of work on each resource, as if it ran alone; order of `cluster::Resource`.
struct ResourceSeconds {
  double compute = 0;
  double device_to_device = 0;
  double host_to_device = 0;
  double device_to_host = 0;
};

/// Returns how long the work takes when all resources start together.
///
/// Mist's subset model (EuroSys'25, section 5): while the set A is active each resource i works
/// 1/f(A, i) as fast; the first to finish ends the phase, and the set shrinks.
double OverlappedSeconds(const ResourceSeconds& work, const cluster::Interference& interference);

}  // namespace palmist::cost
