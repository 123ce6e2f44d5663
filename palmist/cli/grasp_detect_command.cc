#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "palmist/base/file.h"
#include "palmist/base/thread_pool.h"
#include "palmist/cli/grasp_command.h"
#include "palmist/grasp/core/analytic_scene.h"
#include "palmist/grasp/core/camera.h"
#include "palmist/grasp/core/gripper.h"
#include "palmist/grasp/formats/image.h"
#include "palmist/grasp/formats/pcd.h"
#include "palmist/grasp/formats/scene_export.h"
#include "palmist/grasp/search/detect.h"
#include "palmist/report/grasp_page.h"

namespace palmist::cli {
namespace {

/// In place of a file: a rendered table with solids.
constexpr const char* kBuiltin = "builtin";

struct GraspDetectArguments {
  std::string depth, rgb, camera = "realsense", model, gripper = "graspnet", workspace,
                          table = "auto", hand_eye, output, view;
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
};

std::string UnitsOf(double units_per_m) {
  return units_per_m == 1 ? "metres" : fmt::format("units of 1/{:g} m", units_per_m);
}

Scene ReadScene(const GraspDetectArguments& arguments) {
  Scene scene;
  if (arguments.depth == kBuiltin) {
    scene.depth = grasp::RenderTable(grasp::LoadIntrinsics(arguments.camera, 1280, 720).value());
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
  if (!arguments.rgb.empty()) {
    scene.color = grasp::ReadColor(arguments.rgb).value();
    if (scene.color->width != scene.depth.width || scene.color->height != scene.depth.height) {
      throw InputError(
          arguments.rgb,
          fmt::format("expected colour of the depth image's size, {} x {}; got {} x {}",
                      scene.depth.width,
                      scene.depth.height,
                      scene.color->width,
                      scene.color->height),
          "align colour to depth first, or leave out --rgb");
    }
  }
  return scene;
}

grasp::DetectOptions MakeOptions(const GraspDetectArguments& arguments,
                                 const grasp::DepthImage& depth) {
  grasp::DetectOptions options;
  options.gripper = grasp::LoadGripper(arguments.gripper).value();
  options.table = arguments.table == "none" ? grasp::TableMode::kNone : grasp::TableMode::kAuto;
  options.top_k = static_cast<std::size_t>(arguments.top);
  options.random.seed = static_cast<std::uint64_t>(arguments.seed);
  options.plane.seed = static_cast<std::uint64_t>(arguments.seed);
  if (arguments.max_depth_m) {
    constexpr double kFar_m = 100;
    options.workspace_box =
        grasp::WorkspaceBox{{-kFar_m, -kFar_m, 0}, {kFar_m, kFar_m, *arguments.max_depth_m}};
  }
  const auto asks_for = [&](const char* name) {
    return std::find(arguments.orientation.begin(), arguments.orientation.end(), name) !=
           arguments.orientation.end();
  };
  options.uses_top_down = asks_for("topdown");
  options.uses_random = asks_for("random");
  options.uses_antipodal = asks_for("antipodal");
  if (!arguments.workspace.empty()) {
    const grasp::LabelImage mask = grasp::ReadLabels(arguments.workspace).value();
    if (mask.width != depth.width || mask.height != depth.height) {
      throw InputError(
          arguments.workspace,
          fmt::format("expected a mask of the depth image's size, {} x {}; got {} x {}",
                      depth.width,
                      depth.height,
                      mask.width,
                      mask.height));
    }
    options.workspace_mask.resize(mask.ids.size());
    std::transform(
        mask.ids.begin(), mask.ids.end(), options.workspace_mask.begin(), [](std::uint16_t id) {
          return static_cast<std::uint8_t>(id != 0);
        });
  }
  return options;
}

nlohmann::ordered_json ToJson(const grasp::Detection& detection,
                              std::span<const grasp::Grasp> grasps,
                              std::string_view frame,
                              const grasp::Gripper& gripper) {
  nlohmann::ordered_json json = {{"grasps", nlohmann::json::array()}, {"frame", frame}};
  for (const grasp::Grasp& grasp : grasps) {
    nlohmann::ordered_json rotation = nlohmann::json::array();
    for (int i = 0; i < 9; ++i) rotation.push_back(grasp.R_CG(i / 3, i % 3));
    const grasp::Vector3d command = grasp::CommandedPose(grasp, gripper).translation();
    json["grasps"].push_back(
        {{"score", grasp.score},
         {"width_m", grasp.width_m},
         {"height_m", grasp.height_m},
         {"depth_m", grasp.depth_m},
         {"rotation", std::move(rotation)},
         {"translation_m", {grasp.p_CG.x(), grasp.p_CG.y(), grasp.p_CG.z()}},
         {"commanded_translation_m", {command.x(), command.y(), command.z()}}});
  }
  json["gripper"] = gripper.name;
  if (detection.table) {
    const grasp::Vector3d& normal = detection.table->normal;
    json["table"] = {{"normal", {normal.x(), normal.y(), normal.z()}},
                     {"offset_m", detection.table->offset_m}};
  }
  json["candidates"] = detection.candidates;
  json["timing_s"] = nlohmann::ordered_json::object();
  for (const grasp::StageTime& stage : detection.times)
    json["timing_s"][stage.stage] = stage.time_s;
  return json;
}

std::string FormatDetection(const grasp::Detection& detection,
                            std::span<const grasp::Grasp> grasps,
                            std::string_view frame) {
  double total_s = 0;
  for (const grasp::StageTime& stage : detection.times) total_s += stage.time_s;
  std::string text = fmt::format("{} grasps of {} candidates on {} points, {:.0f} ms, {} frame\n",
                                 grasps.size(),
                                 detection.candidates,
                                 detection.object_points,
                                 total_s * 1e3,
                                 frame);
  if (grasps.empty()) {
    text += detection.object_points == 0
                ? "nothing stands on the table: check --camera, --workspace and --table\n"
                : "nothing fits between the fingers without a collision: check --gripper\n";
    return text;
  }
  text +=
      "\n  score   opening     position, m              approach                 closes along\n";
  for (const grasp::Grasp& grasp : grasps.first(std::min<std::size_t>(grasps.size(), 10))) {
    const auto numbers = [](const grasp::Vector3d& v) {
      return fmt::format("{:7.3f} {:7.3f} {:7.3f}", v.x(), v.y(), v.z());
    };
    text += fmt::format("{:7.3f} {:6.0f} mm   {}  {}  {}\n",
                        grasp.score,
                        grasp.width_m * 1e3,
                        numbers(grasp.p_CG),
                        numbers(grasp.approach()),
                        numbers(grasp.opening()));
  }
  if (grasps.size() > 10) text += fmt::format("  and {} more\n", grasps.size() - 10);
  return text;
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

int RunGraspDetect(Context& context, const GraspDetectArguments& arguments) {
  if (!arguments.model.empty() || arguments.orientation.empty()) {
    throw Error(ErrorKind::kUnavailable,
                "detection by a network is not in this build",
                "--model",
                "give --orientation topdown,antipodal: the shape alone tells where to grasp");
  }
  for (const std::string& path : {arguments.output, arguments.view}) {
    if (!path.empty()) CheckWritable(path).value();
  }
  const Scene scene = ReadScene(arguments);
  const grasp::Intrinsics camera =
      grasp::LoadIntrinsics(arguments.camera, scene.depth.width, scene.depth.height).value();
  const grasp::DetectOptions options = MakeOptions(arguments, scene.depth);
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
    report::GraspScene page = {
        .title = "Grasps on " + arguments.depth.substr(arguments.depth.find_last_of('/') + 1),
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
  command
      ->add_option("--depth",
                   arguments->depth,
                   "a depth image (png, tiff, npy), an organised cloud (.pcd), or builtin: a "
                   "rendered table to try things on")
      ->required();
  command->add_option("--rgb", arguments->rgb, "a colour image of the same view and size");
  command->add_option(
      "--camera", arguments->camera, "realsense, kinect, or a file with fx, fy, cx, cy in pixels");
  command
      ->add_option("--depth-scale",
                   arguments->depth_scale,
                   "units of the depth image in a metre; 1000 for integers, 1 for floats")
      ->check(CLI::Range(1e-6, 1e6));
  command->add_option("--model", arguments->model, "a network's weights");
  command
      ->add_option("--orientation",
                   arguments->orientation,
                   "where orientations come from without a network: topdown, antipodal, random")
      ->delimiter(',')
      ->check(CLI::IsMember({"topdown", "antipodal", "random"}));
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
  command->add_option("--seed", arguments->seed, "of random orientations")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--threads", arguments->threads, "threads")->check(CLI::Range(1, 4096));
  command->add_option(
      "-o,--output", arguments->output, "write grasps: .npy, .json, or .ply with the scene");
  command->add_option("--view", arguments->view, "write a page that shows them in 3D");
}

}  // namespace palmist::cli
