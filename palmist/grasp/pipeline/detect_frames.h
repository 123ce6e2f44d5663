/// Detection on the frames of a dataset, and a folder of grasps that `palmist grasp eval` reads.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "palmist/base/result.h"
#include "palmist/base/thread_pool.h"
#include "palmist/grasp/core/camera.h"
#include "palmist/grasp/formats/dataset.h"
#include "palmist/grasp/search/detect.h"

namespace palmist::grasp {

/// Where orientations come from without a network.
enum class OrientationSource { kTopDown, kAntipodal, kRandom, kOracle };

const char* ToString(OrientationSource source);  ///< "topdown", "antipodal", "random", "oracle"
std::optional<OrientationSource> OrientationSourceFrom(std::string_view name);

/// Asks `options` for the shape's orientations; an oracle's are those of Oracle.
void UseSources(std::span<const OrientationSource> sources, DetectOptions& options);

/// What a dataset has of a frame.
struct FrameImages {
  DepthImage depth;
  Intrinsics camera;
};

/// Returns a frame's depth, in metres by the factor of its meta file (1000 where there is none),
/// and the camera of its scene. An input error names the file that is missing or wrong.
Result<FrameImages> ReadFrame(const Dataset& dataset, const FrameId& id);

struct DetectRunOptions {
  DetectOptions detect = {};
  std::vector<OrientationSource> sources = {OrientationSource::kTopDown,
                                            OrientationSource::kAntipodal};
  std::string camera = "realsense";
  std::vector<int> scenes = {};  ///< none: all
  std::vector<int> frames = {};  ///< of each scene; none: all
  std::string dump = {};         ///< the folder to write to, see DumpPath
  int threads = HardwareThreads();
};

struct DetectRun {
  std::int64_t frames = 0, grasps = 0;
  double time_s = 0;  ///< of detection alone, without reading and writing
};

/// Detects grasps on each frame and writes them; shows progress. What the dump has of these frames
/// is overwritten. The same grasps for any number of threads.
/// @returns an input error that names the file; kInterrupted after a signal, once the frame in work
/// is written
Result<DetectRun> DetectFrames(const Dataset& dataset, const DetectRunOptions& options);

}  // namespace palmist::grasp
