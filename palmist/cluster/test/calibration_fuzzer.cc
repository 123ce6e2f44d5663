/// Feeds bytes to the calibration reader; what is accepted must be written and read back alike.
#include <cstdint>
#include <string_view>

#include "palmist/cluster/calibration.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace palmist::cluster;
  const auto calibration = ParseCalibration({reinterpret_cast<const char*>(data), size});
  if (!calibration.ok()) return 0;
  const std::string text = ToJson(*calibration).dump();
  const auto again = ParseCalibration(text);
  PALMIST_ASSERT(again.ok() && ToJson(*again).dump() == text);
  return 0;
}
