/// Point clouds in PCL's .pcd format, version 0.7: ascii, binary and binary_compressed.
///
/// Source: "The PCD (Point Cloud Data) file format", documentation of the Point Cloud Library.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "palmist/base/result.h"
#include "palmist/grasp/core/camera.h"
#include "palmist/grasp/core/point_cloud.h"

namespace palmist::grasp {

struct PcdCloud {
  PointCloud cloud;           ///< without the points that are not finite
  int width = 0, height = 0;  ///< as the header has them; height 1 where the cloud is not organised
  /// The z of each point of an organised cloud, row by row, 0 for a point left out or z <= 0; empty
  /// where height is 1.
  DepthImage depth;
};

/// Returns the cloud that `bytes` hold: x, y, z of any numeric type, colours from `rgb` or `rgba`
/// (packed as 0xAARRGGBB in a float or an integer) where there are some, other fields skipped.
/// An input error for a header that does not fit the data, or more than 100 million points.
Result<PcdCloud> ParsePcd(std::string_view bytes);
Result<PcdCloud> ReadPcd(const std::string& path);

/// Writes a binary .pcd of float32, with colours where the cloud has them.
Result<void> WritePcd(const std::string& path, const PointCloud& cloud);

}  // namespace palmist::grasp
