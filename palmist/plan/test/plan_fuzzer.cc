// Whatever the bytes, reading ends; and what was read is written so that it reads back the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "palmist/plan/plan.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto plan = palmist::plan::FromJson({reinterpret_cast<const char*>(data), size});
  if (!plan.ok()) return 0;
  const std::string written = palmist::plan::ToJson(*plan).dump();
  const auto again = palmist::plan::FromJson(written);
  if (!again.ok() || palmist::plan::ToJson(*again).dump() != written) std::abort();
  return 0;
}
