/// The subcommands of `palmist grasp`, one file each.
#pragma once

#include <CLI/CLI.hpp>

#include "palmist/cli/command.h"

namespace palmist::cli {

void AddGraspDetectCommand(CLI::App& app, Context& context);
void AddGraspEvalCommand(CLI::App& app, Context& context);
void AddGraspLabelCommand(CLI::App& app, Context& context);
void AddGraspBenchCommand(CLI::App& app, Context& context);

/// Return checks of what is written for an option: a number of threads that a machine may have, and
/// a seed, from 0 to 2^63 - 1.
CLI::Validator IsThreadCount();
CLI::Validator IsSeed();

}  // namespace palmist::cli
