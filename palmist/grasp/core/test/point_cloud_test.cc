#include "palmist/grasp/core/point_cloud.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "palmist/base/error.h"
#include "palmist/grasp/core/test/random_rotation.h"
#include "tests/support/grasp_golden.h"

namespace palmist::grasp {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Returns points in a cube with an edge of 1 m about the origin.
std::vector<Vector3d> RandomPoints(Rng& rng, int count) {
  std::vector<Vector3d> points(count);
  for (Vector3d& point : points) {
    for (double& value : point) value = rng.Uniform() - 0.5;
  }
  return points;
}

/// Returns points on a plane, with noise of up to `noise_m` along its normal.
std::vector<Vector3d> PlanePoints(Rng& rng, const Plane& plane, int count, double noise_m) {
  const Vector3d u = plane.normal.unitOrthogonal();
  const Vector3d v = plane.normal.cross(u);
  std::vector<Vector3d> points;
  for (int i = 0; i < count; ++i) {
    points.push_back((rng.Uniform() - 0.5) * u + (rng.Uniform() - 0.5) * v +
                     (plane.offset_m + noise_m * (2 * rng.Uniform() - 1)) * plane.normal);
  }
  return points;
}

template <typename T>
std::vector<Vector3d> PointsOf(const NpyArray& array) {
  const std::span<const T> values = array.As<T>();
  std::vector<Vector3d> points;
  for (std::size_t i = 0; i + 2 < values.size(); i += 3)
    points.emplace_back(values[i], values[i + 1], values[i + 2]);
  return points;
}

TEST(VoxelDownsampleTest, MakesTheCloudsOfThePublicPackage) {
  for (const std::string object : {"01", "03"}) {
    const PointCloud raw{
        PointsOf<float>(test::ReadGraspGolden("objects/raw_cloud_" + object + ".npy")), {}};
    const std::vector<Vector3d> expected =
        PointsOf<double>(test::ReadGraspGolden("objects/cloud_" + object + ".npy"));
    const PointCloud sampled = VoxelDownsample(raw, 0.008);
    ASSERT_EQ(sampled.size(), expected.size());
    const KdTree tree(sampled.points);
    std::vector<bool> is_found(expected.size());
    for (const Vector3d& point : expected) {
      const KdTree::Neighbor nearest = tree.Nearest(point).value();
      EXPECT_LE(nearest.distance_m, 1e-12);
      is_found[nearest.index] = true;
    }
    EXPECT_EQ(std::count(is_found.begin(), is_found.end(), true),
              static_cast<std::ptrdiff_t>(expected.size()));
  }
}

TEST(VoxelDownsampleTest, AveragesPointsAndColours) {
  // Voxels of 1 m begin at -0.5 m.
  const PointCloud cloud = {{{0, 0, 0}, {0.6, 0, 0}, {0.4, 0.2, 0}, {1.4, 0, 0}},
                            {{0, 10, 255}, {9, 9, 9}, {1, 21, 255}, {10, 9, 9}}};
  const PointCloud means = VoxelDownsample(cloud, 1);
  ASSERT_EQ(means.size(), 2U);
  EXPECT_LT((means.points[0] - Vector3d(0.2, 0.1, 0)).norm(), 1e-15);
  EXPECT_LT((means.points[1] - Vector3d(1, 0, 0)).norm(), 1e-15);
  EXPECT_EQ(means.colors, (std::vector<std::array<std::uint8_t, 3>>{{1, 16, 255}, {10, 9, 9}}));
}

TEST(VoxelDownsampleTest, KeepsTheMeanOfAllPointsInOneVoxel) {
  Rng rng(1);
  const std::vector<Vector3d> points = RandomPoints(rng, 1000);
  const PointCloud means = VoxelDownsample({points, {}}, 100);
  ASSERT_EQ(means.size(), 1U);
  Vector3d mean = Vector3d::Zero();
  for (const Vector3d& point : points) mean += point / 1000;
  EXPECT_LT((means.points[0] - mean).norm(), 1e-14);
}

TEST(VoxelDownsampleTest, KeepsPointsThatAreApart) {
  Rng rng(2);
  const std::vector<Vector3d> points = RandomPoints(rng, 1000);
  EXPECT_EQ(VoxelDownsample({points, {}}, 1e-9).points, points);
}

TEST(VoxelDownsampleTest, TakesEmptyFarAndBrokenClouds) {
  EXPECT_EQ(VoxelDownsample({}, 0.01).size(), 0U);
  EXPECT_EQ(VoxelDownsample({{{kNan, 0, 0}, {1, 2, 3}, {0, kInfinity, 0}}, {}}, 0.01).points,
            (std::vector<Vector3d>{{1, 2, 3}}));
  EXPECT_EQ(VoxelDownsample({{{kNan, kNan, kNan}}, {}}, 0.01).size(), 0U);
  const std::vector<Vector3d> far = {{-1e300, 0, 0}, {1e300, 0, 0}, {0, 1e308, -1e308}};
  EXPECT_LE(VoxelDownsample({far, {}}, 1e-3).size(), 3U);
  EXPECT_THROW(VoxelDownsample({far, {}}, 0), Error);
  EXPECT_THROW(VoxelDownsample({far, {}}, kNan), Error);
}

TEST(KdTreeTest, FindsTheNearestPoint) {
  Rng rng(3);
  const std::vector<Vector3d> points = RandomPoints(rng, 500);
  const KdTree tree(points);
  for (const Vector3d& place : RandomPoints(rng, 500)) {
    const auto nearest =
        std::min_element(points.begin(), points.end(), [&](const Vector3d& a, const Vector3d& b) {
          return (a - place).squaredNorm() < (b - place).squaredNorm();
        });
    const KdTree::Neighbor found = tree.Nearest(place).value();
    EXPECT_EQ(found.index, static_cast<std::size_t>(nearest - points.begin()));
    EXPECT_NEAR(found.distance_m, (*nearest - place).norm(), 1e-15);
  }
}

TEST(KdTreeTest, OfEqualDistancesTheLowerIndexCounts) {
  // A lattice twice over; places in the middle of a cell have eight corners, twice each.
  std::vector<Vector3d> points;
  for (int copy = 0; copy < 2; ++copy) {
    for (int i = 0; i < 1000; ++i) points.emplace_back(i / 100, i / 10 % 10, i % 10);
  }
  Rng rng(4);
  for (std::size_t i = points.size() - 1; i > 0; --i)
    std::swap(points[i], points[rng.Integer(static_cast<std::int64_t>(i) + 1)]);
  const KdTree tree(points);
  for (int i = 0; i < 1000; ++i) {
    const double half = i % 2 == 0 ? 0.5 : 0;
    const Vector3d place(rng.Integer(9) + half, rng.Integer(9) + half, rng.Integer(9) + half);
    const auto nearest =
        std::min_element(points.begin(), points.end(), [&](const Vector3d& a, const Vector3d& b) {
          return (a - place).squaredNorm() < (b - place).squaredNorm();
        });
    EXPECT_EQ(tree.Nearest(place)->index, static_cast<std::size_t>(nearest - points.begin()));
  }
}

TEST(KdTreeTest, FindsThePointsWithinARadius) {
  Rng rng(5);
  const std::vector<Vector3d> points = RandomPoints(rng, 500);
  const KdTree tree(points);
  std::vector<std::size_t> found = {7};
  for (const Vector3d& place : RandomPoints(rng, 50)) {
    for (const double radius_m : {0.05, 0.3, 5.0}) {
      std::vector<std::size_t> expected;
      for (std::size_t i = 0; i < points.size(); ++i) {
        if ((points[i] - place).norm() < radius_m) expected.push_back(i);
      }
      tree.WithinRadius(place, radius_m, found);
      std::sort(found.begin(), found.end());
      EXPECT_EQ(found, expected);
    }
  }
}

TEST(KdTreeTest, TheRadiusIsOpen) {
  const std::vector<Vector3d> points = {{1, 0, 0}, {0, 0, 0}};
  const KdTree tree(points);
  std::vector<std::size_t> found;
  tree.WithinRadius(Vector3d::Zero(), 1, found);
  EXPECT_EQ(found, (std::vector<std::size_t>{1}));
  for (const double radius_m : {0.0, -1.0, kNan}) {
    tree.WithinRadius(Vector3d::Zero(), radius_m, found);
    EXPECT_TRUE(found.empty()) << radius_m;
  }
}

TEST(KdTreeTest, TakesFewPointsAndFarPlaces) {
  const std::vector<Vector3d> none;
  const KdTree empty(none);
  std::vector<std::size_t> found = {1};
  EXPECT_FALSE(empty.Nearest(Vector3d::Zero()));
  empty.WithinRadius(Vector3d::Zero(), 1, found);
  EXPECT_TRUE(found.empty());

  const std::vector<Vector3d> same(1000, Vector3d(1, 2, 3));
  KdTree tree(same);
  EXPECT_EQ(tree.Nearest(Vector3d::Zero())->index, 0U);
  EXPECT_EQ(tree.Nearest({1, 2, 3})->distance_m, 0);
  EXPECT_EQ(tree.Nearest({1e200, 0, 0})->index, 0U);
  EXPECT_EQ(tree.Nearest({kNan, 0, 0})->index, 0U);

  KdTree moved = std::move(tree);
  EXPECT_EQ(moved.Nearest({1, 2, 3})->index, 0U);
}

TEST(FitPlaneTest, FindsATableUnderClutter) {
  Rng rng(6);
  for (int i = 0; i < 10; ++i) {
    Plane table{RandomRotation(rng).col(0), -0.6};
    std::vector<Vector3d> points = PlanePoints(rng, table, 3000, 0.002);
    const std::vector<Vector3d> clutter = RandomPoints(rng, 2000);
    points.insert(points.end(), clutter.begin(), clutter.end());
    const std::optional<Plane> plane = FitPlane(points);
    ASSERT_TRUE(plane);
    EXPECT_NEAR(plane->normal.norm(), 1, 1e-12);
    EXPECT_GT(plane->normal.dot(table.normal), std::cos(0.003));
    EXPECT_NEAR(plane->offset_m, table.offset_m, 0.001);
    EXPECT_GT(plane->SignedDistance(Vector3d::Zero()), 0) << "towards the camera";
  }
}

TEST(FitPlaneTest, IsExactWithoutNoise) {
  Rng rng(7);
  const Plane table{Vector3d(0.1, -0.7, -0.7).normalized(), -0.5};
  const Plane plane = FitPlane(PlanePoints(rng, table, 100000, 0)).value();
  EXPECT_LT((plane.normal - table.normal).norm(), 1e-12);
  EXPECT_NEAR(plane.offset_m, table.offset_m, 1e-12);
}

TEST(FitPlaneTest, TheSameSeedGivesTheSamePlane) {
  Rng rng(8);
  const std::vector<Vector3d> points = PlanePoints(rng, {Vector3d::UnitZ(), -1}, 5000, 0.01);
  const Plane first = FitPlane(points).value();
  const Plane second = FitPlane(points).value();
  EXPECT_EQ(first.normal, second.normal);
  EXPECT_EQ(first.offset_m, second.offset_m);
}

TEST(FitPlaneTest, EndsWhereMoreRoundsWouldNotHelp) {
  Rng rng(11);
  const Plane table{Vector3d::UnitZ(), -1};
  std::vector<Vector3d> points = PlanePoints(rng, table, 2000, 0.002);
  const std::vector<Vector3d> clutter = RandomPoints(rng, 1000);
  points.insert(points.end(), clutter.begin(), clutter.end());
  // All of these rounds would take hours.
  const Plane plane = FitPlane(points, {.rounds = 1'000'000'000}).value();
  EXPECT_GT(std::abs(plane.normal.z()), std::cos(0.003));
  EXPECT_NEAR(std::abs(plane.offset_m), 1, 0.001);
}

TEST(FitPlaneTest, ThereMayBeNone) {
  Rng rng(9);
  EXPECT_FALSE(FitPlane(RandomPoints(rng, 2000), {.min_share = 0.2}));
  EXPECT_FALSE(FitPlane({}));
  const std::vector<Vector3d> two = {{0, 0, 1}, {1, 0, 1}};
  EXPECT_FALSE(FitPlane(two));
  EXPECT_FALSE(FitPlane(std::vector<Vector3d>(100, Vector3d(1, 2, 3))));
  std::vector<Vector3d> line;
  for (int i = 0; i < 100; ++i) line.emplace_back(0.1 * i, 0.3 * i, 0.7 * i);
  EXPECT_FALSE(FitPlane(line));
  EXPECT_FALSE(FitPlane(std::vector<Vector3d>(100, Vector3d(kNan, 2, 3))));
  EXPECT_FALSE(FitPlane(PlanePoints(rng, {}, 100, 0), {.max_points = 0}));
}

TEST(FitPlaneTest, PointsThatAreNotFiniteDoNotCount) {
  Rng rng(10);
  std::vector<Vector3d> points = PlanePoints(rng, {Vector3d::UnitZ(), -1}, 100, 0);
  for (int i = 0; i < 5000; ++i) points.emplace_back(kNan, kInfinity, 0);
  const Plane plane = FitPlane(points).value();
  EXPECT_LT((plane.normal - Vector3d::UnitZ()).norm(), 1e-12);
}

}  // namespace
}  // namespace palmist::grasp
