/// The files that a command writes, looked at before its work begins.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace palmist::cli {

struct OutputFile {
  std::string_view option;  ///< such as "--report"
  std::string path;         ///< empty: not asked for
};

/// Checks that each output can be written and replaces neither an input nor another output.
/// @param inputs paths that the command reads; those that are empty or no files are ignored
/// @throws Error naming the option
void CheckOutputFiles(const std::vector<OutputFile>& outputs,
                      const std::vector<std::string>& inputs);

}  // namespace palmist::cli
