#include "palmist/grasp/search/orientations.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <unordered_map>

#include "palmist/base/error.h"
#include "palmist/base/rng.h"
#include "palmist/grasp/core/anchors.h"
#include "palmist/grasp/core/cell.h"
#include "palmist/grasp/core/point_cloud.h"

namespace palmist::grasp {
namespace {

/// Returns the first point of each voxel.
std::vector<std::size_t> FirstOfVoxels(std::span<const Vector3d> points, double voxel_m) {
  std::vector<std::size_t> first;
  std::unordered_map<std::uint64_t, std::size_t> seen;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (seen.try_emplace(CellKey(CellOf(points[i], voxel_m)), i).second) first.push_back(i);
  }
  return first;
}

/// Returns a rotation whose approach and opening are the given ones.
/// @pre both have length 1 and are at right angles
Matrix3d RotationOf(const Vector3d& approach, const Vector3d& opening) {
  Matrix3d R;
  R << approach, opening, approach.cross(opening);
  return R;
}

/// Returns any unit vector across `direction`.
Vector3d Across(const Vector3d& direction) { return direction.unitOrthogonal(); }

Vector3d Flattened(const Vector3d& x, const Vector3d& down) { return x - x.dot(down) * down; }

/// Returns the unit vector across `down` along which the cluster is narrowest.
Vector3d NarrowSide(std::span<const Vector3d> points,
                    const Cluster& cluster,
                    const Vector3d& down) {
  Matrix3d covariance = Matrix3d::Zero();
  for (const std::size_t i : cluster.points) {
    const Vector3d offset = Flattened(points[i] - cluster.centroid_m, down);
    covariance += offset * offset.transpose();
  }
  const Vector3d u = Across(down), v = down.cross(u);
  Eigen::Matrix2d plane;
  const double uv = u.dot(covariance * v);
  plane << u.dot(covariance * u), uv, uv, v.dot(covariance * v);
  const Eigen::Vector2d narrow =
      Eigen::SelfAdjointEigenSolver<Eigen::Matrix2d>(plane).eigenvectors().col(0);
  return (narrow.x() * u + narrow.y() * v).normalized();
}

/// Returns the height (against `down`) of the highest point of the cluster within 1 cm, measured
/// across `down`, of `place`; that of the place itself where there is none.
double TopHeight(std::span<const Vector3d> points,
                 const Cluster& cluster,
                 const Vector3d& place,
                 const Vector3d& down) {
  constexpr double kRadius_m = 0.01;
  double top = -down.dot(place);
  for (const std::size_t i : cluster.points) {
    if (Flattened(points[i] - place, down).norm() < kRadius_m) {
      top = std::max(top, -down.dot(points[i]));
    }
  }
  return top;
}

}  // namespace

std::vector<std::size_t> SampleEvenly(std::span<const Vector3d> points, std::size_t count) {
  // Voxels never join points on both sides of a plane through the origin: there is a last size.
  constexpr double kFirstVoxel_m = 0.005, kLastVoxel_m = 100;
  std::vector<std::size_t> sample(points.size());
  std::iota(sample.begin(), sample.end(), std::size_t{0});
  for (double voxel_m = kFirstVoxel_m; sample.size() > count && voxel_m < kLastVoxel_m;
       voxel_m *= 1.25) {
    sample = FirstOfVoxels(points, voxel_m);
  }
  sample.resize(std::min(sample.size(), count));
  return sample;
}

std::vector<Cluster> FindClusters(std::span<const Vector3d> points,
                                  double gap_m,
                                  std::size_t min_points) {
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> voxels;
  for (std::size_t i = 0; i < points.size(); ++i) {
    voxels[CellKey(CellOf(points[i], gap_m))].push_back(i);
  }
  std::vector<Cluster> clusters;
  std::vector<Vector3d> reached;  // a point of each voxel whose neighbours are to be visited
  for (const Vector3d& first : points) {
    Cluster cluster;
    const auto take = [&](std::uint64_t key) {
      const auto found = voxels.find(key);
      if (found == voxels.end() || found->second.empty()) return;
      reached.push_back(points[found->second.front()]);
      cluster.points.insert(cluster.points.end(), found->second.begin(), found->second.end());
      found->second.clear();
    };
    take(CellKey(CellOf(first, gap_m)));
    while (!reached.empty()) {
      const Cell cell = CellOf(reached.back(), gap_m);
      reached.pop_back();
      for (const std::uint64_t key : KeysAround(cell)) take(key);
    }
    if (cluster.points.empty() || cluster.points.size() < min_points) continue;
    for (const std::size_t i : cluster.points) cluster.centroid_m += points[i];
    cluster.centroid_m /= static_cast<double>(cluster.points.size());
    clusters.push_back(std::move(cluster));
  }
  return clusters;
}

std::vector<Vector3d> EstimateNormals(std::span<const Vector3d> points,
                                      double radius_m,
                                      ThreadPool& pool) {
  const KdTree tree(points);
  std::vector<Vector3d> normals(points.size());
  pool.ParallelFor(std::ssize(points), [&](std::int64_t begin, std::int64_t end, int) {
    std::vector<std::size_t> near;
    for (std::int64_t i = begin; i < end; ++i) {
      tree.WithinRadius(points[i], radius_m, near);
      std::sort(near.begin(), near.end());  // sums in one order
      const Vector3d to_camera = -points[i].stableNormalized();
      normals[i] = to_camera;
      if (near.size() < 4) continue;  // the point itself is among them
      Vector3d mean = Vector3d::Zero();
      for (const std::size_t k : near) mean += points[k];
      mean /= static_cast<double>(near.size());
      Matrix3d covariance = Matrix3d::Zero();
      for (const std::size_t k : near) {
        covariance += (points[k] - mean) * (points[k] - mean).transpose();
      }
      Eigen::SelfAdjointEigenSolver<Matrix3d> solver;
      solver.computeDirect(covariance);
      const Vector3d normal = solver.eigenvectors().col(0);
      normals[i] = normal.dot(to_camera) < 0 ? Vector3d(-normal) : normal;
    }
  });
  return normals;
}

