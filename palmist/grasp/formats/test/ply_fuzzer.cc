// Parses any bytes as a cloud and as a mesh, whose indices are in range.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "palmist/grasp/formats/ply.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto cloud = palmist::grasp::ParsePlyCloud(bytes);
  if (cloud.ok() && !cloud->colors.empty() && cloud->colors.size() != cloud->size()) {
    __builtin_trap();
  }
  const auto mesh = palmist::grasp::ParsePlyMesh(bytes);
  if (!mesh.ok()) return 0;
  for (const auto& triangle : mesh->triangles) {
    for (const std::uint32_t vertex : triangle) {
      if (vertex >= mesh->vertices.size()) __builtin_trap();
    }
  }
  return 0;
}
