#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "palmist/base/progress.h"
#include "palmist/base/thread_pool.h"
#include "palmist/base/units.h"
#include "palmist/cli/command.h"
#include "palmist/cli/plan_text.h"
#include "palmist/cost/formulas.h"
#include "palmist/cost/predict.h"
#include "palmist/model/config.h"
#include "palmist/plan/summary.h"
#include "palmist/planner/explain.h"
#include "palmist/planner/whatif.h"
#include "palmist/sim/plan_timeline.h"

namespace palmist::cli {
namespace {

struct ExplainArguments {
  std::string plan, calibration, time_limit = "30s";
  int threads = 0;
  bool is_symbolic = false;
};

/// "+12%", or "-3%".
std::string Change(double from_s, double to_s) {
  return fmt::format("{}{}", to_s > from_s ? "+" : "", FormatPercent(to_s / from_s - 1));
}

/// The sum by which 1F1B's iteration comes about, with its numbers.
std::string FormatIteration(const plan::Plan& plan) {
  const sim::Pipeline pipeline = sim::PipelineOf(plan);
  std::vector<schedule::StagePoint> points;
  for (const sim::StageWork& stage : pipeline.stages) points.push_back(stage.point);
  if (pipeline.schedule != "1f1b") return "";
  const schedule::IterationTerms terms = schedule::Terms1F1B(points, pipeline.micro_batches);
  const plan::StagePrediction& slowest =
      plan.stages[static_cast<std::size_t>(terms.stage)].predicted.value();
  std::string text = fmt::format("iteration = {} x ({} + {}) on stage {}",
                                 pipeline.micro_batches,
                                 FormatSeconds(slowest.forward_s),
                                 FormatSeconds(slowest.backward_s),
                                 terms.stage);
  const auto add = [&](double seconds, const std::string& what) {
    if (seconds > 0) text += fmt::format(" + {} {}", FormatSeconds(seconds), what);
  };
  add(terms.before_s, "in the stages before it");
  add(terms.behind_s, "for those behind it");
  add(terms.extra_s, "before the first and after the last micro-batch");
  add(pipeline.tail_s, "of the optimizer step");
  return text + " = " + FormatSeconds(plan.predicted->iteration_time_s) + '\n';
}

std::string FormatKnobs(const planner::Explanation& explanation, double plan_s) {
  if (explanation.knobs.empty()) return "";
  std::string text =
      fmt::format("{:<24}{:<46}{:>11}{:>9}  {}\n", "choice", "here", "without it", "", "instead");
  for (const planner::Knob& knob : explanation.knobs) {
    const std::string note = knob.is_finished ? "" : " (out of time)";
    text += fmt::format("{:<24}{:<46}{:>11}{:>9}  {}{}\n",
                        knob.name,
                        knob.setting,
                        knob.without_s ? FormatSeconds(*knob.without_s) : "none fits",
                        knob.without_s ? Change(plan_s, *knob.without_s) : "",
                        knob.instead,
                        note);
  }
  return text;
}

std::string FormatBest(const planner::Explanation& explanation, const plan::Plan& plan) {
  if (!explanation.best_s) return "a search under these conditions found no plan that fits\n";
  const double plan_s = plan.predicted->iteration_time_s;
  const plan::SearchSummary& search = *explanation.search;
  std::string text = fmt::format("a search under the same conditions ({}, gap {}) finds {}: ",
                                 search.status,
                                 FormatPercent(search.gap),
                                 FormatSeconds(*explanation.best_s));
  if (!plan.predicted->fits) return text + "and this plan does not fit\n";
  if (*explanation.best_s < plan_s * (1 - search.gap)) {
    return text + fmt::format("this plan takes {} longer; `palmist plan` writes the better one\n",
                              FormatPercent(plan_s / *explanation.best_s - 1));
  }
  return text + "this plan is as good\n";
}

std::string Value(const cost::Formula& formula) {
  switch (formula.unit) {
    case cost::FormulaUnit::kBytes:
      return FormatBytes(formula.value);
    case cost::FormulaUnit::kParameters:
      return FormatCount(formula.value);
    case cost::FormulaUnit::kSeconds:
      return FormatSeconds(formula.value);
  }
  return "";
}

std::string FormatFormulas(const cost::StageFormulas& formulas, std::size_t stage) {
  std::string text = fmt::format("formulas of stage {}, for one rank and one micro-batch\n", stage);
  for (const cost::LayerFormulas& layer : formulas.layers) {
    text += fmt::format("  {}\n", layer.title);
    for (const cost::Formula& formula : layer.formulas) {
      text += fmt::format("    {:<17}= {} = {}\n", formula.name, formula.text, Value(formula));
    }
  }
  text += "  with\n";
  for (const auto& [symbol, value] : formulas.symbols) {
    text += fmt::format("    {:<28} = {}\n", symbol, value);
  }
  return text;
}

nlohmann::ordered_json ToJson(const planner::Explanation& explanation, const plan::Plan& plan) {
  nlohmann::ordered_json knobs = nlohmann::ordered_json::array();
  for (const planner::Knob& knob : explanation.knobs) {
    nlohmann::ordered_json without;
    if (knob.without_s) without = *knob.without_s;
    knobs.push_back({{"name", knob.name},
                     {"setting", knob.setting},
                     {"without_s", without},
                     {"instead", knob.instead},
                     {"is_finished", knob.is_finished}});
  }
  nlohmann::ordered_json alternatives = nlohmann::ordered_json::array();
  for (const plan::Plan& other : explanation.alternatives) {
    alternatives.push_back({{"layout", plan::DescribeLayout(other)},
                            {"iteration_time_s", other.predicted->iteration_time_s}});
  }
  nlohmann::ordered_json best;
  if (explanation.best_s) best = *explanation.best_s;
  return {{"iteration_time_s", plan.predicted->iteration_time_s},
          {"fits", plan.predicted->fits},
          {"best_s", best},
          {"binding", explanation.binding},
          {"choices", knobs},
          {"alternatives", alternatives}};
}

nlohmann::ordered_json ToJson(const cost::StageFormulas& formulas) {
  nlohmann::ordered_json symbols = nlohmann::ordered_json::object();
  for (const auto& [symbol, value] : formulas.symbols) symbols[symbol] = value;
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (const cost::LayerFormulas& layer : formulas.layers) {
    nlohmann::ordered_json of_layer = nlohmann::ordered_json::array();
    for (const cost::Formula& formula : layer.formulas) {
      of_layer.push_back(
          {{"name", formula.name}, {"formula", formula.text}, {"value", formula.value}});
    }
    layers.push_back({{"title", layer.title}, {"formulas", of_layer}});
  }
  return {{"symbols", symbols}, {"layers", layers}};
}

int RunExplain(Context& context, const ExplainArguments& arguments) {
  planner::ExplainOptions options;
  options.time_limit_s = ReadOption("--time-limit", arguments.time_limit, ParseSeconds);
  options.threads = arguments.threads > 0 ? arguments.threads : HardwareThreads();
  plan::Plan plan = plan::LoadPlan(arguments.plan).value();
  const model::Model model = model::ParseConfig(plan.model_config, plan.model_name).value();
  const model::Graph graph = model::BuildGraph(model.spec);
  const cluster::Calibration calibration = CalibrationFor(arguments.calibration, plan.cluster);
  plan.search.reset();
  cost::Predict(plan, graph, calibration, {.memory_limit = planner::MemoryLimitOf(plan)});
  planner::Explanation explanation;
  {
    Progress progress("searching without each choice", 1000);
    explanation =
        planner::Explain(plan, model, calibration, options, [&](int searches, int of_all) {
          progress.Update(1000 * searches / of_all,
                          fmt::format("{} of {} searches", searches, of_all));
        });
  }
  const std::size_t slowest = plan::SlowestStage(plan);
  if (context.json) {
    nlohmann::ordered_json json = ToJson(explanation, plan);
    if (arguments.is_symbolic) {
      json["formulas"] =
          ToJson(cost::FormulasOf(plan, graph, calibration, static_cast<int>(slowest)));
    }
    PrintJson(context, json);
    return 0;
  }
  *context.out << FormatPlan(plan, explanation.alternatives, explanation.binding) << '\n'
               << FormatIteration(plan) << FormatBest(explanation, plan) << '\n'
               << FormatKnobs(explanation, plan.predicted->iteration_time_s);
  if (arguments.is_symbolic) {
    *context.out << '\n'
                 << FormatFormulas(
                        cost::FormulasOf(plan, graph, calibration, static_cast<int>(slowest)),
                        slowest);
  }
  return 0;
}

}  // namespace

void AddExplainCommand(CLI::App& app, Context& context) {
  const auto arguments = std::make_shared<ExplainArguments>();
  CLI::App* command = AddCommand(app,
                                 context,
                                 "explain",
                                 "why a plan is as it is: what binds, and what each choice buys",
                                 "palmist explain plan.json --symbolic",
                                 [&context, arguments] { return RunExplain(context, *arguments); });
  command->add_option("PLAN", arguments->plan, "a plan file")->required();
  command->add_flag("--symbolic", arguments->is_symbolic, "print the formulas of a layer, too");
  command->add_option("--calibration", arguments->calibration, "a calibration file");
  command->add_option("--time-limit", arguments->time_limit, "of each search, such as 30s")
      ->capture_default_str();
  command->add_option("--threads", arguments->threads, "0: all cores")->capture_default_str();
}

}  // namespace palmist::cli
