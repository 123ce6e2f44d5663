#include "palmist/grasp/label/label.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

#include "palmist/base/thread_pool.h"
#include "palmist/grasp/contact/closure.h"
#include "palmist/grasp/contact/lookup.h"
#include "palmist/grasp/contact/signed_distance.h"
#include "palmist/grasp/core/anchors.h"
#include "palmist/grasp/core/gripper.h"
#include "palmist/grasp/core/point_cloud.h"

namespace palmist::grasp {
namespace {

// Cells of the gripper's plane: rows along x, of which the first is the palm and the next two are
// the fingers behind the grasp point, and 64 columns along y, each a bit. Opening by one step moves
// each finger by one column.
constexpr double kRow_m = 0.01;
constexpr double kColumn_m = kWidthStep_m / 2;
constexpr int kColumns = 64;
constexpr int kFingerColumns = 4;
constexpr int kRowsBehind = 3;
constexpr int kMaxDepths = 8;
constexpr double kMostWidth_m = 0.13;
static_assert(kRow_m == kDepthStep_m && kRow_m == kPalmDepth_m && 2 * kRow_m == kFingersBehind_m);
static_assert(kFingerColumns * kColumn_m == kFingerThickness_m);
// The columns hold all that is within the gripper's reach, with one to spare.
static_assert((kMostWidth_m / 2 + kFingerThickness_m) * (kMostWidth_m / 2 + kFingerThickness_m) +
                  kHalfHeight_m * kHalfHeight_m <
              (kColumns / 2 - 1) * kColumn_m * (kColumns / 2 - 1) * kColumn_m);

/// One row more than there are: for what rounding takes beyond the last one.
using Rows = std::array<std::uint64_t, kRowsBehind + kMaxDepths + 1>;

/// Returns the columns [from, to), counted from the middle.
std::uint64_t Columns(int from, int to) {
  std::uint64_t columns = 0;
  for (int i = from; i < to; ++i) columns |= std::uint64_t{1} << (kColumns / 2 + i);
  return columns;
}

/// The columns of both fingers, and of the palm, at each opening.
struct Opening {
  std::uint64_t fingers, palm;
};

std::vector<Opening> Openings(double max_width_m) {
  std::vector<Opening> openings;
  const int steps = static_cast<int>(std::floor(max_width_m / kWidthStep_m + 1e-9));
  for (int k = 0; k <= steps; ++k) {
    const int outer = k + kFingerColumns;
    openings.push_back({Columns(-outer, -k) | Columns(k, outer), Columns(-outer, outer)});
  }
  return openings;
}

/// Coordinates in float, each in an array of its own.
struct Points {
  std::vector<float> x, y, z;

  std::size_t size() const { return x.size(); }
  void Clear() {
    x.clear();
    y.clear();
    z.clear();
  }
  void Add(float px, float py, float pz) {
    x.push_back(px);
    y.push_back(py);
    z.push_back(pz);
  }
};

/// What all points share.
struct Task {
  const LabelOptions& options;
  const DistanceLookup& object;
  std::vector<Vector3d> views_O;
  std::vector<Opening> openings;
  Points cloud_O;
  double reach_m = 0;  ///< of the gripper from its approach line
};

/// Labels one point after another.
class PointLabeller {
 public:
  explicit PointLabeller(const Task& task) : task_(task) {}

  std::vector<GraspLabel> Label(std::int64_t number, const Vector3d& p_O) {
    std::vector<GraspLabel> labels;
    const LabelOptions& options = task_.options;
    const Vector3d normal_O = task_.object.Gradient(task_.object.ToCells(p_O)).normalized();
    Crop(p_O);
    for (int view = 0; view < options.views; ++view) {
      const Vector3d& view_O = task_.views_O[view];
      // Also false for a normal that is not finite.
      if (!(normal_O.dot(view_O) >= options.min_approach_cosine)) continue;
      const Matrix3d R_OV = RotationFromView(view_O, 0);
      Rotate(R_OV);
      for (int angle = 0; angle < options.angles; ++angle) {
        const double angle_rad = std::numbers::pi * angle / options.angles;
        const Vector3d opening_O =
            std::cos(angle_rad) * R_OV.col(1) + std::sin(angle_rad) * R_OV.col(2);
        const Rows rows = Fill(angle_rad);
        const std::int64_t first =
            ((number * options.views + view) * options.angles + angle) * options.depths;
        AddDepths(rows, first, p_O, R_OV.col(0), opening_O, labels);
      }
    }
    return labels;
  }

 private:
  /// Keeps, relative to `p_O`, what any gripper there can meet.
  void Crop(const Vector3d& p_O) {
    const double ahead_m =
        std::max(kFingersBehind_m + kPalmDepth_m, task_.options.depths * kDepthStep_m);
    const auto limit = static_cast<float>(ahead_m * ahead_m + task_.reach_m * task_.reach_m);
    const Eigen::Vector3f p = p_O.cast<float>();
    near_O_.Clear();
    for (std::size_t i = 0; i < task_.cloud_O.size(); ++i) {
      const float x = task_.cloud_O.x[i] - p.x();
      const float y = task_.cloud_O.y[i] - p.y();
      const float z = task_.cloud_O.z[i] - p.z();
      if (x * x + y * y + z * z < limit) near_O_.Add(x, y, z);
    }
  }

