// Parses any bytes as an archive of at most 16 MiB of arrays.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "palmist/grasp/formats/npz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  constexpr std::int64_t kMaxBytes = 1 << 24;
  const auto arrays = palmist::grasp::ParseNpz(bytes, kMaxBytes);
  if (!arrays.ok()) return 0;
  std::size_t total = 0;
  for (const auto& [name, array] : *arrays) total += array.data.size();
  if (total > kMaxBytes) __builtin_trap();
  return 0;
}
