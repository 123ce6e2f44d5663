/// Signed distance grids as text: `nx ny nz`, `ox oy oz`, `resolution`, then nx·ny·nz values with x
/// fastest; metres, separated by any white space.
///
/// Source: the files `textured.sdf` of GraspNet-1Billion, as SDFGen writes them.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "palmist/base/result.h"
#include "palmist/base/units.h"
#include "palmist/grasp/core/signed_distance_grid.h"

namespace palmist::grasp {

inline constexpr std::int64_t kMaxSdfFileBytes = 4 * kGiB;

/// Returns the grid, or an input error with the line: where a size is below 2, the resolution is
/// not positive, a number is not finite, or there are not as many values as the header says.
Result<SignedDistanceGrid> ParseSdfText(std::string_view text);
Result<SignedDistanceGrid> ReadSdfText(const std::string& path);

/// Returns the text of the grid; values are rounded to `significant_digits` (9 keep every float32).
/// GraspNet's evaluation depends on the digits on flat faces (its files have 6).
std::string FormatSdfText(const SignedDistanceGrid& grid,
                          int significant_digits = std::numeric_limits<float>::max_digits10);
Result<void> WriteSdfText(const std::string& path,
                          const SignedDistanceGrid& grid,
                          int significant_digits = std::numeric_limits<float>::max_digits10);

}  // namespace palmist::grasp
