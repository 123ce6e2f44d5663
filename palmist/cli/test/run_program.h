/// Runs the program in the test's own process.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
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

/// Joins two lists of arguments.
inline std::vector<std::string> With(std::vector<std::string> arguments,
                                     std::initializer_list<std::string> more) {
  arguments.insert(arguments.end(), more);
  return arguments;
}

using palmist::test::Folder;

}  // namespace palmist::cli::test