  /// Turns what was kept into the view's frame, and keeps what is within the gripper's rows.
  void Rotate(const Matrix3d& R_OV) {
    const Eigen::Matrix3f R = R_OV.transpose().cast<float>();
    const auto reach = static_cast<float>(task_.reach_m * task_.reach_m);
    const auto lowest = static_cast<float>(-kFingersBehind_m - kPalmDepth_m);
    const auto highest = static_cast<float>(task_.options.depths * kDepthStep_m);
    y_V_.resize(near_O_.size());
    z_V_.resize(near_O_.size());
    row_.resize(near_O_.size());
    count_ = 0;
    for (std::size_t i = 0; i < near_O_.size(); ++i) {
      const float x = near_O_.x[i], y = near_O_.y[i], z = near_O_.z[i];
      const float along = R(0, 0) * x + R(0, 1) * y + R(0, 2) * z;
      const float across = R(1, 0) * x + R(1, 1) * y + R(1, 2) * z;
      const float up = R(2, 0) * x + R(2, 1) * y + R(2, 2) * z;
      const bool is_within =
          (along > lowest) & (along < highest) & (across * across + up * up < reach);
      if (!is_within) continue;
      y_V_[count_] = across;
      z_V_[count_] = up;
      // Not negative, so that the conversion is the floor.
      row_[count_] = static_cast<std::uint8_t>((along - lowest) / static_cast<float>(kRow_m));
      ++count_;
    }
  }

  /// Returns the cells of the gripper's plane with a point, the gripper turned by the angle.
  Rows Fill(double angle_rad) const {
    const auto cosine = static_cast<float>(std::cos(angle_rad));
    const auto sine = static_cast<float>(std::sin(angle_rad));
    Rows rows = {};
    for (std::size_t i = 0; i < count_; ++i) {
      const float z = cosine * z_V_[i] - sine * y_V_[i];
      if (std::abs(z) >= static_cast<float>(kHalfHeight_m)) continue;
      const float y = cosine * y_V_[i] + sine * z_V_[i];
      const int column = static_cast<int>(y / static_cast<float>(kColumn_m) + kColumns / 2);
      rows[row_[i]] |= std::uint64_t{1} << column;
    }
    return rows;
  }

  void AddDepths(const Rows& rows,
                 std::int64_t first,
                 const Vector3d& p_O,
                 const Vector3d& approach_O,
                 const Vector3d& opening_O,
                 std::vector<GraspLabel>& labels) const {
    std::uint64_t beside = rows[1] | rows[2];
    std::size_t k = 1;
    for (int depth = 0; depth < task_.options.depths; ++depth) {
      beside |= rows[kRowsBehind + depth];
      // Deeper fingers meet all that shallower ones do: the opening does not shrink.
      while (k < task_.openings.size() && (beside & task_.openings[k].fingers) != 0) ++k;
      if (k == task_.openings.size() || (rows[0] & task_.openings[k].palm) != 0) return;
      const double depth_m = (depth + 1) * kDepthStep_m;
      const ClosingLine line = {
          p_O + depth_m * approach_O, opening_O, static_cast<double>(k) * kWidthStep_m};
      const auto angles_rad =
          ContactAngles(FindContacts(task_.object, line, task_.options.rule), task_.options.rule);
      labels.push_back({static_cast<std::int32_t>(first + depth),
                        static_cast<std::uint8_t>(k),
                        angles_rad ? FrictionClass(*angles_rad) : std::uint8_t{0}});
    }
  }

  static std::uint8_t FrictionClass(const std::array<double, 2>& angles_rad) {
    const double friction = SmallestFriction(angles_rad, kLabelFrictions);
    if (friction == kNoClosure) return 0;
    const auto found = std::find(kLabelFrictions.begin(), kLabelFrictions.end(), friction);
    return static_cast<std::uint8_t>(found - kLabelFrictions.begin() + 1);
  }

