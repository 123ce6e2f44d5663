#include <fmt/format.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "palmist/base/file.h"
#include "palmist/base/thread_pool.h"
#include "palmist/cli/grasp_command.h"
#include "palmist/grasp/eval/golden.h"
#include "palmist/grasp/eval/run.h"

namespace palmist::cli {
namespace {

struct GraspEvalArguments {
  std::string data, golden, mode = "both", output;
  grasp::EvaluationOptions options;
};

int CheckGolden(Context& context, const std::string& folder) {
  const grasp::GoldenReport report = grasp::CheckGolden(folder).value();
  if (context.json) {
    PrintJson(context,
              {{"checked", report.checked},
               {"mismatches", report.mismatches},
               {"failures", report.failures}});
  } else {
    *context.out << fmt::format(
        "{} numbers compared, {} mismatches\n", report.checked, report.mismatches);
    for (const std::string& failure : report.failures) *context.out << "  " << failure << '\n';
  }
  return report.mismatches == 0 ? 0 : ExitCode(ErrorKind::kRuntime);
}

std::string ScoreLine(std::string_view name, const grasp::Score& score) {
  return fmt::format("{:<26}{:>7}{:>8}{:>9.4f}{:>9.4f}{:>9.4f}   {:.4f} to {:.4f}\n",
                     name,
                     score.scenes,
                     score.frames,
                     score.precision.ap(),
                     score.precision.ap_08(),
                     score.precision.ap_04(),
                     score.interval_95[0],
                     score.interval_95[1]);
}

std::string FormatResult(const grasp::EvaluationResult& result) {
  std::string text = fmt::format("{} grasps, {} frames without any, camera {}\n\n",
                                 result.grasps,
                                 result.frames_without_grasps,
                                 result.camera);
  text += fmt::format("{:<26}{:>7}{:>8}{:>9}{:>9}{:>9}   {}\n",
                      "",
                      "scenes",
                      "frames",
                      "AP",
                      "AP0.8",
                      "AP0.4",
                      "AP, 95 % over scenes");
  for (const grasp::EvaluationResult::Entry& entry : result.entries) {
    const std::string rule = grasp::ToString(entry.rule);
    text += ScoreLine(rule, entry.all_grasps.all);
    for (const auto& [split, score] : entry.all_grasps.splits) {
      text += ScoreLine(fmt::format("  {}", grasp::ToString(split)), score);
    }
    text += ScoreLine(rule + ", none colliding", entry.collisions_removed.all);
  }
  return text;
}

int RunGraspEval(Context& context, GraspEvalArguments& arguments) {
  if (!arguments.golden.empty()) return CheckGolden(context, arguments.golden);
  if (arguments.data.empty() || arguments.options.dump.empty()) {
    throw UsageError("",
                     "expected --data and --dump, or --golden",
                     "--data is a folder in GraspNet-1Billion's layout, --dump holds "
                     "scene_0100/realsense/0000.npy and so on");
  }
  if (arguments.mode == "compat") arguments.options.rules = {grasp::ContactRule::kCompat};
  if (arguments.mode == "strict") arguments.options.rules = {grasp::ContactRule::kStrict};
  if (!arguments.output.empty()) CheckWritable(arguments.output).value();
  const grasp::Dataset dataset = grasp::Dataset::Open(arguments.data).value();
  const grasp::EvaluationResult result = grasp::EvaluateDump(dataset, arguments.options).value();
  const nlohmann::json json = grasp::ToJson(result);
  if (!arguments.output.empty()) {
    WriteFileAtomic(arguments.output, json.dump(1) + "\n").value();
  }
  if (context.json) {
    PrintJson(context, json);
  } else {
    *context.out << FormatResult(result);
  }
  return 0;
}

}  // namespace

void AddGraspEvalCommand(CLI::App& app, Context& context) {
  const auto arguments = std::make_shared<GraspEvalArguments>();
  CLI::App* command =
      AddCommand(app,
                 context,
                 "eval",
                 "average precision of a folder of grasps, as GraspNet-1Billion has it",
                 "palmist grasp eval --data graspnet --dump results --camera realsense",
                 [&context, arguments] { return RunGraspEval(context, *arguments); });
  command->add_option("--data", arguments->data, "a dataset in GraspNet-1Billion's layout");
  command->add_option(
      "--dump", arguments->options.dump, "grasps: DUMP/scene_0100/realsense/0000.npy");
  command->add_option("--camera", arguments->options.camera, "realsense or kinect");
  command->add_option("--scenes", arguments->options.scenes, "only these, such as 100,101")
      ->delimiter(',');
  command
      ->add_option("--mode", arguments->mode, "compat: the public numbers; strict: exact contacts")
      ->check(CLI::IsMember({"compat", "strict", "both"}));
  command->add_option("--jobs", arguments->options.threads, "threads")->check(IsThreadCount());
  command->add_option("--resume",
                      arguments->options.results,
                      "a folder that keeps finished scenes for the next run");
  command->add_option("--seed", arguments->options.seed, "of the bootstrap")->check(IsSeed());
  command->add_option("-o,--output", arguments->output, "write the whole result as JSON");
  command->add_option("--golden", arguments->golden, "check this build against golden vectors");
}

}  // namespace palmist::cli
