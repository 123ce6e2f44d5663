// Parses any bytes; an array that comes out must survive being written and read again.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "palmist/base/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const palmist::Result<palmist::NpyArray> array = palmist::ParseNpy(bytes);
  if (!array.ok()) return 0;
  const palmist::Result<palmist::NpyArray> again = palmist::ParseNpy(palmist::WriteNpy(*array));
  if (!again.ok() || again->type != array->type || again->shape != array->shape ||
      again->data != array->data) {
    __builtin_trap();
  }
  return 0;
}
