#include "palmist/grasp/label/scene_collisions.h"

#include <fmt/format.h>

#include <Eigen/Geometry>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <utility>

#include "palmist/base/interrupt.h"
#include "palmist/base/thread_pool.h"
#include "palmist/grasp/core/anchors.h"
#include "palmist/grasp/core/gripper.h"
#include "palmist/grasp/formats/npz.h"
#include "palmist/grasp/label/gripper_cells.h"

namespace palmist::grasp {
namespace {

/// Returns whether a corner of the gripper's boxes is on or below the plane.
bool MeetsPlane(
    const Plane& plane, const Matrix3d& R, const Vector3d& p, double depth_m, int steps) {
  const Vector3d along = R.transpose() * plane.normal;
  const double outer_m = steps * kWidthStep_m / 2 + kFingerThickness_m;
  const double lowest_m =
      std::min(depth_m * along.x(), -(kFingersBehind_m + kPalmDepth_m) * along.x()) -
      outer_m * std::abs(along.y()) - kHalfHeight_m * std::abs(along.z());
  return plane.SignedDistance(p) + lowest_m <= 0;
}

/// Returns the points of the other objects that a gripper at the object may meet, in its frame.
std::vector<Vector3d> Surroundings(std::span<const PlacedObject> objects, std::size_t object) {
  const PlacedObject& self = objects[object];
  Eigen::AlignedBox3d box_O;
  for (const Vector3d& p_O : self.labels->points_O) box_O.extend(p_O);
  const double reach_m =
      self.labels->options.depths * kDepthStep_m + kMostWidth_m / 2 + 2 * kFingersBehind_m;
  std::vector<Vector3d> points_O;
  if (box_O.isEmpty()) return points_O;
  box_O.min().array() -= reach_m;
  box_O.max().array() += reach_m;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (i == object) continue;
    const Isometry3d X_OI = self.X_CO.inverse() * objects[i].X_CO;
    for (const Vector3d& p_I : objects[i].cloud_O) {
      const Vector3d p_O = X_OI * p_I;
      if (box_O.contains(p_O)) points_O.push_back(p_O);
    }
  }
  return points_O;
}

CollisionFlags CollisionsOf(const ObjectLabels& labels,
                            const std::vector<Vector3d>& others_O,
                            const std::optional<Plane>& table_O,
                            int threads) {
  const LabelOptions& options = labels.options;
  CollisionFlags flags(labels.grasps.size(), 0);
  // Labels of one point stand together: a thread takes whole points.
  std::vector<std::size_t> first = {0};
  for (std::size_t i = 1; i < labels.grasps.size(); ++i) {
    if (PlaceOf(labels.grasps[i], options).point != PlaceOf(labels.grasps[i - 1], options).point) {
      first.push_back(i);
    }
  }
  if (labels.grasps.empty()) first.clear();
  const auto label_points = [&](std::int64_t begin, std::int64_t end, int) {
    GripperCells cells(others_O, options.depths, options.max_width_m);
    for (std::int64_t run = begin; run < end && !InterruptRequested(); ++run) {
      const std::size_t last =
          static_cast<std::size_t>(run) + 1 < first.size() ? first[run + 1] : labels.grasps.size();
      int view = -1, angle = -1;
      GripperRows rows = {};
      Matrix3d R_OV;
      for (std::size_t i = first[run]; i < last; ++i) {
        const GraspLabel& label = labels.grasps[i];
        const LabelPlace place = PlaceOf(label, options);
        const Vector3d& p_O = labels.points_O[place.point];
        if (i == first[run]) cells.MoveTo(p_O);
        if (place.view != view) {
          view = place.view;
          angle = -1;
          R_OV = RotationFromView(SphereDirection(view, options.views), 0);
          cells.Face(R_OV);
        }
        const double angle_rad = std::numbers::pi * place.angle / options.angles;
        if (place.angle != angle) {
          angle = place.angle;
          rows = cells.Fill(angle_rad);
        }
        std::uint64_t beside = rows[1] | rows[2];
        for (int depth = 0; depth <= place.depth; ++depth) beside |= rows[kRowsBehind + depth];
        const bool meets_object = (beside & FingerColumns(label.width_steps)) != 0 ||
                                  (rows[0] & PalmColumns(label.width_steps)) != 0;
        flags[i] = meets_object ||
                   (table_O && MeetsPlane(*table_O,
                                          R_OV * Eigen::AngleAxisd(angle_rad, Vector3d::UnitX()),
                                          p_O,
                                          (place.depth + 1) * kDepthStep_m,
                                          label.width_steps));
      }
    }
  };
  ParallelFor(std::ssize(first), threads, label_points);
  return flags;
}

}  // namespace

