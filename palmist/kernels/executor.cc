#include "palmist/kernels/executor.h"

#include <algorithm>

namespace palmist::kernels {
namespace {

class Serial final : public Executor {
 public:
  void ParallelFor(std::int64_t n, std::int64_t, LoopBody body) noexcept override {
    if (n > 0) body(0, n);
  }
};

}  // namespace

Executor& SerialExecutor() {
  static Serial serial;
  return serial;
}

void PoolExecutor::ParallelFor(std::int64_t n, std::int64_t grain, LoopBody body) noexcept {
  const std::int64_t pieces = std::min<std::int64_t>(n / grain, pool_.size());
  if (pieces <= 1) {
    if (n > 0) body(0, n);
    return;
  }
  pool_.ParallelFor(pieces, [&](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t piece = first; piece < last; ++piece) {
      body(n * piece / pieces, n * (piece + 1) / pieces);
    }
  });
}

}  // namespace palmist::kernels
