/// Files of tests: a folder that is removed, and data of other programs.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "palmist/base/file.h"
#include "palmist/base/result.h"
#include "tests/support/folder.h"

namespace palmist::grasp {

using palmist::test::Folder;

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
