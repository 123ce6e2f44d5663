/// zlib's inflate with a bound.
#pragma once

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

}  // namespace palmist::grasp
