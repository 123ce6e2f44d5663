#include "palmist/grasp/pipeline/baselines.h"

#include <utility>

#include "palmist/grasp/label/run_labels.h"
#include "palmist/grasp/pipeline/analytic_dataset.h"

namespace palmist::grasp {

Result<std::vector<Baseline>> CompareSources(const Dataset& dataset,
                                             const DetectRunOptions& options) {
  std::vector<Baseline> baselines;
  for (const OrientationSource source : options.sources) {
    DetectRunOptions detect = options;
    detect.sources = {source};
    detect.dump = options.dump + "/" + ToString(source);
    Baseline baseline{source, {}, {}};
    PALMIST_ASSIGN_OR_RETURN(baseline.run, DetectFrames(dataset, detect));
    EvaluationOptions evaluation;
    evaluation.dump = detect.dump;
    evaluation.camera = options.camera;
    evaluation.scenes = options.scenes;
    evaluation.threads = options.threads;
    PALMIST_ASSIGN_OR_RETURN(baseline.result, EvaluateDump(dataset, evaluation));
    baselines.push_back(std::move(baseline));
  }
  return baselines;
}

Result<void> WriteLabelledTables(const std::string& root, int scenes, int threads) {
  std::vector<AnalyticScene> tables;
  for (int i = 1; i <= scenes; ++i) tables.push_back(SmallTable(i));
  AnalyticDatasetOptions options;
  PALMIST_ASSIGN_OR_RETURN(options.camera, LoadIntrinsics("realsense", 1280, 720));
  PALMIST_RETURN_IF_ERROR(WriteAnalyticDataset(root, tables, options));
  LabelRunOptions labels;
  labels.label.spacing_m = 0.01;
  labels.label.views = 60;
  labels.label.threads = threads;
  for (auto* const run : {&RunLabels, &RunSceneLabels}) {
    PALMIST_ASSIGN_OR_RETURN(const LabelRun done, run(root, labels));
    if (!done.failed.empty()) return done.failed.front().second;
  }
  return {};
}

}  // namespace palmist::grasp
