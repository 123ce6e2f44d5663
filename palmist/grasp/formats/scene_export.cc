#include "palmist/grasp/formats/scene_export.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "palmist/grasp/formats/ply.h"

namespace palmist::grasp {
namespace {

using Color = std::array<std::uint8_t, 3>;
using Triangle = std::array<std::uint32_t, 3>;

constexpr Color kGrey = {160, 160, 160};

/// Appends the box from `lower` to `upper` of the gripper's frame G.
void AddBox(const Grasp& grasp,
            const Vector3d& lower,
            const Vector3d& upper,
            const Color& color,
            PointCloud& vertices,
            std::vector<Triangle>& triangles) {
  const auto first = static_cast<std::uint32_t>(vertices.size());
  // Corner i has the upper x where bit 0 is set, the upper y by bit 1, the upper z by bit 2.
  for (unsigned i = 0; i < 8; ++i) {
    const Vector3d corner((i & 1U) != 0 ? upper.x() : lower.x(),
                          (i & 2U) != 0 ? upper.y() : lower.y(),
                          (i & 4U) != 0 ? upper.z() : lower.z());
    vertices.points.push_back(grasp.R_CG * corner + grasp.p_CG);
    vertices.colors.push_back(color);
  }
  // Anticlockwise, seen from outside.
  constexpr std::array<Triangle, 12> kSides = {{{0, 4, 6},
                                                {0, 6, 2},
                                                {1, 3, 7},
                                                {1, 7, 5},
                                                {0, 1, 5},
                                                {0, 5, 4},
                                                {2, 6, 7},
                                                {2, 7, 3},
                                                {0, 2, 3},
                                                {0, 3, 1},
                                                {4, 5, 7},
                                                {4, 7, 6}}};
  for (const auto& [a, b, c] : kSides) triangles.push_back({first + a, first + b, first + c});
}

}  // namespace

std::array<std::uint8_t, 3> ScoreColor(double score, double lowest, double highest) {
  const double share =
      highest > lowest ? std::clamp((score - lowest) / (highest - lowest), 0.0, 1.0) : 1.0;
  const auto level = [](double part) {
    return static_cast<std::uint8_t>(std::lround(255 * std::min(1.0, 2 * part)));
  };
  return {level(1 - share), level(share), 0};
}

Result<void> WriteGraspScenePly(const std::string& path,
                                const PointCloud& cloud,
                                std::span<const Grasp> grasps,
                                const Gripper& gripper) {
  PointCloud vertices = cloud;
  if (vertices.colors.empty()) vertices.colors.assign(cloud.size(), kGrey);
  std::vector<Triangle> triangles;
  const auto by_score = [](const Grasp& a, const Grasp& b) { return a.score < b.score; };
  const auto [worst, best] = std::minmax_element(grasps.begin(), grasps.end(), by_score);
  for (const Grasp& grasp : grasps) {
    const Color color = ScoreColor(grasp.score, worst->score, best->score);
    const double tips_m = grasp.depth_m;
    const double palm_m = tips_m - gripper.finger_length_m;
    const double inner_m = grasp.width_m / 2;
    const double outer_m = inner_m + gripper.finger_thickness_m;
    const double half_height_m = gripper.height_m / 2;
    const auto add = [&](double x0, double x1, double y0, double y1) {
      AddBox(grasp, {x0, y0, -half_height_m}, {x1, y1, half_height_m}, color, vertices, triangles);
    };
    add(palm_m, tips_m, -outer_m, -inner_m);
    add(palm_m, tips_m, inner_m, outer_m);
    add(palm_m - gripper.palm_depth_m, palm_m, -outer_m, outer_m);
  }
  return WritePly(path, vertices, triangles);
}

}  // namespace palmist::grasp
