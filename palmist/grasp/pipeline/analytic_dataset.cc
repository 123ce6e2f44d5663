#include "palmist/grasp/pipeline/analytic_dataset.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <numbers>
#include <vector>

#include "palmist/base/file.h"
#include "palmist/base/rng.h"
#include "palmist/grasp/contact/signed_distance.h"
#include "palmist/grasp/core/mesh_shapes.h"
#include "palmist/grasp/formats/dataset.h"
#include "palmist/grasp/formats/mesh_file.h"
#include "palmist/grasp/formats/ply.h"
#include "palmist/grasp/formats/sdf_text.h"

namespace palmist::grasp {
namespace {

constexpr int kMaxFrames = 256;

TriangleMesh MeshOf(const Solid& solid) {
  constexpr int kSides = 64;
  switch (solid.kind) {
    case ShapeKind::kBox:
      return BoxMesh(solid.size_m);
    case ShapeKind::kCylinder:
      return CylinderMesh(solid.size_m.x() / 2, solid.size_m.z(), kSides);
    case ShapeKind::kSphere:
      return SphereMesh(solid.size_m.x() / 2, kSides);
  }
  return {};
}

Result<void> WriteModel(const DatasetPaths& paths, int object, const Solid& solid) {
  std::filesystem::create_directories(paths.Model(object));
  const TriangleMesh mesh = MeshOf(solid);
  PALMIST_RETURN_IF_ERROR(WriteObj(paths.ModelObj(object), mesh));
  PALMIST_ASSIGN_OR_RETURN(const SurfaceSamples samples, SampleSurface(mesh, 0.003, 0));
  PointCloud cloud;
  cloud.points = samples.points;
  PALMIST_RETURN_IF_ERROR(WritePly(paths.ModelPly(object), cloud));
  PALMIST_ASSIGN_OR_RETURN(const SignedDistanceGrid grid, SignedDistanceFromMesh(mesh));
  return WriteSdfText(paths.ModelSdf(object), grid);
}

Result<void> WriteMatrices(const std::string& path,
                           std::vector<std::int64_t> shape,
                           const std::vector<Eigen::MatrixXd>& matrices) {
  std::vector<double> rows;
  for (const Eigen::MatrixXd& matrix : matrices) {
    for (Eigen::Index i = 0; i < matrix.size(); ++i) {
      rows.push_back(matrix(i / matrix.cols(), i % matrix.cols()));
    }
  }
  return WriteFileAtomic(path, WriteNpy(MakeNpyArray<double>(std::move(shape), rows)));
}

Result<void> WriteFrame(const DatasetPaths& paths,
                        const FrameId& id,
                        const AnalyticScene& scene,
                        int first_object,
                        const Intrinsics& camera,
                        const Isometry3d& X_WC) {
  for (const std::string& path :
       {paths.Depth(id), paths.Label(id), paths.Meta(id), paths.Annotation(id)}) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  }
  const RenderedFrame frame = Render(scene, camera, X_WC);
  PALMIST_RETURN_IF_ERROR(WriteDepthPng(paths.Depth(id), frame.depth));
  LabelImage labels{camera.width, camera.height, {}};
  for (const int label : frame.labels) {
    labels.ids.push_back(static_cast<std::uint16_t>(label < 1 ? 0 : first_object + label));
  }
  PALMIST_RETURN_IF_ERROR(WriteLabelsPng(paths.Label(id), labels));
  FrameMeta meta;
  meta.intrinsic_matrix << camera.fx, 0, camera.cx, 0, camera.fy, camera.cy, 0, 0, 1;
  std::vector<AnnotatedObject> objects;
  for (std::size_t i = 0; i < scene.solids.size(); ++i) {
    const int object = first_object + static_cast<int>(i);
    const Isometry3d X_CO = X_WC.inverse() * scene.solids[i].X_WO;
    objects.push_back(MakeAnnotatedObject(object, X_CO));
    meta.cls_indexes.push_back(object + 1);
    meta.poses.push_back(X_CO.matrix().topRows<3>());
  }
  PALMIST_RETURN_IF_ERROR(WriteFrameMeta(paths.Meta(id), meta));
  return WriteAnnotation(paths.Annotation(id), objects);
}

Result<void> WriteScene(const DatasetPaths& paths,
                        int number,
                        const AnalyticScene& scene,
                        int first_object,
                        const AnalyticDatasetOptions& options) {
  const std::string camera(kRealSense);
  std::vector<Eigen::MatrixXd> poses;
  Isometry3d X_WC0;
  for (int frame = 0; frame < options.frames; ++frame) {
    const double around_rad = 2 * std::numbers::pi * frame / options.frames;
    const Isometry3d X_WC =
        LookAt({0.4 * std::sin(around_rad), -0.4 * std::cos(around_rad), 0.55}, {0, 0, 0});
    if (frame == 0) X_WC0 = X_WC;
    poses.emplace_back((X_WC0.inverse() * X_WC).matrix());
    PALMIST_RETURN_IF_ERROR(
        WriteFrame(paths, {number, camera, frame}, scene, first_object, options.camera, X_WC));
  }
  std::string ids;
  for (std::size_t i = 0; i < scene.solids.size(); ++i)
    ids += fmt::format("{}\n", first_object + i);
  PALMIST_RETURN_IF_ERROR(WriteFileAtomic(paths.ObjectIds(number), ids));
  Matrix3d K;
  K << options.camera.fx, 0, options.camera.cx, 0, options.camera.fy, options.camera.cy, 0, 0, 1;
  PALMIST_RETURN_IF_ERROR(WriteMatrices(paths.CameraK(number, camera), {3, 3}, {K}));
  PALMIST_RETURN_IF_ERROR(
      WriteMatrices(paths.CameraPoses(number, camera), {options.frames, 4, 4}, poses));
  return WriteMatrices(paths.Camera0WrtTable(number, camera), {4, 4}, {X_WC0.matrix()});
}

}  // namespace

Result<void> WriteAnalyticDataset(const std::string& root,
                                  std::span<const AnalyticScene> scenes,
                                  const AnalyticDatasetOptions& options) {
  if (options.frames < 1 || options.frames > kMaxFrames) {
    throw UsageError("frames", fmt::format("expected 1 to {}, got {}", kMaxFrames, options.frames));
  }
  const DatasetPaths paths{root};
  int first_object = 0;
  for (std::size_t i = 0; i < scenes.size(); ++i) {
    const int number = options.first_scene + static_cast<int>(i);
    for (std::size_t k = 0; k < scenes[i].solids.size(); ++k) {
      PALMIST_RETURN_IF_ERROR(
          WriteModel(paths, first_object + static_cast<int>(k), scenes[i].solids[k]));
    }
    PALMIST_RETURN_IF_ERROR(WriteScene(paths, number, scenes[i], first_object, options));
    first_object += static_cast<int>(scenes[i].solids.size());
  }
  return {};
}

AnalyticScene SmallTable(std::uint64_t seed) {
  AnalyticScene scene;
  Rng rng(seed);
  for (int i = 0; i < 6; ++i) {
    const auto kind = static_cast<ShapeKind>(i % 3);
    const double x = 0.03 + 0.05 * rng.Uniform(), y = 0.03 + 0.05 * rng.Uniform();
    const double z = 0.04 + 0.08 * rng.Uniform(), yaw_rad = std::numbers::pi * rng.Uniform();
    scene.solids.push_back(
        Standing(kind, {x, y, z}, 0.12 * (i / 2 - 1), 0.13 * (i % 2) - 0.065, yaw_rad));
  }
  return scene;
}

}  // namespace palmist::grasp
