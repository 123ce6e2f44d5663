/// What the search for width and distance tests: widths, distances and the boxes of the gripper, in
/// cells. Shared by fas.h and its plain reference dense.h, so that both mean the same.
#pragma once

#include <optional>
#include <vector>

#include "palmist/grasp/core/gripper.h"
#include "palmist/grasp/core/point_cloud.h"
#include "palmist/grasp/core/pose.h"

namespace palmist::grasp {

/// An orientation at a point that may become a grasp. At distance 0 the finger tips end
/// FasOptions::depth_m past the point, along the approach.
struct Candidate {
  Matrix3d R_CG = Matrix3d::Identity();  ///< columns: approach, opening, height
  Vector3d p_CG = Vector3d::Zero();
  double score = 0;  ///< higher is better
};

/// Options of the search. Widths are tested from `min_width_m` in steps to `max_width_m`, those
/// that the gripper can open to; distances from `min_distance_m` to `max_distance_m`, along the
/// approach. Defaults are those of H. Fang et al., RGB Matters, ICRA 2021.
struct FasOptions {
  double min_width_m = 0.01, max_width_m = 0.10, width_step_m = 0.01;
  double min_distance_m = -0.02, max_distance_m = 0.02, distance_step_m = 0.01;
  double depth_m = 0.04;  ///< of the finger tips past the grasp point, along the approach
  /// Edge of the cells in which points are counted; also of the voxels of the scene.
  double cell_m = 0.005;
  /// So many points in fingers, palm and sweep together are a collision; at least 1.
  int collision_points = 2;
  /// Fewer points between the fingers are no object; at least 1.
  int min_inner_points = 10;
  /// Also needed between the fingers: points as a share of the voxels of that space.
  double min_inner_share = 0;
  /// Whether the grasp is moved along the opening to the middle of the points between the fingers.
  bool is_centered = true;
  /// The score falls by so much for a metre of width, and rises by so much for one of distance.
  double width_cost_per_m = 0, distance_gain_per_m = 0;
  /// Where the objects stand, in the camera's frame, its normal on their side. Gripper and sweep
  /// stay this far above.
  std::optional<Plane> table = std::nullopt;
  double table_clearance_m = 0.005;
};

/// Half-open ranges of cells, [from, to), that the parts of a gripper fill.
struct GripperCells {
  int back, base, tips;                              ///< along x
  int outer_low, inner_low, inner_high, outer_high;  ///< along y
};

/// A width and distance to test.
struct Setting {
  double width_m, distance_m;
  GripperCells cells;
  int min_inner_points;
};

/// All settings, the preferred one first, and the grid that holds them.
///
/// A point x of the scene lies at g = R_CGᵀ (x - p_CG) and matters where |g_z| < height/2. Its
/// place in the grid is g_x / cell + origin_x, g_y / cell + origin_y in float (`GripperFrame`), its
/// cell the floor of both. With Δ the distance, d the depth and w the width, the boxes are
///   fingers: x in [Δ + d - finger_length, Δ + d), w/2 <= |y| < w/2 + thickness,
///   inner:   x as the fingers, |y| < w/2,
///   back:    x in [Δ + d - finger_length - palm_depth - sweep, Δ + d - finger_length),
///            |y| < w/2 + thickness.
/// Limits that are no whole number of cells are moved so that fingers and back grow: tips and the
/// outer sides outwards, the back's end and the inner sides (the inner box shrinks) likewise; the
/// back begins in the cell where the fingers do. A limit nearer than 1e-6 cells to a border is that
/// border.
struct SearchSpace {
  int cells_x = 0, cells_y = 0;  ///< of the grid; all boxes lie within
  int origin_x = 0, origin_y = 0;
  double cell_m = 0;
  double half_height_m = 0;
  int distances = 0, widths = 0;
  /// Largest distance first, then smallest width: setting i has width i % widths.
  std::vector<Setting> settings;
};

/// Returns the space of a gripper. No settings where it opens to none of the widths.
/// @throws Error (usage) naming the option: for a step, cell or count that is not positive, limits
/// in the wrong order or not finite, or a grid of more than a million cells or 10000 settings
SearchSpace MakeSearchSpace(const Gripper& gripper, const FasOptions& options);

/// Rotates points into the grid of a candidate. Float, each product and sum rounded by itself.
struct GripperFrame {
  GripperFrame(const Candidate& candidate, const SearchSpace& space);

  float p[3];              ///< p_CG
  float x[3], y[3], z[3];  ///< rows of R_CGᵀ; x and y divided by the cell
  float origin_x, origin_y;

  float GridX(float dx, float dy, float dz) const {
    return origin_x + (x[0] * dx + x[1] * dy + x[2] * dz);
  }
  float GridY(float dx, float dy, float dz) const {
    return origin_y + (y[0] * dx + y[1] * dy + y[2] * dz);
  }
  float Height(float dx, float dy, float dz) const { return z[0] * dx + z[1] * dy + z[2] * dz; }
};

}  // namespace palmist::grasp
