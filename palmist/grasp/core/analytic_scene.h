/// Depth images of boxes, cylinders and spheres on a table, by exact ray casting: scenes whose
/// answer is known, for tests, benchmarks and demonstrations.
#pragma once

#include <cstdint>
#include <vector>

#include "palmist/grasp/core/camera.h"
#include "palmist/grasp/core/point_cloud.h"
#include "palmist/grasp/core/pose.h"

namespace palmist::grasp {

enum class ShapeKind { kBox, kCylinder, kSphere };

/// A solid with its middle at the origin of O: a box of the given sizes; a cylinder along z with
/// diameter size.x and height size.z; a sphere of diameter size.x.
struct Solid {
  ShapeKind kind = ShapeKind::kBox;
  Vector3d size_m = Vector3d::Ones();
  Isometry3d X_WO = Isometry3d::Identity();
};

/// Returns a solid that stands on the table z = 0 with its middle above (x, y), turned by
/// `yaw_rad`.
Solid Standing(ShapeKind kind, const Vector3d& size_m, double x_m, double y_m, double yaw_rad = 0);

/// Solids on the square table |x|, |y| <= table_half_m of the plane z = 0 in W; no table where 0.
struct AnalyticScene {
  std::vector<Solid> solids;
  double table_half_m = 0.5;
};

/// Returns a table with two dozen boxes, cylinders and spheres of 3 to 15 cm, in rows; the same for
/// the same seed.
AnalyticScene TableWithSolids(std::uint64_t seed);

/// Returns the pose of a camera that sees TableWithSolids from 0.7 m.
Isometry3d TableCamera();

struct RenderedFrame {
  DepthImage depth;
  std::vector<int> labels;  ///< for each pixel: -1 nothing, 0 the table, 1 + number of the solid
};

/// Returns the pose of a camera at `eye` that looks at `target`, the image's right horizontal.
/// @pre the line of sight is not vertical
Isometry3d LookAt(const Vector3d& eye_W, const Vector3d& target_W);

/// Returns the plane z = 0 of W in the camera's frame.
Plane TablePlaneInCamera(const Isometry3d& X_WC);

/// Returns where the ray o + t d first enters the solid, d given at any length; infinity if never.
double RayEntry(const Solid& solid, const Vector3d& origin_W, const Vector3d& direction_W);

/// Renders the depth z in the camera's frame of what each pixel's centre sees.
RenderedFrame Render(const AnalyticScene& scene, const Intrinsics& camera, const Isometry3d& X_WC);

/// Returns the depth of TableWithSolids(1) from TableCamera.
DepthImage RenderTable(const Intrinsics& camera);

}  // namespace palmist::grasp
