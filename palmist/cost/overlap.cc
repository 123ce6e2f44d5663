#include "palmist/cost/overlap.h"

#include <algorithm>
#include <limits>

namespace palmist::cost {

double OverlappedSeconds(const ResourceSeconds& work, const cluster::Interference& interference) {
  std::array<double, cluster::kNumResources> left = {
      work.compute, work.device_to_device, work.host_to_device, work.device_to_host};
  double total = 0;
  while (true) {
    unsigned active = 0;
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (left[i] > 0) active |= 1U << i;
    }
    if (active == 0) return total;
    double phase = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (left[i] > 0) phase = std::min(phase, left[i] * interference.factor[active][i]);
    }
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (left[i] <= 0) continue;
      const double factor = interference.factor[active][i];
      // The one that ends the phase ends exactly, whatever the rounding.
      left[i] = left[i] * factor <= phase ? 0 : left[i] - phase / factor;
    }
    total += phase;
  }
}

}  // namespace palmist::cost
