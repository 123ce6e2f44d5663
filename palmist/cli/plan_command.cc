#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "palmist/base/file.h"
#include "palmist/base/interrupt.h"
#include "palmist/base/progress.h"
#include "palmist/base/text.h"
#include "palmist/base/thread_pool.h"
#include "palmist/base/units.h"
#include "palmist/base/version.h"
#include "palmist/cli/command.h"
#include "palmist/cli/output_files.h"
#include "palmist/cli/plan_text.h"
#include "palmist/cluster/presets.h"
#include "palmist/plan/optimizer.h"
#include "palmist/plan/summary.h"
#include "palmist/planner/planner.h"
#include "palmist/report/plan_page.h"
#include "palmist/sim/plan_timeline.h"

namespace palmist::cli {
namespace {

constexpr int kTerminated = 143;  // ended by SIGTERM, with the best plan so far

struct PlanArguments {
  std::string model, cluster, seq, batch,
      dtype = "bf16", optimizer = "adamw", grad_dtype, memory_limit = "1", space = "full",
      ops = "auto", target = "none", calibration, objective = "time", price, output, report, trace,
      time_limit = "150s";
  std::vector<std::string> fix;
  double gap = 0.01, expert_imbalance = 1;
  std::int64_t max_evaluations = 0;
  int threads = 0, top = 4;
  std::int64_t seed = 0;
  std::vector<std::string> slow;
};

/// Reads a share up to 1, a number of GiB above 1, or a size with its unit. Returns a share or
/// bytes.
double ReadMemoryLimit(const std::string& text) {
  const Result<double> number = ParseNumber(text);
  if (number.ok() && *number > 0) {
    if (*number <= 1) return *number;
    // No device has a million GiB: that is a number of bytes.
    return *number < 1e6 ? *number * static_cast<double>(kGiB) : *number;
  }
  const Result<std::int64_t> bytes = ParseBytes(text);
  if (!bytes.ok() || *bytes <= kMiB) {
    throw UsageError("--memory-limit",
                     "expected a share in (0, 1], GiB, or a size, got '" + text + "'",
                     "for example 0.9, 70 or 70GiB");
  }
  return static_cast<double>(*bytes);
}

/// Sets prices: one number for all devices, or GPU=number pairs.
void SetPrices(const std::string& text, cluster::Cluster& cluster) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const std::size_t equals = part.find('=');
    const std::string gpu = equals == std::string::npos ? "" : part.substr(0, equals);
    const double price = ReadOption("--price-per-gpu-hour",
                                    equals == std::string::npos ? part : part.substr(equals + 1),
                                    ParseNumber);
    const Result<cluster::Device> device = cluster::PresetDevice(gpu);
    const std::string name = device.ok() ? device->name : gpu;
    bool used = false;
    for (cluster::NodeGroup& group : cluster.groups) {
      if (gpu.empty() || AsciiLower(group.device.name) == AsciiLower(name)) {
        group.price_usd_per_device_hour = price;
        used = true;
      }
    }
    if (!used) {
      throw UsageError("--price-per-gpu-hour",
                       "the cluster has no device called '" + gpu + "'",
                       "name one of the cluster's devices, or give one price for all");
    }
    begin = end + 1;
  }
}

/// Sets `device=I:FACTOR` entries.
void SetSlowDevices(const std::vector<std::string>& entries, cluster::Cluster& cluster) {
  for (const std::string& entry : entries) {
    const std::size_t colon = entry.find(':');
    const bool named = entry.rfind("device=", 0) == 0 && colon != std::string::npos;
    const Result<std::int64_t> device =
        named ? ParseCount(entry.substr(7, colon - 7)) : Result<std::int64_t>(-1);
    const Result<double> factor =
        named ? ParseNumber(entry.substr(colon + 1)) : Result<double>(0.0);
    if (!device.ok() || !factor.ok() || *device < 0 || *device >= cluster.num_devices() ||
        *factor < 0.001 || *factor > 1) {
      throw UsageError(
          "--slow",
          fmt::format("expected device=I:FACTOR with I below {} and a factor in [0.001, 1], "
                      "got '{}'",
                      cluster.num_devices(),
                      entry),
          "for example --slow device=3:0.8");
    }
    cluster.slow_devices[static_cast<int>(*device)] = *factor;
  }
}

