/// Rotations and rigid transforms.
///
/// Names carry frames: X_WC maps points of frame C to frame W, R_WC is its rotation and p_WC the
/// origin of C in W. Frames: C the camera (OpenCV: x right, y down, z ahead), G the gripper
/// (grasp.h), O an object's model, T the table (z up), B the robot's base.
#pragma once

#include <Eigen/Geometry>
#include <string_view>

#include "palmist/base/result.h"

namespace palmist::grasp {

using Eigen::Isometry3d;
using Eigen::Matrix3d;
using Eigen::Matrix4d;
using Eigen::Vector3d;

/// How far the entries of R Rᵀ may be from the identity's in what is read as a rotation.
inline constexpr double kRotationTolerance = 1e-3;

/// Poses that are farther away are taken for mistakes: millimetres, most often.
inline constexpr double kMaxReach_m = 10;

/// Returns an input error that names `what` unless R is finite, orthonormal to `tolerance`, and
/// right-handed.
Result<void> CheckRotation(const Matrix3d& R,
                           std::string_view what,
                           double tolerance = kRotationTolerance);

/// Returns the rotation nearest to R in the Frobenius norm. @pre R is finite and not singular
Matrix3d NearestRotation(const Matrix3d& R);

/// Returns the transform that a 4x4 matrix holds, or an input error that names `what`: where its
/// last row is not 0 0 0 1, or its rotation is none.
Result<Isometry3d> PoseFromMatrix(const Matrix4d& matrix, std::string_view what);

/// Returns the angle of the rotation Aᵀ B, in [0, π].
double RotationAngle(const Matrix3d& A, const Matrix3d& B);

}  // namespace palmist::grasp
