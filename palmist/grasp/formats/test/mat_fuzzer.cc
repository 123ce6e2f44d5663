// Parses any bytes as a frame's meta data; there are as many poses as indexes.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "palmist/grasp/formats/mat.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto meta = palmist::grasp::ParseFrameMeta(bytes);
  if (meta.ok() && meta->poses.size() != meta->cls_indexes.size()) __builtin_trap();
  return 0;
}
