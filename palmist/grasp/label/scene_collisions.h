/// Which labelled grasps of a scene's objects meet another object or the table.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "palmist/base/result.h"
#include "palmist/grasp/core/point_cloud.h"
#include "palmist/grasp/label/label.h"

namespace palmist::grasp {

/// An object of a scene.
struct PlacedObject {
  int id = 0;
  const ObjectLabels* labels = nullptr;
  std::span<const Vector3d> cloud_O;  ///< its surface, metres
  Isometry3d X_CO = Isometry3d::Identity();
};

/// A byte for each label of an object, in their order: 1 where the grasp collides.
using CollisionFlags = std::vector<std::uint8_t>;

/// Returns the flags of each object: whether the gripper, open as the label says, has a point of
/// another object in a finger or in the palm, or is not wholly above the table.
/// An error (interrupted) once a signal asked to stop.
/// @pre all have labels; the table's normal points up
Result<std::vector<CollisionFlags>> SceneCollisions(std::span<const PlacedObject> objects,
                                                    const std::optional<Plane>& table_C,
                                                    int threads);

/// The flags of a scene, in the order of its annotation.
struct SceneLabels {
  std::vector<int> objects;  ///< their numbers
  std::vector<CollisionFlags> collides;
  std::int64_t key = 0;  ///< a hash of the poses, the table and the labels; 0: not known
};

/// Writes flags as a .npz, whole or not at all; the layout is in README.md.
Result<void> WriteSceneLabels(const std::string& path, const SceneLabels& labels);

/// Returns the flags of such a file, or an input error that names the array: missing, of another
/// type or shape, or with a value above 1.
Result<SceneLabels> ReadSceneLabels(const std::string& path);

}  // namespace palmist::grasp
