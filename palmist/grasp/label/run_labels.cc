#include "palmist/grasp/label/run_labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <system_error>
#include <utility>

#include "palmist/base/interrupt.h"
#include "palmist/base/progress.h"
#include "palmist/grasp/contact/signed_distance.h"
#include "palmist/grasp/formats/dataset.h"
#include "palmist/grasp/label/content_key.h"
#include "palmist/grasp/label/label_file.h"
#include "palmist/grasp/label/object_cache.h"
#include "palmist/grasp/label/scene_collisions.h"

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

/// Returns the labels; grasp points are places on the mesh with and without signed distances.
Result<ObjectLabels> LabelModel(const LabelledModel& model, const LabelOptions& options) {
  if (!model.grid) return LabelObject(model.mesh, options);
  PALMIST_ASSIGN_OR_RETURN(const SurfaceSamples points,
                           SampleSurface(model.mesh, options.spacing_m, options.seed));
  PALMIST_ASSIGN_OR_RETURN(const SurfaceSamples cloud,
                           SampleSurface(model.mesh, options.cloud_spacing_m, options.seed));
  PALMIST_ASSIGN_OR_RETURN(ObjectLabels labels,
                           LabelObject(*model.grid, cloud.points, points.points, options));
  labels.key = model.key;
  return labels;
}

/// Returns what `read` does of a file that a run before wrote, or its error with a hint.
template <typename T>
Result<T> ReadKept(const std::string& path, Result<T> (*read)(const std::string&)) {
  Result<T> kept = read(path);
  if (kept.ok()) return kept;
  return InputError(kept.error().field(), kept.error().message(), kRemoveHint);
}

/// Returns whether the object was labelled now; false where it had been before. An error where a
/// file with other labels is there.
Result<bool> LabelUnlessFinished(const Dataset& dataset, int object, const LabelOptions& options) {
  const std::string path = SparseLabelsPath(dataset.paths().root, object);
  std::error_code ignored;
  const bool is_there = std::filesystem::exists(path, ignored);
  ObjectLabels kept;
  if (is_there) {
    PALMIST_ASSIGN_OR_RETURN(kept, ReadKept(path, &ReadGraspLabels));
    if (!MakeSameLabels(kept.options, options)) {
      return InputError(path, "was made with other options", kRemoveHint);
    }
  }
  PALMIST_ASSIGN_OR_RETURN(const LabelledModel model, ReadLabelledModel(dataset, object));
  if (is_there) {
    PALMIST_RETURN_IF_ERROR(CheckKey(kept, model, path));
    return false;
  }
  const Result<ObjectLabels> labels = LabelModel(model, options);
  if (!labels.ok()) return labels.error().WithPath(dataset.paths().Model(object));
  PALMIST_RETURN_IF_ERROR(WriteGraspLabels(path, *labels));
  return true;
}

/// Where a scene's objects and its table are, in the camera's frame.
struct ScenePoses {
  std::vector<int> objects;
  std::vector<Isometry3d> X_CO;
  Plane table_C;
  ContentKey key;  ///< of the numbers as the files have them
};

Result<ScenePoses> ReadScenePoses(const Dataset& dataset, int scene) {
  PALMIST_ASSIGN_OR_RETURN(const std::vector<std::string> cameras, dataset.Cameras(scene));
  if (cameras.empty()) return InputError(dataset.paths().Scene(scene), "has no camera");
  const std::string& camera = cameras.front();
  PALMIST_ASSIGN_OR_RETURN(const std::vector<int> frames, dataset.Frames(scene, camera));
  if (frames.empty()) {
    return InputError(dataset.paths().Camera(scene, camera), "has no annotation");
  }
  const FrameId id = {scene, camera, frames.front()};
  PALMIST_ASSIGN_OR_RETURN(const Matrix4d X_TC0, dataset.Camera0WrtTable(scene, camera));
  PALMIST_ASSIGN_OR_RETURN(const std::vector<Matrix4d> X_C0C, dataset.CameraPoses(scene, camera));
  const std::string poses_path = dataset.paths().CameraPoses(scene, camera);
  if (id.frame >= std::ssize(X_C0C)) {
    return InputError(poses_path, fmt::format("has no pose of frame {}", id.frame));
  }
  PALMIST_ASSIGN_OR_RETURN(const Isometry3d X_TC,
                           PoseFromMatrix(X_TC0 * X_C0C[id.frame], poses_path));
  ScenePoses poses;
  poses.table_C = {X_TC.linear().row(2).transpose(), -X_TC.translation().z()};
  PALMIST_ASSIGN_OR_RETURN(const std::vector<AnnotatedObject> annotated, dataset.Annotation(id));
  for (const Matrix4d& matrix : {X_TC0, X_C0C[id.frame]}) {
    poses.key.Add(std::span(matrix.data(), 16));
  }
  for (const AnnotatedObject& object : annotated) {
    poses.key.Add(object.id);
    poses.key.Add(std::span(object.p_CO.data(), 3));
    poses.key.Add(std::span(object.quaternion_wxyz));
    PALMIST_ASSIGN_OR_RETURN(
        const Isometry3d X_CO,
        PoseFromMatrix(object.Pose().cast<double>(), dataset.paths().Annotation(id)));
    poses.objects.push_back(object.id);
    poses.X_CO.push_back(X_CO);
  }
  return poses;
}

