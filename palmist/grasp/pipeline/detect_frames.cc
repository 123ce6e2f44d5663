#include "palmist/grasp/pipeline/detect_frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "palmist/base/interrupt.h"
#include "palmist/base/progress.h"
#include "palmist/grasp/core/grasp.h"
#include "palmist/grasp/pipeline/oracle.h"

namespace palmist::grasp {
namespace {

constexpr std::array<std::pair<OrientationSource, const char*>, 4> kSources = {
    {{OrientationSource::kTopDown, "topdown"},
     {OrientationSource::kAntipodal, "antipodal"},
     {OrientationSource::kRandom, "random"},
     {OrientationSource::kOracle, "oracle"}}};

bool Contains(std::span<const OrientationSource> sources, OrientationSource source) {
  return std::find(sources.begin(), sources.end(), source) != sources.end();
}

Result<std::vector<FrameId>> ListFrames(const Dataset& dataset, const DetectRunOptions& options) {
  std::vector<FrameId> ids;
  for (const int scene : options.scenes.empty() ? dataset.scenes() : options.scenes) {
    PALMIST_ASSIGN_OR_RETURN(const std::vector<int> all, dataset.Frames(scene, options.camera));
    for (const int frame : options.frames) {
      if (!std::binary_search(all.begin(), all.end(), frame)) {
        return InputError(dataset.paths().Camera(scene, options.camera),
                          fmt::format("has no frame {}", frame));
      }
    }
    for (const int frame : options.frames.empty() ? all : options.frames) {
      ids.push_back({scene, options.camera, frame});
    }
  }
  return ids;
}

}  // namespace

const char* ToString(OrientationSource source) {
  for (const auto& [known, name] : kSources) {
    if (known == source) return name;
  }
  return "unknown";
}

std::optional<OrientationSource> OrientationSourceFrom(std::string_view name) {
  for (const auto& [source, known] : kSources) {
    if (known == name) return source;
  }
  return std::nullopt;
}

void UseSources(std::span<const OrientationSource> sources, DetectOptions& options) {
  options.uses_top_down = Contains(sources, OrientationSource::kTopDown);
  options.uses_antipodal = Contains(sources, OrientationSource::kAntipodal);
  options.uses_random = Contains(sources, OrientationSource::kRandom);
}

Result<FrameImages> ReadFrame(const Dataset& dataset, const FrameId& id) {
  PALMIST_ASSIGN_OR_RETURN(const Matrix3d K, dataset.CameraK(id.scene, id.camera));
  PALMIST_ASSIGN_OR_RETURN(const DepthValues values, dataset.Depth(id));
  double units_per_m = values.is_integer ? 1000 : 1;
  std::error_code ignored;
  if (std::filesystem::exists(dataset.paths().Meta(id), ignored)) {
    PALMIST_ASSIGN_OR_RETURN(const FrameMeta meta, dataset.Meta(id));
    units_per_m = meta.factor_depth;
  }
  FrameImages frame;
  frame.camera = {K(0, 0), K(1, 1), K(0, 2), K(1, 2), values.width, values.height};
  const Result<void> camera = CheckIntrinsics(frame.camera, values.width, values.height);
  if (!camera.ok()) {
    return camera.error().WithPath(dataset.paths().CameraK(id.scene, id.camera));
  }
  Result<DepthImage> depth =
      DepthFromValues(values.width, values.height, values.values, units_per_m);
  if (!depth.ok()) return depth.error().WithPath(dataset.paths().Depth(id));
  frame.depth = std::move(*depth);
  return frame;
}

Result<DetectRun> DetectFrames(const Dataset& dataset, const DetectRunOptions& options) {
  PALMIST_ASSIGN_OR_RETURN(const std::vector<FrameId> ids, ListFrames(dataset, options));
  DetectOptions detect = options.detect;
  UseSources(options.sources, detect);
  Oracle oracle(dataset, {.tips_m = detect.fas.depth_m});
  ThreadPool pool(options.threads);
  Progress progress("detecting", std::ssize(ids));
  DetectRun run;
  for (const FrameId& id : ids) {
    if (InterruptRequested()) return Error(ErrorKind::kInterrupted, "stopped by a signal");
    PALMIST_ASSIGN_OR_RETURN(const FrameImages frame, ReadFrame(dataset, id));
    if (Contains(options.sources, OrientationSource::kOracle)) {
      PALMIST_ASSIGN_OR_RETURN(detect.given, oracle.Candidates(id, frame.depth, frame.camera));
    }
    PALMIST_ASSIGN_OR_RETURN(const Detection detection,
                             DetectWithOrientations(frame.depth, frame.camera, detect, pool));
    const std::string path = DumpPath(options.dump, id);
    const std::string folder = std::filesystem::path(path).parent_path().string();
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) return InputError(folder, "cannot be made: " + error.message());
    PALMIST_RETURN_IF_ERROR(WriteGraspGroup(path, detection.grasps));
    ++run.frames;
    run.grasps += std::ssize(detection.grasps);
    for (const StageTime& stage : detection.times) run.time_s += stage.time_s;
    progress.Advance();
  }
  return run;
}

}  // namespace palmist::grasp
