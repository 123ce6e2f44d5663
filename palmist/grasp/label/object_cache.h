/// The models of a dataset, and what labels of scenes need of them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "palmist/base/result.h"
#include "palmist/grasp/core/mesh.h"
#include "palmist/grasp/core/signed_distance_grid.h"
#include "palmist/grasp/formats/dataset.h"
#include "palmist/grasp/label/label.h"

namespace palmist::grasp {

/// The hint of an error about a file that is not what a run would write.
inline constexpr const char* kRemoveHint = "remove the file to have it made again";

/// What an object is labelled by.
struct LabelledModel {
  TriangleMesh mesh;
  std::optional<SignedDistanceGrid> grid;  ///< of textured.sdf
  std::int64_t key = 0;                    ///< KeyOf mesh and grid
};

Result<LabelledModel> ReadLabelledModel(const Dataset& dataset, int object);

/// Returns an input error that names `path` where labels are not of the model.
Result<void> CheckKey(const ObjectLabels& labels,
                      const LabelledModel& model,
                      const std::string& path);

/// The objects of one scene after another. Labels are kept from one scene to the next, clouds and
/// keys for good: they are small.
class ObjectCache {
 public:
  /// Keeps the reference: the dataset must outlive it.
  explicit ObjectCache(const Dataset& dataset) : dataset_(dataset) {}

  struct Object {
    std::optional<ObjectLabels> labels;
    std::int64_t key = 0;           ///< KeyOf the labels
    std::vector<Vector3d> cloud_O;  ///< of the mesh, as the labels' options have it
  };

  /// Begins a scene: forgets the labels of all objects but `ids`, and returns the keys of theirs.
  /// An input error where an object has no labels, or those of another model.
  Result<std::vector<std::int64_t>> Begin(std::span<const int> ids);

  /// Returns an object of the scene with its labels, which stay until the next one begins.
  Result<const Object*> Load(int id);

 private:
  const Dataset& dataset_;
  std::map<int, Object> objects_;
};

}  // namespace palmist::grasp
