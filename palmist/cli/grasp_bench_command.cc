#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
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
#include "palmist/grasp/search/dense.h"
#include "palmist/grasp/search/detect.h"

namespace palmist::cli {
namespace {

using nlohmann::ordered_json;

constexpr int kOrientations = 600;

struct GraspBenchArguments {
  std::string golden;
  bool quick = false;
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
  const std::vector<grasp::Candidate> few(
      candidates.begin(), candidates.begin() + std::min<std::size_t>(60, candidates.size()));
  const double dense_ms =
      LeastMs(1, [&] { grasp::SearchWidthAndDistanceDensely(points, few, gripper, options); });
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

int RunGraspBench(Context& context, const GraspBenchArguments& arguments) {
  const int rounds = arguments.quick ? 3 : 20;
  Progress progress("measuring", arguments.golden.empty() ? 2 : 3);
  const Frame frame;
  ordered_json json;
  json["fas"] = BenchSearch(frame, rounds);
  progress.Advance();
  json["detect"] = BenchDetection(frame, rounds);
  progress.Advance();
  if (!arguments.golden.empty()) json["eval"] = BenchEvaluation(arguments.golden, rounds);
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
  command->add_flag("--quick", arguments->quick, "fewer rounds");
  command->add_option("--golden", arguments->golden, "golden vectors, to time the evaluator on");
}

}  // namespace palmist::cli
