/// Distances and gradients between the nodes of a signed-distance grid.
#pragma once

#include <string>

#include "palmist/base/result.h"
#include "palmist/grasp/core/pose.h"
#include "palmist/grasp/core/signed_distance_grid.h"

namespace palmist::grasp {

/// Returns the point with each coordinate rounded to float32.
///
/// GraspNet's evaluation stores points in single precision on the way to the grid and back; on flat
/// faces that decides whether it finds a contact.
Vector3d RoundToFloat(const Vector3d& point);

/// Returns an input error that names `what` unless the grid has a value for each node, and a
/// resolution between 10 µm and 1 m.
Result<void> CheckGrid(const SignedDistanceGrid& grid, const std::string& what);

/// Looks a grid up at any place. Places are in cells: node (i, j, k) is at (i, j, k).
class DistanceLookup {
 public:
  /// Keeps the reference: the grid must outlive it.
  /// @throws Error kInput where CheckGrid has one.
  explicit DistanceLookup(const SignedDistanceGrid& grid);

  double resolution_m() const { return grid_->resolution_m; }

  /// A distance below which a place counts as on the surface: half a cell's face diagonal.
  double surface_threshold_m() const { return surface_threshold_m_; }

  /// Returns the cells of a point of the model's frame, and back.
  Vector3d ToCells(const Vector3d& p_O) const { return p_O * cells_per_m_ + offset_cells_; }
  Vector3d ToModel(const Vector3d& cells) const {
    return cells * grid_->resolution_m + grid_->origin_m;
  }

  /// Returns the distance in metres, linear between the nodes.
  ///
  /// A place off the grid has the value of the nearest place on it; from one cell behind the last
  /// node, and from before the first one, plus the distance that lies between.
  double Distance(const Vector3d& cells) const;

  /// Returns the gradient, in metres per metre: central differences at the nodes, one-sided ones at
  /// the border, linear between them. It points out of the object.
  Vector3d Gradient(const Vector3d& cells) const;

 private:
  /// The nodes around a place, and how far it is from the lower to the upper ones.
  struct Corners;
  Corners CornersOf(const Vector3d& cells) const;
  Vector3d NodeGradient(int x, int y, int z) const;

  const SignedDistanceGrid* grid_;
  double cells_per_m_;
  Vector3d offset_cells_;
  Vector3d last_node_;
  double surface_threshold_m_;
};

}  // namespace palmist::grasp
