#include "palmist/grasp/core/analytic_scene.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "palmist/base/rng.h"

namespace palmist::grasp {

Solid Standing(ShapeKind kind, const Vector3d& size_m, double x_m, double y_m, double yaw_rad) {
  const double height = kind == ShapeKind::kSphere ? size_m.x() : size_m.z();
  Solid solid{kind, size_m, Isometry3d::Identity()};
  solid.X_WO.translate(Vector3d(x_m, y_m, height / 2));
  solid.X_WO.rotate(Eigen::AngleAxisd(yaw_rad, Vector3d::UnitZ()));
  return solid;
}

Isometry3d LookAt(const Vector3d& eye_W, const Vector3d& target_W) {
  const Vector3d ahead = (target_W - eye_W).normalized();
  const Vector3d right = ahead.cross(Vector3d::UnitZ()).normalized();
  Isometry3d X_WC = Isometry3d::Identity();
  X_WC.linear() << right, ahead.cross(right), ahead;
  X_WC.translation() = eye_W;
  return X_WC;
}

Plane TablePlaneInCamera(const Isometry3d& X_WC) {
  const Vector3d normal_C = X_WC.linear().transpose() * Vector3d::UnitZ();
  return {normal_C, -X_WC.translation().z()};
}

double RayEntry(const Solid& solid, const Vector3d& origin_W, const Vector3d& direction_W) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const Vector3d o = solid.X_WO.inverse() * origin_W;
  const Vector3d d = solid.X_WO.linear().transpose() * direction_W;
  double enter = 0, leave = kNever;
  const auto clip = [&](double t0, double t1) {
    enter = std::max(enter, std::min(t0, t1));
    leave = std::min(leave, std::max(t0, t1));
  };
  // Divisions by zero give infinities of the right sign, as for any test of slabs.
  const auto clip_slab = [&](int axis) {
    const double half = solid.size_m[axis] / 2;
    clip((-half - o[axis]) / d[axis], (half - o[axis]) / d[axis]);
  };
  const auto clip_round = [&](int axes) {
    const double r = solid.size_m.x() / 2;
    const double a = d.head(axes).squaredNorm();
    const double b = o.head(axes).dot(d.head(axes));
    const double c = o.head(axes).squaredNorm() - r * r;
    const double root = std::sqrt(b * b - a * c);  // NaN where the line passes by
    if (std::isnan(root) || a == 0) {
      if (c > 0 || a > 0) leave = -1;
      return;
    }
    clip((-b - root) / a, (-b + root) / a);
  };
  switch (solid.kind) {
    case ShapeKind::kBox:
      for (int axis = 0; axis < 3; ++axis) clip_slab(axis);
      break;
    case ShapeKind::kCylinder:
      clip_round(2);
      clip_slab(2);
      break;
    case ShapeKind::kSphere:
      clip_round(3);
      break;
  }
  return enter < leave ? enter : kNever;
}

RenderedFrame Render(const AnalyticScene& scene, const Intrinsics& camera, const Isometry3d& X_WC) {
  RenderedFrame frame;
  frame.depth.width = camera.width;
  frame.depth.height = camera.height;
  for (int v = 0; v < camera.height; ++v) {
    for (int u = 0; u < camera.width; ++u) {
      // With z = 1 the ray's parameter is the depth.
      const Vector3d ray_C((u - camera.cx) / camera.fx, (v - camera.cy) / camera.fy, 1);
      const Vector3d ray_W = X_WC.linear() * ray_C;
      const Vector3d eye_W = X_WC.translation();
      double z = std::numeric_limits<double>::infinity();
      int label = -1;
      const double table = -eye_W.z() / ray_W.z();
      const Vector3d hit = eye_W + table * ray_W;
      if (table > 0 && std::max(std::abs(hit.x()), std::abs(hit.y())) <= scene.table_half_m) {
        z = table;
        label = 0;
      }
      for (std::size_t i = 0; i < scene.solids.size(); ++i) {
        const double entry = RayEntry(scene.solids[i], eye_W, ray_W);
        if (entry < z) {
          z = entry;
          label = 1 + static_cast<int>(i);
        }
      }
      frame.depth.z_m.push_back(label < 0 ? 0.0f : static_cast<float>(z));
      frame.labels.push_back(label);
    }
  }
  return frame;
}

AnalyticScene TableWithSolids(std::uint64_t seed) {
  AnalyticScene scene;
  Rng rng(seed);
  for (int i = 0; i < 24; ++i) {
    const auto kind = static_cast<ShapeKind>(rng.Integer(3));
    // Drawn one by one: the order of arguments is not defined.
    const double x = 0.03 + 0.05 * rng.Uniform(), y = 0.03 + 0.05 * rng.Uniform();
    const double z = 0.03 + 0.12 * rng.Uniform(), yaw_rad = 3.14 * rng.Uniform();
    scene.solids.push_back(
        Standing(kind, {x, y, z}, 0.12 * (i % 6) - 0.3, 0.12 * (i / 6) - 0.2, yaw_rad));
  }
  return scene;
}

Isometry3d TableCamera() { return LookAt({0.1, -0.45, 0.55}, {0, 0, 0}); }

DepthImage RenderTable(const Intrinsics& camera) {
  return Render(TableWithSolids(1), camera, TableCamera()).depth;
}

}  // namespace palmist::grasp
