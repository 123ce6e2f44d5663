/// zlib's inflate with a bound, and its deflate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "palmist/base/result.h"

namespace palmist::grasp {

/// Deflate cannot save more than 1032 : 1, so that damaged sizes can be told before allocation.
inline constexpr std::uint64_t kMaxDeflateRatio = 1032;

enum class Wrapping { kNone, kZlib };

/// Returns what `packed` inflates to, or an input error where it is damaged, cut off, or more than
/// `max_bytes`. Allocates no more than the lesser of `max_bytes` and what `packed` can hold.
Result<std::string> Inflate(std::string_view packed, Wrapping wrapping, std::uint64_t max_bytes);

/// Returns the first `max_bytes` of what `packed` inflates to, or fewer where it holds fewer or is
/// damaged after them.
std::string InflateStart(std::string_view packed, Wrapping wrapping, std::uint64_t max_bytes);

/// zlib counts in 32 bits, so that larger data goes through it in steps.
inline constexpr std::size_t kZlibStepBytes = 1U << 30;

/// Returns `plain` deflated, without wrapping; the same bytes whatever the step.
/// @pre step_bytes is above 0 and fits into 32 bits
std::string Deflate(std::string_view plain, std::size_t step_bytes = kZlibStepBytes);

}  // namespace palmist::grasp
