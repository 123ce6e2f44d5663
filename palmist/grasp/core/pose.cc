#include "palmist/grasp/core/pose.h"

#include <fmt/format.h>

#include <Eigen/SVD>
#include <cmath>
#include <string>

namespace palmist::grasp {
namespace {

constexpr double kLastRowTolerance = 1e-6;

}  // namespace

Result<void> CheckRotation(const Matrix3d& R, std::string_view what, double tolerance) {
  if (!R.allFinite()) {
    return InputError(std::string(what),
                      "expected a rotation, got numbers that are not finite",
                      "leave out or mend this rotation");
  }
  const Matrix3d deviation = (R * R.transpose() - Matrix3d::Identity()).cwiseAbs();
  if (!(deviation.array() <= tolerance).all()) {  // no largest entry: overflow makes it NaN
    return InputError(
        std::string(what),
        fmt::format("expected a rotation, got a matrix whose rows are not orthonormal: R Rᵀ is "
                    "{:.3g} away from the identity, {:.3g} is allowed",
                    deviation.maxCoeff(),
                    tolerance),
        "write it with more digits, and without a scale");
  }
  if (R.determinant() < 0) {
    return InputError(std::string(what),
                      "expected a rotation, got a reflection: its determinant is -1",
                      "turn the sign of one axis");
  }
  return {};
}

Matrix3d NearestRotation(const Matrix3d& R) {
  // B. Horn, H. Hilden, S. Negahdaripour, "Closed-form solution of absolute orientation using
  // orthonormal matrices", 1988: U diag(1, 1, det(U Vᵀ)) Vᵀ.
  const Eigen::JacobiSVD<Matrix3d> svd(R, Eigen::ComputeFullU | Eigen::ComputeFullV);
  Matrix3d U = svd.matrixU();
  if ((U * svd.matrixV().transpose()).determinant() < 0) U.col(2) = -U.col(2);
  return U * svd.matrixV().transpose();
}

Result<Isometry3d> PoseFromMatrix(const Matrix4d& matrix, std::string_view what) {
  const Eigen::RowVector4d last = matrix.row(3);
  if (!((last - Eigen::RowVector4d::UnitW()).array().abs() <= kLastRowTolerance).all()) {
    return InputError(std::string(what),
                      fmt::format("expected a pose whose last row is 0 0 0 1, got {} {} {} {}",
                                  last[0],
                                  last[1],
                                  last[2],
                                  last[3]),
                      "write the translation in the last column");
  }
  if (!matrix.topRightCorner<3, 1>().allFinite()) {
    return InputError(std::string(what), "expected a translation of finite numbers");
  }
  PALMIST_RETURN_IF_ERROR(CheckRotation(matrix.topLeftCorner<3, 3>(), what));
  Isometry3d pose = Isometry3d::Identity();
  pose.linear() = matrix.topLeftCorner<3, 3>();
  pose.translation() = matrix.topRightCorner<3, 1>();
  return pose;
}

double RotationAngle(const Matrix3d& A, const Matrix3d& B) {
  // Twice sine and cosine: the arc cosine alone loses half of the digits near 0 and π.
  const Matrix3d R = A.transpose() * B;
  const Vector3d axis(R(2, 1) - R(1, 2), R(0, 2) - R(2, 0), R(1, 0) - R(0, 1));
  return std::atan2(axis.norm(), R.trace() - 1);
}

}  // namespace palmist::grasp
