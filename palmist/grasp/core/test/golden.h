/// The golden vectors that lie beside the checkout: in $PALMIST_SHARED_DATA, else ../shared/data.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "palmist/base/file.h"
#include "palmist/base/npy.h"

namespace palmist::grasp {

inline std::filesystem::path GoldenFolder() {
  const char* folder = std::getenv("PALMIST_SHARED_DATA");
  return std::filesystem::path(folder != nullptr ? folder : PALMIST_SOURCE_DIR "/../shared/data") /
         "graspnet_eval_golden";
}

inline bool HasGolden() { return std::filesystem::exists(GoldenFolder() / "manifest.json"); }

inline NpyArray ReadGolden(const std::string& name) {
  return ParseNpy(ReadFile((GoldenFolder() / name).string()).value()).value();
}

}  // namespace palmist::grasp
