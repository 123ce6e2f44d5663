#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "palmist/base/file.h"
#include "palmist/base/thread_pool.h"
#include "palmist/cli/grasp_command.h"
#include "palmist/grasp/formats/mesh_file.h"
#include "palmist/grasp/formats/npz.h"
#include "palmist/grasp/label/label_file.h"
#include "palmist/grasp/label/run_labels.h"

namespace palmist::cli {
namespace {

struct GraspLabelArguments {
  std::string data, mesh, output, shard, stage = "all";
  double spacing_mm = 5, scale = 1;
  bool dense = false;
  grasp::LabelRunOptions run;
  std::vector<const CLI::Option*> of_mesh, of_data;  ///< options of one of the two alone
};

void RefuseOptions(const std::vector<const CLI::Option*>& options,
                   const std::string& theirs,
                   const std::string& given) {
  for (const CLI::Option* option : options) {
    if (option->count() == 0) continue;
    throw UsageError(
        option->get_name(), "goes with " + theirs + ", not with " + given, "leave it out");
  }
}

/// Throws unless the number of the option is in a range; not a number is not.
void CheckRange(const char* option, double value, double least, double most, const char* unit) {
  if (value >= least && value <= most) return;
  throw UsageError(option,
                   fmt::format("expected {:g} to {:g}{}, got {:g}", least, most, unit, value));
}

/// Reads "i/n", i from 1.
void ReadShard(const std::string& text, grasp::LabelRunOptions& options) {
  if (text.empty()) return;
  const std::size_t slash = text.find('/');
  const char* end = text.data() + text.size();
  int shard = 0, shards = 0;
  const bool is_read =
      slash != std::string::npos &&
      std::from_chars(text.data(), text.data() + slash, shard).ptr == text.data() + slash &&
      std::from_chars(text.data() + slash + 1, end, shards).ptr == end;
  if (!is_read || shard < 1 || shards < shard) {
    throw UsageError("--shard", "expected i/n with 1 <= i <= n, got '" + text + "'");
  }
  options.shard = shard - 1;
  options.shards = shards;
}

int LabelMesh(Context& context, const GraspLabelArguments& arguments) {
  if (arguments.output.empty()) {
    throw UsageError("-o", "expected a file for the labels of --mesh", "add -o labels.npz");
  }
  CheckWritable(arguments.output).value();
  grasp::TriangleMesh mesh = grasp::ReadMesh(arguments.mesh).value();
  for (grasp::Vector3d& vertex : mesh.vertices) vertex *= arguments.scale;
  const Result<grasp::ObjectLabels> labelled = grasp::LabelObject(mesh, arguments.run.label);
  if (!labelled.ok()) {
    const Error& error = labelled.error();
    throw error.kind() == ErrorKind::kInput ? error.WithPath(arguments.mesh) : error;
  }
  const grasp::ObjectLabels& labels = *labelled;
  if (arguments.dense) {
    grasp::WriteNpz(arguments.output, grasp::ToDenseLabels(labels).value()).value();
  } else {
    grasp::WriteGraspLabels(arguments.output, labels).value();
  }
  std::int64_t closed = 0;
  for (const grasp::GraspLabel& label : labels.grasps) closed += label.friction_class > 0;
  if (context.json) {
    PrintJson(context,
              {{"points", labels.points_O.size()},
               {"free_grasps", labels.grasps.size()},
               {"closed_grasps", closed}});
  } else {
    *context.out << fmt::format("{} points, {} grasps without collision, {} of them hold\n",
                                labels.points_O.size(),
                                labels.grasps.size(),
                                closed);
  }
  return 0;
}

nlohmann::ordered_json ToJson(const grasp::LabelRun& run) {
  nlohmann::ordered_json failed = nlohmann::json::array();
  for (const auto& [number, error] : run.failed) {
    failed.push_back({{"number", number}, {"message", error.what()}});
  }
  return {{"written", run.written}, {"skipped", run.skipped}, {"failed", failed}};
}

std::string FormatRun(const grasp::LabelRun& run, std::string_view what) {
  std::string text = fmt::format("{} {}{} labelled, {} were there, {} failed\n",
                                 run.written.size(),
                                 what,
                                 run.written.size() == 1 ? "" : "s",
                                 run.skipped.size(),
                                 run.failed.size());
  for (const auto& [number, error] : run.failed) {
    text += fmt::format("  {} {}: {}\n", what, number, error.what());
  }
  return text;
}

int LabelDataset(Context& context, const GraspLabelArguments& arguments) {
  if (arguments.run.shards > 1 && arguments.stage == "all") {
    throw UsageError("--shard",
                     "a scene needs the labels of all its objects, which other shards make",
                     "run --stage objects on all shards, then --stage scenes");
  }
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  std::string text;
  bool is_complete = true;
  const auto report = [&](const grasp::LabelRun& run, const std::string& what) {
    json[what + "s"] = ToJson(run);
    text += FormatRun(run, what);
    is_complete = is_complete && run.failed.empty();
  };
  if (arguments.stage != "scenes") {
    report(grasp::RunLabels(arguments.data, arguments.run).value(), "object");
  }
  if (arguments.stage != "objects") {
    report(grasp::RunSceneLabels(arguments.data, arguments.run).value(), "scene");
  }
  if (context.json) {
    PrintJson(context, json);
  } else {
    *context.out << text;
  }
  return is_complete ? 0 : ExitCode(ErrorKind::kRuntime);
}

int RunGraspLabel(Context& context, GraspLabelArguments& arguments) {
  if (arguments.data.empty() == arguments.mesh.empty()) {
    throw UsageError("",
                     "expected --data or --mesh",
                     "--data labels all models of a dataset, --mesh one object");
  }
  if (arguments.data.empty()) {
    RefuseOptions(arguments.of_data, "--data", "--mesh");
  } else {
    RefuseOptions(arguments.of_mesh, "--mesh", "--data");
  }
  CheckRange("--spacing", arguments.spacing_mm, 0.1, 1000, " mm");
  CheckRange("--scale", arguments.scale, 1e-6, 1e6, "");
  ReadShard(arguments.shard, arguments.run);
  arguments.run.label.spacing_m = arguments.spacing_mm / 1e3;
  return arguments.data.empty() ? LabelMesh(context, arguments) : LabelDataset(context, arguments);
}

}  // namespace

void AddGraspLabelCommand(CLI::App& app, Context& context) {
  const auto arguments = std::make_shared<GraspLabelArguments>();
  arguments->run.label.threads = HardwareThreads();
  grasp::LabelOptions& label = arguments->run.label;
  CLI::App* command =
      AddCommand(app,
                 context,
                 "label",
                 "which grasps hold an object, and with how much friction",
                 "palmist grasp label --mesh mug.obj --views 60 -o mug.npz",
                 [&context, arguments] { return RunGraspLabel(context, *arguments); });
  command->add_option("--data", arguments->data, "a dataset in GraspNet-1Billion's layout");
  arguments->of_data = {
      command
          ->add_option("--stage",
                       arguments->stage,
                       "objects: their grasps; scenes: which of them collide there; all: both")
          ->check(CLI::IsMember({"objects", "scenes", "all"})),
      command->add_option(
          "--shard", arguments->shard, "only part i of n of the objects, or scenes, as i/n")};
  command->add_option("--mesh", arguments->mesh, "one object: .obj, .stl or .ply, in metres");
  arguments->of_mesh = {
      command->add_option("--scale", arguments->scale, "of the mesh: 0.001 for millimetres"),
      command->add_option("-o,--output", arguments->output, "the labels of --mesh, as .npz"),
      command->add_flag("--dense",
                        arguments->dense,
                        "of --mesh: write GraspNet's arrays; sparse ones by default")};
  command->add_option("--views", label.views, "directions of approach, over the sphere");
  command->add_option("--angles", label.angles, "turns about the approach, over half a turn");
  command->add_option("--depths", label.depths, "finger depths of 1 cm, 2 cm and so on");
  command->add_option("--spacing", arguments->spacing_mm, "of grasp points on the surface, in mm");
  command->add_option("--threads", label.threads, "threads")->check(IsThreadCount());
}

}  // namespace palmist::cli
