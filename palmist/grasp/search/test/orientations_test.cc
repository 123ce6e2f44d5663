#include "palmist/grasp/search/orientations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

#include "palmist/base/rng.h"

namespace palmist::grasp {
namespace {

const Vector3d kDown = Vector3d::UnitZ();  // the camera looks along z from the origin

/// A grid of points on the upper face of a box of the given size whose top is at depth 0.5 m.
std::vector<Vector3d> TopFace(double size_x_m, double size_y_m, const Vector3d& middle_m) {
  std::vector<Vector3d> points;
  for (double x = -size_x_m / 2; x < size_x_m / 2 + 1e-9; x += 0.005) {
    for (double y = -size_y_m / 2; y < size_y_m / 2 + 1e-9; y += 0.005) {
      points.push_back(middle_m + Vector3d(x, y, 0));
    }
  }
  return points;
}

std::vector<Vector3d> Sphere(double radius_m, const Vector3d& middle_m, int count) {
  std::vector<Vector3d> points;
  Rng rng(5);
  for (int i = 0; i < count; ++i) {
    const double z = 2 * rng.Uniform() - 1, around = 2 * std::numbers::pi * rng.Uniform();
    const double ring = std::sqrt(1 - z * z);
    points.push_back(middle_m +
                     radius_m * Vector3d(ring * std::cos(around), ring * std::sin(around), z));
  }
  return points;
}

void ExpectRotations(const std::vector<Candidate>& candidates) {
  for (const Candidate& candidate : candidates) {
    EXPECT_TRUE(CheckRotation(candidate.R_CG, "R", 1e-9).ok()) << candidate.R_CG;
  }
}

TEST(OrientationsTest, SamplesEvenly) {
  const std::vector<Vector3d> points = TopFace(0.2, 0.2, {0, 0, 0.5});
  const std::vector<std::size_t> sample = SampleEvenly(points, 60);
  EXPECT_LE(sample.size(), 60u);
  EXPECT_GE(sample.size(), 25u);
  EXPECT_EQ(std::set<std::size_t>(sample.begin(), sample.end()).size(), sample.size());
  for (const Vector3d& point : points) {
    double nearest = 1;
    for (const std::size_t i : sample) nearest = std::min(nearest, (points[i] - point).norm());
    EXPECT_LT(nearest, 0.07);
  }
  EXPECT_EQ(SampleEvenly(points, points.size()).size(), points.size());
  EXPECT_TRUE(SampleEvenly(points, 0).empty());
  EXPECT_TRUE(SampleEvenly({}, 5).empty());
  const std::vector<Vector3d> around = Sphere(0.1, Vector3d::Zero(), 500);
  EXPECT_EQ(SampleEvenly(around, 3).size(), 3u);
}

TEST(OrientationsTest, FindsClustersByTheGap) {
  std::vector<Vector3d> points = TopFace(0.04, 0.04, {0, 0, 0.5});
  const std::size_t first_size = points.size();
  for (const Vector3d& point : TopFace(0.06, 0.04, {0.2, 0, 0.5})) points.push_back(point);
  points.emplace_back(0.1, 0.1, 0.5);
  const std::vector<Cluster> clusters = FindClusters(points, 0.01, 10);
  ASSERT_EQ(clusters.size(), 2u);
  EXPECT_EQ(clusters[0].points.size(), first_size);
  EXPECT_EQ(clusters[1].points.size(), points.size() - first_size - 1);
  EXPECT_NEAR(clusters[1].centroid_m.x(), 0.2, 1e-9);
  EXPECT_EQ(FindClusters(points, 0.01, 1).size(), 3u);
  EXPECT_EQ(FindClusters(points, 0.5, 1).size(), 1u);
}

TEST(OrientationsTest, EstimatesTheNormalsOfASphere) {
  const Vector3d middle(0, 0, 0.5);
  std::vector<Vector3d> points;
  for (const Vector3d& point : Sphere(0.05, middle, 4000)) {
    if (point.z() < 0.48) points.push_back(point);  // what the camera sees
  }
  ThreadPool one(1), three(3);
  const std::vector<Vector3d> normals = EstimateNormals(points, 0.01, one);
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_GT(normals[i].dot((points[i] - middle).normalized()), std::cos(0.35)) << i;
  }
  EXPECT_EQ(normals, EstimateNormals(points, 0.01, three));
  const std::vector<Vector3d> lone{{0, 0, 2}};
  EXPECT_EQ(EstimateNormals(lone, 0.01, one)[0], -Vector3d::UnitZ());
}

TEST(OrientationsTest, TopDownOpensAcrossTheNarrowSide) {
  std::vector<Vector3d> points = TopFace(0.12, 0.04, {0.1, 0.05, 0.5});
  const std::vector<Candidate> candidates = TopDownCandidates(points, kDown, 0.04);
  ExpectRotations(candidates);
  ASSERT_GT(candidates.size(), 60u);
  EXPECT_EQ(candidates[0].score, 1);
  EXPECT_NEAR(std::abs(candidates[0].R_CG(1, 1)), 1, 1e-9);
  EXPECT_EQ(candidates[1].score, 0.5);
  EXPECT_NEAR(std::abs(candidates[1].R_CG(0, 1)), 1, 1e-9);
  EXPECT_NEAR(candidates[0].p_CG.x(), 0.1, 1e-9);
  EXPECT_NEAR(candidates[0].p_CG.y(), 0.05, 1e-9);
  for (const Candidate& candidate : candidates) {
    EXPECT_NEAR(candidate.R_CG.col(0).dot(kDown), 1, 1e-12);
    EXPECT_NEAR(candidate.p_CG.z() + 0.04, 0.5 + 0.03, 1e-9);  // tips 3 cm below the top
    EXPECT_GE(candidate.score, 0);
    EXPECT_LE(candidate.score, 1);
  }
  EXPECT_TRUE(TopDownCandidates({}, kDown, 0.04).empty());
}

TEST(OrientationsTest, RandomStaysInTheConeAndFollowsTheSeed) {
  const std::vector<Vector3d> points = TopFace(0.1, 0.1, {0, 0, 0.5});
  RandomOptions options;
  options.per_seed = 40;
  options.max_tilt_rad = 1.0;
  const std::vector<Candidate> candidates = RandomCandidates(points, kDown, options);
  ExpectRotations(candidates);
  ASSERT_GT(candidates.size(), 1000u);
  double mean_height = 0;
  for (const Candidate& candidate : candidates) {
    const double cosine = candidate.R_CG.col(0).dot(kDown);
    EXPECT_GE(cosine, std::cos(1.0) - 1e-9);
    mean_height += cosine / static_cast<double>(candidates.size());
  }
  EXPECT_NEAR(mean_height, (1 + std::cos(1.0)) / 2, 0.02);
  const auto again = RandomCandidates(points, kDown, options);
  EXPECT_EQ(candidates[17].R_CG, again[17].R_CG);
  options.seed = 1;
  EXPECT_NE(candidates[17].R_CG, RandomCandidates(points, kDown, options)[17].R_CG);
}

TEST(OrientationsTest, AntipodalPairsOppose) {
  const Vector3d middle(0.02, 0, 0.5);
  const std::vector<Vector3d> points = Sphere(0.03, middle, 1500);
  std::vector<Vector3d> normals;
  for (const Vector3d& point : points) normals.push_back((point - middle).normalized());
  AntipodalOptions options;
  const std::vector<Candidate> candidates =
      AntipodalCandidates(points, normals, kDown, 0.04, options);
  ExpectRotations(candidates);
  ASSERT_GT(candidates.size(), 200u);
  for (const Candidate& candidate : candidates) {
    // The line through the middle of a sphere: tips end 1 cm past it.
    const Vector3d between = candidate.p_CG + 0.03 * candidate.R_CG.col(0);
    EXPECT_LT((between - middle).norm(), 0.006);
    EXPECT_LE(candidate.score, 1);
    EXPECT_GE(candidate.score, 0);
  }
  options.max_width_m = 0.05;  // narrower than the sphere: its far side is out of reach
  options.friction_angle_rad = 0.2;
  EXPECT_TRUE(AntipodalCandidates(points, normals, kDown, 0.04, options).empty());
}

TEST(OrientationsTest, AntipodalFindsNothingOnAPlane) {
  const std::vector<Vector3d> points = TopFace(0.1, 0.1, {0, 0, 0.5});
  const std::vector<Vector3d> normals(points.size(), -kDown);
  EXPECT_TRUE(AntipodalCandidates(points, normals, kDown, 0.04).empty());
}

}  // namespace
}  // namespace palmist::grasp
