#include "palmist/grasp/core/point_cloud.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <limits>
#include <nanoflann.hpp>
#include <unordered_map>
#include <utility>

#include "palmist/base/error.h"
#include "palmist/base/rng.h"
#include "palmist/grasp/core/cell.h"

namespace palmist::grasp {
namespace {

/// @pre the point is not below the origin
Cell VoxelOf(const Vector3d& point, const Vector3d& origin_m, double voxel_m) {
  constexpr double kLimit = 9e18;  // below the largest int64
  Cell voxel;
  for (int axis = 0; axis < 3; ++axis) {
    voxel[axis] =
        static_cast<std::int64_t>(std::min((point[axis] - origin_m[axis]) / voxel_m, kLimit));
  }
  return voxel;
}

struct VoxelSum {
  Vector3d position = Vector3d::Zero();
  std::array<std::uint64_t, 3> color = {0, 0, 0};
  std::uint64_t count = 0;
};

/// What nanoflann needs to know of a cloud.
struct PointsAdaptor {
  std::span<const Vector3d> points;

  std::size_t kdtree_get_point_count() const { return points.size(); }
  double kdtree_get_pt(std::size_t index, std::size_t axis) const { return points[index][axis]; }
  template <typename Box>
  bool kdtree_get_bbox(Box&) const {
    return false;
  }
};

using Tree = nanoflann::
    KDTreeSingleIndexAdaptor<nanoflann::L2_Simple_Adaptor<double, PointsAdaptor>, PointsAdaptor, 3>;

/// Keeps the nearest point, of equal ones the first.
class NearestPoint {
 public:
  bool addPoint(double squared, std::uint32_t index) {
    if (squared < squared_ || (squared == squared_ && index < index_)) {
      squared_ = squared;
      index_ = index;
    }
    return true;
  }
  /// A little above the best, so that the search looks at equal ones too.
  double worstDist() const { return squared_ * (1 + 1e-9) + std::numeric_limits<double>::min(); }
  bool full() const { return true; }

  std::size_t index() const { return index_; }
  double squared() const { return squared_; }

 private:
  double squared_ = std::numeric_limits<double>::infinity();
  std::uint32_t index_ = 0;
};

/// Keeps all points within a radius.
class PointsWithin {
 public:
  PointsWithin(double radius, std::vector<std::size_t>& found)
      : squared_(radius > 0 ? radius * radius : 0), found_(found) {}

  bool addPoint(double, std::uint32_t index) {
    found_.push_back(index);
    return true;
  }
  double worstDist() const { return squared_; }
  bool full() const { return true; }

 private:
  double squared_;
  std::vector<std::size_t>& found_;
};

using Points = Eigen::Matrix3Xd;

/// Returns at most `max_points` of the finite points, taken evenly.
Points TakeEvenly(std::span<const Vector3d> points, int max_points) {
  std::vector<std::size_t> finite;
  finite.reserve(points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (points[i].allFinite()) finite.push_back(i);
  }
  const std::size_t count =
      std::min(finite.size(), static_cast<std::size_t>(std::max(max_points, 0)));
  Points taken(3, count);
  for (std::size_t i = 0; i < count; ++i) taken.col(i) = points[finite[i * finite.size() / count]];
  return taken;
}

Eigen::Array<bool, 1, Eigen::Dynamic> Inliers(const Points& points,
                                              const Plane& plane,
                                              double inlier_m) {
  return (plane.normal.transpose() * points).array().operator-(plane.offset_m).abs() < inlier_m;
}

/// Returns the plane through three points, or none where they lie on a line.
std::optional<Plane> PlaneThrough(const Vector3d& a, const Vector3d& b, const Vector3d& c) {
  constexpr double kMinSine = 1e-3;
  const Vector3d normal = (b - a).cross(c - a);
  if (!(normal.norm() > kMinSine * (b - a).norm() * (c - a).norm())) return std::nullopt;
  const Vector3d unit = normal.normalized();
  return Plane{unit, unit.dot(a)};
}

/// Returns after how many rounds one had three points of a plane with this share of all, but for
/// one case in a million; a few more, since three noisy points may lie badly. Source: M. Fischler,
/// R. Bolles, Random sample consensus, 1981, section II.B.
double RoundsEnough(double share) {
  constexpr double kMissed = 1e-6;
  constexpr double kFewest = 50;
  // Infinite for a share of nearly 0, 0 for one of 1.
  return std::max(kFewest, std::log(kMissed) / std::log1p(-share * share * share));
}

/// Returns the plane of least squared distances to the points of `plane`, or `plane` itself where
/// they do not span one.
Plane Refit(const Points& points, const Plane& plane, double inlier_m) {
  const auto inliers = Inliers(points, plane, inlier_m);
  Points chosen(3, inliers.count());
  for (Eigen::Index i = 0, next = 0; i < points.cols(); ++i) {
    if (inliers[i]) chosen.col(next++) = points.col(i);
  }
  if (chosen.cols() < 3) return plane;
  const Vector3d mean = chosen.rowwise().mean();
  chosen.colwise() -= mean;
  const Eigen::SelfAdjointEigenSolver<Matrix3d> axes(chosen * chosen.transpose());
  const Vector3d normal = axes.eigenvectors().col(0);
  return {normal, normal.dot(mean)};
}

}  // namespace

PointCloud VoxelDownsample(const PointCloud& cloud, double voxel_m) {
  PALMIST_ASSERT(voxel_m > 0);
  const bool has_colors = !cloud.colors.empty();
  PALMIST_ASSERT(!has_colors || cloud.colors.size() == cloud.size());

  Vector3d lower_m = Vector3d::Constant(std::numeric_limits<double>::max());
  for (const Vector3d& point : cloud.points) {
    if (point.allFinite()) lower_m = lower_m.cwiseMin(point);
  }
  const Vector3d origin_m = lower_m - Vector3d::Constant(voxel_m * 0.5);

  std::vector<VoxelSum> sums;
  std::unordered_map<Cell, std::size_t, CellHash> number_of;
  Cell last_voxel = {-1, -1, -1};
  std::size_t last_number = 0;
  for (std::size_t i = 0; i < cloud.size(); ++i) {
    const Vector3d& point = cloud.points[i];
    if (!point.allFinite()) continue;
    const Cell voxel = VoxelOf(point, origin_m, voxel_m);
    if (voxel != last_voxel) {  // neighbours in an image mostly share their voxel
      last_voxel = voxel;
      last_number = number_of.try_emplace(voxel, sums.size()).first->second;
      if (last_number == sums.size()) sums.emplace_back();
    }
    VoxelSum& sum = sums[last_number];
    sum.position += point;
    ++sum.count;
    if (has_colors) {
      for (int channel = 0; channel < 3; ++channel) sum.color[channel] += cloud.colors[i][channel];
    }
  }

  PointCloud means;
  means.points.reserve(sums.size());
  if (has_colors) means.colors.reserve(sums.size());
  for (const VoxelSum& sum : sums) {
    means.points.push_back(sum.position / static_cast<double>(sum.count));
    if (!has_colors) continue;
    std::array<std::uint8_t, 3>& color = means.colors.emplace_back();
    for (int channel = 0; channel < 3; ++channel) {
      color[channel] = static_cast<std::uint8_t>((sum.color[channel] + sum.count / 2) / sum.count);
    }
  }
  return means;
}

struct KdTree::Impl {
  explicit Impl(std::span<const Vector3d> points) : adaptor{points}, tree(3, adaptor) {}

