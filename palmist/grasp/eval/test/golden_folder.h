/// Where the golden vectors lie.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace palmist::grasp {

/// Returns graspnet_eval_golden in $PALMIST_SHARED_DATA, else in ../shared/data beside the
/// checkout, else the copy that the checkout has.
inline std::filesystem::path GoldenFolder() {
  const std::filesystem::path checkout = PALMIST_SOURCE_DIR;
  const char* shared = std::getenv("PALMIST_SHARED_DATA");
  const std::filesystem::path data = shared != nullptr ? std::filesystem::path(shared)
                                                       : checkout.parent_path() / "shared" / "data";
  const std::filesystem::path golden = data / "graspnet_eval_golden";
  if (std::filesystem::exists(golden)) return golden;
  return checkout / "palmist" / "grasp" / "eval" / "testdata" / "golden";
}

}  // namespace palmist::grasp
