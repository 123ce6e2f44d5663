// Parses any bytes as a grid; what comes out survives being written and read again.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "palmist/grasp/formats/sdf_text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto grid = palmist::grasp::ParseSdfText(bytes);
  if (!grid.ok()) return 0;
  const auto again = palmist::grasp::ParseSdfText(palmist::grasp::FormatSdfText(*grid));
  if (!again.ok() || again->dims != grid->dims || again->origin_m != grid->origin_m ||
      again->values_m != grid->values_m) {
    __builtin_trap();
  }
  return 0;
}
