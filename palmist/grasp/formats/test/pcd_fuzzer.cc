// Parses any bytes as a cloud; its points are finite and its colours as many as they.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "palmist/grasp/formats/pcd.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto pcd = palmist::grasp::ParsePcd(bytes);
  if (!pcd.ok()) return 0;
  for (const auto& point : pcd->cloud.points) {
    if (!point.allFinite()) __builtin_trap();
  }
  const auto& cloud = pcd->cloud;
  if (!cloud.colors.empty() && cloud.colors.size() != cloud.size()) __builtin_trap();
  const auto pixels = static_cast<std::size_t>(pcd->width) * static_cast<std::size_t>(pcd->height);
  if (pcd->height > 1 && pcd->depth.z_m.size() != pixels) __builtin_trap();
  return 0;
}
