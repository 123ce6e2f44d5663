/// Where the objects of a frame are: `annotations/*.xml` of GraspNet-1Billion.
#pragma once

#include <Eigen/Core>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "palmist/base/result.h"
#include "palmist/grasp/core/pose.h"

namespace palmist::grasp {

struct AnnotatedObject {
  int id = 0;
  std::string name;                  ///< such as "005.ply"
  std::string path;                  ///< such as "models/005/nontextured.ply"
  Vector3d p_CO = Vector3d::Zero();  ///< metres; "world" in the file is the camera
  std::array<double, 4> quaternion_wxyz = {1, 0, 0, 0};  ///< as the file has it: not normalised

  /// Returns the transform from the object to the camera, rounded to float32 as GraspNet's
  /// evaluation has it. Entries of the rotation: those of q / |q|, from the double quaternion.
  Eigen::Matrix4f Pose() const;
};

/// Returns the objects in the file's order, or an input error that names the object and what is
/// missing, not finite, or not a number.
Result<std::vector<AnnotatedObject>> ParseAnnotation(std::string_view xml);
Result<std::vector<AnnotatedObject>> ReadAnnotation(const std::string& path);

/// Writes the objects; numbers survive exactly.
Result<void> WriteAnnotation(const std::string& path, std::span<const AnnotatedObject> objects);

/// Returns the object whose pose is X_CO.
AnnotatedObject MakeAnnotatedObject(int id, const Isometry3d& X_CO);

}  // namespace palmist::grasp
