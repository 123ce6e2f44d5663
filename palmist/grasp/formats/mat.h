/// The meta data of a GraspNet frame: `meta/*.mat`, MATLAB's level 5 format.
///
/// Source: The MathWorks, "MAT-File Format", level 5.
#pragma once

#include <Eigen/Core>
#include <string>
#include <string_view>
#include <vector>

#include "palmist/base/result.h"
#include "palmist/grasp/core/pose.h"

namespace palmist::grasp {

struct FrameMeta {
  Matrix3d intrinsic_matrix = Matrix3d::Identity();
  double factor_depth = 1000;    ///< units of the depth image in a metre
  std::vector<int> cls_indexes;  ///< of the scene's objects: object id + 1
  /// Object to camera, one for each of cls_indexes; a 3x4xN array in the file.
  std::vector<Eigen::Matrix<double, 3, 4>> poses;
};

/// Returns the meta data of a file of at most 64 MiB, plain or compressed, or an input error that
/// names the variable: missing, not real numbers, not finite, of another shape. Variables of other
/// names are skipped. Little-endian files only.
Result<FrameMeta> ParseFrameMeta(std::string_view bytes);
Result<FrameMeta> ReadFrameMeta(const std::string& path);

/// Writes a .mat file without compression. @pre as many poses as cls_indexes
Result<void> WriteFrameMeta(const std::string& path, const FrameMeta& meta);

}  // namespace palmist::grasp
