/// The mask of dropout as a tensor, by torch's operators: for devices without a kernel of ours, and
/// for gradients of gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "palmist/kernels/philox.h"

namespace palmist::ops {

/// Returns a new seed, [1] of int64 on the device of `like`, by the operator palmist::dropout_seed.
/// It is drawn from torch's CPU generator, so that torch.manual_seed and the state that
/// checkpointing restores govern it on every device. It is the only operator that draws: all that
/// take a seed are functions, which a compiler may move and repeat.
at::Tensor DrawSeed(const at::Tensor& like);

/// Returns what kernels take; a seed may be left out where p is 0.
kernels::DropoutSpec ToSpec(const std::optional<at::Tensor>& seed, double p);

/// Returns which elements of `rows` rows are kept, [rows, columns] of bool on `device`; rows begin
/// on blocks of 64 of their own (see palmist/kernels/philox.h). Bitwise what kernels use.
at::Tensor DropoutMask(
    const at::Tensor& seed, double p, int64_t rows, int64_t columns, at::Device device);

}  // namespace palmist::ops
