#include "palmist/grasp/label/run_labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>

#include "palmist/base/interrupt.h"
#include "palmist/base/progress.h"
#include "palmist/grasp/contact/signed_distance.h"
#include "palmist/grasp/formats/dataset.h"
#include "palmist/grasp/label/label_file.h"

namespace palmist::grasp {
namespace {

/// Returns the numbers of the folders in ROOT/models, rising.
Result<std::vector<int>> ListModels(const std::string& dataset_root) {
  const std::string folder = dataset_root + "/models";
  std::error_code error;
  std::vector<int> objects;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    int object = 0;
    const auto [parsed, failure] = std::from_chars(name.data(), name.data() + name.size(), object);
    // Only the dataset's own spelling, so that no object is listed twice.
    if (failure == std::errc() && object >= 0 && name == fmt::format("{:03}", object)) {
      objects.push_back(object);
    }
  }
  if (error) return InputError(folder, "cannot be listed: " + error.message());
  if (objects.empty()) return InputError(folder, "expected folders such as 000");
  std::sort(objects.begin(), objects.end());
  return objects;
}

Result<ObjectLabels> LabelModel(const Dataset& dataset, int object, const LabelOptions& options) {
  PALMIST_ASSIGN_OR_RETURN(const TriangleMesh mesh, dataset.ModelMesh(object));
  std::error_code ignored;
  if (!std::filesystem::exists(dataset.paths().ModelSdf(object), ignored)) {
    return LabelObject(mesh, options);
  }
  PALMIST_ASSIGN_OR_RETURN(const SignedDistanceGrid grid, dataset.ModelSdf(object));
  PALMIST_ASSIGN_OR_RETURN(const SurfaceSamples cloud,
                           SampleSurface(mesh, options.cloud_spacing_m, options.seed));
  return LabelObject(grid, cloud.points, options);
}

/// Returns whether a file with these labels is there; an error where another one is.
Result<bool> IsFinished(const std::string& path, const LabelOptions& options) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return false;
  constexpr const char* kHint = "remove the file to have it made again";
  const Result<ObjectLabels> labels = ReadGraspLabels(path);
  if (!labels.ok()) {
    return InputError(labels.error().field(), labels.error().message(), kHint);
  }
  if (!MakeSameLabels(labels->options, options)) {
    return InputError(path, "was made with other options", kHint);
  }
  return true;
}

/// Returns whether the object was labelled now; false where it had been before.
Result<bool> LabelUnlessFinished(const Dataset& dataset, int object, const LabelOptions& options) {
  const std::string path = SparseLabelsPath(dataset.paths().root, object);
  PALMIST_ASSIGN_OR_RETURN(const bool is_finished, IsFinished(path, options));
  if (is_finished) return false;
  Result<ObjectLabels> labels = LabelModel(dataset, object, options);
  if (!labels.ok()) return labels.error().WithPath(dataset.paths().Model(object));
  PALMIST_RETURN_IF_ERROR(WriteGraspLabels(path, *labels));
  return true;
}

}  // namespace

std::string SparseLabelsPath(const std::string& dataset_root, int object) {
  return fmt::format("{}/grasp_label/{:03}_sparse.npz", dataset_root, object);
}

Result<LabelRun> RunLabels(const std::string& dataset_root, const LabelRunOptions& options) {
  CheckOptions(options.label).value();
  if (options.shards < 1 || options.shard < 0 || options.shard >= options.shards) {
    throw UsageError(
        "shard",
        fmt::format(
            "expected 0 to n - 1 of n shards, got {} of {}", options.shard, options.shards));
  }
  PALMIST_ASSIGN_OR_RETURN(const Dataset dataset, Dataset::Open(dataset_root));
  PALMIST_ASSIGN_OR_RETURN(const std::vector<int> objects, ListModels(dataset_root));
  const std::string folder = dataset_root + "/grasp_label";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return InputError(folder, "cannot be made: " + error.message());

  const auto shard = static_cast<std::size_t>(options.shard);
  const auto shards = static_cast<std::size_t>(options.shards);
  const std::size_t count = (objects.size() + shards - 1 - shard) / shards;
  Progress progress("labelling objects", static_cast<std::int64_t>(count));
  LabelRun run;
  for (std::size_t i = shard; i < objects.size(); i += shards) {
    if (InterruptRequested()) return Error(ErrorKind::kInterrupted, "stopped by a signal");
    const Result<bool> is_new = LabelUnlessFinished(dataset, objects[i], options.label);
    if (!is_new.ok()) {
      run.failed.emplace_back(objects[i], is_new.error());
    } else {
      (*is_new ? run.written : run.skipped).push_back(objects[i]);
    }
    progress.Advance();
  }
  return run;
}

}  // namespace palmist::grasp
