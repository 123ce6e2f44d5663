/// The folders of GraspNet-1Billion.
///
/// Source: the layout described at graspnet.net and read by graspnetAPI.
#pragma once

#include <Eigen/Core>
#include <string>
#include <string_view>
#include <vector>

#include "palmist/base/npy.h"
#include "palmist/base/result.h"
#include "palmist/grasp/core/camera.h"
#include "palmist/grasp/core/mesh.h"
#include "palmist/grasp/core/point_cloud.h"
#include "palmist/grasp/core/signed_distance_grid.h"
#include "palmist/grasp/formats/annotation.h"
#include "palmist/grasp/formats/image.h"
#include "palmist/grasp/formats/mat.h"
#include "palmist/grasp/formats/npz.h"

namespace palmist::grasp {

/// What a scene is for, by its number: train 0-99, seen 100-129, similar 130-159, novel 160-189.
enum class Split { kTrain, kSeen, kSimilar, kNovel, kOther };

Split SplitOf(int scene);
const char* ToString(Split split);  ///< "train", "seen", "similar", "novel", "other"

inline constexpr std::string_view kRealSense = "realsense";
inline constexpr std::string_view kKinect = "kinect";

/// One image of a scene.
struct FrameId {
  int scene = 0;
  std::string camera;  ///< the folder's name: "realsense" or "kinect"
  int frame = 0;
};

/// Where the files of a dataset are, whether they exist or not: for its writers, too.
struct DatasetPaths {
  std::string root;

  std::string Scene(int scene) const;  ///< the folder scenes/scene_%04d
  std::string ObjectIds(int scene) const;
  std::string Camera(int scene, std::string_view camera) const;  ///< the folder of a camera
  std::string CameraK(int scene, std::string_view camera) const;
  std::string CameraPoses(int scene, std::string_view camera) const;
  std::string Camera0WrtTable(int scene, std::string_view camera) const;
  std::string Rgb(const FrameId& id) const;
  std::string Depth(const FrameId& id) const;
  std::string Label(const FrameId& id) const;
  std::string Meta(const FrameId& id) const;
  std::string Annotation(const FrameId& id) const;
  std::string Rect(const FrameId& id) const;
  std::string Model(int object) const;           ///< the folder models/%03d
  std::string ModelPly(int object) const;        ///< nontextured.ply
  std::string ModelObj(int object) const;        ///< textured.obj
  std::string ModelSdf(int object) const;        ///< textured.sdf
  std::string GraspLabels(int object) const;     ///< grasp_label/%03d_labels.npz
  std::string CollisionLabels(int scene) const;  ///< collision_label/scene_%04d/…
};

/// Returns where a frame's grasps lie in a folder of results: DUMP/scene_%04d/CAMERA/%04d.npy.
std::string DumpPath(const std::string& dump_root, const FrameId& id);

/// A dataset to read. Each reader's error names the file that is missing or wrong.
class Dataset {
 public:
  /// Lists root/scenes; an input error where that is missing or holds no scene.
  static Result<Dataset> Open(const std::string& root);

  const DatasetPaths& paths() const { return paths_; }
  const std::vector<int>& scenes() const { return scenes_; }  ///< rising
  std::vector<int> ScenesOf(Split split) const;

  /// Returns the cameras of a scene, by name.
  Result<std::vector<std::string>> Cameras(int scene) const;
  /// Returns the numbers of a camera's frames, rising: those that have an annotation.
  Result<std::vector<int>> Frames(int scene, std::string_view camera) const;

  Result<std::vector<int>> ObjectIds(int scene) const;
  Result<Matrix3d> CameraK(int scene, std::string_view camera) const;
  /// The pose of each frame's camera in that of frame 0.
  Result<std::vector<Matrix4d>> CameraPoses(int scene, std::string_view camera) const;
  Result<Matrix4d> Camera0WrtTable(int scene, std::string_view camera) const;

  Result<ColorImage> Rgb(const FrameId& id) const;
  Result<DepthValues> Depth(const FrameId& id) const;
  Result<LabelImage> Label(const FrameId& id) const;
  Result<FrameMeta> Meta(const FrameId& id) const;
  Result<std::vector<AnnotatedObject>> Annotation(const FrameId& id) const;

  /// The vertices of nontextured.ply, which is the cloud that the evaluation samples.
  Result<PointCloud> ModelCloud(int object) const;
  /// textured.obj, or nontextured.ply where that is missing.
  Result<TriangleMesh> ModelMesh(int object) const;
  Result<SignedDistanceGrid> ModelSdf(int object) const;

  /// points (P, 3), offsets (P, V, A, D, 3), collision and scores (P, V, A, D); shapes are checked.
  Result<NpzArrays> GraspLabels(int object) const;
  /// arr_0 … arr_n-1, one (P, V, A, D) array of booleans for each of the scene's objects.
  Result<std::vector<NpyArray>> CollisionLabels(int scene) const;

 private:
  DatasetPaths paths_;
  std::vector<int> scenes_;
};

}  // namespace palmist::grasp
