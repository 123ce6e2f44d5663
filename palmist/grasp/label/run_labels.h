/// Labels all objects of a dataset, and then its scenes, a file each.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "palmist/base/result.h"
#include "palmist/grasp/label/label.h"

namespace palmist::grasp {

struct LabelRunOptions {
  LabelOptions label;
  /// Only the objects at the positions shard, shard + shards, … of the list: for a cluster's job
  /// array.
  int shard = 0, shards = 1;
};

/// What a run did, by the number of the object or scene, rising.
struct LabelRun {
  std::vector<int> written;
  std::vector<int> skipped;                   ///< had a file of the same options and contents
  std::vector<std::pair<int, Error>> failed;  ///< left no file; the others were still labelled
};

/// Returns where the sparse labels of an object lie: ROOT/grasp_label/%03d_sparse.npz.
std::string SparseLabelsPath(const std::string& dataset_root, int object);

/// Labels each object of ROOT/models that has no file yet. An object with textured.sdf is labelled
/// by those signed distances and places on its mesh, others by the mesh alone. A file is written
/// whole or not at all, and is the same for any number of threads and shards.
///
/// An object whose file was made with other options or of another model (ObjectLabels::key), or
/// cannot be read, is among the failed. An input error where ROOT holds no dataset, or no models;
/// kInterrupted soon after a signal; the object in work leaves no file.
/// @throws Error (usage) that names an option out of range
Result<LabelRun> RunLabels(const std::string& dataset_root, const LabelRunOptions& options = {});

/// Returns where the flags of a scene lie: ROOT/collision_label/scene_%04d/sparse.npz.
std::string SceneLabelsPath(const std::string& dataset_root, int scene);

/// Finds, for each scene of ROOT, which labels of its objects collide with the others or with the
/// table, where they lie in the first frame of the scene's first camera; writes SceneLabelsPath.
/// All of its objects must have labels, of the models that are there. A file of the same poses,
/// table and labels (SceneLabels::key) is left; a scene with another one is among the failed. All
/// else as RunLabels, with `label.threads` and the shard of the scenes.
Result<LabelRun> RunSceneLabels(const std::string& dataset_root,
                                const LabelRunOptions& options = {});

}  // namespace palmist::grasp
