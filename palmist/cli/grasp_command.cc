#include "palmist/cli/grasp_command.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <limits>
#include <string>

namespace palmist::cli {
namespace {

/// CLI11's own ranges see a number after its conversion, which wraps or cuts it.
CLI::Validator IsWholeNumber(std::int64_t least, std::int64_t most) {
  return CLI::Validator(
      [least, most](const std::string& text) {
        std::int64_t value = 0;
        const char* end = text.data() + text.size();
        const auto [stop, status] = std::from_chars(text.data(), end, value);
        if (status == std::errc() && stop == end && value >= least && value <= most) {
          return std::string();
        }
        return fmt::format("expected a whole number from {} to {}, got {}", least, most, text);
      },
      fmt::format("{} to {}", least, most));
}

}  // namespace

CLI::Validator IsThreadCount() { return IsWholeNumber(1, 1024); }

CLI::Validator IsSeed() { return IsWholeNumber(0, std::numeric_limits<std::int64_t>::max()); }

void AddGraspCommand(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("grasp", "find grasps, judge them, and label objects");
  command->require_subcommand(1);
  command->fallthrough();
  AddGraspDetectCommand(*command, context);
  AddGraspEvalCommand(*command, context);
  AddGraspLabelCommand(*command, context);
  AddGraspBenchCommand(*command, context);
}

}  // namespace palmist::cli
