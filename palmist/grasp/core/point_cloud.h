/// Clouds of points, their nearest points, voxels and planes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "palmist/grasp/core/pose.h"

namespace palmist::grasp {

struct PointCloud {
  std::vector<Vector3d> points;                     ///< metres
  std::vector<std::array<std::uint8_t, 3>> colors;  ///< as many as points, or none

  std::size_t size() const { return points.size(); }
};

/// Returns the mean of the points (and colours) of each voxel with edges of `voxel_m`. Voxels begin
/// at the cloud's minimum less half a voxel, as Open3D's `voxel_down_sample` has them; the order is
/// that of each voxel's first point. Points that are not finite are left out. @pre voxel_m > 0
PointCloud VoxelDownsample(const PointCloud& cloud, double voxel_m);

/// Finds the points nearest to a place. Built once, used from any thread.
class KdTree {
 public:
  /// Keeps the span: the points must outlive it. @pre all are finite
  explicit KdTree(std::span<const Vector3d> points);
  ~KdTree();
  KdTree(KdTree&&) noexcept;
  KdTree& operator=(KdTree&&) noexcept;

  struct Neighbor {
    std::size_t index;
    double distance_m;
  };
  /// Returns the nearest point, the one of lower index where two are as near; none of no points.
  std::optional<Neighbor> Nearest(const Vector3d& place) const;
  /// Returns the indices of the points nearer than `radius_m`, in no order.
  void WithinRadius(const Vector3d& place, double radius_m, std::vector<std::size_t>& found) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Points x with normal · x = offset_m; the normal has length 1.
struct Plane {
  Vector3d normal = Vector3d::UnitZ();
  double offset_m = 0;

  double SignedDistance(const Vector3d& x) const { return normal.dot(x) - offset_m; }
};

struct PlaneOptions {
  double inlier_m = 0.01;  ///< a point this near belongs to the plane
  double min_share = 0.1;  ///< of all points; with fewer there is no plane
  int rounds = 500;        ///< of RANSAC at most; fewer where a plane has most points
  std::uint64_t seed = 0;
  int max_points = 20000;  ///< fitted on this many at most, taken evenly
};

/// Returns the plane with the most points, such as a table's, its normal turned towards the origin,
/// where the camera is; none where no plane has enough. Points that are not finite do not count.
std::optional<Plane> FitPlane(std::span<const Vector3d> points, const PlaneOptions& options = {});

}  // namespace palmist::grasp
