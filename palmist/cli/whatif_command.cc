#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "palmist/cli/command.h"
#include "palmist/cli/output_files.h"
#include "palmist/cli/plan_text.h"
#include "palmist/cost/predict.h"
#include "palmist/model/config.h"
#include "palmist/planner/whatif.h"

namespace palmist::cli {
namespace {

struct WhatIfArguments {
  std::string plan, calibration, output;
  std::vector<std::string> set;
};

int RunWhatIf(Context& context, const WhatIfArguments& arguments) {
  CheckOutputFiles({{"-o", arguments.output}}, {arguments.plan, arguments.calibration});
  planner::Change change;
  for (const std::string& set : arguments.set) planner::ParseChange(set, change).value();
  plan::Plan before = plan::LoadPlan(arguments.plan).value();
  const model::Model model = model::ParseConfig(before.model_config, before.model_name).value();
  const model::Graph graph = model::BuildGraph(model.spec);
  const cluster::Calibration calibration = CalibrationFor(arguments.calibration, before.cluster);
  plan::Plan after = planner::WithChange(before, change, model);
  cost::PredictOptions options;
  options.memory_limit = planner::MemoryLimitOf(before);
  before.search.reset();
  for (plan::Plan* plan : {&before, &after}) {
    cost::Predict(*plan, graph, calibration, options);
    plan->provenance["calibration"] = calibration.name;
  }
  if (!arguments.output.empty()) plan::SavePlan(after, arguments.output).value();
  if (context.json) {
    PrintJson(context, {{"before", plan::ToJson(before)}, {"after", plan::ToJson(after)}});
    return 0;
  }
  *context.out << FormatPlan(after, {}, "", plan::Notes(after, graph, model.spec)) << '\n'
               << FormatComparison(before, after);
  if (!arguments.output.empty()) *context.out << "wrote " << arguments.output << '\n';
  return 0;
}

}  // namespace

void AddWhatIfCommand(CLI::App& app, Context& context) {
  const auto arguments = std::make_shared<WhatIfArguments>();
  CLI::App* command =
      AddCommand(app,
                 context,
                 "whatif",
                 "a plan with something changed: both predictions",
                 "palmist whatif plan.json --set recompute=full --set micro_batch=4",
                 [&context, arguments] { return RunWhatIf(context, *arguments); });
  std::string keys;
  for (const std::string& key : planner::ChangeKeys()) keys += (keys.empty() ? "" : ", ") + key;
  command->add_option("PLAN", arguments->plan, "a plan file")->required();
  command->add_option("--set", arguments->set, "key=value, repeatable; keys: " + keys)
      ->required()
      ->take_all();
  command->add_option("--calibration", arguments->calibration, "a calibration file");
  command->add_option("-o,--output", arguments->output, "write the changed plan");
}

}  // namespace palmist::cli
