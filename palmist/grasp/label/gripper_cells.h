/// Which openings of the evaluation's gripper (core/gripper.h) are free of the points of a cloud.
///
/// Points near a place are turned once for each view; an angle then marks, for each centimetre
/// along the approach, the occupied cells across as bits of one word, so that an opening is tested
/// by one operation.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "palmist/grasp/core/gripper.h"
#include "palmist/grasp/label/label.h"

namespace palmist::grasp {

/// Cells of the gripper's plane: rows along x, of which the first is the palm and the next two are
/// the fingers behind the grasp point, and 64 columns along y, each a bit. Opening by one step
/// moves each finger by one column.
inline constexpr int kRowsBehind = 3;

/// One row more than there are: for what rounding takes beyond the last one.
using GripperRows = std::array<std::uint64_t, kRowsBehind + kMaxDepths + 1>;

/// Returns the columns of both fingers, at an opening of `width_steps`.
std::uint64_t FingerColumns(int width_steps);

/// Returns the columns of the palm, which ends where the fingers do.
std::uint64_t PalmColumns(int width_steps);

/// The points around one place after another. Not for several threads at once.
class GripperCells {
 public:
  /// Keeps float copies of the points, which are in any frame O.
  GripperCells(std::span<const Vector3d> cloud_O, int depths, double max_width_m);

  /// Keeps, relative to `p_O`, what any gripper there can meet.
  void MoveTo(const Vector3d& p_O);
  /// Turns what was kept into the view's frame V, and keeps what is within the gripper's rows.
  void Face(const Matrix3d& R_OV);
  /// Returns the cells of the gripper's plane with a point, the gripper turned about its approach.
  GripperRows Fill(double angle_rad) const;

 private:
  /// Coordinates in float, each in an array of its own.
  struct Points {
    std::vector<float> x, y, z;

    std::size_t size() const { return x.size(); }
    void Clear();
    void Add(float px, float py, float pz);
  };

  double highest_m_ = 0;  ///< of the gripper along its approach
  double reach_m_ = 0;    ///< of the gripper from its approach line
  Points cloud_O_, near_O_;
  std::size_t count_ = 0;
  std::vector<float> y_V_, z_V_;
  std::vector<std::uint8_t> row_;
};

}  // namespace palmist::grasp
