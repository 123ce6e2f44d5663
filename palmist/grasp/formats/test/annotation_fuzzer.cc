// Parses any bytes as an annotation; rotations that come out are finite.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "palmist/grasp/formats/annotation.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto objects = palmist::grasp::ParseAnnotation(bytes);
  if (!objects.ok()) return 0;
  for (const palmist::grasp::AnnotatedObject& object : *objects) {
    if (!object.Pose().topLeftCorner<3, 3>().allFinite()) __builtin_trap();
  }
  return 0;
}
