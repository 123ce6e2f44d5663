/// Parts of a dataset that labels need.
#pragma once

#include <Eigen/Core>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "palmist/base/file.h"
#include "palmist/grasp/formats/dataset.h"
#include "palmist/grasp/formats/mesh_file.h"

namespace palmist::grasp {

inline void AddModel(const DatasetPaths& paths, int object, const TriangleMesh& mesh) {
  std::filesystem::create_directories(paths.Model(object));
  WriteObj(paths.ModelObj(object), mesh).value();
}

inline void WriteMatrix(const std::string& path,
                        std::vector<std::int64_t> shape,
                        const Isometry3d& X) {
  const Eigen::Matrix<double, 4, 4, Eigen::RowMajor> rows = X.matrix();
  const std::span<const double> numbers(rows.data(), 16);
  WriteFileAtomic(path, WriteNpy(MakeNpyArray<double>(std::move(shape), numbers))).value();
}

/// Adds a scene of one frame. T is the table, z up.
inline void AddScene(const DatasetPaths& paths,
                     int scene,
                     const Isometry3d& X_TC,
                     std::span<const AnnotatedObject> objects) {
  const FrameId id = {scene, std::string(kRealSense), 0};
  std::filesystem::create_directories(std::filesystem::path(paths.Annotation(id)).parent_path());
  WriteAnnotation(paths.Annotation(id), objects).value();
  WriteMatrix(paths.CameraPoses(scene, kRealSense), {1, 4, 4}, Isometry3d::Identity());
  WriteMatrix(paths.Camera0WrtTable(scene, kRealSense), {4, 4}, X_TC);
}

}  // namespace palmist::grasp
