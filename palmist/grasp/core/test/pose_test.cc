#include "palmist/grasp/core/pose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numbers>

#include "palmist/grasp/core/test/random_rotation.h"

namespace palmist::grasp {
namespace {

using testing::HasSubstr;

const double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(CheckRotationTest, TakesRotations) {
  Rng rng(1);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(CheckRotation(RandomRotation(rng), "R").ok());
}

TEST(CheckRotationTest, TakesWhatFloat32AndFourDigitsLeave) {
  Rng rng(2);
  for (int i = 0; i < 100; ++i) {
    const Matrix3d R = RandomRotation(rng);
    EXPECT_TRUE(CheckRotation(R.cast<float>().cast<double>(), "R").ok());
    EXPECT_TRUE(CheckRotation((R * 1e4).array().round().matrix() / 1e4, "R").ok());
  }
}

TEST(CheckRotationTest, RefusesWhatIsNoRotation) {
  const Matrix3d I = Matrix3d::Identity();
  EXPECT_THAT(CheckRotation(1.001 * I, "R").error().what(), HasSubstr("R: expected a rotation"));
  EXPECT_FALSE(CheckRotation(Matrix3d::Zero(), "R").ok());
  EXPECT_FALSE(CheckRotation(1e200 * I, "R").ok());
  EXPECT_TRUE(CheckRotation(1.001 * I, "R", 0.01).ok());
  EXPECT_THAT(CheckRotation(-I, "R").error().what(), HasSubstr("reflection"));
  for (const double bad : {kNan, std::numeric_limits<double>::infinity()}) {
    Matrix3d R = I;
    R(2, 1) = bad;
    EXPECT_THAT(CheckRotation(R, "R").error().what(), HasSubstr("not finite"));
  }
}

TEST(NearestRotationTest, KeepsRotationsAndUndoesScaleAndNoise) {
  Rng rng(3);
  for (int i = 0; i < 100; ++i) {
    const Matrix3d R = RandomRotation(rng);
    EXPECT_LT((NearestRotation(R) - R).norm(), 1e-14);
    EXPECT_LT((NearestRotation(2.5 * R) - R).norm(), 1e-14);
    Matrix3d noise;
    for (double& entry : noise.reshaped()) entry = 1e-2 * (rng.Uniform() - 0.5);
    const Matrix3d nearest = NearestRotation(R + noise);
    EXPECT_TRUE(CheckRotation(nearest, "R", 1e-14).ok());
    EXPECT_LE((nearest - R - noise).norm(), noise.norm());
  }
}

TEST(NearestRotationTest, NoRotationIsNearer) {
  Rng rng(4);
  for (int i = 0; i < 20; ++i) {
    Matrix3d M;
    for (double& entry : M.reshaped()) entry = rng.Uniform() - 0.5;
    const Matrix3d nearest = NearestRotation(M);
    EXPECT_TRUE(CheckRotation(nearest, "R", 1e-13).ok());
    for (int j = 0; j < 1000; ++j)
      EXPECT_GE((RandomRotation(rng) - M).norm(), (nearest - M).norm() - 1e-12);
  }
}

TEST(PoseFromMatrixTest, ReadsRotationAndTranslation) {
  Rng rng(5);
  Matrix4d matrix = Matrix4d::Identity();
  matrix.topLeftCorner<3, 3>() = RandomRotation(rng);
  matrix.topRightCorner<3, 1>() = Vector3d(1, 2, 3);
  EXPECT_EQ(PoseFromMatrix(matrix, "X").value().matrix(), matrix);
}

TEST(PoseFromMatrixTest, RefusesOtherMatrices) {
  const auto error_with = [](int row, int column, double value) {
    Matrix4d matrix = Matrix4d::Identity();
    matrix(row, column) = value;
    const Result<Isometry3d> pose = PoseFromMatrix(matrix, "X_BC");
    return pose.ok() ? std::string() : std::string(pose.error().what());
  };
  EXPECT_THAT(error_with(3, 0, 0.5), HasSubstr("X_BC: expected a pose whose last row"));
  EXPECT_THAT(error_with(3, 3, kNan), HasSubstr("last row"));
  EXPECT_THAT(error_with(0, 3, kNan), HasSubstr("translation"));
  EXPECT_THAT(error_with(0, 0, -1), HasSubstr("reflection"));
  EXPECT_THAT(error_with(1, 1, 2), HasSubstr("orthonormal"));
}

TEST(RotationAngleTest, IsTheAngleTurned) {
  Rng rng(6);
  const double pi = std::numbers::pi;
  for (const double angle : {0.0, 1e-9, 1e-4, 0.5, pi / 2, 3.0, pi - 1e-9, pi}) {
    const Matrix3d A = RandomRotation(rng);
    const Vector3d axis = RandomRotation(rng).col(0);
    const Matrix3d B = A * Eigen::AngleAxisd(angle, axis).toRotationMatrix();
    EXPECT_NEAR(RotationAngle(A, B), angle, 1e-14 + 1e-14 * angle) << angle;
    EXPECT_NEAR(RotationAngle(B, A), angle, 1e-14 + 1e-14 * angle) << angle;
  }
}

}  // namespace
}  // namespace palmist::grasp
