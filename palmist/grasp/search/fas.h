/// FAS: the opening width and the distance along the approach at which a gripper of a given
/// orientation holds something and touches nothing else, found on the points of a depth image.
///
/// Source: the fast analytic search of H. Fang et al., "RGB Matters: Learning 7-DoF Grasp Poses on
/// Monocular RGBD Images", ICRA 2021, section III-D, with counts in a grid in place of tests of
/// each point.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "palmist/base/thread_pool.h"
#include "palmist/grasp/core/grasp.h"
#include "palmist/grasp/search/search_space.h"

namespace palmist::grasp {

/// Points sorted for lookups.
class PointBins {
 public:
  /// No gripper reaches farther, and no depth camera sees so far.
  static constexpr double kFarthest_m = 100;

  /// Copies the points (voxels of FasOptions::cell_m, in the camera's frame) as float; those that
  /// are not finite, or farther than kFarthest_m along an axis, are left out.
  explicit PointBins(std::span<const Vector3d> points);

  std::size_t size() const { return x_.size(); }

  /// Points [begin, end) of a cube of the scene.
  struct Bin {
    std::int32_t begin, end;
    float center[3];
  };
  /// Appends the bins that have points and reach into the sphere of `radius_m` about `place`.
  void BinsNear(const Vector3d& place, double radius_m, std::vector<Bin>& found) const;
  /// From the centre of a bin to its corners.
  float bin_radius_m() const { return bin_radius_m_; }

  std::span<const float> x() const { return x_; }
  std::span<const float> y() const { return y_; }
  std::span<const float> z() const { return z_; }

 private:
  double bin_m_ = 0;
  float bin_radius_m_ = 0;
  Vector3d lower_m_ = Vector3d::Zero();
  std::array<int, 3> dims_ = {0, 0, 0};
  std::vector<std::int32_t> begins_;  ///< of each bin, [x][y][z], and the end
  std::vector<float> x_, y_, z_;
};

/// The points that a gripper may touch or hold, made once a frame. What is hidden can be touched
/// only: it is what may fill the space behind that which the camera sees.
struct FasScene {
  explicit FasScene(std::span<const Vector3d> seen_points,
                    std::span<const Vector3d> hidden_points = {})
      : seen(seen_points), hidden(hidden_points) {}

  PointBins seen, hidden;
};

/// A candidate with the width and distance that fit.
struct FasFit {
  /// p_CG is the candidate's, moved by the distance along the approach and, where centred, along
  /// the opening. Height is the gripper's, depth the options'.
  /// Score = candidate's - width_cost_per_m · width + distance_gain_per_m · distance.
  Grasp grasp;
  double distance_m = 0;
  double shift_m = 0;  ///< along the opening
  int inner_points = 0;
};

/// Returns for each candidate its fit, or none where no width and distance fits.
///
/// A setting fits where its fingers and back (search_space.h) hold fewer than `collision_points`
/// points together, its inner box at least `min_inner_points` seen ones (or the share), and no
/// corner of the gripper and its sweep, by its true measures, is nearer to the table plane than the
/// clearance. Of those that fit, the one with the largest distance is taken, and of these the
/// smallest width. Where `is_centered`, the grid is then moved along the opening to the middle
/// between the outermost seen points of the inner box, and the smallest width that fits at that
/// distance is taken; the grasp stays where it was if none does.
///
/// A candidate with numbers that are not finite has no fit. The result does not depend on the
/// number of threads. Neighbours in `candidates` that share a point are cheaper.
/// O(points in the slab + cells) a candidate, whatever the number of settings.
/// @throws Error as MakeSearchSpace
std::vector<std::optional<FasFit>> SearchWidthAndDistance(const FasScene& scene,
                                                          std::span<const Candidate> candidates,
                                                          const Gripper& gripper,
                                                          const FasOptions& options,
                                                          ThreadPool& pool);

namespace internal {

/// Returns the fit of a candidate at a setting, moved by `shift_m` along the opening.
FasFit MakeFit(const Candidate& candidate,
               const Gripper& gripper,
               const FasOptions& options,
               const Setting& setting,
               double shift_m,
               int inner_points);

}  // namespace internal
}  // namespace palmist::grasp
