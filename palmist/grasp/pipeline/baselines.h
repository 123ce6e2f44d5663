/// What detection is worth without a network: average precision of each source of orientations.
#pragma once

#include <string>
#include <vector>

#include "palmist/base/result.h"
#include "palmist/grasp/eval/run.h"
#include "palmist/grasp/formats/dataset.h"
#include "palmist/grasp/pipeline/detect_frames.h"

namespace palmist::grasp {

struct Baseline {
  OrientationSource source = OrientationSource::kTopDown;
  DetectRun run;
  EvaluationResult result;
};

/// Detects with each source alone, all else as `options` say, and evaluates; the dumps lie in
/// folders of `options.dump` named after the source. The oracle is left out where `options.sources`
/// lack it.
/// @returns errors as DetectFrames and EvaluateDump
Result<std::vector<Baseline>> CompareSources(const Dataset& dataset,
                                             const DetectRunOptions& options);

/// Writes the tables SmallTable(1), …, as a dataset with labels of 60 views at 1 cm.
/// @returns the writers' errors
Result<void> WriteLabelledTables(const std::string& root, int scenes, int threads);

}  // namespace palmist::grasp
