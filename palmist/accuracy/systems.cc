#include "palmist/accuracy/systems.h"

namespace palmist::accuracy {
namespace {

using enum model::Variant;

// Sources: the notes of the rows, and the systems' documented defaults: Megatron-LM keeps fp32 main
// gradients (18 bytes a parameter, as measured on Aceso's stages) and dropout 0.1; DeepSpeed
// accumulates in the training dtype; FSDP holds fp32 shards as its only weights (16 bytes);
// MosaicML's recipes take flash attention, low-precision norms and the fused cross-entropy.
constexpr SystemTraits kSystems[] = {
    {.prefix = ""},
    {.prefix = "Mist",
     .linear_bias = false,
     .tied = false,
     .grad_clip = 0,
     .memory = MemoryKind::kAllocated},
    {.prefix = "Aceso",
     .unfused_attention = true,
     .dropout = 0.1,
     .fp32_grads = true,
     .memory = MemoryKind::kAllocated},
    {.prefix = "Megatron-LM", .unfused_attention = true, .dropout = 0.1, .fp32_grads = true},
    {.prefix = "Megatron-LM baseline",
     .unfused_attention = true,
     .dropout = 0.1,
     .fp32_grads = true,
     .memory = MemoryKind::kAllocated},
    {.prefix = "Megatron-DeepSpeed", .unfused_attention = true, .dropout = 0.1},
    {.prefix = "Megatron-DeepSpeed (BigScience)",
     .unfused_attention = true,
     .dropout = 0.1,
     .memory = MemoryKind::kNvidiaSmi},
    {.prefix = "Megatron-DeepSpeed (Sailor",
     .unfused_attention = true,
     .dropout = 0.1,
     .tied = false,
     .memory = MemoryKind::kNvidiaSmi},
    {.prefix = "Megatron-Core", .fp32_grads = true},
    {.prefix = "Megatron-Bridge", .fp32_grads = true},
    {.prefix = "NeMo", .fp32_grads = true},
    {.prefix = "torchtitan", .variant = kSdpa, .fp32_grads = true, .state_bytes = 10},
    {.prefix = "MosaicML"},
    {.prefix = "DeepSpeed"},
    {.prefix = "nanotron", .variant = kSdpa, .fp32_grads = true},
    {.prefix = "ColossalAI", .variant = kSdpa},
    {.prefix = "DeepLearningExamples",
     .variant = kEager,
     .unfused_attention = true,
     .dropout = 0.1,
     .fp32_grads = true,
     .state_bytes = 10},
};

}  // namespace

const SystemTraits& TraitsOf(std::string_view system) {
  const SystemTraits* best = &kSystems[0];
  for (const SystemTraits& traits : kSystems) {
    if (system.starts_with(traits.prefix) && traits.prefix.size() > best->prefix.size()) {
      best = &traits;
    }
  }
  return *best;
}

model::OpVariants VariantsOf(const SystemTraits& traits, std::string_view flash_attn) {
  model::OpVariants ops = model::UniformVariants(traits.variant);
  const bool unfused = flash_attn.empty() ? traits.unfused_attention : flash_attn == "0";
  if (unfused) ops.attention = traits.variant == kFused ? kFusedSoftmax : kEager;
  return ops;
}

}  // namespace palmist::accuracy
