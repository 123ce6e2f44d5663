/// Feeds bytes to the cluster reader; what is accepted must be written and read back alike.
#include <cstdint>
#include <string_view>

#include "palmist/cluster/cluster_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace palmist::cluster;
  const auto cluster = ParseCluster({reinterpret_cast<const char*>(data), size});
  if (!cluster.ok()) return 0;
  const std::string text = ToYaml(*cluster);
  const auto again = ParseCluster(text);
  PALMIST_ASSERT(again.ok() && ToYaml(*again) == text);
  return 0;
}
