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
    const TriangleMesh mesh = GripperMesh(gripper, grasp);
    const auto first = static_cast<std::uint32_t>(vertices.size());
    vertices.points.insert(vertices.points.end(), mesh.vertices.begin(), mesh.vertices.end());
    vertices.colors.resize(vertices.points.size(), color);
    for (const auto& [a, b, c] : mesh.triangles)
      triangles.push_back({first + a, first + b, first + c});
  }
  return WritePly(path, vertices, triangles);
}

}  // namespace palmist::grasp
