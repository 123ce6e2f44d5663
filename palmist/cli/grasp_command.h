/// The subcommands of `palmist grasp`, one file each.
#pragma once

#include "palmist/cli/command.h"

namespace palmist::cli {

void AddGraspDetectCommand(CLI::App& app, Context& context);
void AddGraspEvalCommand(CLI::App& app, Context& context);
void AddGraspLabelCommand(CLI::App& app, Context& context);
void AddGraspBenchCommand(CLI::App& app, Context& context);

}  // namespace palmist::cli