std::vector<Candidate> TopDownCandidates(std::span<const Vector3d> points,
                                         const Vector3d& down,
                                         double tips_m,
                                         const TopDownOptions& options) {
  std::vector<Candidate> candidates;
  const std::vector<Cluster> clusters =
      FindClusters(points, options.cluster_gap_m, options.min_cluster_points);
  std::vector<int> cluster_of(points.size(), -1);
  std::vector<double> radius_m(clusters.size(), 0);
  const auto point_at = [&](const Cluster& cluster, const Vector3d& place) -> Vector3d {
    const double top = TopHeight(points, cluster, place, down);
    return Flattened(place, down) + (options.margin_m - top - tips_m) * down;
  };
  for (std::size_t c = 0; c < clusters.size(); ++c) {
    const Cluster& cluster = clusters[c];
    for (const std::size_t i : cluster.points) {
      cluster_of[i] = static_cast<int>(c);
      radius_m[c] = std::max(radius_m[c], Flattened(points[i] - cluster.centroid_m, down).norm());
    }
    const Vector3d p_CG = point_at(cluster, cluster.centroid_m);
    const Vector3d narrow = NarrowSide(points, cluster, down);
    candidates.push_back({RotationOf(down, narrow), p_CG, 1.0});
    candidates.push_back({RotationOf(down, down.cross(narrow)), p_CG, 0.5});
  }
  const Vector3d u = Across(down), v = down.cross(u);
  for (const std::size_t i : SampleEvenly(points, options.seeds)) {
    if (cluster_of[i] < 0) continue;
    const Cluster& cluster = clusters[cluster_of[i]];
    const double from_middle_m = Flattened(points[i] - cluster.centroid_m, down).norm();
    const double score = 1 - from_middle_m / std::max(radius_m[cluster_of[i]], 1e-9);
    const Vector3d p_CG = point_at(cluster, points[i]);
    for (int k = 0; k < options.angles; ++k) {
      const double angle_rad = std::numbers::pi * k / options.angles;
      const Vector3d opening = std::cos(angle_rad) * u + std::sin(angle_rad) * v;
      candidates.push_back({RotationOf(down, opening), p_CG, score});
    }
  }
  return candidates;
}

std::vector<Candidate> RandomCandidates(std::span<const Vector3d> points,
                                        const Vector3d& down,
                                        const RandomOptions& options) {
  std::vector<Candidate> candidates;
  const Vector3d u = Across(down), v = down.cross(u);
  const double lowest = std::cos(options.max_tilt_rad);
  for (const std::size_t i : SampleEvenly(points, options.seeds)) {
    Rng rng(options.seed, i);
    for (int k = 0; k < options.per_seed; ++k) {
      // Uniform on the cap: the height on a sphere is uniform (Archimedes).
      const double height = lowest + (1 - lowest) * rng.Uniform();
      const double around_rad = 2 * std::numbers::pi * rng.Uniform();
      const double ring = std::sqrt(std::max(0.0, 1 - height * height));
      const Vector3d approach =
          (height * down + ring * (std::cos(around_rad) * u + std::sin(around_rad) * v))
              .normalized();
      candidates.push_back(
          {RotationFromView(-approach, std::numbers::pi * rng.Uniform()), points[i], 0.0});
    }
  }
  return candidates;
}

std::vector<Candidate> AntipodalCandidates(std::span<const Vector3d> points,
                                           std::span<const Vector3d> normals,
                                           const Vector3d& down,
                                           double tips_m,
                                           const AntipodalOptions& options) {
  PALMIST_ASSERT(points.size() == normals.size());
  std::vector<Candidate> candidates;
  const KdTree tree(points);
  std::vector<std::size_t> near;
  const double min_cosine = std::cos(options.friction_angle_rad);
  for (const std::size_t i : SampleEvenly(points, options.seeds)) {
    tree.WithinRadius(points[i], options.max_width_m, near);
    double best = min_cosine, quality = 0;
    std::size_t partner = i;
    for (const std::size_t k : near) {
      const Vector3d line = points[k] - points[i];
      const double length_m = line.norm();
      if (length_m == 0) continue;
      const double here = -normals[i].dot(line) / length_m;
      const double there = normals[k].dot(line) / length_m;
      const double worse = std::min(here, there);
      // The tree's order is no order: of equals, the lower number.
      if (worse > best || (worse == best && k < partner && partner != i)) {
        best = worse;
        quality = here * there;
        partner = k;
      }
    }
    if (partner == i) continue;
    const Vector3d opening = (points[partner] - points[i]).normalized();
    const Vector3d middle = (points[partner] + points[i]) / 2;
    const Vector3d upright = Flattened(down, opening);
    // A line along `down`: any approach across it is as upright as another.
    const Vector3d first = upright.norm() > 1e-6 ? Vector3d(upright.normalized()) : Across(opening);
    for (int k = 0; k < options.approaches; ++k) {
      const double share = options.approaches == 1 ? 0 : k / (options.approaches - 1.0) - 0.5;
      const Vector3d approach =
          Eigen::AngleAxisd(share * options.approach_span_rad, opening) * first;
      candidates.push_back({RotationOf(approach, opening),
                            middle - (tips_m - options.margin_m) * approach,
                            quality * std::max(0.0, approach.dot(down))});
    }
  }
  return candidates;
}

}  // namespace palmist::grasp
