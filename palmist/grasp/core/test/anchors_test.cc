#include "palmist/grasp/core/anchors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "palmist/grasp/core/test/random_rotation.h"

namespace palmist::grasp {
namespace {

constexpr double kDegree = std::numbers::pi / 180;
const Matrix3d kHalfTurn = Vector3d(1, -1, -1).asDiagonal();

/// Returns the angle between R and an anchor; the smaller one where fingers are alike.
double AngleTo(const Matrix3d& R, int anchor, bool is_symmetric) {
  const Matrix3d& Ra = AnchorRotations()[anchor];
  const double angle = RotationAngle(Ra, R);
  return is_symmetric ? std::min(angle, RotationAngle(Ra, R * kHalfTurn)) : angle;
}

/// Returns a grasp that approaches within 60 degrees of the optical axis, each direction equally
/// likely, turned by any angle about its approach.
Matrix3d RandomGrasp(Rng& rng) {
  const double z = 1 - 0.5 * rng.Uniform();
  const double longitude = 2 * std::numbers::pi * rng.Uniform();
  const double radius = std::sqrt(1 - z * z);
  const Vector3d approach(radius * std::cos(longitude), radius * std::sin(longitude), z);
  return RotationFromView(-approach, 2 * std::numbers::pi * rng.Uniform());
}

TEST(ViewsTest, AreThoseOfTheSphereWithNegativeZ) {
  const std::vector<Vector3d> views = Views();
  const double golden = (std::sqrt(5.0) - 1) / 2;
  std::vector<Vector3d> expected;
  for (int i = 0; i < 120; ++i) {
    const double z = (2 * i + 1) / 120.0 - 1;
    if (z >= 0) continue;
    const double turn = 2 * std::numbers::pi * i * golden;
    expected.push_back(Vector3d(std::cos(turn), std::sin(turn), 0) * std::sqrt(1 - z * z) +
                       z * Vector3d::UnitZ());
  }
  ASSERT_EQ(views.size(), 60U);
  ASSERT_EQ(expected.size(), 60U);
  for (int i = 0; i < 60; ++i) {
    EXPECT_LT((views[i] - expected[i]).norm(), 1e-15);
    EXPECT_NEAR(views[i].norm(), 1, 1e-15);
    EXPECT_LT(views[i].z(), 0);
  }
}

TEST(ViewsTest, TheFirstLiesNextToTheOpticalAxisAndTheLastGrazes) {
  const std::vector<Vector3d> views = Views();
  const auto tilt = [](const Vector3d& view) { return std::acos(-view.z()) / kDegree; };
  EXPECT_NEAR(tilt(views.front()), 7.40, 0.01);
  EXPECT_NEAR(tilt(views.back()), 89.52, 0.01);
  EXPECT_TRUE(std::is_sorted(
      views.begin(), views.end(), [&](const auto& a, const auto& b) { return tilt(a) < tilt(b); }));
}

TEST(ViewsTest, TakesOtherNumbers) {
  EXPECT_TRUE(Views(0).empty());
  EXPECT_EQ(Views(300).size(), 300U);
  EXPECT_LT(Views(1).front().z(), 0);
}

TEST(RotationFromViewTest, ApproachesAlongTheViewAndOpensLevel) {
  for (const Vector3d& view : Views()) {
    const Matrix3d R = RotationFromView(view, 0);
    EXPECT_TRUE(CheckRotation(R, "R", 1e-14).ok());
    EXPECT_LT((R.col(0) + view).norm(), 1e-15);
    EXPECT_EQ(R(2, 1), 0);
    const Matrix3d turned = RotationFromView(view, 30 * kDegree);
    EXPECT_LT((turned.col(0) + view).norm(), 1e-15);
    EXPECT_NEAR(turned.col(1).dot(R.col(1)), std::cos(30 * kDegree), 1e-14);
    EXPECT_NEAR(turned.col(1).dot(R.col(2)), std::sin(30 * kDegree), 1e-14);
  }
}

TEST(RotationFromViewTest, IsARotationAlongTheOpticalAxis) {
  const Matrix3d R = RotationFromView(-Vector3d::UnitZ(), 0.3);
  EXPECT_TRUE(CheckRotation(R, "R", 1e-14).ok());
  EXPECT_LT((R.col(0) - Vector3d::UnitZ()).norm(), 1e-15);
}

TEST(NearestAnchorTest, AnAnchorIsItsOwn) {
  for (int i = 0; i < kAnchors; ++i) {
    const Matrix3d& R = AnchorRotations()[i];
    EXPECT_EQ(NearestAnchor(R, false), i);
    EXPECT_EQ(NearestAnchor(R, true), i);
    EXPECT_EQ(NearestAnchor(R * kHalfTurn, true), i);
    EXPECT_NE(NearestAnchor(R * kHalfTurn, false), i);
  }
}

TEST(NearestAnchorTest, NoAnchorIsNearer) {
  Rng rng(1);
  for (int i = 0; i < 1000; ++i) {
    const Matrix3d R = RandomRotation(rng);
    for (const bool is_symmetric : {false, true}) {
      double least = 10;
      for (int anchor = 0; anchor < kAnchors; ++anchor)
        least = std::min(least, AngleTo(R, anchor, is_symmetric));
      EXPECT_NEAR(AngleTo(R, NearestAnchor(R, is_symmetric), is_symmetric), least, 1e-12);
    }
  }
}

TEST(NearestAnchorTest, KnowingTheSymmetryHalvesTheError) {
  constexpr int kRotations = 100000;
  Rng rng(2);
  double sum = 0, symmetric_sum = 0, symmetric_worst = 0;
  for (int i = 0; i < kRotations; ++i) {
    const Matrix3d R = RandomGrasp(rng);
    sum += AngleTo(R, NearestAnchor(R, false), false);
    const double angle = AngleTo(R, NearestAnchor(R, true), true);
    symmetric_sum += angle;
    symmetric_worst = std::max(symmetric_worst, angle);
  }
  EXPECT_NEAR(sum / kRotations / kDegree, 22.3, 0.3);
  EXPECT_LE(symmetric_sum / kRotations / kDegree, 10.5);
  EXPECT_LE(symmetric_worst / kDegree, 18.5);
  RecordProperty("mean_deg", std::to_string(sum / kRotations / kDegree));
  RecordProperty("symmetric_mean_deg", std::to_string(symmetric_sum / kRotations / kDegree));
  RecordProperty("symmetric_worst_deg", std::to_string(symmetric_worst / kDegree));
}

TEST(NearestAnchorTest, NumbersThatAreNoRotationGiveAnAnchor) {
  EXPECT_EQ(NearestAnchor(Matrix3d::Constant(std::nan("")), true), 0);
  EXPECT_EQ(NearestAnchor(Matrix3d::Zero(), true), 0);
}

}  // namespace
}  // namespace palmist::grasp
