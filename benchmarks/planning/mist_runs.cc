/// The plans that Mist's authors measured on L4 (EuroSys'25), searched anew in Mist's own space:
/// the time that our model predicts for their plan, and for the one that our search finds.
///
///   build/bench/bin/studies/plan_mist_runs L4_MEASURED_RUNS.csv
#include <fmt/format.h>

#include <cstdio>

#include "cases.h"
#include "palmist/accuracy/runs.h"
#include "palmist/base/file.h"
#include "palmist/base/thread_pool.h"
#include "palmist/base/units.h"
#include "palmist/cost/predict.h"
#include "palmist/plan/summary.h"
#include "palmist/planner/explain.h"

namespace palmist::studies {
namespace {

void Main(const std::string& path) {
  const accuracy::RunsFile file = accuracy::ReadRuns(ReadFile(path).value()).value();
  PrintHeader({"run",
               "measured",
               "their plan, predicted",
               "fits",
               "our plan",
               "ratio",
               "their plan",
               "our plan"});
  for (const accuracy::MeasuredRun& run : file.runs) {
    plan::Plan theirs = run.plan;
    const cluster::Calibration calibration = cluster::DefaultCalibration(theirs.cluster);
    cost::Predict(theirs, run.model->graph, calibration);
    const model::Model model = model::ParseConfig(run.model->config_json, run.model->name).value();
    planner::PlanRequest request = planner::RequestOf(theirs, model, calibration);
    request.space = planner::RulesOf("mist");
    request.fixed.FixOps(theirs.stages.front().ops);
    request.threads = HardwareThreads();
    request.top = 1;
    request.gap = 0.001;
    const std::optional<plan::Plan> ours = BestPlan(request);
    const double theirs_s = theirs.predicted->iteration_time_s;
    PrintRow({run.id,
              run.measured.iteration_s ? FormatSeconds(*run.measured.iteration_s) : "",
              FormatSeconds(theirs_s),
              theirs.predicted->fits ? "yes" : "no",
              ours ? FormatSeconds(ours->predicted->iteration_time_s) : "none fits",
              ours ? fmt::format("{:.3f}", ours->predicted->iteration_time_s / theirs_s) : "",
              plan::DescribeLayout(theirs),
              ours ? plan::DescribeLayout(*ours) : ""});
  }
}

}  // namespace
}  // namespace palmist::studies

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "expected the path of l4_measured_runs.csv\n");
    return 2;
  }
  return palmist::studies::RunStudy([&] { palmist::studies::Main(argv[1]); });
}
