#include "palmist/grasp/formats/mesh_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "palmist/base/text.h"
#include "palmist/grasp/formats/parse_file.h"
#include "palmist/grasp/formats/ply.h"

namespace palmist::grasp {
namespace {

Error Bad(const std::string& message) { return InputError({}, "bad mesh: " + message); }

/// Reads three numbers; returns nothing where there are fewer, or one is not finite.
std::optional<Vector3d> ParsePoint(std::string_view line) {
  Vector3d point;
  for (double& coordinate_m : point) {
    const std::string_view word = TakeWord(line);
    const auto [end, status] =
        std::from_chars(word.data(), word.data() + word.size(), coordinate_m);
    if (status != std::errc() || end != word.data() + word.size()) return std::nullopt;
  }
  if (!point.allFinite()) return std::nullopt;
  return point;
}

Result<void> CheckTriangleCount(std::size_t count) {
  if (static_cast<std::int64_t>(count) <= kMaxTriangles) return {};
  return Bad(fmt::format("expected at most {} triangles", kMaxTriangles));
}

/// Checks, joins vertices, and leaves out triangles without area.
Result<TriangleMesh> Finish(const TriangleMesh& raw) {
  PALMIST_RETURN_IF_ERROR(CheckTriangleCount(raw.triangles.size()));
  TriangleMesh mesh = WeldVertices(raw);
  if (mesh.triangles.empty()) return Bad("it has no faces");
  return mesh;
}

/// Source: the Wavefront .obj specification, of which positions (v) and faces (f) are read.
Result<TriangleMesh> ParseObj(std::string_view rest) {
  TriangleMesh mesh;
  for (std::int64_t number = 1; !rest.empty(); ++number) {
    std::string_view line = TakeLine(rest);
    const std::string_view key = TakeWord(line);
    if (key == "v") {
      const std::optional<Vector3d> point = ParsePoint(line);
      if (!point) return Bad(fmt::format("expected three finite numbers in line {}", number));
      mesh.vertices.push_back(*point);
    } else if (key == "f") {
      // A corner is "v", "v/t", "v//n" or "v/t/n"; a negative v counts back from the last vertex.
      std::array<std::uint32_t, 3> triangle = {};
      std::size_t corners = 0;
      const auto count = static_cast<std::int64_t>(mesh.vertices.size());
      for (std::string_view word = TakeWord(line); !word.empty(); word = TakeWord(line)) {
        std::int64_t index = 0;
        const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), index);
        const bool is_number =
            status == std::errc() && (end == word.data() + word.size() || *end == '/');
        if (index < 0) index += count + 1;
        if (!is_number || index < 1 || index > count) {
          return Bad(fmt::format("line {} has the vertex {}, expected one of the {} before it",
                                 number,
                                 Quote(word),
                                 count));
        }
        triangle[std::min<std::size_t>(corners, 2)] = static_cast<std::uint32_t>(index - 1);
        if (++corners < 3) continue;
        mesh.triangles.push_back(triangle);
        triangle[1] = triangle[2];
      }
    }
  }
  return Finish(mesh);
}

/// Source: the StereoLithography interface specification, 3D Systems, 1989.
Result<TriangleMesh> ParseStl(std::string_view bytes) {
  constexpr std::size_t kHeaderBytes = 84, kTriangleBytes = 50, kNormalBytes = 12;
  TriangleMesh mesh;
  const auto add_corner = [&](const Vector3d& point) {
    mesh.vertices.push_back(point);
    const auto count = static_cast<std::uint32_t>(mesh.vertices.size());
    if (count % 3 == 0) mesh.triangles.push_back({count - 3, count - 2, count - 1});
  };
  // Binary files may begin with "solid", too: their size tells.
  const std::size_t claimed =
      bytes.size() < kHeaderBytes ? 0 : LoadAs<std::uint32_t>(bytes.data() + 80);
  if (bytes.size() >= kHeaderBytes && bytes.size() - kHeaderBytes == claimed * kTriangleBytes) {
    for (std::size_t i = 0; i < claimed * 3; ++i) {
      const char* place = bytes.data() + kHeaderBytes + i / 3 * kTriangleBytes + kNormalBytes +
                          i % 3 * 3 * sizeof(float);
      const Vector3d point(
          LoadAs<float>(place), LoadAs<float>(place + 4), LoadAs<float>(place + 8));
      if (!point.allFinite()) {
        return Bad(fmt::format("triangle {} has coordinates that are not finite", i / 3));
      }
      add_corner(point);
    }
    return Finish(mesh);
  }
  if (!bytes.starts_with("solid")) {
    return Bad(fmt::format("{} triangles do not make {} bytes", claimed, bytes.size()));
  }
  for (std::int64_t number = 1; !bytes.empty(); ++number) {
    std::string_view line = TakeLine(bytes);
    if (TakeWord(line) != "vertex") continue;
    const std::optional<Vector3d> point = ParsePoint(line);
    if (!point) return Bad(fmt::format("expected three finite numbers in line {}", number));
    add_corner(*point);
  }
  if (mesh.vertices.size() % 3 != 0) return Bad("its last triangle is not complete");
  return Finish(mesh);
}

}  // namespace

Result<TriangleMesh> ParseMesh(std::string_view bytes, const std::string& ending) {
  if (bytes.starts_with("ply\n") || bytes.starts_with("ply\r")) {
    PALMIST_ASSIGN_OR_RETURN(const TriangleMesh mesh, ParsePlyMesh(bytes));
    return Finish(mesh);
  }
  if (ending == ".obj") return ParseObj(bytes);
  if (ending == ".stl") return ParseStl(bytes);
  return InputError({},
                    fmt::format("expected a mesh as .ply, .obj or .stl, got {}", Quote(ending)));
}

Result<TriangleMesh> ReadMesh(const std::string& path) {
  return ParseFile(path, kMaxMeshFileBytes, [&](std::string_view bytes) {
    return ParseMesh(bytes, AsciiLower(std::filesystem::path(path).extension().string()));
  });
}

Result<void> WriteObj(const std::string& path, const TriangleMesh& mesh) {
  std::string file;
  for (const Vector3d& p : mesh.vertices) file += fmt::format("v {} {} {}\n", p.x(), p.y(), p.z());
  // .obj counts from 1.
  for (const auto& [a, b, c] : mesh.triangles) {
    file += fmt::format("f {} {} {}\n", a + 1, b + 1, c + 1);
  }
  return WriteFileAtomic(path, file);
}

}  // namespace palmist::grasp
