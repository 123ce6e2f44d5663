#include "palmist/ops/executor.h"

#include <ATen/Parallel.h>

namespace palmist::ops {
namespace {

class Torch final : public kernels::Executor {
 public:
  void ParallelFor(std::int64_t n, std::int64_t grain, kernels::LoopBody body) noexcept override {
    at::parallel_for(0, n, grain, body);
  }
};

}  // namespace

kernels::Executor& TorchExecutor() {
  static Torch executor;
  return executor;
}

}  // namespace palmist::ops
