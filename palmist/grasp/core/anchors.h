/// The orientations that AVN tells apart: 60 views times 6 angles in the image plane.
#pragma once

#include <array>
#include <vector>

#include "palmist/grasp/core/pose.h"

namespace palmist::grasp {

inline constexpr int kViews = 60;
inline constexpr int kAngles = 6;
inline constexpr int kAnchors = kViews * kAngles;

/// Returns direction i of a Fibonacci sphere of `count`, from z < 0 up: z = (2i + 1)/count - 1,
/// longitude 2πiφ, φ = (√5 - 1)/2.
/// Source: H. Fang et al., GraspNet-1Billion, CVPR 2020; the formula is that of the RGBD-Grasp
/// release.
Vector3d SphereDirection(int i, int count);

/// Returns those of 2·views that have z < 0, in the camera's frame: where a gripper may come from.
/// View 0 lies next to the optical axis.
std::vector<Vector3d> Views(int views = kViews);

/// Returns the rotation of a gripper that approaches along -view and is turned by `angle_rad` about
/// its approach: R = [x y z] Rx(angle), x = -view, y = (-x₁, x₀, 0)/‖·‖, z = x × y.
Matrix3d RotationFromView(const Vector3d& view, double angle_rad);

/// Returns the rotations of all anchors, number view * kAngles + angle, angles of 30 degrees.
const std::array<Matrix3d, kAnchors>& AnchorRotations();

/// Returns the anchor nearest to R by rotation angle. Where `is_symmetric`, R turned by 180 degrees
/// about its approach counts too: a parallel gripper's fingers are alike.
int NearestAnchor(const Matrix3d& R, bool is_symmetric);

}  // namespace palmist::grasp