void CheckChoice(const std::string& option,
                 const std::string& value,
                 const std::vector<std::string>& now,
                 const std::vector<std::string>& later) {
  if (std::find(now.begin(), now.end(), value) != now.end()) return;
  if (std::find(later.begin(), later.end(), value) != later.end()) {
    throw Error(ErrorKind::kUnavailable,
                "'" + value + "' is not available in this version",
                option,
                "use " + now.front());
  }
  std::string all;
  for (const auto* list : {&now, &later}) {
    for (const std::string& choice : *list) all += (all.empty() ? "" : ", ") + choice;
  }
  throw UsageError(
      option, "expected one of " + all + ", got '" + value + "'", "use " + now.front());
}

planner::PlanRequest MakeRequest(const PlanArguments& arguments) {
  CheckChoice("--objective", arguments.objective, {"time"}, {"cost", "memory"});
  CheckChoice("--dtype", arguments.dtype, {"bf16", "fp16", "fp32"}, {});
  if (!arguments.grad_dtype.empty() && arguments.grad_dtype != arguments.dtype) {
    CheckChoice("--grad-dtype", arguments.grad_dtype, {"fp32", arguments.dtype}, {});
  }
  CheckChoice("--optimizer", arguments.optimizer, plan::OptimizerNames(), {});
  CheckChoice("--ops", arguments.ops, {"auto", "eager", "sdpa", "fused", "tempo", "lean"}, {});
  CheckChoice("--target",
              arguments.target,
              {"none", "palmist", "megatron", "deepspeed", "torchtitan", "accelerate"},
              {});
  planner::PlanRequest request;
  request.space = planner::RulesOf(arguments.space);
  request.model = model::LoadModel(arguments.model).value();
  request.cluster = cluster::LoadCluster(arguments.cluster).value();
  if (!arguments.price.empty()) SetPrices(arguments.price, request.cluster);
  SetSlowDevices(arguments.slow, request.cluster);
  request.calibration = CalibrationFor(arguments.calibration, request.cluster);
  const bool has_sequence = request.model.spec.is_transformer();
  if (has_sequence && arguments.seq.empty()) {
    throw UsageError(
        "--seq", "a sequence length is needed for " + request.model.name, "for example --seq 2048");
  }
  if (!has_sequence && !arguments.seq.empty()) {
    throw UsageError("--seq", "a convolutional model has no sequence", "leave --seq out");
  }
  if (has_sequence) request.seq_len = ReadOption("--seq", arguments.seq, ParseSequenceLength);
  request.global_batch = ReadOption("--global-batch", arguments.batch, ParseCount);
  const auto check = [](const std::string& option, std::int64_t value, std::int64_t high) {
    if (value < 1 || value > high) {
      throw UsageError(option,
                       fmt::format("expected 1 to {}, got {}", high, value),
                       "choose a value in that range");
    }
  };
  if (has_sequence) check("--seq", request.seq_len, plan::kMaxSequence);
  check("--global-batch", request.global_batch, 1 << 30);
  check("--top", arguments.top, 1000);
  if (arguments.threads < 0 || arguments.threads > 1024) {
    throw UsageError("--threads",
                     fmt::format("expected 1 to 1024, got {}", arguments.threads),
                     "leave it out to use all cores");
  }
  if (has_sequence) {
    const std::int64_t longest = request.model.spec.transformer().embedding.positions;
    if (longest > 0 && request.seq_len > longest) {
      throw UsageError("--seq",
                       fmt::format("{} has learned positions for {} tokens, got {}",
                                   request.model.name,
                                   longest,
                                   request.seq_len),
                       fmt::format("use --seq {} or less, or enlarge the position table in the "
                                   "configuration",
                                   longest));
    }
  }
  request.dtype = arguments.dtype;
  request.optimizer = arguments.optimizer;
  request.grad_dtype = arguments.grad_dtype;
  request.memory_limit = ReadMemoryLimit(arguments.memory_limit);
  request.ops = arguments.ops;
  request.target = arguments.target;
  for (const std::string& fix : arguments.fix) planner::ParseFix(fix, request.fixed).value();
  if (!(arguments.gap >= 0 && arguments.gap < 1)) {
    throw UsageError("--gap",
                     fmt::format("expected a share in [0, 1), got {}", arguments.gap),
                     "for example 0.01");
  }
  if (!(arguments.expert_imbalance >= 1 && arguments.expert_imbalance <= 1e6)) {
    throw UsageError(
        "--expert-imbalance",
        fmt::format("expected busiest over mean, at least 1, got {}", arguments.expert_imbalance),
        "1 is even routing");
  }
  if (arguments.max_evaluations < 0) {
    throw UsageError(
        "--max-evaluations", "expected a count, got a negative number", "0 is no limit");
  }
  request.gap = arguments.gap;
  request.max_evaluations = arguments.max_evaluations;
  request.expert_imbalance = arguments.expert_imbalance;
  request.time_limit_s = ReadOption("--time-limit", arguments.time_limit, ParseSeconds);
  request.threads = arguments.threads > 0 ? arguments.threads : HardwareThreads();
  request.top = arguments.top;
  return request;
}

