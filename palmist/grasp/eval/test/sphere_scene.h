/// A ball before the camera, for tests.
#pragma once

#include <cmath>
#include <vector>

#include "palmist/grasp/contact/test/shapes.h"
#include "palmist/grasp/eval/evaluate.h"

namespace palmist::grasp {

inline constexpr double kBallRadius_m = 0.025;

/// Returns points spread evenly over a ball of 25 mm: a Fibonacci sphere.
inline std::vector<Vector3d> BallPoints(int n) {
  std::vector<Vector3d> points;
  for (int i = 0; i < n; ++i) {
    const double z = (2 * i + 1.0) / n - 1, longitude = 2 * M_PI * i * 0.6180339887498949;
    const double radius = std::sqrt(1 - z * z);
    points.emplace_back(kBallRadius_m *
                        Vector3d(radius * std::cos(longitude), radius * std::sin(longitude), z));
  }
  return points;
}

inline ObjectModel BallModel(int id) { return {id, BallPoints(400), SphereGrid(kBallRadius_m)}; }

/// Returns the pose of an object that is shifted.
inline Eigen::Matrix4f ShiftedBy(const Vector3d& p_CO) {
  Eigen::Matrix4f X_CO = Eigen::Matrix4f::Identity();
  X_CO.topRightCorner<3, 1>() = p_CO.cast<float>();
  return X_CO;
}

/// Returns a grasp of a ball at `p_CO`, coming along z, fingers along the camera's y, 8 cm open:
/// past the centre along x by `offset_m`.
inline Grasp BallGrasp(const Vector3d& p_CO, double score, double offset_m = 0) {
  Grasp grasp;
  grasp.score = score;
  grasp.width_m = 0.08;
  grasp.depth_m = 0.02;
  grasp.R_CG.col(0) = Vector3d::UnitZ();
  grasp.R_CG.col(1) = Vector3d::UnitY();
  grasp.R_CG.col(2) = -Vector3d::UnitX();
  grasp.p_CG = p_CO + Vector3d(offset_m, 0, -grasp.depth_m);
  return grasp;
}

}  // namespace palmist::grasp
