// Reads any bytes as a runs file; a file of few runs is scored as well.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "palmist/accuracy/validate.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto file = palmist::accuracy::ReadRuns(text);
  if (!file.ok() || file->runs.size() > 4) return 0;
  for (const auto& run : file->runs) {
    if (run.plan.cluster.num_devices() > 1000 || run.plan.stages.size() > 100) return 0;
  }
  const auto report = palmist::accuracy::Validate(*file);
  if (!report.ok()) __builtin_trap();  // no group was asked for
  (void)ToJson(*report).dump();
  (void)FormatReport(*report);
  return 0;
}
