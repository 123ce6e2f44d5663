/// Point clouds and meshes in the .ply format: ascii and binary little endian.
///
/// Source: G. Turk, "The PLY Polygon File Format", 1994.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "palmist/base/result.h"
#include "palmist/grasp/core/mesh.h"
#include "palmist/grasp/core/point_cloud.h"

namespace palmist::grasp {

/// Returns the vertices of `bytes`: x, y, z, and colours where there are red, green and blue of
/// type uchar. Other properties and elements are skipped; points that are not finite are left out.
Result<PointCloud> ParsePlyCloud(std::string_view bytes);
Result<PointCloud> ReadPlyCloud(const std::string& path);

/// Returns vertices and faces, polygons cut into fans of triangles; an input error for no faces,
/// for coordinates that are not finite, and for indices out of range. ReadMesh (mesh_file.h) calls
/// it.
Result<TriangleMesh> ParsePlyMesh(std::string_view bytes);

/// Writes a binary .ply, coordinates of float32, with colours where the cloud has them and faces
/// between its points where `triangles` are given. @pre triangles' indices are below cloud.size()
Result<void> WritePly(const std::string& path,
                      const PointCloud& cloud,
                      std::span<const std::array<std::uint32_t, 3>> triangles = {});

}  // namespace palmist::grasp
