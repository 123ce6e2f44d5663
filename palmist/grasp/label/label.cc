#include "palmist/grasp/label/label.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

#include "palmist/base/interrupt.h"
#include "palmist/base/thread_pool.h"
#include "palmist/grasp/contact/closure.h"
#include "palmist/grasp/contact/lookup.h"
#include "palmist/grasp/contact/signed_distance.h"
#include "palmist/grasp/core/anchors.h"
#include "palmist/grasp/core/gripper.h"
#include "palmist/grasp/label/content_key.h"
#include "palmist/grasp/label/gripper_cells.h"

namespace palmist::grasp {
namespace {

/// What all points share.
struct Task {
  const LabelOptions& options;
  const DistanceLookup& object;
  std::vector<Vector3d> views_O;
  std::span<const Vector3d> cloud_O;
  int most_steps;  ///< of the opening
};

/// Labels one point after another.
class PointLabeller {
 public:
  explicit PointLabeller(const Task& task)
      : task_(task), cells_(task.cloud_O, task.options.depths, task.options.max_width_m) {}

  /// Returns the labels of a point, or some of them after a signal.
  std::vector<GraspLabel> Label(std::int64_t number, const Vector3d& p_O) {
    std::vector<GraspLabel> labels;
    const LabelOptions& options = task_.options;
    const Vector3d normal_O = task_.object.Gradient(task_.object.ToCells(p_O)).normalized();
    cells_.MoveTo(p_O);
    for (int view = 0; view < options.views && !InterruptRequested(); ++view) {
      const Vector3d& view_O = task_.views_O[view];
      // Also false for a normal that is not finite.
      if (!(normal_O.dot(view_O) >= options.min_approach_cosine)) continue;
      const Matrix3d R_OV = RotationFromView(view_O, 0);
      cells_.Face(R_OV);
      for (int angle = 0; angle < options.angles; ++angle) {
        const double angle_rad = std::numbers::pi * angle / options.angles;
        const Vector3d opening_O =
            std::cos(angle_rad) * R_OV.col(1) + std::sin(angle_rad) * R_OV.col(2);
        const GripperRows rows = cells_.Fill(angle_rad);
        const std::int64_t first =
            ((number * options.views + view) * options.angles + angle) * options.depths;
        AddDepths(rows, first, p_O, R_OV.col(0), opening_O, labels);
      }
    }
    return labels;
  }

 private:
  void AddDepths(const GripperRows& rows,
                 std::int64_t first,
                 const Vector3d& p_O,
                 const Vector3d& approach_O,
                 const Vector3d& opening_O,
                 std::vector<GraspLabel>& labels) const {
    std::uint64_t beside = rows[1] | rows[2];
    int k = 1;
    for (int depth = 0; depth < task_.options.depths; ++depth) {
      beside |= rows[kRowsBehind + depth];
      // Deeper fingers meet all that shallower ones do: the opening does not shrink.
      while (k <= task_.most_steps && (beside & FingerColumns(k)) != 0) ++k;
      if (k > task_.most_steps || (rows[0] & PalmColumns(k)) != 0) return;
      const double depth_m = (depth + 1) * kDepthStep_m;
      const ClosingLine line = {p_O + depth_m * approach_O, opening_O, k * kWidthStep_m};
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
  GripperCells cells_;
};

Result<void> CheckPoints(std::span<const Vector3d> points, const char* what) {
  if (points.empty()) return InputError(what, "has no points");
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!points[i].allFinite()) {
      return InputError(what, fmt::format("point {} is not finite", i));
    }
  }
  return {};
}

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
        "take a wider spacing; a model is in metres; --scale 0.001 for millimetres, with --mesh");
  }
  const DistanceLookup object(grid);
  const Task task{options,
                  object,
                  SphereViews(options.views),
                  cloud_O,
                  static_cast<int>(std::floor(options.max_width_m / kWidthStep_m + 1e-9))};

  ObjectLabels labels;
  labels.options = options;
  for (const Vector3d& p : points_O) labels.points_O.push_back(RoundToFloat(p));
  std::vector<std::vector<GraspLabel>> of_point(points_O.size());
  ParallelFor(static_cast<std::int64_t>(points_O.size()),
              options.threads,
              [&](std::int64_t begin, std::int64_t end, int) {
                PointLabeller labeller(task);
                for (std::int64_t i = begin; i < end && !InterruptRequested(); ++i) {
                  of_point[i] = labeller.Label(i, labels.points_O[i]);
                }
              });
  if (InterruptRequested()) return Error(ErrorKind::kInterrupted, "stopped by a signal");
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
        Range{"threads", static_cast<double>(options.threads), 1, 4096}}) {
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

LabelPlace PlaceOf(const GraspLabel& label, const LabelOptions& options) {
  const int of_angle = label.cell / options.depths, of_view = of_angle / options.angles;
  return {of_view / options.views,
          of_view % options.views,
          of_angle % options.angles,
          label.cell % options.depths};
}

Grasp GraspOf(const ObjectLabels& labels, const GraspLabel& label) {
  const LabelOptions& options = labels.options;
  const LabelPlace place = PlaceOf(label, options);
  Grasp grasp;
  if (label.friction_class > 0) grasp.score = 1.1 - kLabelFrictions[label.friction_class - 1];
  grasp.width_m = label.width_steps * kWidthStep_m;
  grasp.height_m = 2 * kHalfHeight_m;
  grasp.depth_m = (place.depth + 1) * kDepthStep_m;
  grasp.R_CG = RotationFromView(SphereDirection(place.view, options.views),
                                std::numbers::pi * place.angle / options.angles);
  grasp.p_CG = labels.points_O[place.point];
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
  PALMIST_ASSIGN_OR_RETURN(ObjectLabels labels,
                           LabelPoints(grid, cloud.points, points.points, options));
  labels.key = KeyOf(mesh);
  return labels;
}

Result<ObjectLabels> LabelObject(const SignedDistanceGrid& grid,
                                 std::span<const Vector3d> cloud_O,
                                 std::span<const Vector3d> points_O,
                                 const LabelOptions& options) {
  CheckOptions(options).value();
  PALMIST_RETURN_IF_ERROR(CheckGrid(grid, "grid"));
  PALMIST_RETURN_IF_ERROR(CheckPoints(cloud_O, "cloud"));
  PALMIST_RETURN_IF_ERROR(CheckPoints(points_O, "points"));
  return LabelPoints(grid, cloud_O, points_O, options);
}

}  // namespace palmist::grasp
