/// A pinhole camera, its depth images, and the points that they show.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "palmist/base/result.h"
#include "palmist/grasp/core/point_cloud.h"
#include "palmist/grasp/core/pose.h"

namespace palmist::grasp {

/// Pixel (u, v) of a point (x, y, z): u = fx x/z + cx, v = fy y/z + cy; centres of pixels are at
/// whole numbers.
struct Intrinsics {
  double fx = 0, fy = 0, cx = 0, cy = 0;
  int width = 0, height = 0;  ///< of the image, in pixels
};

/// Returns an input error that names the field: not finite, a focal length that is not positive, a
/// principal point outside of the image, sizes that are not those of the image.
Result<void> CheckIntrinsics(const Intrinsics& camera, int image_width, int image_height);

/// Returns the intrinsics of a preset ("realsense", "kinect": GraspNet-1Billion's) or of a file:
/// JSON or YAML with fx, fy, cx, cy and, where known, width and height; a 3x3 matrix as text, .npy
/// or under `intrinsic_matrix` is taken, too. A preset is scaled to the image's size, and refused
/// for an image of another shape than its 16:9.
Result<Intrinsics> LoadIntrinsics(const std::string& name_or_path,
                                  int image_width,
                                  int image_height);

/// Returns the intrinsics that the bytes of such a file hold. Open3D's matrix by columns is known
/// by its last row.
Result<Intrinsics> ParseIntrinsics(std::string_view bytes, int image_width, int image_height);

/// Depth in metres, row by row; 0 where there is none. Never NaN or negative.
struct DepthImage {
  int width = 0, height = 0;
  std::vector<float> z_m;

  float at(int u, int v) const { return z_m[static_cast<std::size_t>(v) * width + u]; }
};

/// Colour, row by row, three bytes a pixel: red, green, blue.
struct ColorImage {
  int width = 0, height = 0;
  std::vector<std::uint8_t> rgb;
};

/// Returns depth in metres from values of a file: value / units_per_m. NaN, Inf and negative values
/// become 0. An input error that names --depth-scale unless the median of what is left lies between
/// 0.1 and 5 m, or where no pixel has depth.
Result<DepthImage> DepthFromValues(int width,
                                   int height,
                                   const std::vector<float>& values,
                                   double units_per_m);

/// Returns a point for each pixel with depth, in the order of the rows; colours where given.
/// @pre the colour image has the size of the depth image or is null
PointCloud CloudFromDepth(const DepthImage& depth,
                          const Intrinsics& camera,
                          const ColorImage* color = nullptr);

/// Returns the camera that sees point k at the k-th pixel with depth, in the order of the rows: by
/// least squares of u over x/z and v over y/z. None where there is no such camera: fewer than 100
/// points, more or fewer than pixels with depth, or a mean distance above half a pixel.
std::optional<Intrinsics> FitIntrinsics(const DepthImage& depth, std::span<const Vector3d> points);

/// Returns the median depth of the pixels within `radius` columns and rows of (u, v) that have one,
/// of two middle ones the nearer; 0 where none has. (u, v) may lie outside of the image.
float MedianDepth(const DepthImage& depth, int u, int v, int radius);

/// Returns the pose of the camera in the robot's base, or the flange, from a file: a 4x4 matrix as
/// text, JSON or .npy, or JSON/YAML with `translation_m` and `quaternion_wxyz`. An input error also
/// for a translation above 10 m: it is in millimetres.
Result<Isometry3d> LoadHandEye(const std::string& path);

/// Returns the pose that the bytes of such a file hold.
Result<Isometry3d> ParseHandEye(std::string_view bytes);

}  // namespace palmist::grasp