  PointsAdaptor adaptor;
  Tree tree;
};

KdTree::KdTree(std::span<const Vector3d> points) {
  PALMIST_ASSERT(points.size() < std::numeric_limits<std::uint32_t>::max());
  impl_ = std::make_unique<Impl>(points);
}
KdTree::~KdTree() = default;
KdTree::KdTree(KdTree&&) noexcept = default;
KdTree& KdTree::operator=(KdTree&&) noexcept = default;

std::optional<KdTree::Neighbor> KdTree::Nearest(const Vector3d& place) const {
  if (impl_->adaptor.points.empty()) return std::nullopt;
  NearestPoint nearest;
  impl_->tree.findNeighbors(nearest, place.data(), nanoflann::SearchParams());
  return Neighbor{nearest.index(), std::sqrt(nearest.squared())};
}

void KdTree::WithinRadius(const Vector3d& place,
                          double radius_m,
                          std::vector<std::size_t>& found) const {
  found.clear();
  PointsWithin within(radius_m, found);
  impl_->tree.findNeighbors(within, place.data(), nanoflann::SearchParams());
}

std::optional<Plane> FitPlane(std::span<const Vector3d> points, const PlaneOptions& options) {
  const Points sample = TakeEvenly(points, options.max_points);
  if (sample.cols() < 3) return std::nullopt;

  Rng rng(options.seed);
  const auto random_point = [&] { return sample.col(rng.Integer(sample.cols())); };
  std::optional<Plane> best;
  Eigen::Index best_inliers = 0;
  double rounds = options.rounds;
  for (int round = 0; round < rounds; ++round) {
    const Vector3d a = random_point();
    const Vector3d b = random_point();
    const Vector3d c = random_point();
    const std::optional<Plane> plane = PlaneThrough(a, b, c);
    if (!plane) continue;
    const Eigen::Index inliers = Inliers(sample, *plane, options.inlier_m).count();
    if (inliers > best_inliers) {
      best = plane;
      best_inliers = inliers;
      const double share = static_cast<double>(inliers) / static_cast<double>(sample.cols());
      rounds = std::min(rounds, RoundsEnough(share));
    }
  }
  if (!best) return std::nullopt;

  // The second time with the points that the better plane has won.
  for (int repeat = 0; repeat < 2; ++repeat) best = Refit(sample, *best, options.inlier_m);
  const Eigen::Index inliers = Inliers(sample, *best, options.inlier_m).count();
  if (inliers < 3 || inliers < options.min_share * sample.cols()) return std::nullopt;
  if (best->offset_m > 0) best = Plane{-best->normal, -best->offset_m};
  return best;
}

}  // namespace palmist::grasp
