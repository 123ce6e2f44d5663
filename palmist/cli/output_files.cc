#include "palmist/cli/output_files.h"

#include <filesystem>

#include "palmist/base/error.h"
#include "palmist/base/file.h"

namespace palmist::cli {
namespace {

bool IsSame(const std::string& a, const std::string& b) {
  namespace fs = std::filesystem;
  if (a.empty() || b.empty()) return false;
  std::error_code failure, ignored;
  if (a == b || fs::equivalent(a, b, ignored)) return true;
  const fs::path whole_a = fs::weakly_canonical(a, failure);
  return !failure && whole_a == fs::weakly_canonical(b, ignored);
}

}  // namespace

void CheckOutputFiles(const std::vector<OutputFile>& outputs,
                      const std::vector<std::string>& inputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const OutputFile& output = outputs[i];
    if (output.path.empty()) continue;
    for (const std::string& input : inputs) {
      if (IsSame(input, output.path)) {
        throw UsageError(
            std::string(output.option), output.path + " is an input, too", "write to another file");
      }
    }
    for (std::size_t other = 0; other < i; ++other) {
      if (IsSame(outputs[other].path, output.path)) {
        throw UsageError(std::string(output.option),
                         "it names the same file as " + std::string(outputs[other].option),
                         "give each its own name");
      }
    }
    CheckWritable(output.path).value();
  }
}

}  // namespace palmist::cli
