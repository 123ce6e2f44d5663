#include "palmist/grasp/pipeline/oracle.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "palmist/base/rng.h"
#include "palmist/grasp/label/label_file.h"
#include "palmist/grasp/label/run_labels.h"

namespace palmist::grasp {
namespace {

constexpr const char* kHint = "make the labels with palmist grasp label --data";

/// Returns an error unless the file is there.
Result<void> CheckExists(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return {};
  return InputError(path, "is missing", kHint);
}

/// A camera that knows what it sees.
struct View {
  const DepthImage& depth;
  const Intrinsics& camera;
  double tolerance_m;

  bool Sees(const Vector3d& p_C) const {
    if (!(p_C.z() > 0)) return false;
    const double u = std::round(camera.fx * p_C.x() / p_C.z() + camera.cx);
    const double v = std::round(camera.fy * p_C.y() / p_C.z() + camera.cy);
    if (!(u >= 0 && u < depth.width && v >= 0 && v < depth.height)) return false;
    return std::abs(depth.at(static_cast<int>(u), static_cast<int>(v)) - p_C.z()) < tolerance_m;
  }
};

/// Returns the grasps in the camera's frame that hold, are free and can be seen, `count` at most.
GraspGroup Choose(const ObjectLabels& labels,
                  const CollisionFlags& collides,
                  const Isometry3d& X_CO,
                  const View& view,
                  std::size_t count,
                  Rng rng) {
  std::vector<bool> is_seen;
  for (const Vector3d& p_O : labels.points_O) is_seen.push_back(view.Sees(X_CO * p_O));
  GraspGroup chosen;
  for (std::size_t k = 1; k <= kLabelFrictions.size() && chosen.size() < count; ++k) {
    std::vector<GraspLabel> of_class;
    for (std::size_t i = 0; i < labels.grasps.size(); ++i) {
      const GraspLabel& label = labels.grasps[i];
      if (label.friction_class == k && collides[i] == 0 &&
          is_seen[PlaceOf(label, labels.options).point]) {
        of_class.push_back(label);
      }
    }
    // The first of a shuffle (Fisher and Yates).
    for (std::size_t i = 0; i < of_class.size() && chosen.size() < count; ++i) {
      const auto other = i + static_cast<std::size_t>(rng.Integer(of_class.size() - i));
      std::swap(of_class[i], of_class[other]);
      Grasp grasp = Transformed(X_CO, GraspOf(labels, of_class[i]));
      if (grasp.approach().dot(grasp.p_CG) > 0) chosen.push_back(std::move(grasp));
    }
  }
  return chosen;
}

}  // namespace

Result<void> Oracle::LoadScene(int scene) {
  if (scene == scene_) return {};
  scene_ = -1;
  const std::string path = SceneLabelsPath(dataset_.paths().root, scene);
  PALMIST_RETURN_IF_ERROR(CheckExists(path));
  PALMIST_ASSIGN_OR_RETURN(scene_labels_, ReadSceneLabels(path));
  std::map<int, ObjectLabels> objects;
  for (std::size_t i = 0; i < scene_labels_.objects.size(); ++i) {
    const int id = scene_labels_.objects[i];
    const std::string object_path = SparseLabelsPath(dataset_.paths().root, id);
    if (const auto kept = objects_.find(id); kept != objects_.end()) {
      objects[id] = std::move(kept->second);
    } else {
      PALMIST_RETURN_IF_ERROR(CheckExists(object_path));
      PALMIST_ASSIGN_OR_RETURN(objects[id], ReadGraspLabels(object_path));
    }
    if (objects[id].grasps.size() != scene_labels_.collides[i].size()) {
      return InputError(path, "does not fit " + object_path, kHint);
    }
  }
  objects_ = std::move(objects);
  scene_ = scene;
  return {};
}

Result<std::vector<Candidate>> Oracle::Candidates(const FrameId& id,
                                                  const DepthImage& depth,
                                                  const Intrinsics& camera) {
  PALMIST_RETURN_IF_ERROR(LoadScene(id.scene));
  PALMIST_ASSIGN_OR_RETURN(const std::vector<AnnotatedObject> annotated, dataset_.Annotation(id));
  std::vector<Candidate> candidates;
  for (const AnnotatedObject& object : annotated) {
    const auto found =
        std::find(scene_labels_.objects.begin(), scene_labels_.objects.end(), object.id);
    if (found == scene_labels_.objects.end()) {
      return InputError(
          dataset_.paths().Annotation(id),
          "has object " + std::to_string(object.id) + ", which the scene's labels lack",
          kHint);
    }
    PALMIST_ASSIGN_OR_RETURN(
        const Isometry3d X_CO,
        PoseFromMatrix(object.Pose().cast<double>(), dataset_.paths().Annotation(id)));
    const ObjectLabels& labels = objects_.at(object.id);
    const CollisionFlags& collides =
        scene_labels_.collides[static_cast<std::size_t>(found - scene_labels_.objects.begin())];
    const Rng rng(options_.seed, static_cast<std::uint64_t>(object.id));
    const View view = {depth, camera, options_.seen_m};
    for (const Grasp& grasp : Choose(labels, collides, X_CO, view, options_.per_object, rng)) {
      const double ahead_m = grasp.depth_m - options_.tips_m;
      candidates.push_back({grasp.R_CG, grasp.p_CG + ahead_m * grasp.approach(), grasp.score});
    }
  }
  return candidates;
}

}  // namespace palmist::grasp
