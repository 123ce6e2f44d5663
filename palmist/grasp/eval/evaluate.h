/// Scores the grasps of one frame as GraspNet-1Billion's evaluation does.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "palmist/grasp/contact/closure.h"
#include "palmist/grasp/core/grasp.h"
#include "palmist/grasp/core/point_cloud.h"

namespace palmist::grasp {

/// What the evaluation knows of an object.
struct ObjectModel {
  int id = 0;                     ///< in the data set
  std::vector<Vector3d> cloud_O;  ///< its surface, metres, see kModelVoxel_m
  SignedDistanceGrid grid;
};

/// Models' clouds are thinned to one point in each voxel of this edge, in the model's frame.
inline constexpr double kModelVoxel_m = 0.008;

/// Points that stand for a table: all (x, y, z) of three rising lists, in the table's frame.
struct TablePoints {
  std::vector<double> x_m, y_m, z_m;
};

/// Returns the table of the public evaluation: a metre square, 125 x 125 points in each of six
/// layers down to 5 cm below z = 0.
TablePoints PublicTable();

/// One frame of a scene. Poses are single precision, as the public evaluation stores them: that
/// decides about contacts on flat faces.
struct FrameInput {
  std::vector<const ObjectModel*> objects;  ///< in the order of the scene's list
  std::vector<Eigen::Matrix4f> X_CO;        ///< one for each object
  TablePoints table;                        ///< of no points where there is none
  Matrix4d X_CT = Matrix4d::Identity();     ///< the table in the camera's frame
  std::span<const Grasp> grasps;
};

/// Rules of the public evaluation.
inline constexpr double kMaxWidth_m = 0.1;   ///< wider grasps are clipped
inline constexpr int kGraspsPerObject = 10;  ///< are evaluated at most
inline constexpr int kRanks = 50;            ///< of a frame count
inline constexpr int kMinPointsInside = 10;  ///< between the fingers; with fewer a grasp is empty

struct FrameOptions {
  /// kCompat: the public evaluation's numbers. kStrict: grasps that differ by the gripper's half
  /// turn count as one in the suppression, and contacts are those of the signed distance.
  ContactRule rule = ContactRule::kCompat;
  /// Whether grasps that collide are taken out before the best of each object are chosen: what a
  /// perfect collision filter behind the detector would give.
  bool remove_colliding = false;
};

/// How many points lie where the gripper is, in its frame G, and between its fingers.
struct PointCounts {
  int left_finger = 0;  ///< the one at y < 0
  int right_finger = 0;
  int palm = 0;
  int inside = 0;

  bool is_empty() const { return inside < kMinPointsInside; }
  bool collides() const { return is_empty() || left_finger + right_finger + palm > 0; }
};

/// The point of the objects' clouds that is nearest to a grasp.
struct Assignment {
  int object = 0;         ///< position in the scene's list
  std::size_t point = 0;  ///< in the clouds joined in the list's order
  double distance_m = 0;
};

/// A grasp that was chosen for evaluation.
struct EvaluatedGrasp {
  std::size_t row = 0;  ///< in the input
  int object = 0;       ///< position in the scene's list
  PointCounts counts;
  /// Of grasps that are not empty:
  ClosingLine line;
  FingerContacts contacts;
  std::optional<std::array<double, 2>> angles_rad;
  double closure_score = kNoClosure;  ///< the smallest friction that holds, collisions left aside
  /// The same, or kNoClosure for a grasp that collides.
  double score = kNoClosure;
};

/// accuracy[k][m]: of the best k + 1 grasps, how many hold with friction kFrictions[m], as a share
/// of k + 1 (also where there are fewer grasps).
using Accuracy = std::array<std::array<double, kFrictions.size()>, kRanks>;

struct FrameResult {
  std::vector<std::size_t> kept_rows;     ///< by the suppression, by falling score
  std::vector<Assignment> assignments;    ///< of each kept row; none where no object has points
  std::vector<EvaluatedGrasp> evaluated;  ///< by object, within one by falling score
  std::vector<EvaluatedGrasp> beyond;     ///< chosen, but beyond the last rank; likewise
  std::vector<std::size_t> order;         ///< of `evaluated`, by falling score
  Accuracy accuracy = {};
};

/// Returns the precision at each of the ranks 1 to `accuracy.size()` of grasps with the closure
/// `scores`, best grasp first: the share of the first k that hold with a friction. Divided by k
/// also where there are fewer grasps.
void Precision(std::span<const double> scores,
               std::span<std::array<double, kFrictions.size()>> accuracy);

/// The mean precision of one or more frames.
struct AveragePrecision {
  std::array<double, kFrictions.size()> of_friction = {};  ///< mean over ranks and frames

