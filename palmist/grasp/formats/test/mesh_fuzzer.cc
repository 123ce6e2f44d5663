// Reads any bytes as .obj and .stl; the indices that come out are in range.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "palmist/grasp/formats/mesh_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const char* ending : {".obj", ".stl"}) {
    const auto mesh = palmist::grasp::ParseMesh(bytes, ending);
    if (!mesh.ok()) continue;
    for (const auto& triangle : mesh->triangles) {
      for (const std::uint32_t vertex : triangle) {
        if (vertex >= mesh->vertices.size()) __builtin_trap();
      }
    }
  }
  return 0;
}
