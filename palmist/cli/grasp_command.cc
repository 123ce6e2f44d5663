#include "palmist/cli/grasp_command.h"

namespace palmist::cli {

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
