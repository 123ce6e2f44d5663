#include <memory>
#include <ostream>
#include <string>

#include "palmist/cli/command.h"
#include "palmist/cli/output_files.h"
#include "palmist/cli/plan_text.h"
#include "palmist/cost/predict.h"
#include "palmist/model/config.h"
#include "palmist/report/plan_page.h"
#include "palmist/sim/plan_timeline.h"

namespace palmist::cli {
namespace {

struct PredictArguments {
  std::string plan, calibration, report, trace;
};

int RunPredict(Context& context, const PredictArguments& arguments) {
  CheckOutputFiles({{"--report", arguments.report}, {"--trace", arguments.trace}},
                   {arguments.plan, arguments.calibration});
  plan::Plan plan = plan::LoadPlan(arguments.plan).value();
  const model::Model model = model::ParseConfig(plan.model_config, plan.model_name).value();
  const model::Graph graph = model::BuildGraph(model.spec);
  const cluster::Calibration calibration = CalibrationFor(arguments.calibration, plan.cluster);
  plan.search.reset();
  cost::Predict(plan, graph, calibration);
  plan.provenance["calibration"] = calibration.name;
  std::vector<std::string> notes = plan::Notes(plan, graph, model.spec);
  for (std::string& advice : Advice(plan)) notes.push_back(std::move(advice));
  if (!arguments.report.empty()) {
    report::PlanPage(plan, {}, {.what_binds = {}, .notes = notes}).Write(arguments.report).value();
  }
  if (!arguments.trace.empty()) sim::WriteTrace(plan, arguments.trace);
  if (context.json) {
    PrintJson(context, plan::ToJson(plan));
  } else {
    *context.out << FormatPlan(plan, {}, "", notes);
  }
  return 0;
}

}  // namespace

void AddPredictCommand(CLI::App& app, Context& context) {
  const auto arguments = std::make_shared<PredictArguments>();
  CLI::App* command = AddCommand(app,
                                 context,
                                 "predict",
                                 "time and memory of a given plan, without a search",
                                 "palmist predict plan.json",
                                 [&context, arguments] { return RunPredict(context, *arguments); });
  command->add_option("PLAN", arguments->plan, "a plan file")->required();
  command->add_option("--calibration", arguments->calibration, "a calibration file");
  command->add_option("--report", arguments->report, "write an HTML page");
  command->add_option(
      "--trace", arguments->trace, "write the simulated iteration as a Chrome trace");
}

}  // namespace palmist::cli
