/// The random bits of dropout, as a function of a seed and an element's index alone.
///
/// Element i belongs to block b = i / 64; within it, with j = i % 64, the element takes 32-bit word
/// j / 16 of Philox4x32-10 at counter (low and high half of 16 b + j % 16, 0, 0) under the key (low
/// and high half of the seed). So 16 counters make the bits of 64 consecutive elements, each word a
/// run of 16, whatever the vector width, tiling or thread count.
///
/// An element is kept where its word is at least round(p 2^32), and then scaled by 1 / (1 - p).
/// p = 0 keeps all; p = 1 drops all.
#pragma once

#include <cstdint>

namespace palmist::kernels {

/// Which elements a dropout drops. The same value gives the same mask, forward and backward.
struct DropoutSpec {
  double p = 0;            ///< probability of an element to be dropped, in [0, 1]
  std::uint64_t seed = 0;  ///< drawn anew for each call of the operator
};

/// Returns the 32 bits of element `index` (the definition above; scalar, for tests and tails).
std::uint32_t DropoutBits(std::uint64_t seed, std::uint64_t index);

/// Returns whether element `index` is kept.
bool IsKept(const DropoutSpec& spec, std::uint64_t index);

/// Returns the index stride of a row of n elements where rows begin on a block of their own, as
/// those of attention scores do.
constexpr std::int64_t PaddedRow(std::int64_t n) { return (n + 63) / 64 * 64; }

}  // namespace palmist::kernels
