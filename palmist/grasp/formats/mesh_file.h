/// Triangle meshes as files: .ply, .obj and .stl.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "palmist/base/result.h"
#include "palmist/base/units.h"
#include "palmist/grasp/core/mesh.h"

namespace palmist::grasp {

inline constexpr std::int64_t kMaxMeshFileBytes = 256 * kMiB;
inline constexpr std::int64_t kMaxTriangles = 10'000'000;

/// Returns the mesh of the file: polygons cut into triangles, vertices of one position joined, and
/// triangles without area left out. An input error that names the file: above the limits, no faces,
/// coordinates that are not finite, indices out of range. What a header claims is checked against
/// the size of the file before anything is allocated.
Result<TriangleMesh> ParseMesh(std::string_view bytes, const std::string& ending);
Result<TriangleMesh> ReadMesh(const std::string& path);

/// Writes vertices and triangles as Wavefront .obj; doubles survive exactly.
Result<void> WriteObj(const std::string& path, const TriangleMesh& mesh);

}  // namespace palmist::grasp