std::map<std::string, std::string> Provenance(const cluster::Calibration& calibration) {
  return {{"palmist", Version()},
          {"calibration", calibration.name},
          {"created", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))}};
}

int ReportInfeasible(Context& context, const planner::PlanResult& result) {
  const ErrorKind kind = ErrorKind::kInfeasible;
  double short_bytes = 0;
  int stage = 0;
  for (const plan::ClosestMiss& miss : result.closest) {
    if (miss.short_bytes > short_bytes) short_bytes = miss.short_bytes, stage = miss.stage;
  }
  const std::string change = result.closest.empty() ? "" : result.closest.front().change;
  const std::string message =
      fmt::format("no plan fits: the closest one ({}) is short of {:.1f} GiB a device on stage {}",
                  plan::DescribeLayout(result.nearest),
                  short_bytes / static_cast<double>(kGiB),
                  stage);
  if (context.json) {
    nlohmann::ordered_json closest = nlohmann::ordered_json::array();
    for (const plan::ClosestMiss& miss : result.closest) {
      closest.push_back(
          {{"stage", miss.stage}, {"short_bytes", miss.short_bytes}, {"change", miss.change}});
    }
    PrintJson(context,
              {{"error",
                {{"kind", ToString(kind)}, {"message", message}, {"field", ""}, {"hint", change}}},
               {"closest", closest}});
  } else {
    *context.err << "palmist: " << message << "\nwhat would fit: " << change << "\n\n";
    plan::Plan nearest = result.nearest;
    nearest.closest.clear();
    *context.err << FormatPlan(nearest);
  }
  return ExitCode(kind);
}

int RunPlan(Context& context, const PlanArguments& arguments) {
  const planner::PlanRequest request = MakeRequest(arguments);
  CheckOutputFiles(
      {{"-o", arguments.output}, {"--report", arguments.report}, {"--trace", arguments.trace}},
      {arguments.model, arguments.cluster, arguments.calibration});
  planner::PlanResult result;
  {
    Progress progress("searching", 1000);
    result = planner::FindPlan(request, [&](double done, double best_s) {
      progress.Update(static_cast<std::int64_t>(done * 1000),
                      best_s > 0 ? "best " + FormatSeconds(best_s) : "nothing fits yet");
    });
  }
  const bool interrupted = result.outcome == planner::Outcome::kInterrupted;
  if (result.plans.empty()) {
    if (result.outcome == planner::Outcome::kInfeasible) return ReportInfeasible(context, result);
    if (!interrupted) return ReportInfeasible(context, result);
    throw Error(ErrorKind::kInterrupted, "interrupted before any plan was found");
  }
  plan::Plan& best = result.plans.front();
  best.provenance = Provenance(request.calibration);
  const std::vector<plan::Plan> alternatives(result.plans.begin() + 1, result.plans.end());
  std::vector<std::string> notes = result.notes;
  for (const std::string& advice : Advice(best)) notes.push_back(advice);
  constexpr std::int64_t kWorthANote = 256 * kMiB;
  if (result.search_bytes > kWorthANote) {
    notes.push_back("the search itself held up to " +
                    FormatBytes(static_cast<double>(result.search_bytes)));
  }
  if (!arguments.output.empty()) {
    WriteFileAtomic(arguments.output, plan::ToJson(best).dump(2) + "\n").value();
  }
  if (!arguments.report.empty()) {
    report::PlanPage(best, alternatives, {.what_binds = result.binding, .notes = notes})
        .Write(arguments.report)
        .value();
  }
  if (!arguments.trace.empty()) sim::WriteTrace(best, arguments.trace);
  if (context.json) {
    PrintJson(context, plan::ToJson(best));
  } else {
    *context.out << FormatPlan(best, alternatives, result.binding, notes);
    for (const std::string& path : {arguments.output, arguments.report, arguments.trace}) {
      if (!path.empty()) *context.out << "wrote " << path << '\n';
    }
  }
  if (!interrupted) return 0;
  return InterruptSignal() == SIGTERM ? kTerminated : ExitCode(ErrorKind::kInterrupted);
}

}  // namespace

