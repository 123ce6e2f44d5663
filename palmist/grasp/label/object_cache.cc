#include "palmist/grasp/label/object_cache.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "palmist/grasp/contact/signed_distance.h"
#include "palmist/grasp/label/content_key.h"
#include "palmist/grasp/label/label_file.h"
#include "palmist/grasp/label/run_labels.h"

namespace palmist::grasp {

Result<LabelledModel> ReadLabelledModel(const Dataset& dataset, int object) {
  LabelledModel model;
  PALMIST_ASSIGN_OR_RETURN(model.mesh, dataset.ModelMesh(object));
  std::error_code ignored;
  if (std::filesystem::exists(dataset.paths().ModelSdf(object), ignored)) {
    PALMIST_ASSIGN_OR_RETURN(model.grid, dataset.ModelSdf(object));
  }
  model.key = KeyOf(model.mesh, model.grid ? &*model.grid : nullptr);
  return model;
}

Result<void> CheckKey(const ObjectLabels& labels,
                      const LabelledModel& model,
                      const std::string& path) {
  if (labels.key == model.key) return {};
  return InputError(path, "was made of another model", kRemoveHint);
}

Result<std::vector<std::int64_t>> ObjectCache::Begin(std::span<const int> ids) {
  for (auto& [id, object] : objects_) {
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) object.labels.reset();
  }
  std::vector<std::int64_t> keys;
  for (const int id : ids) {
    if (!objects_.contains(id)) PALMIST_RETURN_IF_ERROR(Load(id));
    keys.push_back(objects_.at(id).key);
  }
  return keys;
}

Result<const ObjectCache::Object*> ObjectCache::Load(int id) {
  const auto kept = objects_.find(id);
  if (kept != objects_.end() && kept->second.labels) return &kept->second;
  const std::string path = SparseLabelsPath(dataset_.paths().root, id);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return InputError(path, "is missing", "label all objects first");
  }
  PALMIST_ASSIGN_OR_RETURN(ObjectLabels labels, ReadGraspLabels(path));
  if (kept != objects_.end()) {
    kept->second.labels = std::move(labels);
    return &kept->second;
  }
  PALMIST_ASSIGN_OR_RETURN(const LabelledModel model, ReadLabelledModel(dataset_, id));
  PALMIST_RETURN_IF_ERROR(CheckKey(labels, model, path));
  const LabelOptions& options = labels.options;
  Result<SurfaceSamples> cloud = SampleSurface(model.mesh, options.cloud_spacing_m, options.seed);
  if (!cloud.ok()) return cloud.error().WithPath(dataset_.paths().Model(id));
  const std::int64_t key = KeyOf(labels);
  Object object{std::move(labels), key, std::move(cloud->points)};
  return &(objects_[id] = std::move(object));
}

}  // namespace palmist::grasp
