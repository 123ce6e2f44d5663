/// Runs the program in the test's own process.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "palmist/base/file.h"
#include "palmist/cli/command.h"

namespace palmist::cli::test {

/// What a run gave.
struct Ran {
  int code = 0;
  std::string out, err;

  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

/// Runs `palmist arguments…`.
inline Ran Call(const std::vector<std::string>& arguments) {
  std::vector<const char*> argv = {"palmist"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::ostringstream out, err;
  Ran ran;
  ran.code = Main(static_cast<int>(argv.size()), argv.data(), out, err);
  ran.out = out.str();
  ran.err = err.str();
  return ran;
}

/// Joins two lists of arguments.
inline std::vector<std::string> With(std::vector<std::string> arguments,
                                     std::initializer_list<std::string> more) {
  arguments.insert(arguments.end(), more);
  return arguments;
}

/// A folder of a test's own, removed at its end.
class Folder {
 public:
  Folder() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(::testing::TempDir()) /
            ("palmist_" + std::to_string(::getpid()) + "_" + test->name());
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

}  // namespace palmist::cli::test
