#include "palmist/grasp/contact/contact.h"

#include <gtest/gtest.h>

#include <cmath>

#include "palmist/base/rng.h"
#include "palmist/grasp/contact/test/shapes.h"

namespace palmist::grasp {
namespace {

using compat::Sample;

constexpr double kDegree = M_PI / 180;
constexpr double kRadius_m = 0.025;

Vector3d RandomDirection(Rng& rng) {
  const double z = 2 * rng.Uniform() - 1, longitude = 2 * M_PI * rng.Uniform();
  const double radius = std::sqrt(1 - z * z);
  return Vector3d(radius * std::cos(longitude), radius * std::sin(longitude), z);
}

TEST(CompatTest, SamplesPerFinger) {
  EXPECT_EQ(compat::SamplesPerFinger(0.08, 0.003), 26);
  EXPECT_EQ(compat::SamplesPerFinger(0.0, 0.003), 3);
  EXPECT_EQ(compat::SamplesPerFinger(0.057, 0.003), 19);
  // The quotient is 10 in double, but not the product with the reciprocal.
  EXPECT_EQ(compat::SamplesPerFinger(0.03, 0.003), 9);
}

/// Samples of w0 t² + w1 t + w2 at t = 0, 0.5 and 1 along x from the origin.
std::array<Sample, 3> SamplesOf(double w0, double w1, double w2) {
  std::array<Sample, 3> samples;
  for (int i = 0; i < 3; ++i) {
    const double t = 0.5 * i;
    samples[i] = {Vector3d(t, 0, 0), (w0 * t + w1) * t + w2};
  }
  return samples;
}

TEST(CompatTest, ZeroCrossingTakesTheSmallerOfTwoRoots) {
  // (t - 0.25)(t - 0.75)
  const auto zero = compat::ZeroCrossing(SamplesOf(1, -1, 0.1875));
  ASSERT_TRUE(zero.has_value());
  EXPECT_LT((*zero - Vector3d(0.25, 0, 0)).norm(), 1e-12);
}

TEST(CompatTest, ZeroCrossingTakesTheRootThatIsNotNegative) {
  // (t + 0.1)(t - 0.6)
  const auto zero = compat::ZeroCrossing(SamplesOf(1, -0.5, -0.06));
  ASSERT_TRUE(zero.has_value());
  EXPECT_LT((*zero - Vector3d(0.6, 0, 0)).norm(), 1e-12);
}

TEST(CompatTest, ZeroCrossingTakesTheVertexWhereThereIsNoRoot) {
  // (t - 0.4)² + 1
  const auto zero = compat::ZeroCrossing(SamplesOf(1, -0.8, 1.16));
  ASSERT_TRUE(zero.has_value());
  EXPECT_LT((*zero - Vector3d(0.4, 0, 0)).norm(), 1e-12);
}

TEST(CompatTest, ZeroCrossingRejects) {
  EXPECT_FALSE(compat::ZeroCrossing(SamplesOf(0, -1, 0.5)).has_value()) << "straight";
  EXPECT_FALSE(compat::ZeroCrossing(SamplesOf(1, -3.5, 3)).has_value()) << "roots 1.5 and 2";
  auto samples = SamplesOf(1, -1, 0.1875);
  samples[1].cells = samples[0].cells;
  EXPECT_FALSE(compat::ZeroCrossing(samples).has_value()) << "no direction";
}

TEST(CompatTest, SurfaceNormalNeedsASurface) {
  const SignedDistanceGrid grid = SphereGrid(kRadius_m);
  const DistanceLookup sphere(grid);
  EXPECT_FALSE(compat::SurfaceNormal(sphere, sphere.ToCells(Vector3d::Zero())).has_value());
  const Vector3d p_O(0, 0, kRadius_m);
  const auto normal = compat::SurfaceNormal(sphere, sphere.ToCells(p_O));
  ASSERT_TRUE(normal.has_value());
  EXPECT_GT(std::abs(normal->z()), 0.99);
}

TEST(ContactTest, OnlyCompatNormalsOfPlanesAreBiased) {
  Rng rng(7);
  double compat_sum = 0, strict_worst = 0;
  constexpr int kPlanes = 200;
  for (int i = 0; i < kPlanes; ++i) {
    const Vector3d normal_O = RandomDirection(rng);
    const SignedDistanceGrid grid = HalfSpaceGrid(normal_O);
    const DistanceLookup plane(grid);
    const Vector3d near_O = 0.006 * rng.Uniform() * RandomDirection(rng);
    const Vector3d on_plane = plane.ToCells(near_O - normal_O * normal_O.dot(near_O));
    const auto compat_normal = compat::SurfaceNormal(plane, on_plane);
    ASSERT_TRUE(compat_normal.has_value());
    compat_sum += std::acos(std::min(1.0, std::abs(compat_normal->dot(normal_O))));
    const Vector3d gradient = plane.Gradient(on_plane);
    strict_worst = std::max(strict_worst, std::acos(std::min(1.0, gradient.dot(normal_O))));
  }
  EXPECT_LT(strict_worst, 0.1 * kDegree);
  EXPECT_GT(compat_sum / kPlanes, 4 * kDegree);
  EXPECT_LT(compat_sum / kPlanes, 10 * kDegree);
}

TEST(StrictTest, ContactsLieOnTheSphereWithItsNormals) {
  const SignedDistanceGrid grid = SphereGrid(kRadius_m);
  const DistanceLookup sphere(grid);
  Rng rng(3);
  for (int i = 0; i < 200; ++i) {
    const Vector3d axis_O = RandomDirection(rng);
    const Vector3d center_O = 0.01 * rng.Uniform() * RandomDirection(rng);
    const FingerContacts contacts =
        FindContacts(sphere, {center_O, axis_O, 0.08}, ContactRule::kStrict);
    for (int finger = 0; finger < 2; ++finger) {
      ASSERT_TRUE(contacts[finger].has_value());
      const Contact& contact = *contacts[finger];
      EXPECT_NEAR(contact.p_O.norm(), kRadius_m, 1e-4);
      EXPECT_LT((contact.p_O - center_O).cross(axis_O).norm(), 1e-12) << "off the line";
      EXPECT_EQ((contact.p_O - center_O).dot(axis_O) < 0, finger == 0);
      EXPECT_GT(contact.normal_O.dot(contact.p_O.normalized()), std::cos(1 * kDegree));
      EXPECT_NEAR(contact.normal_O.norm(), 1, 1e-12);
    }
  }
}

TEST(StrictTest, FlatFacesAlongTheGridHaveContacts) {
  const SignedDistanceGrid grid = BoxGrid(Vector3d(0.0202, 0.0153, 0.0251), Matrix3d::Identity());
  const DistanceLookup box(grid);
  const ClosingLine line = {Vector3d(0.001, 0.002, -0.003), Vector3d::UnitY(), 0.07};
  const FingerContacts strict = FindContacts(box, line, ContactRule::kStrict);
  ASSERT_TRUE(strict[0] && strict[1]);
  EXPECT_LT((strict[0]->p_O - Vector3d(0.001, -0.0153, -0.003)).norm(), 1e-6);
  EXPECT_LT((strict[1]->p_O - Vector3d(0.001, 0.0153, -0.003)).norm(), 1e-6);
  EXPECT_LT((strict[0]->normal_O + Vector3d::UnitY()).norm(), 1e-5);
  EXPECT_LT((strict[1]->normal_O - Vector3d::UnitY()).norm(), 1e-5);
  const FingerContacts compat = FindContacts(box, line, ContactRule::kCompat);
  EXPECT_FALSE(compat[0] || compat[1]) << "the public method sees no contact here";
}

TEST(StrictTest, AFingerThatBeginsInsideHasNoContact) {
  const SignedDistanceGrid grid = SphereGrid(kRadius_m);
  const DistanceLookup sphere(grid);
  const ClosingLine line = {Vector3d(0, 0.02, 0), Vector3d::UnitY(), 0.03};
  const FingerContacts contacts = FindContacts(sphere, line, ContactRule::kStrict);
  EXPECT_FALSE(contacts[0].has_value());
  ASSERT_TRUE(contacts[1].has_value());
  EXPECT_NEAR(contacts[1]->p_O.y(), kRadius_m, 1e-4);
}

TEST(ContactTest, NothingIsFoundBesideTheObject) {
  const SignedDistanceGrid grid = SphereGrid(kRadius_m);
  const DistanceLookup sphere(grid);
  for (const ContactRule rule : {ContactRule::kCompat, ContactRule::kStrict}) {
    for (const double width_m : {0.0, 0.02}) {
      const auto contacts =
          FindContacts(sphere, {Vector3d(0, 0, 0.05), Vector3d::UnitY(), width_m}, rule);
      EXPECT_FALSE(contacts[0] || contacts[1]);
    }
  }
}

TEST(ContactTest, TurningTheAxisSwapsTheFingers) {
  const SignedDistanceGrid grid = SphereGrid(kRadius_m);
  const DistanceLookup sphere(grid);
  Rng rng(5);
  for (const ContactRule rule : {ContactRule::kCompat, ContactRule::kStrict}) {
    for (int i = 0; i < 50; ++i) {
      const Vector3d axis_O = RandomDirection(rng);
      const Vector3d center_O = 0.01 * RandomDirection(rng);
      const auto contacts = FindContacts(sphere, {center_O, axis_O, 0.08}, rule);
      const auto turned = FindContacts(sphere, {center_O, -axis_O, 0.08}, rule);
      for (int finger = 0; finger < 2; ++finger) {
        ASSERT_EQ(contacts[finger].has_value(), turned[1 - finger].has_value());
        if (!contacts[finger]) continue;
        EXPECT_EQ(contacts[finger]->p_O, turned[1 - finger]->p_O);
      }
    }
  }
}

}  // namespace
}  // namespace palmist::grasp
