/// Scenes of simple solids as a dataset with truth: for tests, and to compare detectors where there
/// is no other data. Not a picture of the world: depth is exact and there is no colour.
#pragma once

#include <span>
#include <string>

#include "palmist/base/result.h"
#include "palmist/grasp/core/analytic_scene.h"

namespace palmist::grasp {

struct AnalyticDatasetOptions {
  int frames = 4;         ///< of each scene, at most 256: cameras on a ring of 40 cm, 55 cm above
  int first_scene = 100;  ///< 100: the split "seen"
  Intrinsics camera;      ///< of RealSense's name
};

/// Writes the scenes in GraspNet-1Billion's layout: depth, labels, meta files and annotations; each
/// solid is an object of its own, numbered from 0, with mesh, cloud and signed distances.
/// @returns the writers' errors
/// @throws Error (usage) for options out of range
Result<void> WriteAnalyticDataset(const std::string& root,
                                  std::span<const AnalyticScene> scenes,
                                  const AnalyticDatasetOptions& options);

/// Returns a table with boxes, cylinders and spheres of 3 to 8 cm in two rows of three, which the
/// public gripper can hold; the same for the same seed.
AnalyticScene SmallTable(std::uint64_t seed);

}  // namespace palmist::grasp
