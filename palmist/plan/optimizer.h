/// Optimizers by name, with the states that they keep.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "palmist/base/result.h"
#include "palmist/plan/plan.h"

namespace palmist::plan {

/// Returns the optimizer called `name` for weights of `dtype` (bf16, fp16 or fp32): beside half
/// precision weights each keeps a copy in fp32, 4 bytes a parameter.
///
/// - adamw: two moments in fp32, 8 bytes (Loshchilov and Hutter, 2019)
/// - adamw-bf16: two moments in bf16, 4 bytes
/// - adamw-8bit: two moments of one byte, and their scales in fp32 for each 256 values (Dettmers et
///   al., 2022, with the block size of bitsandbytes)
/// - sgd: one momentum in fp32, 4 bytes
/// An unknown name lists the known ones.
Result<Optimizer> NamedOptimizer(std::string_view name, std::string_view dtype);

/// Returns the names that `NamedOptimizer` knows.
std::vector<std::string> OptimizerNames();

}  // namespace palmist::plan
