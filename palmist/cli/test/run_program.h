/// Runs the program in the test's own process.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "palmist/cli/command.h"
#include "tests/support/folder.h"

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

/// Runs `palmist arguments…` in a process that ends with its exit code, and has Ctrl-C pressed
/// after a while. For EXPECT_EXIT, so that the signal does not reach the next test.
[[noreturn]] inline void CallUntilInterrupted(const std::vector<std::string>& arguments,
                                              std::chrono::milliseconds after) {
  std::thread([after] {
    std::this_thread::sleep_for(after);
    std::raise(SIGINT);
  }).detach();
  std::_Exit(Call(arguments).code);
}

/// Joins two lists of arguments.
inline std::vector<std::string> With(std::vector<std::string> arguments,
                                     std::initializer_list<std::string> more) {
  arguments.insert(arguments.end(), more);
  return arguments;
}

using palmist::test::Folder;

}  // namespace palmist::cli::test
