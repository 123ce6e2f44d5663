#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "palmist/base/file.h"
#include "palmist/base/thread_pool.h"
#include "palmist/cli/grasp_command.h"
#include "palmist/cli/grasp_detection_text.h"
#include "palmist/cli/output_files.h"
#include "palmist/grasp/core/analytic_scene.h"
#include "palmist/grasp/core/camera.h"
#include "palmist/grasp/core/gripper.h"
#include "palmist/grasp/formats/dataset.h"
#include "palmist/grasp/formats/image.h"
#include "palmist/grasp/formats/pcd.h"
#include "palmist/grasp/formats/scene_export.h"
#include "palmist/grasp/pipeline/detect_frames.h"
#include "palmist/grasp/pipeline/oracle.h"
#include "palmist/grasp/search/detect.h"
#include "palmist/report/grasp_page.h"

namespace palmist::cli {
namespace {

/// In place of a file: a rendered table with solids.
constexpr const char* kBuiltin = "builtin";

struct GraspDetectArguments {
  std::string depth, rgb, camera, model, gripper = "graspnet", workspace, table = "auto", hand_eye,
                                         output, view, data, dump;
  std::vector<int> scenes, frames;
  std::vector<std::string> orientation;
  std::optional<double> depth_scale, max_depth_m;
  std::int64_t top = 50, seed = 0, threads = HardwareThreads();
};

/// What the files show: depth in metres, and colour where there is some.
struct Scene {
  grasp::DepthImage depth;
  std::optional<grasp::ColorImage> color;
  grasp::PointCloud cloud;  ///< to show; empty where depth and colour make it
  std::string units;        ///< how the depth was read
  /// The camera that the file itself tells.
  std::optional<grasp::Intrinsics> camera = std::nullopt;
};

constexpr const char* kDefaultCamera = "realsense";

/// Returns --camera, or realsense.
std::string CameraOf(const GraspDetectArguments& arguments) {
  return arguments.camera.empty() ? kDefaultCamera : arguments.camera;
}

/// Returns the camera of --camera or of the file, of which one must do.
grasp::Intrinsics LoadCamera(const GraspDetectArguments& arguments, const Scene& scene) {
  if (arguments.camera.empty() && scene.camera) return *scene.camera;
  const grasp::Intrinsics camera =
      grasp::LoadIntrinsics(CameraOf(arguments), scene.depth.width, scene.depth.height).value();
  constexpr double kTolerance = 0.02;
  if (scene.camera && !(std::abs(camera.fx / scene.camera->fx - 1) < kTolerance &&
                        std::abs(camera.fy / scene.camera->fy - 1) < kTolerance)) {
    throw InputError("--camera",
                     fmt::format("has focal lengths of {:.4g} and {:.4g} pixels, the points of the "
                                 "cloud fit {:.4g} and {:.4g}",
                                 camera.fx,
                                 camera.fy,
                                 scene.camera->fx,
                                 scene.camera->fy),
                     "leave out --camera to take the cloud's");
  }
  return camera;
}

/// Reads the colour of a depth image's pixels.
grasp::ColorImage ReadColorOf(const std::string& path, const grasp::DepthImage& depth) {
  grasp::ColorImage color = grasp::ReadColor(path).value();
  if (color.width != depth.width || color.height != depth.height) {
    throw InputError(path,
                     fmt::format("expected colour of the depth image's size, {} x {}; got {} x {}",
                                 depth.width,
                                 depth.height,
                                 color.width,
                                 color.height),
                     "align colour to depth first, or leave out --rgb");
  }
  return color;
}

std::string UnitsOf(double units_per_m) {
  return units_per_m == 1 ? "metres" : fmt::format("units of 1/{:g} m", units_per_m);
}

Scene ReadScene(const GraspDetectArguments& arguments) {
  Scene scene;
  if (arguments.depth == kBuiltin) {
    scene.depth = grasp::RenderTable(grasp::LoadIntrinsics(CameraOf(arguments), 1280, 720).value());
    scene.units = UnitsOf(1);
  } else if (arguments.depth.ends_with(".pcd")) {
    grasp::PcdCloud cloud = grasp::ReadPcd(arguments.depth).value();
    if (cloud.depth.z_m.empty()) {
      throw InputError(arguments.depth,
                       "expected an organised cloud, with a point for each pixel; got one row",
                       "give the depth image, or a cloud of the height of the image");
    }
    const double units_per_m = arguments.depth_scale.value_or(1);
    scene.depth =
        grasp::DepthFromValues(cloud.depth.width, cloud.depth.height, cloud.depth.z_m, units_per_m)
            .value();
    scene.units = UnitsOf(units_per_m);
    std::vector<grasp::Vector3d> ahead;
    for (const grasp::Vector3d& point : cloud.cloud.points) {
      if (point.z() > 0) ahead.push_back(point);
    }
    scene.camera = grasp::FitIntrinsics(scene.depth, ahead);
    if (arguments.rgb.empty()) {
      scene.cloud = std::move(cloud.cloud);
      for (grasp::Vector3d& point : scene.cloud.points) point /= units_per_m;
    }
  } else {
    const grasp::DepthValues values = grasp::ReadDepthValues(arguments.depth).value();
    const double units_per_m = arguments.depth_scale.value_or(values.is_integer ? 1000 : 1);
    scene.depth =
        grasp::DepthFromValues(values.width, values.height, values.values, units_per_m).value();
    scene.units = UnitsOf(units_per_m);
  }
  if (!arguments.rgb.empty()) scene.color = ReadColorOf(arguments.rgb, scene.depth);
  return scene;
}

/// Returns a byte for each pixel; none without a mask.
std::vector<std::uint8_t> ReadWorkspace(const GraspDetectArguments& arguments,
                                        const grasp::DepthImage& depth) {
  if (arguments.workspace.empty()) return {};
  const grasp::LabelImage mask = grasp::ReadLabels(arguments.workspace).value();
  if (mask.width != depth.width || mask.height != depth.height) {
    throw InputError(arguments.workspace,
                     fmt::format("expected a mask of the depth image's size, {} x {}; got {} x {}",
                                 depth.width,
                                 depth.height,
                                 mask.width,
                                 mask.height));
  }
  std::vector<std::uint8_t> is_wanted;
  is_wanted.reserve(mask.ids.size());
  for (const std::uint16_t id : mask.ids) is_wanted.push_back(id != 0 ? 1 : 0);
  return is_wanted;
}

std::vector<grasp::OrientationSource> Sources(const GraspDetectArguments& arguments) {
  std::vector<grasp::OrientationSource> sources;
  for (const std::string& name : arguments.orientation) {
    sources.push_back(*grasp::OrientationSourceFrom(name));
  }
  return sources;
}

grasp::DetectOptions MakeOptions(const GraspDetectArguments& arguments) {
  grasp::DetectOptions options;
  options.gripper = grasp::LoadGripper(arguments.gripper).value();
  options.table = arguments.table == "none" ? grasp::TableMode::kNone : grasp::TableMode::kAuto;
  options.top_k = static_cast<std::size_t>(arguments.top);
  options.random.seed = static_cast<std::uint64_t>(arguments.seed);
  options.plane.seed = static_cast<std::uint64_t>(arguments.seed);
  if (arguments.max_depth_m) {
    constexpr double kFar_m = 100;
    options.workspace_box =
        grasp::Box{{-kFar_m, -kFar_m, 0}, {kFar_m, kFar_m, *arguments.max_depth_m}};
  }
  grasp::UseSources(Sources(arguments), options);
  return options;
}

std::string NameOf(const GraspDetectArguments& arguments) {
  if (!arguments.data.empty()) {
    return fmt::format("scene {}, frame {}",
                       arguments.scenes.front(),
                       arguments.frames.empty() ? 0 : arguments.frames.front());
  }
  return arguments.depth.substr(arguments.depth.find_last_of('/') + 1);
}

void WriteOutput(const std::string& path,
                 const nlohmann::ordered_json& json,
                 const grasp::PointCloud& cloud,
                 std::span<const grasp::Grasp> grasps,
                 const grasp::Gripper& gripper) {
  if (path.ends_with(".json")) {
    WriteFileAtomic(path, json.dump(1) + "\n").value();
  } else if (path.ends_with(".ply")) {
    grasp::WriteGraspScenePly(path, cloud, grasps, gripper).value();
  } else {
    grasp::WriteGraspGroup(path, grasps).value();
  }
}

bool AsksForOracle(const GraspDetectArguments& arguments) {
  return std::find(arguments.orientation.begin(), arguments.orientation.end(), "oracle") !=
         arguments.orientation.end();
}

/// Detects on the frames of a dataset, a file each.
int DetectDataset(Context& context, const GraspDetectArguments& arguments) {
  if (!arguments.output.empty() || !arguments.view.empty() || !arguments.workspace.empty() ||
      !arguments.hand_eye.empty()) {
    throw UsageError("--dump",
                     "holds the grasps of many frames: -o, --view, --workspace and --hand-eye are "
                     "for one",
                     "leave out --dump, and give one --scene and --frame");
  }
  const grasp::Dataset dataset = grasp::Dataset::Open(arguments.data).value();
  grasp::DetectRunOptions options;
  options.detect = MakeOptions(arguments);
  options.sources = Sources(arguments);
  options.camera = CameraOf(arguments);
  options.scenes = arguments.scenes;
  options.frames = arguments.frames;
  options.dump = arguments.dump;
  options.threads = static_cast<int>(arguments.threads);
  const grasp::DetectRun run = grasp::DetectFrames(dataset, options).value();
  const double frames = static_cast<double>(std::max<std::int64_t>(run.frames, 1));
  if (context.json) {
    PrintJson(context,
              {{"frames", run.frames},
               {"grasps", run.grasps},
               {"ms_a_frame", run.time_s / frames * 1e3}});
  } else {
    *context.out << fmt::format("{} grasps on {} frames, {:.1f} ms a frame\n",
                                run.grasps,
                                run.frames,
                                run.time_s / frames * 1e3);
  }
  return 0;
}

/// A scene, its camera, and the oracle's candidates where they are asked for.
struct Input {
  Scene scene;
  grasp::Intrinsics camera;
  std::vector<grasp::Candidate> given;
};

Input ReadInput(const GraspDetectArguments& arguments) {
  Input input;
  if (arguments.data.empty()) {
    input.scene = ReadScene(arguments);
    input.camera = LoadCamera(arguments, input.scene);
    return input;
  }
  if (arguments.scenes.size() != 1 || arguments.frames.size() > 1) {
    throw UsageError("--scene",
                     "expected one scene, and one --frame or none for frame 0",
                     "give --dump FOLDER to detect on many");
  }
  const grasp::Dataset dataset = grasp::Dataset::Open(arguments.data).value();
  const grasp::FrameId id = {arguments.scenes.front(),
                             CameraOf(arguments),
                             arguments.frames.empty() ? 0 : arguments.frames.front()};
  grasp::FrameImages frame = grasp::ReadFrame(dataset, id).value();
  input.scene.depth = std::move(frame.depth);
  input.scene.units = "the dataset's units";
  input.camera = frame.camera;
  std::error_code ignored;
  if (std::filesystem::exists(dataset.paths().Rgb(id), ignored)) {
    input.scene.color = ReadColorOf(dataset.paths().Rgb(id), input.scene.depth);
  }
  if (AsksForOracle(arguments)) {
    grasp::Oracle oracle(dataset);
    input.given = oracle.Candidates(id, input.scene.depth, input.camera).value();
  }
  return input;
}

/// Refuses outputs of no known kind, and those that would replace an input or each other.
void CheckOutputs(const GraspDetectArguments& arguments) {
  const std::string& output = arguments.output;
  if (!output.empty() && !output.ends_with(".npy") && !output.ends_with(".json") &&
      !output.ends_with(".ply")) {
    throw UsageError("--output", "expected a file .npy, .json or .ply, got " + output);
  }
  CheckOutputFiles({{"--output", output}, {"--view", arguments.view}},
                   {arguments.depth,
                    arguments.rgb,
                    arguments.camera,
                    arguments.gripper,
                    arguments.workspace,
                    arguments.hand_eye});
}

void CheckArguments(const GraspDetectArguments& arguments) {
  CheckOutputs(arguments);
  if (!arguments.model.empty() || arguments.orientation.empty()) {
    throw Error(ErrorKind::kUnavailable,
                "detection by a network is not in this build",
                "--model",
                "give --orientation topdown,antipodal: the shape alone tells where to grasp");
  }
  if (arguments.data.empty() == arguments.depth.empty()) {
    throw UsageError("--depth",
                     "expected a depth image, or --data with a dataset",
                     "--depth builtin needs no file");
  }
  if (!arguments.data.empty() && (!arguments.rgb.empty() || arguments.depth_scale)) {
    throw UsageError(
        "--data", "has its own colour and depth scale", "leave out --rgb and --depth-scale");
  }
  if (arguments.data.empty() && (AsksForOracle(arguments) || !arguments.dump.empty() ||
                                 !arguments.scenes.empty() || !arguments.frames.empty())) {
    throw UsageError("--data",
                     "--orientation oracle, --dump, --scene and --frame are of a dataset");
  }
}

int RunGraspDetect(Context& context, const GraspDetectArguments& arguments) {
  CheckArguments(arguments);
  if (!arguments.dump.empty()) return DetectDataset(context, arguments);
  for (const std::string& path : {arguments.output, arguments.view}) {
    if (!path.empty()) CheckWritable(path).value();
  }
  const Input input = ReadInput(arguments);
  const Scene& scene = input.scene;
  const grasp::Intrinsics& camera = input.camera;
  grasp::DetectOptions options = MakeOptions(arguments);
  options.given = input.given;
  options.workspace_mask = ReadWorkspace(arguments, scene.depth);
  std::optional<grasp::Isometry3d> X_BC;
  if (!arguments.hand_eye.empty()) X_BC = grasp::LoadHandEye(arguments.hand_eye).value();

  ThreadPool pool(static_cast<int>(arguments.threads));
  const grasp::Detection detection =
      grasp::DetectWithOrientations(scene.depth, camera, options, pool).value();
  grasp::GraspGroup grasps = detection.grasps;
  for (grasp::Grasp& grasp : grasps) {
    if (X_BC) grasp = grasp::Transformed(*X_BC, grasp);
  }
  const std::string_view frame = X_BC ? "base" : "camera";
  const nlohmann::ordered_json json = ToJson(detection, grasps, frame, options.gripper);
  const auto cloud = [&] {
    if (scene.cloud.size() > 0) return scene.cloud;
    return grasp::CloudFromDepth(scene.depth, camera, scene.color ? &*scene.color : nullptr);
  };
  if (!arguments.output.empty()) {
    grasp::PointCloud shown = arguments.output.ends_with(".ply") ? cloud() : grasp::PointCloud{};
    if (X_BC) {
      for (grasp::Vector3d& point : shown.points) point = *X_BC * point;
    }
    WriteOutput(arguments.output, json, shown, grasps, options.gripper);
  }
  if (!arguments.view.empty()) {
    const grasp::PointCloud shown = cloud();
    report::GraspScene page = {.title = "Grasps on " + NameOf(arguments),
                               .cloud = shown,
                               .grasps = detection.grasps,
                               .gripper = options.gripper,
                               .table = detection.table,
                               .timing_s = {},
                               .notes = {}};
    for (const grasp::StageTime& stage : detection.times) {
      page.timing_s.emplace_back(stage.stage, stage.time_s);
    }
    page.notes.push_back("Depth was read in " + scene.units + ".");
    report::GraspPage(page).Write(arguments.view).value();
  }
  if (context.json) {
    PrintJson(context, json);
  } else {
    *context.out << FormatDetection(detection, grasps, frame);
  }
  if (!context.json && !context.quiet) {
    for (const std::string& path : {arguments.output, arguments.view}) {
      if (!path.empty()) *context.err << "wrote " << path << '\n';
    }
  }
  return 0;
}

}  // namespace

void AddGraspDetectCommand(CLI::App& app, Context& context) {
  const auto arguments = std::make_shared<GraspDetectArguments>();
  CLI::App* command =
      AddCommand(app,
                 context,
                 "detect",
                 "grasps on a depth image",
                 "palmist grasp detect --depth depth.png --camera realsense --orientation "
                 "topdown,antipodal --gripper panda -o grasps.json --view grasps.html",
                 [&context, arguments] { return RunGraspDetect(context, *arguments); });
  command->add_option("--depth",
                      arguments->depth,
                      "a depth image (png, tiff, npy), an organised cloud (.pcd), or builtin: a "
                      "rendered table to try things on");
  command->add_option("--data", arguments->data, "in place of --depth: a dataset, see eval");
  command
      ->add_option("--scene", arguments->scenes, "of the dataset, such as 100,101; all for --dump")
      ->delimiter(',');
  command->add_option("--frame", arguments->frames, "of each scene, such as 0,1; all for --dump")
      ->delimiter(',');
  command->add_option(
      "--dump", arguments->dump, "write the grasps of all these frames to a folder for eval");
  command->add_option("--rgb", arguments->rgb, "a colour image of the same view and size");
  command->add_option(
      "--camera",
      arguments->camera,
      "realsense, which is the default, kinect (with --data, its folder), or a file with "
      "fx, fy, cx, cy in pixels; an organised cloud tells its own");
  command
      ->add_option("--depth-scale",
                   arguments->depth_scale,
                   "units of the depth image in a metre; 1000 for integers, 1 for floats")
      ->check(CLI::Range(1e-6, 1e6));
  command->add_option("--model", arguments->model, "a network's weights");
  command
      ->add_option(
          "--orientation",
          arguments->orientation,
          "where orientations come from without a network: topdown, antipodal, random; oracle: "
          "the labels of --data")
      ->delimiter(',')
      ->check(CLI::IsMember({"topdown", "antipodal", "random", "oracle"}));
  command->add_option("--gripper",
                      arguments->gripper,
                      fmt::format("{}, or a file", fmt::join(grasp::GripperPresets(), ", ")));
  command->add_option(
      "--workspace", arguments->workspace, "a mask image: grasps only where it is not 0");
  command
      ->add_option("--max-depth",
                   arguments->max_depth_m,
                   "grasps only where the depth is below, in metres: what the robot reaches")
      ->check(CLI::Range(1e-6, 1e6));
  command->add_option("--table", arguments->table, "auto: the largest plane; none: there is none")
      ->check(CLI::IsMember({"auto", "none"}));
  command->add_option(
      "--hand-eye", arguments->hand_eye, "the camera's pose in the robot's base: grasps are in it");
  command->add_option("--top", arguments->top, "so many grasps at most")
      ->check(CLI::Range(1, 100000));
  command->add_option("--seed", arguments->seed, "of random orientations")->check(IsSeed());
  command->add_option("--threads", arguments->threads, "threads")->check(IsThreadCount());
  command->add_option(
      "-o,--output", arguments->output, "write grasps: .npy, .json, or .ply with the scene");
  command->add_option("--view", arguments->view, "write a page that shows them in 3D");
}

}  // namespace palmist::cli
