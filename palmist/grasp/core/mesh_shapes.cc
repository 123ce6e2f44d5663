#include "palmist/grasp/core/mesh_shapes.h"

#include <cmath>
#include <cstdint>
#include <numbers>

namespace palmist::grasp {

TriangleMesh BoxMesh(const Vector3d& sizes_m) {
  return BoxMesh(Box{-0.5 * sizes_m, 0.5 * sizes_m});
}

TriangleMesh LatheMesh(const std::vector<std::array<double, 2>>& radius_height_m,
                       double lowest_m,
                       double highest_m,
                       int sides) {
  TriangleMesh mesh;
  mesh.vertices = {Vector3d(0, 0, lowest_m), Vector3d(0, 0, highest_m)};
  for (const auto& [radius_m, height_m] : radius_height_m) {
    for (int k = 0; k < sides; ++k) {
      const double angle = 2 * std::numbers::pi * k / sides;
      mesh.vertices.emplace_back(radius_m * std::cos(angle), radius_m * std::sin(angle), height_m);
    }
  }
  const auto rings = static_cast<int>(radius_height_m.size());
  const auto at = [&](int ring, int k) {
    return static_cast<std::uint32_t>(2 + ring * sides + k % sides);
  };
  for (int k = 0; k < sides; ++k) {
    mesh.triangles.push_back({0, at(0, k + 1), at(0, k)});
    for (int ring = 0; ring + 1 < rings; ++ring) {
      mesh.triangles.push_back({at(ring, k), at(ring, k + 1), at(ring + 1, k + 1)});
      mesh.triangles.push_back({at(ring, k), at(ring + 1, k + 1), at(ring + 1, k)});
    }
    mesh.triangles.push_back({1, at(rings - 1, k), at(rings - 1, k + 1)});
  }
  return mesh;
}

TriangleMesh SphereMesh(double radius_m, int sides) {
  std::vector<std::array<double, 2>> rings;
  for (int i = 1; i < sides / 2; ++i) {
    const double angle = 2 * std::numbers::pi * i / sides;
    rings.push_back({radius_m * std::sin(angle), -radius_m * std::cos(angle)});
  }
  return LatheMesh(rings, -radius_m, radius_m, sides);
}

TriangleMesh CylinderMesh(double radius_m, double height_m, int sides) {
  return LatheMesh(
      {{radius_m, -height_m / 2}, {radius_m, height_m / 2}}, -height_m / 2, height_m / 2, sides);
}

}  // namespace palmist::grasp