Result<std::vector<CollisionFlags>> SceneCollisions(std::span<const PlacedObject> objects,
                                                    const std::optional<Plane>& table_C,
                                                    int threads) {
  std::vector<CollisionFlags> collides;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    std::optional<Plane> table_O;
    if (table_C) {
      const Isometry3d& X_CO = objects[i].X_CO;
      table_O = Plane{X_CO.linear().transpose() * table_C->normal,
                      table_C->offset_m - table_C->normal.dot(X_CO.translation())};
    }
    collides.push_back(
        CollisionsOf(*objects[i].labels, Surroundings(objects, i), table_O, threads));
    if (InterruptRequested()) return Error(ErrorKind::kInterrupted, "stopped by a signal");
  }
  return collides;
}

Result<void> WriteSceneLabels(const std::string& path, const SceneLabels& labels) {
  NpzArrays arrays;
  const std::vector<std::int32_t> numbers(labels.objects.begin(), labels.objects.end());
  arrays["objects"] = MakeNpyArray<std::int32_t>({std::ssize(numbers)}, numbers);
  arrays["key"] = MakeNpyArray<std::int64_t>({1}, std::span(&labels.key, 1));
  for (std::size_t i = 0; i < labels.collides.size(); ++i) {
    arrays[fmt::format("arr_{}", i)] =
        MakeNpyArray<std::uint8_t>({std::ssize(labels.collides[i])}, labels.collides[i]);
  }
  return WriteNpz(path, arrays);
}

Result<SceneLabels> ReadSceneLabels(const std::string& path) {
  PALMIST_ASSIGN_OR_RETURN(const NpzArrays arrays, ReadNpz(path));
  SceneLabels labels;
  const auto objects = arrays.find("objects");
  if (objects == arrays.end() || objects->second.type != NpyType::kInt32 ||
      objects->second.shape.size() != 1) {
    return InputError(path + ": objects", "expected int32 of the shape (n,)");
  }
  for (const std::int32_t id : objects->second.As<std::int32_t>()) labels.objects.push_back(id);
  const auto key = arrays.find("key");
  if (key == arrays.end() || key->second.type != NpyType::kInt64 ||
      key->second.shape != std::vector<std::int64_t>{1}) {
    return InputError(path + ": key", "expected int64 of the shape (1,)");
  }
  labels.key = key->second.As<std::int64_t>()[0];
  for (std::size_t i = 0; i < labels.objects.size(); ++i) {
    const std::string name = fmt::format("arr_{}", i);
    const auto found = arrays.find(name);
    if (found == arrays.end() || found->second.type != NpyType::kUint8 ||
        found->second.shape.size() != 1) {
      return InputError(path + ": " + name, "expected uint8 of the shape (labels,)");
    }
    const auto flags = found->second.As<std::uint8_t>();
    if (std::any_of(flags.begin(), flags.end(), [](std::uint8_t flag) { return flag > 1; })) {
      return InputError(path + ": " + name, "expected 0 or 1");
    }
    labels.collides.emplace_back(flags.begin(), flags.end());
  }
  return labels;
}

}  // namespace palmist::grasp
