#include "palmist/grasp/eval/evaluate.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "palmist/base/error.h"
#include "palmist/grasp/core/gripper.h"
#include "palmist/grasp/core/nms.h"

namespace palmist::grasp {
namespace {

constexpr double kCropMargin_m = 0.05;

std::vector<double> Linspace(double first, double last, int n) {
  std::vector<double> values(n);
  const double step = (last - first) / (n - 1);
  for (int i = 0; i < n; ++i) values[i] = i * step + first;
  values.back() = last;
  return values;
}

std::vector<Vector3d> PlaceObjects(const FrameInput& input) {
  PALMIST_ASSERT(input.X_CO.size() == input.objects.size());
  std::vector<Vector3d> points_C;
  for (std::size_t i = 0; i < input.objects.size(); ++i) {
    const Matrix4d X_CO = input.X_CO[i].cast<double>();
    const Matrix3d R_CO = X_CO.topLeftCorner<3, 3>();
    const Vector3d p_CO = X_CO.topRightCorner<3, 1>();
    for (const Vector3d& p_O : input.objects[i]->cloud_O) points_C.push_back(R_CO * p_O + p_CO);
  }
  return points_C;
}

bool IsInside(const Vector3d& p, const Eigen::AlignedBox3d& box) {
  return (p.array() > box.min().array()).all() && (p.array() < box.max().array()).all();
}

/// Adds the points of the table that lie within `box_C`. Visits only the part of the table that
/// the box can reach.
void AddTable(const TablePoints& table,
              const Matrix4d& X_CT,
              const Eigen::AlignedBox3d& box_C,
              std::vector<Vector3d>& points_C) {
  Eigen::AlignedBox3d box_T;
  const Matrix4d X_TC = X_CT.inverse();
  for (int corner = 0; corner < 8; ++corner) {
    const Vector3d p_C = box_C.corner(static_cast<Eigen::AlignedBox3d::CornerType>(corner));
    box_T.extend((X_TC * p_C.homogeneous()).head<3>());
  }
  // More than any rounding, so that the box in the camera's frame alone decides.
  constexpr double kMargin_m = 1e-6;
  const auto range = [&](const std::vector<double>& values, int axis) {
    const auto begin =
        std::lower_bound(values.begin(), values.end(), box_T.min()[axis] - kMargin_m);
    return std::span(begin, std::upper_bound(begin, values.end(), box_T.max()[axis] + kMargin_m));
  };
  const auto xs = range(table.x_m, 0), ys = range(table.y_m, 1), zs = range(table.z_m, 2);
  const Matrix3d R_CT = X_CT.topLeftCorner<3, 3>();
  const Vector3d p_CT = X_CT.topRightCorner<3, 1>();
  for (const double y : ys) {
    for (const double x : xs) {
      for (const double z : zs) {
        const Vector3d p_C = R_CT * Vector3d(x, y, z) + p_CT;
        if (IsInside(p_C, box_C)) points_C.push_back(p_C);
      }
    }
  }
}

/// Returns the line that the fingers close along, in the object's frame.
ClosingLine LineOfGrasp(const Grasp& grasp, const Eigen::Matrix4f& X_CO) {
  const Vector3d center_C = grasp.p_CG + grasp.R_CG * Vector3d(grasp.depth_m, 0, 0);
  // The axis uses the transpose, not the inverse: their last bits decide about contacts.
  const Matrix4d X_OC = InversePose(X_CO).cast<double>();
  const Matrix3d R_OC = X_CO.topLeftCorner<3, 3>().transpose().cast<double>();
  return {(X_OC * center_C.homogeneous()).head<3>(),
          (R_OC * grasp.opening()).normalized(),
          grasp.width_m};
}

}  // namespace

TablePoints PublicTable() {
  return {Linspace(-0.5, 0.5, 125), Linspace(-0.5, 0.5, 125), Linspace(-0.05, 0, 6)};
}

double AveragePrecision::ap() const {
  return std::accumulate(of_friction.begin(), of_friction.end(), 0.0) / of_friction.size();
}

AveragePrecision MeanPrecision(std::span<const Accuracy> accuracies) {
  AveragePrecision mean;
  for (const Accuracy& accuracy : accuracies) {
    for (const auto& rank : accuracy) {
      for (std::size_t m = 0; m < rank.size(); ++m) {
        mean.of_friction[m] += rank[m] / (kRanks * static_cast<double>(accuracies.size()));
      }
    }
  }
  return mean;
}

Eigen::Matrix4f InversePose(const Eigen::Matrix4f& X_AB) {
  return X_AB.cast<double>().inverse().cast<float>();
}

Matrix4d TableInCamera(const Matrix4d& X_TC0, const Matrix4d& X_C0C) {
  return (X_TC0 * X_C0C).inverse();
}

void Precision(std::span<const double> scores,
               std::span<std::array<double, kFrictions.size()>> accuracy) {
  std::array<int, kFrictions.size()> holding = {};
  for (std::size_t k = 0; k < accuracy.size(); ++k) {
    for (std::size_t m = 0; m < kFrictions.size(); ++m) {
      if (k < scores.size() && scores[k] > 0 && scores[k] <= kFrictions[m]) ++holding[m];
      accuracy[k][m] = holding[m] / static_cast<double>(k + 1);
    }
  }
}

PointCounts CountPoints(const Grasp& grasp, std::span<const Vector3d> points_C) {
  const Matrix3d R_GC = grasp.R_CG.transpose();
  const double half_width_m = grasp.width_m / 2;
  const double outer_m = half_width_m + kFingerThickness_m;
  PointCounts counts;
  for (const Vector3d& p_C : points_C) {
    const Vector3d p_G = R_GC * (p_C - grasp.p_CG);
    const double x = p_G.x(), y = p_G.y();
    if (!(std::abs(p_G.z()) < kHalfHeight_m) || !(std::abs(y) < outer_m)) continue;
    if (x > -kFingersBehind_m && x < grasp.depth_m) {
      if (y < -half_width_m) {
        ++counts.left_finger;
      } else if (y > half_width_m) {
        ++counts.right_finger;
      } else {
        ++counts.inside;
      }
    } else if (x > -kFingersBehind_m - kPalmDepth_m && x < -kFingersBehind_m) {
      ++counts.palm;
    }
  }
  return counts;
}

FrameEvaluator::FrameEvaluator(const FrameInput& input)
    : input_(input),
      grasps_(input.grasps.begin(), input.grasps.end()),
      points_C_(PlaceObjects(input)),
      first_point_(1, 0),
      tree_(points_C_),
      crops_C_(input.objects.size()) {
  for (Grasp& grasp : grasps_) grasp.width_m = std::clamp(grasp.width_m, 0.0, kMaxWidth_m);
  for (const ObjectModel* object : input.objects) {
    first_point_.push_back(first_point_.back() + object->cloud_O.size());
  }
}

std::span<const Vector3d> FrameEvaluator::PointsOf(int object) const {
  return std::span(points_C_).subspan(first_point_[object],
                                      first_point_[object + 1] - first_point_[object]);
}

int FrameEvaluator::ObjectOf(std::size_t point) const {
  const auto next = std::upper_bound(first_point_.begin(), first_point_.end(), point);
  return static_cast<int>(next - first_point_.begin()) - 1;
}

const std::vector<Vector3d>& FrameEvaluator::CropOf(int object) {
  std::vector<Vector3d>& crop_C = crops_C_[object];
  // An object with a grasp has points, all of them within its crop.
  if (!crop_C.empty()) return crop_C;
  Eigen::AlignedBox3d box_C;
  for (const Vector3d& p_C : PointsOf(object)) box_C.extend(p_C);
  box_C.min().array() -= kCropMargin_m;
  box_C.max().array() += kCropMargin_m;
  for (const Vector3d& p_C : points_C_) {
    if (IsInside(p_C, box_C)) crop_C.push_back(p_C);
  }
  AddTable(input_.table, input_.X_CT, box_C, crop_C);
  return crop_C;
}

FrameResult FrameEvaluator::Evaluate(const FrameOptions& options) {
  NmsOptions nms;
  nms.is_symmetric = options.rule == ContactRule::kStrict;
  FrameResult result;
  result.kept_rows = NonMaximumSuppression(grasps_, nms);
  if (points_C_.empty()) return result;
  for (const std::size_t row : result.kept_rows) {
    const KdTree::Neighbor nearest = *tree_.Nearest(grasps_[row].p_CG);
    result.assignments.push_back({ObjectOf(nearest.index), nearest.index, nearest.distance_m});
  }
  Choose(options, result);
  for (EvaluatedGrasp& evaluated : result.evaluated) ScoreGrasp(options.rule, evaluated);
  for (EvaluatedGrasp& evaluated : result.beyond) ScoreGrasp(options.rule, evaluated);
  Rank(result);
  return result;
}

void FrameEvaluator::Choose(const FrameOptions& options, FrameResult& result) {
  std::vector<std::vector<EvaluatedGrasp>> chosen(input_.objects.size());
  for (std::size_t i = 0; i < result.kept_rows.size(); ++i) {
    EvaluatedGrasp grasp;
    grasp.row = result.kept_rows[i];
    grasp.object = result.assignments[i].object;
    std::vector<EvaluatedGrasp>& of_object = chosen[grasp.object];
    if (of_object.size() == kGraspsPerObject) continue;
    grasp.counts = CountPoints(grasps_[grasp.row], CropOf(grasp.object));
    if (options.remove_colliding && grasp.counts.collides()) continue;
    of_object.push_back(grasp);
  }
  for (const auto& of_object : chosen) {
    result.evaluated.insert(result.evaluated.end(), of_object.begin(), of_object.end());
  }
  CutAtLastRank(result);
}

void FrameEvaluator::CutAtLastRank(FrameResult& result) const {
  std::vector<EvaluatedGrasp>& evaluated = result.evaluated;
  if (evaluated.size() <= kRanks) return;
  const auto score = [this](const EvaluatedGrasp& grasp) { return grasps_[grasp.row].score; };
  std::vector<double> scores;
  for (const EvaluatedGrasp& grasp : evaluated) scores.push_back(score(grasp));
  const auto last = scores.begin() + (kRanks - 1);
  std::nth_element(scores.begin(), last, scores.end(), std::greater<>());
  const auto cut =
      std::stable_partition(evaluated.begin(), evaluated.end(), [&](const EvaluatedGrasp& grasp) {
        return !(score(grasp) < *last);
      });
  result.beyond.assign(cut, evaluated.end());
  evaluated.erase(cut, evaluated.end());
}

void FrameEvaluator::ScoreGrasp(ContactRule rule, EvaluatedGrasp& evaluated) {
  if (evaluated.counts.is_empty()) return;
  evaluated.line = LineOfGrasp(grasps_[evaluated.row], input_.X_CO[evaluated.object]);
  const DistanceLookup object(input_.objects[evaluated.object]->grid);
  evaluated.contacts = FindContacts(object, evaluated.line, rule);
  evaluated.angles_rad = ContactAngles(evaluated.contacts, rule);
  if (evaluated.angles_rad) evaluated.closure_score = SmallestFriction(*evaluated.angles_rad);
  if (!evaluated.counts.collides()) evaluated.score = evaluated.closure_score;
}

void FrameEvaluator::Rank(FrameResult& result) const {
  result.order.resize(result.evaluated.size());
  std::iota(result.order.begin(), result.order.end(), 0);
  const auto key = [&](std::size_t i) {
    const std::size_t row = result.evaluated[i].row;
    return std::pair(-grasps_[row].score, row);
  };
  std::sort(result.order.begin(), result.order.end(), [&](std::size_t a, std::size_t b) {
    return key(a) < key(b);
  });
  std::vector<double> scores;
  for (const std::size_t i : result.order) scores.push_back(result.evaluated[i].score);
  Precision(scores, result.accuracy);
}

FrameResult EvaluateFrame(const FrameInput& input, const FrameOptions& options) {
  return FrameEvaluator(input).Evaluate(options);
}

}  // namespace palmist::grasp