/// Returns whether the scene was labelled now; false where it had been before.
Result<bool> LabelScene(const Dataset& dataset, int scene, ObjectCache& cache, int threads) {
  const std::string path = SceneLabelsPath(dataset.paths().root, scene);
  PALMIST_ASSIGN_OR_RETURN(ScenePoses poses, ReadScenePoses(dataset, scene));
  PALMIST_ASSIGN_OR_RETURN(const std::vector<std::int64_t> keys, cache.Begin(poses.objects));
  poses.key.Add(std::span(keys));
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    PALMIST_ASSIGN_OR_RETURN(const SceneLabels kept, ReadKept(path, &ReadSceneLabels));
    if (kept.key == poses.key.value()) return false;
    return InputError(path, "is of other labels, poses or table", kRemoveHint);
  }
  std::vector<PlacedObject> placed;
  for (std::size_t i = 0; i < poses.objects.size(); ++i) {
    PALMIST_ASSIGN_OR_RETURN(const ObjectCache::Object* object, cache.Load(poses.objects[i]));
    placed.push_back({poses.objects[i], &*object->labels, object->cloud_O, poses.X_CO[i]});
  }
  const std::string folder = std::filesystem::path(path).parent_path().string();
  std::filesystem::create_directories(folder, error);
  if (error) return InputError(folder, "cannot be made: " + error.message());
  PALMIST_ASSIGN_OR_RETURN(std::vector<CollisionFlags> collides,
                           SceneCollisions(placed, poses.table_C, threads));
  const SceneLabels labels = {poses.objects, std::move(collides), poses.key.value()};
  PALMIST_RETURN_IF_ERROR(WriteSceneLabels(path, labels));
  return true;
}

void CheckShard(const LabelRunOptions& options) {
  if (options.shards < 1 || options.shard < 0 || options.shard >= options.shards) {
    throw UsageError(
        "shard",
        fmt::format(
            "expected 0 to n - 1 of n shards, got {} of {}", options.shard, options.shards));
  }
}

Error Interrupted() { return Error(ErrorKind::kInterrupted, "stopped by a signal"); }

/// Calls `label` on each number of the shard; it returns whether it made a new file.
Result<LabelRun> RunShard(const std::vector<int>& numbers,
                          const LabelRunOptions& options,
                          const char* what,
                          const std::function<Result<bool>(int)>& label) {
  const auto shard = static_cast<std::size_t>(options.shard);
  const auto shards = static_cast<std::size_t>(options.shards);
  const std::size_t count = (numbers.size() + shards - 1 - shard) / shards;
  Progress progress(what, static_cast<std::int64_t>(count));
  LabelRun run;
  for (std::size_t i = shard; i < numbers.size(); i += shards) {
    if (InterruptRequested()) return Interrupted();
    const Result<bool> is_new = label(numbers[i]);
    if (!is_new.ok()) {
      if (is_new.error().kind() == ErrorKind::kInterrupted) return Interrupted();
      run.failed.emplace_back(numbers[i], is_new.error());
    } else {
      (*is_new ? run.written : run.skipped).push_back(numbers[i]);
    }
    progress.Advance();
  }
  return run;
}

}  // namespace

std::string SparseLabelsPath(const std::string& dataset_root, int object) {
  return fmt::format("{}/grasp_label/{:03}_sparse.npz", dataset_root, object);
}

std::string SceneLabelsPath(const std::string& dataset_root, int scene) {
  return fmt::format("{}/collision_label/scene_{:04}/sparse.npz", dataset_root, scene);
}

Result<LabelRun> RunLabels(const std::string& dataset_root, const LabelRunOptions& options) {
  CheckOptions(options.label).value();
  CheckShard(options);
  PALMIST_ASSIGN_OR_RETURN(const Dataset dataset, Dataset::Open(dataset_root));
  PALMIST_ASSIGN_OR_RETURN(const std::vector<int> objects, ListModels(dataset_root));
  const std::string folder = dataset_root + "/grasp_label";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return InputError(folder, "cannot be made: " + error.message());
  return RunShard(objects, options, "labelling objects", [&](int object) {
    return LabelUnlessFinished(dataset, object, options.label);
  });
}

Result<LabelRun> RunSceneLabels(const std::string& dataset_root, const LabelRunOptions& options) {
  CheckOptions(options.label).value();
  CheckShard(options);
  PALMIST_ASSIGN_OR_RETURN(const Dataset dataset, Dataset::Open(dataset_root));
  ObjectCache cache(dataset);
  return RunShard(dataset.scenes(), options, "labelling scenes", [&](int scene) {
    return LabelScene(dataset, scene, cache, options.label.threads);
  });
}

}  // namespace palmist::grasp
