/// "Did you mean …?"
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace palmist {

/// Returns up to `k` of `candidates` that `query` may have meant, nearest first by edit distance
/// without regard to case; those too far away to be a slip are left out. Ties keep their order.
std::vector<std::string> NearestNames(std::string_view query,
                                      std::span<const std::string> candidates,
                                      std::size_t k = 3);

/// Returns a hint such as "did you mean a, b or c?", or "" where nothing is near.
std::string DidYouMean(std::string_view query, std::span<const std::string> candidates);

}  // namespace palmist