  /// GraspNet-1Billion's AP: the mean over the six frictions.
  double ap() const;
  double ap_08() const { return of_friction[3]; }
  double ap_04() const { return of_friction[1]; }
};

/// Returns the mean over the accuracies' ranks, and over the frames; 0 of no frames.
AveragePrecision MeanPrecision(std::span<const Accuracy> accuracies);

/// Returns the inverse of a pose: computed in double, rounded to float32.
Eigen::Matrix4f InversePose(const Eigen::Matrix4f& X_AB);

/// Returns the table in a camera's frame from the pose of camera 0 in the table's frame, and that
/// of the camera in camera 0's: X_CT = (X_TC0 X_C0C)⁻¹.
Matrix4d TableInCamera(const Matrix4d& X_TC0, const Matrix4d& X_C0C);

/// Returns how many of `points` (in the camera's frame) the gripper at `grasp` meets: |z| < 1 cm;
/// fingers x in (-2 cm, depth), w/2 < |y| < w/2 + 1 cm; palm x in (-3, -2) cm, |y| < w/2 + 1 cm;
/// inside x in (-2 cm, depth), |y| <= w/2.
PointCounts CountPoints(const Grasp& grasp, std::span<const Vector3d> points_C);

/// Evaluates the grasps of one frame, under any options.
///
/// Widths are clipped; of grasps within 3 cm and 30 degrees the best is kept; each goes to the
/// object of its nearest point; the best 10 of each object are chosen, and of these the ones that
/// score no less than the 50th. They may collide with all clouds and the table within 5 cm of the
/// object's box; force closure is that of the object's distances.
///
/// Of equal scores the lower row counts as better; where several share the 50th score all of them
/// are evaluated, and the ranks beyond 50 do not count. No grasps give an accuracy of 0.
class FrameEvaluator {
 public:
  /// Keeps the reference: the input must outlive it.
  /// @pre `X_CO` has as many poses as there are objects; grasps are finite
  explicit FrameEvaluator(const FrameInput& input);
  FrameEvaluator(const FrameEvaluator&) = delete;
  FrameEvaluator& operator=(const FrameEvaluator&) = delete;

  FrameResult Evaluate(const FrameOptions& options = {});

 private:
  std::span<const Vector3d> PointsOf(int object) const;
  int ObjectOf(std::size_t point) const;
  /// Returns what a grasp of an object may collide with.
  const std::vector<Vector3d>& CropOf(int object);
  /// Chooses what is evaluated of the kept grasps.
  void Choose(const FrameOptions& options, FrameResult& result);
  void ScoreGrasp(ContactRule rule, EvaluatedGrasp& evaluated);
  /// Moves what scores less than the grasp at the last rank to `beyond`.
  void CutAtLastRank(FrameResult& result) const;
  void Rank(FrameResult& result) const;

  const FrameInput& input_;
  GraspGroup grasps_;                           ///< with clipped widths
  std::vector<Vector3d> points_C_;              ///< of the objects' clouds, one behind the other
  std::vector<std::size_t> first_point_;        ///< of each object, and the end
  KdTree tree_;                                 ///< of points_C_
  std::vector<std::vector<Vector3d>> crops_C_;  ///< of each object; built when first needed
};

/// Evaluates one frame once; see FrameEvaluator.
FrameResult EvaluateFrame(const FrameInput& input, const FrameOptions& options = {});

}  // namespace palmist::grasp
