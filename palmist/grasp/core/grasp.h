/// Grasps of a parallel gripper, and their files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "palmist/base/npy.h"
#include "palmist/base/result.h"
#include "palmist/grasp/core/pose.h"

namespace palmist::grasp {

/// A grasp with seven degrees of freedom, in the camera's frame.
///
/// The gripper's frame G: x points along the approach, y along the opening, z completes it. Its
/// origin is the grasp point; the finger tips end at x = depth_m, the palm's face at
/// x = -2 cm for GraspNet's gripper. The layout is graspnetAPI's `Grasp`.
struct Grasp {
  double score = 0;  ///< higher is better
  double width_m = 0;
  double height_m = 0.02;
  double depth_m = 0;
  Matrix3d R_CG = Matrix3d::Identity();  ///< columns: approach, opening, height
  Vector3d p_CG = Vector3d::Zero();
  std::int64_t object_id = -1;

  Vector3d approach() const { return R_CG.col(0); }
  Vector3d opening() const { return R_CG.col(1); }
};

/// Returns the grasp in the frame A, given the pose of its frame C in A.
Grasp Transformed(const Isometry3d& X_AC, const Grasp& grasp);

using GraspGroup = std::vector<Grasp>;

/// Columns of a grasp group's file: score, width, height, depth, R (9, row-major), t (3), object
/// id.
inline constexpr int kGraspColumns = 17;

/// Returns the grasps of an (N, 17) array of float64 or float32, or an input error that names the
/// row and column: for another shape, a number that is not finite, a rotation that is none, or an
/// object id that is not whole.
/// An array (0, 17), and (0,), is an empty group.
Result<GraspGroup> GraspGroupFromArray(const NpyArray& array);

/// Returns the (N, 17) float64 array of `grasps`.
NpyArray ToArray(std::span<const Grasp> grasps);

/// Reads or writes a grasp group as .npy; errors name the path.
Result<GraspGroup> ReadGraspGroup(const std::string& path);
Result<void> WriteGraspGroup(const std::string& path, std::span<const Grasp> grasps);

/// A grasp as a rectangle in the image; all but score and id in pixels.
struct RectGrasp {
  double center_x = 0, center_y = 0;
  double open_x = 0, open_y = 0;  ///< a point on the side of one finger: centre + half the opening
  double height = 0;
  double score = 0;
  std::int64_t object_id = -1;
};

/// Columns: centre x, y, open point x, y, height, score, object id.
inline constexpr int kRectGraspColumns = 7;
Result<std::vector<RectGrasp>> RectGraspsFromArray(const NpyArray& array);
NpyArray ToArray(std::span<const RectGrasp> grasps);

}  // namespace palmist::grasp
