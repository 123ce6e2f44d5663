/// A folder for the files of one test.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "palmist/base/file.h"

namespace palmist::test {

/// A new, empty folder, removed with all that is in it at the end of the scope.
class Folder {
 public:
  Folder() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(::testing::TempDir()) /
            ("palmist_" + std::to_string(::getpid()) + "_" + test->name());
    std::filesystem::remove_all(path_);  // of a process that was killed
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string File(const std::string& name) const { return (path_ / name).string(); }
  std::string Write(const std::string& name, const std::string& content) const {
    WriteFileAtomic(File(name), content).value();
    return File(name);
  }
  const std::filesystem::path& path() const { return path_; }
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      files.push_back(entry.path().filename().string());
    }
    return files;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace palmist::test