void AddPlanCommand(CLI::App& app, Context& context) {
  const auto arguments = std::make_shared<PlanArguments>();
  CLI::App* command = AddCommand(
      app,
      context,
      "plan",
      "find the fastest plan that fits",
      "palmist plan llama-2-7b --cluster a100-sxm4-80gb-2x8 --seq 4096 --global-batch 256",
      [&context, arguments] { return RunPlan(context, *arguments); });
  PlanArguments& a = *arguments;
  command->add_option("MODEL", a.model, "a built-in model, a config.json, or a folder with one")
      ->required();
  command->add_option("--cluster", a.cluster, "GPU-NODESxGPUS such as h100-4x8, or a file")
      ->required();
  command->add_option("--seq", a.seq, "sequence length, such as 4096 or 4k");
  command->add_option("--global-batch", a.batch, "sequences (or images) an iteration")->required();
  command->add_option("--dtype", a.dtype, "bf16, fp16 or fp32")->capture_default_str();
  command->add_option("--optimizer", a.optimizer, "adamw, adamw-bf16, adamw-8bit or sgd (momentum)")
      ->capture_default_str();
  command->add_option("--grad-dtype", a.grad_dtype, "fp32 to sum gradients in it; as --dtype");
  command->add_option("--memory-limit", a.memory_limit, "share of the device, GiB, or a size")
      ->capture_default_str();
  command
      ->add_option("--space",
                   a.space,
                   "what is searched: full, uniform, mist, megatron, deepspeed or sailor")
      ->capture_default_str();
  command->add_option("--ops", a.ops, "operators: auto, eager, sdpa, fused, tempo or lean")
      ->capture_default_str();
  command->add_option("--fix", a.fix, "pin a value: key=value, repeatable")->take_all();
  command
      ->add_option("--target",
                   a.target,
                   "trainer: none, palmist, megatron, deepspeed, torchtitan or accelerate")
      ->capture_default_str();
  command->add_option("--calibration", a.calibration, "a calibration file");
  command->add_option("--objective", a.objective, "time")->capture_default_str();
  command->add_option("--price-per-gpu-hour", a.price, "USD, one for all or GPU=X,…");
  command->add_option("--gap", a.gap, "stop when proven this close to the best")
      ->capture_default_str();
  command->add_option("--max-evaluations", a.max_evaluations, "0: no limit")->capture_default_str();
  command->add_option("--expert-imbalance", a.expert_imbalance, "busiest expert rank over mean")
      ->capture_default_str();
  command->add_option("--slow", a.slow, "a slow device: device=I:FACTOR, repeatable")->take_all();
  command->add_option("--time-limit", a.time_limit, "such as 30s")->capture_default_str();
  command->add_option("--threads", a.threads, "0: all cores")->capture_default_str();
  command->add_option("--top", a.top, "plans to compare: the best and its alternatives")
      ->capture_default_str();
  command->add_option("--seed", a.seed, "kept for scripts: this search draws no random numbers");
  command->add_option("-o,--output", a.output, "write the plan file");
  command->add_option("--report", a.report, "write an HTML page");
  command->add_option("--trace", a.trace, "write the simulated iteration as a Chrome trace");
}

}  // namespace palmist::cli
