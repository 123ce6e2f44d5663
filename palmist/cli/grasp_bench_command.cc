#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <numbers>
#include <ostream>
#include <string>
#include <vector>

#include "palmist/base/progress.h"
#include "palmist/base/rng.h"
#include "palmist/base/thread_pool.h"
#include "palmist/cli/grasp_command.h"
#include "palmist/grasp/core/analytic_scene.h"
#include "palmist/grasp/core/anchors.h"
#include "palmist/grasp/eval/golden.h"
#include "palmist/grasp/pipeline/baselines.h"
#include "palmist/grasp/search/dense.h"
#include "palmist/grasp/search/detect.h"

namespace palmist::cli {
namespace {

using nlohmann::ordered_json;

constexpr int kOrientations = 600;

struct GraspBenchArguments {
  std::string golden, data, camera = "realsense";
  std::vector<int> scenes;
  bool quick = false, baselines = false;
};

/// Returns the least milliseconds of `rounds` calls: other work on the machine only adds.
double LeastMs(int rounds, const std::function<void()>& work) {
  double least = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    least = round == 0 ? took.count() : std::min(least, took.count());
  }
  return least;
}

/// Anchors of AVN at points spread over the cloud, six at each.
std::vector<grasp::Candidate> AnchorCandidates(const std::vector<grasp::Vector3d>& points) {
  const std::vector<std::size_t> seeds = grasp::SampleEvenly(points, kOrientations / 6);
  std::vector<grasp::Candidate> candidates;
  Rng rng(2);
  for (const std::size_t seed : seeds) {
    for (int i = 0; i < 6; ++i) {
      const auto anchor = static_cast<std::size_t>(rng.Integer(grasp::kAnchors));
      candidates.push_back({grasp::AnchorRotations()[anchor], points[seed], rng.Uniform()});
    }
  }
  return candidates;
}

/// What search and detection are timed on.
struct Frame {
  grasp::Intrinsics camera = grasp::LoadIntrinsics("realsense", 1280, 720).value();
  grasp::DepthImage depth = grasp::RenderTable(camera);
};

ordered_json BenchSearch(const Frame& frame, int rounds) {
  // All of the scene, table included, thinned to the number of points that the bar is for.
  std::vector<grasp::Vector3d> points =
      grasp::VoxelDownsample(grasp::CloudFromDepth(frame.depth, frame.camera), 0.005).points;
  const std::vector<grasp::Candidate> candidates = AnchorCandidates(points);
  const grasp::Gripper gripper = grasp::LoadGripper("graspnet").value();
  const grasp::FasOptions options;

  const auto run = [&](int threads) {
    ThreadPool pool(threads);
    return LeastMs(rounds, [&] {
      const grasp::FasScene scene(points);
      grasp::SearchWidthAndDistance(scene, candidates, gripper, options, pool);
    });
  };
  const double one_core_ms = run(1), all_cores_ms = run(HardwareThreads());
  std::vector<grasp::Candidate> few;
  for (std::size_t i = 0; i < candidates.size(); i += 10) few.push_back(candidates[i]);
  const double dense_ms =
      LeastMs(3, [&] { grasp::SearchWidthAndDistanceDensely(points, few, gripper, options); });
  const double share = static_cast<double>(few.size()) / static_cast<double>(candidates.size());
  return {
      {"points", points.size()},
      {"orientations", candidates.size()},
      {"one_core_ms_600", one_core_ms * kOrientations / static_cast<double>(candidates.size())},
      {"all_cores_ms_600", all_cores_ms * kOrientations / static_cast<double>(candidates.size())},
      {"threads", HardwareThreads()},
      {"dense_ratio", dense_ms / share / one_core_ms}};
}

ordered_json BenchDetection(const Frame& frame, int rounds) {
  grasp::DetectOptions options;
  options.gripper = grasp::LoadGripper("graspnet").value();
  ThreadPool pool(HardwareThreads());
  grasp::Detection detection;
  const double whole_ms = LeastMs(rounds, [&] {
    detection = grasp::DetectWithOrientations(frame.depth, frame.camera, options, pool).value();
  });
  ordered_json stages = ordered_json::object();
  for (const grasp::StageTime& stage : detection.times) stages[stage.stage] = stage.time_s * 1e3;
  return {{"grasps", detection.grasps.size()}, {"ms_a_frame", whole_ms}, {"stages_ms", stages}};
}

ordered_json BenchEvaluation(const std::string& golden, int rounds) {
  const grasp::GoldenScenes scenes = grasp::ReadGoldenScenes(golden).value();
  ordered_json json = ordered_json::object();
  for (const auto rule : {grasp::ContactRule::kCompat, grasp::ContactRule::kStrict}) {
    const double all_ms = LeastMs(rounds, [&] {
      for (const grasp::GoldenFrame& frame : scenes.frames) {
        grasp::EvaluateFrame(frame.input, {.rule = rule});
      }
    });
    json[rule == grasp::ContactRule::kCompat ? "one_core_ms_a_frame"
                                             : "strict_one_core_ms_a_frame"] =
        all_ms / static_cast<double>(scenes.frames.size());
  }
  json["frames"] = scenes.frames.size();
  return json;
}

/// How far rotations are from the anchor that they are assigned to, approach within 60 degrees of
/// the optical axis.
ordered_json BenchAnchors(int rotations) {
  constexpr double kDegree = std::numbers::pi / 180;
  const grasp::Matrix3d half_turn = grasp::Vector3d(1, -1, -1).asDiagonal();
  ordered_json json = {{"rotations", rotations}};
  for (const bool is_symmetric : {false, true}) {
    Rng rng(1);
    double sum = 0, worst = 0;
    for (int i = 0; i < rotations; ++i) {
      // Uniform on the cap: the height on a sphere is uniform (Archimedes).
      const double z = 0.5 + 0.5 * rng.Uniform(), around = 2 * std::numbers::pi * rng.Uniform();
      const double ring = std::sqrt(1 - z * z);
      const grasp::Matrix3d R =
          grasp::RotationFromView({-ring * std::cos(around), -ring * std::sin(around), -z},
                                  2 * std::numbers::pi * rng.Uniform());
      const grasp::Matrix3d& Ra = grasp::AnchorRotations()[grasp::NearestAnchor(R, is_symmetric)];
      // The gripper turned by half a turn holds alike, whichever label it got.
      const double error = is_symmetric ? std::min(grasp::RotationAngle(Ra, R),
                                                   grasp::RotationAngle(Ra, R * half_turn))
                                        : grasp::RotationAngle(Ra, R);
      sum += error;
      worst = std::max(worst, error);
    }
    json[is_symmetric ? "symmetric" : "plain"] = {{"mean_degrees", sum / rotations / kDegree},
                                                  {"worst_degrees", worst / kDegree}};
  }
  return json;
}

/// A new folder for files, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "palmist_bench_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw Error(ErrorKind::kRuntime, "cannot be made", name, "set TMPDIR to a folder with room");
    }
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

