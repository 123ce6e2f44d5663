/// Compares the evaluation with the numbers of the public one.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "palmist/base/result.h"
#include "palmist/grasp/eval/evaluate.h"

namespace palmist::grasp {

/// A frame of the golden vectors, ready for EvaluateFrame.
struct GoldenFrame {
  int scene = 0, frame = 0;
  std::string folder;  ///< relative to the golden vectors
  GraspGroup grasps;
  FrameInput input;  ///< refers to `grasps`, and to the objects of its GoldenScenes
};

/// Frames refer to the objects, so that it is moved, never copied.
struct GoldenScenes {
  GoldenScenes() = default;
  GoldenScenes(GoldenScenes&&) = default;
  GoldenScenes& operator=(GoldenScenes&&) = default;

  std::deque<ObjectModel> objects;
  std::deque<GoldenFrame> frames;
};

/// Reads objects and frames of a folder with golden vectors (`objects/`, `scenes/`, `table/`); an
/// input error names the file that is missing or wrong.
Result<GoldenScenes> ReadGoldenScenes(const std::string& folder);

struct GoldenReport {
  std::int64_t checked = 0;           ///< numbers compared
  std::int64_t mismatches = 0;        ///< of these
  std::vector<std::string> failures;  ///< what the first hundred are, with both numbers
};

/// Runs every golden vector of `folder`: look-ups, quadratics, normals, closures, voxel sampling,
/// poses, and each stage of each frame up to AP. Integers, masks and scores must be equal; grid
/// coordinates, distances, contact points and accuracy within 1e-12 (roots also within 1e-9
/// relative); normals, up to sign, and angles within 1e-7, normals that are not determined left
/// out. An input error names a file that is missing or wrong.
///
/// The vectors are what graspnetAPI 1.2.11 computes on synthetic scenes.
Result<GoldenReport> CheckGolden(const std::string& folder);

}  // namespace palmist::grasp
