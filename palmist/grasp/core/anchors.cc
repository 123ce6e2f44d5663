#include "palmist/grasp/core/anchors.h"

#include <cmath>
#include <numbers>

namespace palmist::grasp {
namespace {

constexpr double kAngleStep_rad = std::numbers::pi / kAngles;

/// Cosines and sines of the angles in the image plane.
struct Turn {
  double cosine, sine;
};

std::array<Turn, kAngles> MakeTurns() {
  std::array<Turn, kAngles> turns;
  for (int k = 0; k < kAngles; ++k)
    turns[k] = {std::cos(k * kAngleStep_rad), std::sin(k * kAngleStep_rad)};
  return turns;
}

std::array<Matrix3d, kAnchors> MakeAnchors() {
  std::array<Matrix3d, kAnchors> anchors;
  const std::vector<Vector3d> views = Views();
  for (int view = 0; view < kViews; ++view) {
    for (int k = 0; k < kAngles; ++k)
      anchors[view * kAngles + k] = RotationFromView(views[view], k * kAngleStep_rad);
  }
  return anchors;
}

}  // namespace

Vector3d SphereDirection(int i, int count) {
  const double golden = (std::sqrt(5.0) - 1) / 2;
  const double z = (2.0 * i + 1) / count - 1;
  const double radius = std::sqrt(1 - z * z);
  const double longitude_rad = 2 * std::numbers::pi * i * golden;
  return {radius * std::cos(longitude_rad), radius * std::sin(longitude_rad), z};
}

std::vector<Vector3d> Views(int views) {
  std::vector<Vector3d> directions;
  directions.reserve(views);
  for (int i = 0; i < views; ++i) directions.push_back(SphereDirection(i, 2 * views));
  return directions;
}

Matrix3d RotationFromView(const Vector3d& view, double angle_rad) {
  const Vector3d x = -view.normalized();
  Vector3d y(-x[1], x[0], 0);
  if (y.squaredNorm() == 0) y = Vector3d::UnitY();  // along the optical axis any y will do
  y.normalize();
  Matrix3d R;
  R << x, y, x.cross(y);
  return R * Eigen::AngleAxisd(angle_rad, Vector3d::UnitX());
}

const std::array<Matrix3d, kAnchors>& AnchorRotations() {
  static const std::array<Matrix3d, kAnchors> anchors = MakeAnchors();
  return anchors;
}

int NearestAnchor(const Matrix3d& R, bool is_symmetric) {
  // The smallest angle is the largest trace(RaᵀR). With Ra = [x y z] Rx(θ) it is
  // x·r₀ + p cos θ + q sin θ, p = y·r₁ + z·r₂, q = z·r₁ - y·r₂; turning R by 180 degrees about its
  // approach turns the signs of p and q.
  static const std::array<Turn, kAngles> turns = MakeTurns();
  const std::array<Matrix3d, kAnchors>& anchors = AnchorRotations();
  constexpr double kLargestTurn = 2.01;  // p cos θ + q sin θ ≤ 2, with room for rounding
  int best = 0;
  double best_trace = -10;
  for (int view = 0; view < kViews; ++view) {
    const Matrix3d& Ra = anchors[view * kAngles];
    const double along = Ra.col(0).dot(R.col(0));
    if (along + kLargestTurn <= best_trace) continue;
    const double p = Ra.col(1).dot(R.col(1)) + Ra.col(2).dot(R.col(2));
    const double q = Ra.col(2).dot(R.col(1)) - Ra.col(1).dot(R.col(2));
    for (int k = 0; k < kAngles; ++k) {
      const double turn = p * turns[k].cosine + q * turns[k].sine;
      const double trace = along + (is_symmetric ? std::abs(turn) : turn);
      if (trace > best_trace) {
        best_trace = trace;
        best = view * kAngles + k;
      }
    }
  }
  return best;
}

}  // namespace palmist::grasp
