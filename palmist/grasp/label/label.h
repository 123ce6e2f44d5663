/// Labels: which grasps of an object a parallel gripper can make, and how much friction each needs.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "palmist/base/result.h"
#include "palmist/grasp/contact/contact.h"
#include "palmist/grasp/core/grasp.h"
#include "palmist/grasp/core/mesh.h"
#include "palmist/grasp/core/signed_distance_grid.h"

namespace palmist::grasp {

/// Friction class k = 1 … 10 holds with kLabelFrictions[k - 1]; class 0 with none.
inline constexpr std::array<double, 10> kLabelFrictions = {
    0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0};

/// Grasps are tried with the finger tips 1 cm, 2 cm … past the point, and with openings in steps.
inline constexpr double kDepthStep_m = 0.01;
inline constexpr double kWidthStep_m = 0.005;
inline constexpr int kMaxDepths = 8;
inline constexpr double kMostWidth_m = 0.13;

/// What is labelled: each point of the surface with each view, angle and depth. The angles cover
/// half a turn, of 180 degrees / angles each: the gripper turned by the other half is the same.
struct LabelOptions {
  double spacing_m = 0.005;  ///< of the grasp points
  int views = 300;           ///< of SphereViews
  int angles = 12;           ///< 15 degrees each
  int depths = 4;            ///< 1 to kMaxDepths
  double max_width_m = 0.1;  ///< at most kMostWidth_m
  /// A point is tried only with the approaches a whose angle to the surface is not grazing:
  /// -n·a >= this, for the outward normal n.
  double min_approach_cosine = 0.1;
  ContactRule rule = ContactRule::kStrict;
  double resolution_m = 0.003;      ///< of the signed distances, where they are made of a mesh
  double cloud_spacing_m = 0.0025;  ///< of the points that collide, where they are made of a mesh
  int seed = 0;                     ///< of both samplings
  int threads = 1;                  ///< does not change the labels
};

/// A grasp that does not collide with the object.
struct GraspLabel {
  /// ((point · views + view) · angles + angle) · depths + depth, each counted from 0.
  std::int32_t cell = 0;
  std::uint8_t width_steps = 0;  ///< of kWidthStep_m
  std::uint8_t friction_class = 0;

  bool operator==(const GraspLabel&) const = default;
};

/// Which candidate a label is.
struct LabelPlace {
  int point = 0, view = 0, angle = 0, depth = 0;
};

LabelPlace PlaceOf(const GraspLabel& label, const LabelOptions& options);

/// The labels of an object. What is not listed collides, or is wider than the gripper opens, or
/// comes from within the object.
struct ObjectLabels {
  LabelOptions options;
  std::vector<Vector3d> points_O;  ///< numbers of float32
  std::vector<GraspLabel> grasps;  ///< by rising cell
  std::int64_t key = 0;            ///< a hash of what was labelled; 0: not known
};

/// Returns the directions of a Fibonacci sphere: where the gripper may come from, in the object's
/// frame. Source: as Views (core/anchors.h), which has the half of a sphere with z < 0.
std::vector<Vector3d> SphereViews(int views);

/// Returns a labelled grasp in the object's frame: its rotation is RotationFromView of its view and
/// angle, its score 1.1 - friction, or 0 for class 0. @pre `label` is one of `labels`
Grasp GraspOf(const ObjectLabels& labels, const GraspLabel& label);

/// Labels an object.
///
/// The gripper is that of GraspNet-1Billion's evaluation: within |z| < 1 cm, fingers of 1 cm from
/// x = -2 cm to the depth, and a palm of 1 cm behind. Its opening is the smallest multiple of
/// kWidthStep_m with no point of the cloud in a finger; a grasp is listed where the palm is then
/// free, too. The friction class is that of the contacts of the line between the finger tips.
///
/// Of a mesh, grasp points and cloud are SampleSurface's and the key is the mesh's. Otherwise both
/// are given, in `points_O` and `cloud_O`, which must be dense against kWidthStep_m; the key is 0,
/// and spacings and seed are those that the caller took. An input error where a mesh has no signed
/// distances (SignedDistanceFromMesh), where there are no points or some are not finite, and where
/// there are more than 2³¹ candidates; kInterrupted soon after a signal.
/// @throws Error (usage) that names an option out of range
Result<ObjectLabels> LabelObject(const TriangleMesh& mesh, const LabelOptions& options = {});
Result<ObjectLabels> LabelObject(const SignedDistanceGrid& grid,
                                 std::span<const Vector3d> cloud_O,
                                 std::span<const Vector3d> points_O,
                                 const LabelOptions& options = {});

/// Returns a usage error that names an option out of range.
Result<void> CheckOptions(const LabelOptions& options);

}  // namespace palmist::grasp