ordered_json BenchBaselines(const GraspBenchArguments& arguments) {
  const TemporaryFolder folder;
  std::string root = arguments.data;
  if (root.empty()) {
    root = folder.path() + "/tables";
    grasp::WriteLabelledTables(root, arguments.quick ? 1 : 4, HardwareThreads()).value();
  }
  const grasp::Dataset dataset = grasp::Dataset::Open(root).value();
  grasp::DetectRunOptions options;
  options.sources = {grasp::OrientationSource::kOracle,
                     grasp::OrientationSource::kAntipodal,
                     grasp::OrientationSource::kTopDown,
                     grasp::OrientationSource::kRandom};
  options.camera = arguments.camera;
  options.scenes = arguments.scenes;
  options.dump = folder.path();
  ordered_json json = ordered_json::object();
  const std::vector<grasp::Baseline> baselines = grasp::CompareSources(dataset, options).value();
  for (const grasp::Baseline& baseline : baselines) {
    const double frames = static_cast<double>(baseline.run.frames);
    ordered_json entry = {{"frames", baseline.run.frames},
                          {"grasps_a_frame", static_cast<double>(baseline.run.grasps) / frames},
                          {"ms_a_frame", baseline.run.time_s * 1e3 / frames}};
    for (const grasp::EvaluationResult::Entry& rule : baseline.result.entries) {
      const grasp::Score& all = rule.all_grasps.all;
      entry[grasp::ToString(rule.rule)] = {
          {"AP", all.precision.ap()},
          {"interval_95", all.interval_95},
          {"AP_none_colliding", rule.collisions_removed.all.precision.ap()}};
    }
    json[grasp::ToString(baseline.source)] = std::move(entry);
  }
  return json;
}

