#include "palmist/grasp/contact/closure.h"

#include <gtest/gtest.h>

#include <cmath>

#include "palmist/grasp/contact/test/shapes.h"

namespace palmist::grasp {
namespace {

constexpr double kDegree = M_PI / 180;

/// Contacts 4 cm apart along y whose outward normals lean by the two angles.
FingerContacts Leaning(double first_rad, double second_rad) {
  return {Contact{Vector3d(0, -0.02, 0), Vector3d(std::sin(first_rad), -std::cos(first_rad), 0)},
          Contact{Vector3d(0, 0.02, 0), Vector3d(0, std::cos(second_rad), std::sin(second_rad))}};
}

TEST(ClosureTest, AnglesAreThoseBetweenNormalsAndLine) {
  for (const ContactRule rule : {ContactRule::kCompat, ContactRule::kStrict}) {
    const auto angles = ContactAngles(Leaning(0.3, 0.7), rule);
    ASSERT_TRUE(angles.has_value());
    EXPECT_NEAR((*angles)[0], 0.3, 1e-12);
    EXPECT_NEAR((*angles)[1], 0.7, 1e-12);
  }
}

TEST(ClosureTest, OnlyStrictKnowsInsideFromOutside) {
  FingerContacts contacts = Leaning(0.3, 0.7);
  contacts[0]->normal_O *= -1;
  EXPECT_NEAR((*ContactAngles(contacts, ContactRule::kCompat))[0], 0.3, 1e-12);
  EXPECT_NEAR((*ContactAngles(contacts, ContactRule::kStrict))[0], M_PI - 0.3, 1e-12);
}

TEST(ClosureTest, BothFingersMustTouchAndApart) {
  FingerContacts contacts = Leaning(0, 0);
  contacts[0]->p_O = contacts[1]->p_O;
  for (const ContactRule rule : {ContactRule::kCompat, ContactRule::kStrict}) {
    EXPECT_EQ(SmallestFriction(*ContactAngles(contacts, rule)), kNoClosure);
  }
  contacts[1].reset();
  EXPECT_FALSE(ContactAngles(contacts, ContactRule::kStrict).has_value());
}

TEST(ClosureTest, SmallestFrictionIsTheFirstConeThatHoldsBoth) {
  EXPECT_EQ(SmallestFriction({0, 0}), 0.2);
  EXPECT_EQ(SmallestFriction({std::atan(0.4), 0.1}), 0.4);
  EXPECT_EQ(SmallestFriction({0.1, std::nextafter(std::atan(0.4), 1)}), 0.6);
  EXPECT_EQ(SmallestFriction({std::atan(1.2), std::atan(1.2)}), 1.2);
  EXPECT_EQ(SmallestFriction({0, 0.9}), kNoClosure);
  const std::array<double, 3> own = {0.05, 0.1, 2};
  EXPECT_EQ(SmallestFriction({0.06, 0.06}, own), 0.1);
  EXPECT_EQ(SmallestFriction({0.9, 0}, own), 2);
}

/// The largest angle of a grasp along y of a sphere of 25 mm, past its centre by `offset_m`.
std::optional<double> SphereAngle(double offset_m, ContactRule rule) {
  const SignedDistanceGrid grid = SphereGrid(0.025);
  const DistanceLookup sphere(grid);
  const ClosingLine line = {Vector3d(offset_m, 0, 0), Vector3d::UnitY(), 0.08};
  const auto angles = ContactAngles(FindContacts(sphere, line, rule), rule);
  if (!angles) return std::nullopt;
  return std::max((*angles)[0], (*angles)[1]);
}

// The numbers of the public evaluation, as published beside its golden vectors.
TEST(ClosureTest, CompatOnASphereIsThatOfThePublicEvaluation) {
  EXPECT_FALSE(SphereAngle(0, ContactRule::kCompat).has_value());
  EXPECT_NEAR(SphereAngle(0.005, ContactRule::kCompat).value(), 7.6 * kDegree, 0.05 * kDegree);
  EXPECT_NEAR(SphereAngle(0.0101, ContactRule::kCompat).value(), 24.7 * kDegree, 0.05 * kDegree);
}

TEST(ClosureTest, StrictOnASphereIsTheGeometry) {
  for (const double offset_m : {0.0, 0.005, 0.0101, 0.015}) {
    const double expected_rad = std::asin(offset_m / 0.025);
    EXPECT_NEAR(SphereAngle(offset_m, ContactRule::kStrict).value(), expected_rad, 0.5 * kDegree);
  }
}

TEST(ClosureTest, StrictScoresATurnedBoxByItsTilt) {
  const Matrix3d R_OB =
      (Eigen::AngleAxisd(0.5, Vector3d::UnitZ()) * Eigen::AngleAxisd(0.3, Vector3d::UnitX()))
          .toRotationMatrix();
  const SignedDistanceGrid grid = BoxGrid(Vector3d(0.02, 0.015, 0.025), R_OB);
  const DistanceLookup box(grid);
  for (const double tilt_deg : {0.0, 10.0, 15.0, 25.0, 35.0}) {
    const Vector3d axis_O =
        R_OB * Eigen::AngleAxisd(tilt_deg * kDegree, Vector3d::UnitX()) * Vector3d::UnitY();
    const double expected = SmallestFriction({tilt_deg * kDegree, 0});
    EXPECT_EQ(ClosureScore(box, {Vector3d::Zero(), axis_O, 0.06}, ContactRule::kStrict), expected)
        << tilt_deg;
  }
}

TEST(ClosureTest, NoContactIsNoClosure) {
  const SignedDistanceGrid grid = SphereGrid(0.025);
  const DistanceLookup sphere(grid);
  const ClosingLine line = {Vector3d(0, 0, 0.04), Vector3d::UnitY(), 0.08};
  EXPECT_EQ(ClosureScore(sphere, line, ContactRule::kStrict), kNoClosure);
}

}  // namespace
}  // namespace palmist::grasp
