#include "palmist/grasp/label/content_key.h"

namespace palmist::grasp {
namespace {

void AddPoints(std::span<const Vector3d> points, ContentKey& key) {
  key.Add(points.size());
  for (const Vector3d& p : points) key.Add(std::span(p.data(), 3));
}

}  // namespace

std::int64_t KeyOf(const TriangleMesh& mesh, const SignedDistanceGrid* grid) {
  ContentKey key;
  AddPoints(mesh.vertices, key);
  key.Add(mesh.triangles.size());
  for (const auto& triangle : mesh.triangles) key.Add(std::span(triangle));
  if (grid != nullptr) {
    key.Add(std::span(grid->dims));
    key.Add(std::span(grid->origin_m.data(), 3));
    key.Add(grid->resolution_m);
    key.Add(std::span(grid->values_m));
  }
  return key.value();
}

std::int64_t KeyOf(const ObjectLabels& labels) {
  ContentKey key;
  key.Add(labels.key);
  const LabelOptions& options = labels.options;
  for (const int number : {options.views, options.angles, options.depths, options.seed}) {
    key.Add(number);
  }
  key.Add(options.max_width_m);
  key.Add(options.cloud_spacing_m);
  AddPoints(labels.points_O, key);
  for (const GraspLabel& label : labels.grasps) {
    key.Add(label.cell);
    key.Add(label.width_steps);
    key.Add(label.friction_class);
  }
  return key.value();
}

}  // namespace palmist::grasp
