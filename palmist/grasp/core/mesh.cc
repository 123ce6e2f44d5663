#include "palmist/grasp/core/mesh.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "palmist/base/error.h"
#include "palmist/grasp/core/cell.h"

namespace palmist::grasp {
namespace {

struct PositionHash {
  std::size_t operator()(const Vector3d& p) const {
    // Adding zero makes -0 and 0, which are equal, one.
    const auto bits = [](double value) { return std::bit_cast<std::int64_t>(value + 0.0); };
    return CellHash()({bits(p.x()), bits(p.y()), bits(p.z())});
  }
};

/// One side of a triangle, from the vertex of the lower number to the other or the other way.
struct Side {
  std::uint32_t low, high;
  bool is_forward;

  auto operator<=>(const Side&) const = default;
};

}  // namespace

TriangleMesh WeldVertices(const TriangleMesh& mesh) {
  TriangleMesh welded;
  std::unordered_map<Vector3d, std::uint32_t, PositionHash> number_of;
  std::vector<std::uint32_t> renumbered;
  renumbered.reserve(mesh.vertices.size());
  for (const Vector3d& vertex : mesh.vertices) {
    const auto [entry, is_new] =
        number_of.try_emplace(vertex, static_cast<std::uint32_t>(welded.vertices.size()));
    if (is_new) welded.vertices.push_back(vertex);
    renumbered.push_back(entry->second);
  }
  std::unordered_set<Cell, CellHash> known;
  for (const std::array<std::uint32_t, 3>& triangle : mesh.triangles) {
    for (const std::uint32_t corner : triangle) PALMIST_ASSERT(corner < renumbered.size());
    const std::uint32_t a = renumbered[triangle[0]];
    const std::uint32_t b = renumbered[triangle[1]];
    const std::uint32_t c = renumbered[triangle[2]];
    const Vector3d& origin = welded.vertices[a];
    const Vector3d normal = (welded.vertices[b] - origin).cross(welded.vertices[c] - origin);
    if (normal == Vector3d::Zero()) continue;
    // The lowest number first makes all turns of one triangle the same.
    Cell turned = {a, b, c};
    std::rotate(turned.begin(), std::min_element(turned.begin(), turned.end()), turned.end());
    if (known.insert(turned).second) welded.triangles.push_back({a, b, c});
  }
  return welded;
}

TriangleMesh BoxMesh(const Box& box) {
  TriangleMesh mesh;
  // Corner i takes the upper limit along x, y, z by its bits 1, 2, 4. Anticlockwise from outside.
  for (unsigned i = 0; i < 8; ++i) {
    mesh.vertices.emplace_back((i & 1U) != 0 ? box.upper_m.x() : box.lower_m.x(),
                               (i & 2U) != 0 ? box.upper_m.y() : box.lower_m.y(),
                               (i & 4U) != 0 ? box.upper_m.z() : box.lower_m.z());
  }
  mesh.triangles = {{0, 4, 6},
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
                    {4, 7, 6}};
  return mesh;
}

MeshReport Inspect(const TriangleMesh& mesh) {
  const TriangleMesh welded = WeldVertices(mesh);
  MeshReport report;
  if (welded.vertices.empty()) return report;
  report.lower_m = report.upper_m = welded.vertices[0];
  for (const Vector3d& vertex : welded.vertices) {
    report.lower_m = report.lower_m.cwiseMin(vertex);
    report.upper_m = report.upper_m.cwiseMax(vertex);
  }

  const Vector3d center = (report.lower_m + report.upper_m) / 2;
  std::vector<Side> sides;
  sides.reserve(3 * welded.triangles.size());
  for (const std::array<std::uint32_t, 3>& triangle : welded.triangles) {
    std::array<Vector3d, 3> corners;
    for (int i = 0; i < 3; ++i) {
      corners[i] = welded.vertices[triangle[i]] - center;
      const std::uint32_t from = triangle[i];
      const std::uint32_t to = triangle[(i + 1) % 3];
      sides.push_back({std::min(from, to), std::max(from, to), from < to});
    }
    report.volume_m3 += corners[0].dot(corners[1].cross(corners[2])) / 6;
  }

  std::sort(sides.begin(), sides.end());
  for (std::size_t begin = 0; begin < sides.size();) {
    std::size_t forward = 0;
    std::size_t end = begin;
    for (; end < sides.size() && sides[end].low == sides[begin].low &&
           sides[end].high == sides[begin].high;
         ++end) {
      forward += sides[end].is_forward;
    }
    const std::size_t uses = end - begin;
    report.boundary_edges += uses == 1;
    report.crowded_edges += uses > 2;
    report.inconsistent_edges += forward > 1 || uses - forward > 1;
    begin = end;
  }
  return report;
}

}  // namespace palmist::grasp