std::string FormatBaselines(const ordered_json& json) {
  std::string text = fmt::format("{:<12}{:>8}{:>12}{:>10}{:>10}{:>10}{:>16}\n",
                                 "orientation",
                                 "frames",
                                 "grasps/frame",
                                 "ms/frame",
                                 "compat AP",
                                 "strict AP",
                                 "none colliding");
  for (const auto& [source, entry] : json.items()) {
    text += fmt::format("{:<12}{:>8}{:>12.1f}{:>10.1f}{:>10.3f}{:>10.3f}{:>16.3f}\n",
                        source,
                        entry["frames"].get<std::int64_t>(),
                        entry["grasps_a_frame"].get<double>(),
                        entry["ms_a_frame"].get<double>(),
                        entry["compat"]["AP"].get<double>(),
                        entry["strict"]["AP"].get<double>(),
                        entry["strict"]["AP_none_colliding"].get<double>());
  }
  return text;
}

int RunGraspBench(Context& context, const GraspBenchArguments& arguments) {
  const bool compares = arguments.baselines || !arguments.data.empty();
  const int rounds = arguments.quick ? 3 : 20;
  Progress progress("measuring", 3 + (arguments.golden.empty() ? 0 : 1) + (compares ? 1 : 0));
  const Frame frame;
  ordered_json json;
  json["fas"] = BenchSearch(frame, rounds);
  progress.Advance();
  json["detect"] = BenchDetection(frame, rounds);
  progress.Advance();
  json["anchors"] = BenchAnchors(arguments.quick ? 100'000 : 1'000'000);
  progress.Advance();
  if (!arguments.golden.empty()) {
    json["eval"] = BenchEvaluation(arguments.golden, rounds);
    progress.Advance();
  }
  if (compares) json["baselines"] = BenchBaselines(arguments);
  if (context.json) {
    PrintJson(context, json);
    return 0;
  }
  const ordered_json& fas = json["fas"];
  *context.out << fmt::format(
      "FAS, 600 orientations on {} points: {:.2f} ms on one core, {:.2f} ms on {}; {:.0f} times "
      "faster than testing each point\n",
      fas["points"].get<std::size_t>(),
      fas["one_core_ms_600"].get<double>(),
      fas["all_cores_ms_600"].get<double>(),
      fas["threads"].get<int>(),
      fas["dense_ratio"].get<double>());
  *context.out << fmt::format("detection without a network, 1280 x 720: {:.1f} ms a frame\n",
                              json["detect"]["ms_a_frame"].get<double>());
  for (const auto& [stage, ms] : json["detect"]["stages_ms"].items()) {
    *context.out << fmt::format("  {:<12}{:8.2f} ms\n", stage, ms.get<double>());
  }
  const ordered_json& anchors = json["anchors"];
  *context.out << fmt::format(
      "the anchor of a rotation is {:.2f} degrees away, {:.2f} at most; without the gripper's "
      "symmetry {:.2f} and {:.2f}\n",
      anchors["symmetric"]["mean_degrees"].get<double>(),
      anchors["symmetric"]["worst_degrees"].get<double>(),
      anchors["plain"]["mean_degrees"].get<double>(),
      anchors["plain"]["worst_degrees"].get<double>());
  if (json.contains("baselines")) *context.out << FormatBaselines(json["baselines"]);
  if (json.contains("eval")) {
    *context.out << fmt::format(
        "evaluation, a frame of 200 grasps on one core: {:.2f} ms compat, {:.2f} ms strict\n",
        json["eval"]["one_core_ms_a_frame"].get<double>(),
        json["eval"]["strict_one_core_ms_a_frame"].get<double>());
  }
  return 0;
}

}  // namespace

void AddGraspBenchCommand(CLI::App& app, Context& context) {
  const auto arguments = std::make_shared<GraspBenchArguments>();
  CLI::App* command =
      AddCommand(app,
                 context,
                 "bench",
                 "how fast search, detection and evaluation are on this machine",
                 "palmist grasp bench --quick",
                 [&context, arguments] { return RunGraspBench(context, *arguments); });
  command->add_flag("--quick", arguments->quick, "fewer rounds, rotations and scenes");
  command->add_flag("--baselines",
                    arguments->baselines,
                    "average precision without a network, on rendered tables or --data");
  command->add_option("--data", arguments->data, "a dataset with labels, see label");
  command->add_option("--camera", arguments->camera, "of the dataset");
  command->add_option("--scenes", arguments->scenes, "of the dataset, such as 100,101")
      ->delimiter(',');
  command->add_option("--golden", arguments->golden, "golden vectors, to time the evaluator on");
}

}  // namespace palmist::cli
