/// What is known of the training systems that measured runs name.
#pragma once

#include <string_view>

#include "palmist/accuracy/runs.h"
#include "palmist/model/lower.h"

namespace palmist::accuracy {

/// How a training system implements its operators and what it keeps for a parameter.
struct SystemTraits {
  std::string_view prefix;  ///< of the system's name; empty for one that is not known
  model::Variant variant = model::Variant::kFused;
  /// Whether attention is unfused where the run does not say.
  bool unfused_attention = false;
  double dropout = 0;
  /// Gradients of a half-precision run are summed in fp32.
  bool fp32_grads = false;
  /// Optimizer bytes a parameter in half precision, with the master copy beyond the 2 bytes of the
  /// weights themselves: 12 for a copy and two moments, 10 where the weights are that copy.
  double state_bytes = 12;
  bool linear_bias = true;  ///< of GPT models
  bool tied = true;         ///< of GPT models
  double grad_clip = 1;
  MemoryKind memory = MemoryKind::kReserved;  ///< what its `mem_gb` counts
};

/// Returns the traits of the longest prefix of `system`.
const SystemTraits& TraitsOf(std::string_view system);

/// Returns the operator variants of a system's run. @param flash_attn the cell: "0", "1", "FA3" or
/// nothing.
model::OpVariants VariantsOf(const SystemTraits& traits, std::string_view flash_attn);

}  // namespace palmist::accuracy
