/// Grasps on a depth image, stage by stage: cloud, table, voxels, candidates, search, suppression.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "palmist/base/result.h"
#include "palmist/base/thread_pool.h"
#include "palmist/grasp/core/camera.h"
#include "palmist/grasp/core/grasp.h"
#include "palmist/grasp/core/gripper.h"
#include "palmist/grasp/core/nms.h"
#include "palmist/grasp/search/fas.h"
#include "palmist/grasp/search/orientations.h"

namespace palmist::grasp {

enum class TableMode {
  kNone,   ///< there is none: what the camera sees is objects
  kAuto,   ///< the plane with the most points, if one has enough
  kGiven,  ///< DetectOptions::fas.table, which is not looked at otherwise
};

struct DetectOptions {
  Gripper gripper;
  /// Widths go up to what the gripper opens to, `fas.max_width_m` is not looked at.
  FasOptions fas{.width_cost_per_m = 1, .distance_gain_per_m = 1};
  /// One byte a pixel, not 0 where grasps are wanted; empty: everywhere. Points outside are still
  /// obstacles.
  std::vector<std::uint8_t> workspace_mask;
  std::optional<Box> workspace_box;  ///< along the camera's axes; likewise
  TableMode table = TableMode::kAuto;
  PlaneOptions plane;
  /// Points less than this above the table are the table's, plus three standard deviations of the
  /// depth there (DepthNoise).
  double table_margin_m = 0.004;
  /// What the camera sees is taken to be so thick along its ray, above the table: fingers stay out
  /// of it. 0: only what is seen is there.
  double hidden_depth_m = 0.04;
  bool uses_top_down = true, uses_random = false, uses_antipodal = true;
  TopDownOptions top_down;
  RandomOptions random;
  AntipodalOptions antipodal;    ///< likewise
  std::vector<Candidate> given;  ///< further ones, in the camera's frame
  double normal_radius_m = 0.015;
  NmsOptions nms{.is_symmetric = true};
  std::size_t top_k = 50;
};

/// Returns the standard deviation of depth at z_m, 1.2 mm + 1.9 mm/m² (z - 0.4 m)².
/// Source: C. V. Nguyen et al., "Modeling Kinect sensor noise for improved 3D reconstruction and
/// tracking", 3DIMPVT 2012, equation for the axial noise.
double DepthNoise(double z_m);

/// A depth image as FAS and the candidates need it.
struct DetectionScene {
  std::optional<Plane> table;       ///< its normal towards the camera
  std::vector<Vector3d> obstacles;  ///< voxels above the table, everywhere
  std::vector<Vector3d> objects;    ///< those of the workspace
  std::vector<Vector3d> hidden;     ///< behind the obstacles, see DetectOptions::hidden_depth_m
};

struct StageTime {
  std::string stage;
  double time_s = 0;
};

struct Detection {
  GraspGroup grasps;  ///< by falling score, in the camera's frame
  std::optional<Plane> table;
  std::size_t object_points = 0, candidates = 0, fits = 0;
  std::vector<StageTime> times;
};

/// Returns the scene of a depth image; appends the stages cloud, table and voxels to `times`. With
/// a table, points on it and below it are left out.
/// @returns an input error naming the field for a camera, mask or box that does not go with the
/// image, or a table that is wanted but not given
Result<DetectionScene> PrepareScene(const DepthImage& depth,
                                    const Intrinsics& camera,
                                    const DetectOptions& options,
                                    std::vector<StageTime>& times);

/// Returns the grasps among `candidates`: FAS, non-maximum suppression, the best `top_k`; appends
/// the stages search and suppression to `times`.
/// @throws Error as MakeSearchSpace
Detection DetectAmong(const DetectionScene& scene,
                      std::span<const Candidate> candidates,
                      const DetectOptions& options,
                      ThreadPool& pool);

/// Returns the grasps that shape alone suggests (orientations.h), and those among the given
/// candidates, all of those that approach away from the camera; none where nothing fits or
/// nothing stands on the table. Top-down is along minus the table's normal, without a table along
/// the camera's axis.
/// @returns errors as PrepareScene
/// @throws Error as MakeSearchSpace
Result<Detection> DetectWithOrientations(const DepthImage& depth,
                                         const Intrinsics& camera,
                                         const DetectOptions& options,
                                         ThreadPool& pool);

/// Returns the pose in the camera's frame of what the robot is commanded with: the grasp's axes at
/// the gripper's grasp point, `grasp_point_m` ahead of the palm's face.
Isometry3d CommandedPose(const Grasp& grasp, const Gripper& gripper);

}  // namespace palmist::grasp