  const Task& task_;
  Points near_O_;
  std::size_t count_ = 0;
  std::vector<float> y_V_, z_V_;
  std::vector<std::uint8_t> row_;
};

Result<ObjectLabels> LabelPoints(const SignedDistanceGrid& grid,
                                 std::span<const Vector3d> cloud_O,
                                 std::span<const Vector3d> points_O,
                                 const LabelOptions& options) {
  const double candidates =
      static_cast<double>(points_O.size()) * options.views * options.angles * options.depths;
  if (candidates > std::numeric_limits<std::int32_t>::max()) {
    return InputError(
        "object",
        fmt::format(
            "{} points give {:.3g} candidates, more than 2^31", points_O.size(), candidates),
        "a model is in metres; scale it, or take a wider spacing");
  }
  const DistanceLookup object(grid);
  Task task{options, object, SphereViews(options.views), Openings(options.max_width_m), {}, 0};
  task.reach_m = std::hypot(options.max_width_m / 2 + kFingerThickness_m, kHalfHeight_m);
  for (const Vector3d& p : cloud_O) {
    const Eigen::Vector3f rounded = p.cast<float>();
    task.cloud_O.Add(rounded.x(), rounded.y(), rounded.z());
  }

  ObjectLabels labels;
  labels.options = options;
  for (const Vector3d& p : points_O) labels.points_O.push_back(RoundToFloat(p));
  std::vector<std::vector<GraspLabel>> of_point(points_O.size());
  ParallelFor(static_cast<std::int64_t>(points_O.size()),
              options.threads,
              [&](std::int64_t begin, std::int64_t end, int) {
                PointLabeller labeller(task);
                for (std::int64_t i = begin; i < end; ++i) {
                  of_point[i] = labeller.Label(i, labels.points_O[i]);
                }
              });
  for (const std::vector<GraspLabel>& some : of_point) {
    labels.grasps.insert(labels.grasps.end(), some.begin(), some.end());
  }
  return labels;
}

}  // namespace

Result<void> CheckOptions(const LabelOptions& options) {
  struct Range {
    const char* option;
    double value, least, most;
  };
  for (const auto& [option, value, least, most] :
       {Range{"spacing_m", options.spacing_m, 1e-4, 1},
        Range{"views", static_cast<double>(options.views), 1, 100000},
        Range{"angles", static_cast<double>(options.angles), 1, 1000},
        Range{"depths", static_cast<double>(options.depths), 1, kMaxDepths},
        Range{"max_width_m", options.max_width_m, kWidthStep_m, kMostWidth_m},
        Range{"min_approach_cosine", options.min_approach_cosine, -1, 1},
        Range{"resolution_m", options.resolution_m, 1e-5, 1},
        Range{"cloud_spacing_m", options.cloud_spacing_m, 1e-4, kWidthStep_m},
        Range{"seed", static_cast<double>(options.seed), 0, std::numeric_limits<int>::max()},
        Range{"threads", static_cast<double>(options.threads), 1, 1024}}) {
    if (!(value >= least && value <= most)) {
      return UsageError(option, fmt::format("expected {} to {}, got {}", least, most, value));
    }
  }
  return {};
}

std::vector<Vector3d> SphereViews(int views) {
  std::vector<Vector3d> directions;
  for (int i = 0; i < views; ++i) directions.push_back(SphereDirection(i, views));
  return directions;
}

Grasp GraspOf(const ObjectLabels& labels, const GraspLabel& label) {
  const LabelOptions& options = labels.options;
  const int depth = label.cell % options.depths;
  const int angle = label.cell / options.depths % options.angles;
  const int view = label.cell / options.depths / options.angles % options.views;
  const int point = label.cell / options.depths / options.angles / options.views;
  Grasp grasp;
  if (label.friction_class > 0) grasp.score = 1.1 - kLabelFrictions[label.friction_class - 1];
  grasp.width_m = label.width_steps * kWidthStep_m;
  grasp.height_m = 2 * kHalfHeight_m;
  grasp.depth_m = (depth + 1) * kDepthStep_m;
  grasp.R_CG = RotationFromView(SphereDirection(view, options.views),
                                std::numbers::pi * angle / options.angles);
  grasp.p_CG = labels.points_O[point];
  return grasp;
}

Result<ObjectLabels> LabelObject(const TriangleMesh& mesh, const LabelOptions& options) {
  CheckOptions(options).value();
  SignedDistanceOptions distances;
  distances.resolution_m = options.resolution_m;
  distances.threads = options.threads;
  PALMIST_ASSIGN_OR_RETURN(const SignedDistanceGrid grid, SignedDistanceFromMesh(mesh, distances));
  PALMIST_ASSIGN_OR_RETURN(const SurfaceSamples points,
                           SampleSurface(mesh, options.spacing_m, options.seed));
  PALMIST_ASSIGN_OR_RETURN(const SurfaceSamples cloud,
                           SampleSurface(mesh, options.cloud_spacing_m, options.seed));
  return LabelPoints(grid, cloud.points, points.points, options);
}

Result<ObjectLabels> LabelObject(const SignedDistanceGrid& grid,
                                 std::span<const Vector3d> cloud_O,
                                 const LabelOptions& options) {
  CheckOptions(options).value();
  PALMIST_RETURN_IF_ERROR(CheckGrid(grid, "grid"));
  if (cloud_O.empty()) return InputError("cloud", "has no points");
  for (std::size_t i = 0; i < cloud_O.size(); ++i) {
    if (!cloud_O[i].allFinite()) {
      return InputError("cloud", fmt::format("point {} is not finite", i));
    }
  }
  PointCloud cloud;
  cloud.points.assign(cloud_O.begin(), cloud_O.end());
  const PointCloud points = VoxelDownsample(cloud, options.spacing_m);
  return LabelPoints(grid, cloud_O, points.points, options);
}

}  // namespace palmist::grasp
