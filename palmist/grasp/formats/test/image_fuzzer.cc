// Reads any bytes as an image; as many samples as pixels come out.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "palmist/grasp/formats/image.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto count = [](const auto& image) {
    return static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.height);
  };
  const auto depth = palmist::grasp::ParseDepthValues(bytes);
  if (depth.ok() && depth->values.size() != count(*depth)) __builtin_trap();
  const auto color = palmist::grasp::ParseColor(bytes);
  if (color.ok() && color->rgb.size() != count(*color) * 3) __builtin_trap();
  const auto labels = palmist::grasp::ParseLabels(bytes);
  if (labels.ok() && labels->ids.size() != count(*labels)) __builtin_trap();
  return 0;
}
