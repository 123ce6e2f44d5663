/// Files of tests: a folder that is removed, and the data shared beside the checkout.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "palmist/base/file.h"

namespace palmist::grasp {

/// A new, empty folder, removed with all that is in it at the end of the scope.
class TempFolder {
 public:
  TempFolder() {
    std::string name = ::testing::TempDir() + "palmist_XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Returns a file in $PALMIST_SHARED_DATA, or in the folder that lies beside the checkout.
inline std::string SharedData(const std::string& name) {
  const char* folder = std::getenv("PALMIST_SHARED_DATA");
  return (folder != nullptr ? folder : PALMIST_SOURCE_DIR "/../shared/data") + ("/" + name);
}

/// Returns a file of testdata/, made by another program.
inline std::string TestData(const std::string& name) {
  return PALMIST_SOURCE_DIR "/palmist/grasp/formats/testdata/" + name;
}

/// Returns the error of a result, or "ok".
template <typename T>
std::string Message(const Result<T>& result) {
  return result.ok() ? "ok" : result.error().what();
}

}  // namespace palmist::grasp

#define PALMIST_SKIP_WITHOUT(path)                                              \
  if (!std::filesystem::exists(path)) {                                         \
    GTEST_SKIP() << path << " is missing; set PALMIST_SHARED_DATA to its data"; \
  }
