/// Loops of kernels on torch's own threads.
#pragma once

#include "palmist/kernels/executor.h"

namespace palmist::ops {

/// Returns the executor that runs loops by at::parallel_for, on as many threads as torch uses.
kernels::Executor& TorchExecutor();

}  // namespace palmist::ops
