/// What each part of the search buys, as Mist's paper asks (EuroSys'25, section 6.5): parts are
/// added one after the other, from plans that may recompute and no more, to all that is searched.
/// Whatever the search was blind to, each plan is priced in full.
///
///   build/bench/bin/studies/plan_ablation [PAGE.html]
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cases.h"
#include "palmist/base/units.h"
#include "palmist/report/page.h"

namespace palmist::studies {
namespace {

using planner::PlanRequest;

/// A LLaMA between the published sizes: 22 billion parameters, as GPT-22B.
constexpr const char* kLlama22b = R"({"model_type": "llama", "num_hidden_layers": 48,
    "hidden_size": 6144, "intermediate_size": 16384, "num_attention_heads": 48,
    "num_key_value_heads": 48, "vocab_size": 32000, "tie_word_embeddings": false})";

struct Case {
  std::string group;  // of which means are taken
  PlanRequest request;
};

/// Sizes grow with the devices, as in the paper: 16 sequences a device.
std::vector<Case> Cases() {
  struct Size {
    const char *gpt, *llama, *devices;
    int batch;
  };
  constexpr Size kSizes[] = {{"gpt3-1.3b", "mist-llama-1.3b", "1x2", 32},
                             {"gpt3-2.7b", "mist-llama-2.7b", "1x4", 64},
                             {"gpt3-6.7b", "mist-llama-7b", "1x8", 128},
                             {"gpt3-13b", "llama-13b", "2x8", 256},
                             {"gpt-22b", "", "4x8", 512}};
  std::vector<Case> cases;
  for (const char* gpu : {"l4", "a100-sxm4-40gb"}) {
    for (const bool is_llama : {false, true}) {
      for (const Size& size : kSizes) {
        const std::string name = is_llama ? size.llama : size.gpt;
        const std::string group = fmt::format("{} on {}", is_llama ? "LLaMA" : "GPT", gpu);
        PlanRequest request = RequestFor(name.empty() ? "llama-13b" : name,
                                         fmt::format("{}-{}", gpu, size.devices),
                                         2048,
                                         size.batch);
        if (name.empty()) request.model = model::ParseConfig(kLlama22b, "llama-22b").value();
        cases.push_back({group, std::move(request)});
      }
    }
  }
  return cases;
}

struct Step {
  std::string name;
  void (*add)(PlanRequest& request);
};

const std::vector<Step>& Steps() {
  static const std::vector<Step> steps = {
      {"recompute only",
       [](PlanRequest& request) {
         request.space = planner::RulesOf("uniform");
         request.space.most_zero = 0;
         request.space.lean_ops = false;
         request.blind = {.overlap = true, .imbalance = true};
       }},
      {"+ ZeRO", [](PlanRequest& request) { request.space.most_zero = 3; }},
      {"+ offload",
       [](PlanRequest& request) {
         request.space.likeness = planner::Likeness::kShape;
         request.space.offload = planner::OffloadChoice::kGrid;
       }},
      {"+ overlap", [](PlanRequest& request) { request.blind.overlap = false; }},
      {"+ imbalance", [](PlanRequest& request) { request.blind.imbalance = false; }},
      {"+ free stages",
       [](PlanRequest& request) {
         request.space.likeness = planner::Likeness::kFree;
         request.space.hybrid_zero = true;
       }},
      {"+ lean operators", [](PlanRequest& request) { request.space.lean_ops = true; }},
  };
  return steps;
}

/// Seconds an iteration after each step; nothing where no plan fits.
std::vector<std::optional<double>> Run(PlanRequest request) {
  std::vector<std::optional<double>> seconds;
  for (const Step& step : Steps()) {
    step.add(request);
    const std::optional<plan::Plan> plan = BestPlan(request);
    seconds.push_back(plan ? std::optional(plan->predicted->iteration_time_s) : std::nullopt);
  }
  return seconds;
}

/// Speed-ups over the first step, by group; cases in which that step has no plan are left out.
using SpeedUps = std::map<std::string, std::vector<std::vector<double>>>;

/// Returns the geometric mean of a group's speed-ups after each step.
std::vector<double> Means(const std::vector<std::vector<double>>& of_cases) {
  std::vector<double> means;
  for (std::size_t step = 0; step < Steps().size(); ++step) {
    std::vector<double> values;
    for (const std::vector<double>& of_case : of_cases) values.push_back(of_case[step]);
    means.push_back(GeometricMean(values));
  }
  return means;
}

report::Chart MakeChart(const SpeedUps& speed_ups) {
  report::Chart chart;
  chart.id = "ablation";
  chart.caption =
      "Predicted speed-up over plans that may recompute and no more, as parts of the "
      "search are added; geometric means.";
  chart.table.headers = {"group"};
  chart.table.alignment = "l";
  nlohmann::json names = nlohmann::json::array();
  for (const Step& step : Steps()) {
    chart.table.headers.push_back(step.name);
    chart.table.alignment += 'r';
    names.push_back(step.name);
  }
  const char* colors[] = {"--states-1", "--states-3", "--activations-1", "--activations-3"};
  std::size_t index = 0;
  for (const auto& [group, of_cases] : speed_ups) {
    const std::vector<double> means = Means(of_cases);
    std::vector<std::string> cells = {group};
    for (const double mean : means) cells.push_back(fmt::format("{:.3f}", mean));
    chart.table.rows.push_back(cells);
    chart.data.push_back({{"type", "scatter"},
                          {"mode", "lines+markers"},
                          {"name", group},
                          {"x", names},
                          {"y", means},
                          {"line", {{"color", colors[index++ % std::size(colors)]}}}});
  }
  chart.layout = {{"height", 420}, {"yaxis", {{"title", {{"text", "times as fast"}}}}}};
  return chart;
}

void Main(const std::string& path) {
  fmt::print(
      "Iteration of plans that may recompute and no more, and how many times as fast the "
      "plan is after each further part of the search.\n\n");
  std::vector<std::string> header = {"model", "cluster", "batch"};
  for (const Step& step : Steps()) header.push_back(step.name);
  PrintHeader(header);
  SpeedUps speed_ups;
  for (const Case& one : Cases()) {
    const std::vector<std::optional<double>> seconds = Run(one.request);
    std::vector<std::string> cells = {
        one.request.model.name, one.request.cluster.name, std::to_string(one.request.global_batch)};
    // Where recomputation alone fits nothing, times stand in place of ratios.
    std::vector<double> ratios;
    for (const std::optional<double>& now : seconds) {
      if (seconds.front() && now) ratios.push_back(*seconds.front() / *now);
      const bool is_time = !seconds.front() || cells.size() == 3;
      cells.push_back(!now      ? "none fits"
                      : is_time ? FormatSeconds(*now)
                                : fmt::format("{:.3f}", ratios.back()));
    }
    if (ratios.size() == Steps().size()) speed_ups[one.group].push_back(ratios);
    PrintRow(cells);
  }
  fmt::print("\nGeometric means where recomputation alone has a plan:\n\n");
  const report::Chart chart = MakeChart(speed_ups);
  PrintHeader(chart.table.headers);
  for (const std::vector<std::string>& row : chart.table.rows) PrintRow(row);
  if (path.empty()) return;
  report::Page page("What each part of the search buys");
  page.AddChart(chart);
  page.Write(path).value();
}

}  // namespace
}  // namespace palmist::studies

int main(int argc, char** argv) {
  return palmist::studies::RunStudy([&] { palmist::studies::Main(argc > 1 ? argv[1] : ""); });
}
