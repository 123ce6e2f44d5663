/// What a larger search space buys: for each model of the zoo, the iteration time of the best plan
/// of the full space, and how many times as long the best of each restricted space takes, by one
/// cost model. Then the same plans with and without the lean operators.
///
///   build/bench/bin/studies/plan_quality [PART OF A MODEL'S NAME]
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>

#include "cases.h"
#include "palmist/base/units.h"
#include "palmist/plan/summary.h"

namespace palmist::studies {
namespace {

const std::vector<std::string> kSpaces = {"uniform", "mist", "megatron", "deepspeed"};

struct Row {
  planner::PlanRequest request;
  std::optional<plan::Plan> full, no_lean;
  std::map<std::string, std::optional<plan::Plan>> of_space;
};

double Seconds(const plan::Plan& plan) { return plan.predicted->iteration_time_s; }

std::vector<std::string> Describe(const planner::PlanRequest& request) {
  return {request.model.name,
          request.cluster.name,
          std::to_string(request.seq_len),
          std::to_string(request.global_batch)};
}

std::string Ratio(const std::optional<plan::Plan>& plan, const plan::Plan& full) {
  return plan ? fmt::format("{:.3f}", Seconds(*plan) / Seconds(full)) : "none fits";
}

Row Search(planner::PlanRequest request) {
  Row row;
  row.full = BestPlan(request);
  for (const std::string& space : kSpaces) {
    request.space = planner::RulesOf(space);
    // A space may have no layout of this batch and model at all.
    try {
      row.of_space[space] = BestPlan(request);
    } catch (const Error&) {
      row.of_space[space] = std::nullopt;
    }
  }
  request.space = planner::RulesOf("full");
  request.ops = "fused";
  row.no_lean = BestPlan(request);
  row.request = std::move(request);
  return row;
}

void PrintSpaces(const std::vector<Row>& rows) {
  fmt::print("## Spaces\n\n");
  fmt::print("Iteration of the best plan of each space over that of the full space.\n\n");
  std::vector<std::string> header = {"model", "cluster", "tokens", "batch", "full", "gap"};
  header.insert(header.end(), kSpaces.begin(), kSpaces.end());
  PrintHeader(header);
  std::map<std::string, std::vector<double>> ratios;
  std::map<std::string, int> missing;
  for (const Row& row : rows) {
    std::vector<std::string> cells = Describe(row.request);
    if (!row.full) {
      cells.insert(cells.end(), {"none fits", ""});
      cells.resize(header.size());
      PrintRow(cells);
      continue;
    }
    cells.push_back(FormatSeconds(Seconds(*row.full)));
    cells.push_back(FormatPercent(row.full->search->gap));
    for (const std::string& space : kSpaces) {
      const std::optional<plan::Plan>& plan = row.of_space.at(space);
      cells.push_back(Ratio(plan, *row.full));
      if (plan) ratios[space].push_back(Seconds(*plan) / Seconds(*row.full));
      if (!plan) ++missing[space];
    }
    PrintRow(cells);
  }
  fmt::print("\n");
  PrintHeader({"space", "runs", "geometric mean", "worst", "no plan fits"});
  for (const std::string& space : kSpaces) {
    const std::vector<double>& of = ratios[space];
    if (of.empty()) continue;
    PrintRow({space,
              std::to_string(of.size()),
              fmt::format("{:.3f}", GeometricMean(of)),
              fmt::format("{:.2f}", *std::max_element(of.begin(), of.end())),
              std::to_string(missing[space])});
  }
}

double GigabytesOf(const plan::Plan& plan) {
  const plan::MemoryBytes& memory = plan.stages[plan::FullestStage(plan)].predicted->memory;
  return memory.needed() / static_cast<double>(kGiB);
}

int Recomputed(const plan::Plan& plan) {
  int count = 0;
  for (const plan::Stage& stage : plan.stages) count += stage.num_recomputed();
  return count;
}

void PrintOperators(const std::vector<Row>& rows) {
  fmt::print("\n## Operators\n\n");
  fmt::print(
      "The best plan with and without the lean operators: iteration, memory of its fullest rank, "
      "sequences a micro-batch of the first stage, recomputed layers.\n\n");
  PrintHeader({"model",
               "cluster",
               "chosen",
               "time",
               "GiB",
               "batch",
               "recomputed",
               "without: time",
               "GiB",
               "batch",
               "recomputed",
               "ratio"});
  std::vector<double> ratios;
  for (const Row& row : rows) {
    if (!row.full) continue;
    std::vector<std::string> cells = {row.request.model.name,
                                      row.request.cluster.name,
                                      plan::Describe(row.full->stages.front().ops)};
    for (const std::optional<plan::Plan>* plan : {&row.full, &row.no_lean}) {
      if (!*plan) {
        cells.insert(cells.end(), {"none fits", "", "", ""});
        continue;
      }
      const plan::Stage& front = (*plan)->stages.front();
      cells.push_back(FormatSeconds(Seconds(**plan)));
      cells.push_back(fmt::format("{:.1f}", GigabytesOf(**plan)));
      cells.push_back(std::to_string(front.micro_batch));
      cells.push_back(
          fmt::format("{} of {}", Recomputed(**plan), (*plan)->stages.back().last_layer + 1));
    }
    if (row.no_lean) ratios.push_back(Seconds(*row.no_lean) / Seconds(*row.full));
    cells.push_back(Ratio(row.no_lean, *row.full));
    PrintRow(cells);
  }
  if (ratios.empty()) return;
  fmt::print(
      "\nWithout lean operators: {:.3f} times as long (geometric mean of {}), at worst {:.2f}.\n",
      GeometricMean(ratios),
      ratios.size(),
      *std::max_element(ratios.begin(), ratios.end()));
}

void Main(const std::string& part) {
  std::vector<Row> rows;
  for (planner::PlanRequest& request : ZooRequests()) {
    if (request.model.name.find(part) == std::string::npos) continue;
    fmt::print(stderr, "{} on {}\n", request.model.name, request.cluster.name);
    rows.push_back(Search(std::move(request)));
  }
  PrintSpaces(rows);
  PrintOperators(rows);
}

}  // namespace
}  // namespace palmist::studies

int main(int argc, char** argv) {
  return palmist::studies::RunStudy([&] { palmist::studies::Main(argc > 1 ? argv[1] : ""); });
}
