#include "palmist/grasp/label/gripper_cells.h"

#include <algorithm>

namespace palmist::grasp {
namespace {

constexpr double kRow_m = 0.01;
constexpr double kColumn_m = kWidthStep_m / 2;
constexpr int kColumns = 64;
constexpr int kFingerColumns = 4;
static_assert(kRow_m == kDepthStep_m && kRow_m == kPalmDepth_m && 2 * kRow_m == kFingersBehind_m);
static_assert(kFingerColumns * kColumn_m == kFingerThickness_m);
// The columns hold all that is within the gripper's reach, with one to spare.
static_assert((kMostWidth_m / 2 + kFingerThickness_m) * (kMostWidth_m / 2 + kFingerThickness_m) +
                  kHalfHeight_m * kHalfHeight_m <
              (kColumns / 2 - 1) * kColumn_m * (kColumns / 2 - 1) * kColumn_m);

/// Returns the columns [from, to), counted from the middle.
std::uint64_t Columns(int from, int to) {
  const auto below = [](int column) { return (std::uint64_t{1} << (kColumns / 2 + column)) - 1; };
  return below(to) & ~below(from);
}

}  // namespace

std::uint64_t FingerColumns(int width_steps) {
  const int outer = width_steps + kFingerColumns;
  return Columns(-outer, -width_steps) | Columns(width_steps, outer);
}

std::uint64_t PalmColumns(int width_steps) {
  const int outer = width_steps + kFingerColumns;
  return Columns(-outer, outer);
}

void GripperCells::Points::Clear() {
  x.clear();
  y.clear();
  z.clear();
}

void GripperCells::Points::Add(float px, float py, float pz) {
  x.push_back(px);
  y.push_back(py);
  z.push_back(pz);
}

GripperCells::GripperCells(std::span<const Vector3d> cloud_O, int depths, double max_width_m)
    : highest_m_(depths * kDepthStep_m),
      reach_m_(std::hypot(max_width_m / 2 + kFingerThickness_m, kHalfHeight_m)) {
  for (const Vector3d& p : cloud_O) {
    const Eigen::Vector3f rounded = p.cast<float>();
    cloud_O_.Add(rounded.x(), rounded.y(), rounded.z());
  }
}

void GripperCells::MoveTo(const Vector3d& p_O) {
  const double ahead_m = std::max(kFingersBehind_m + kPalmDepth_m, highest_m_);
  const auto limit = static_cast<float>(ahead_m * ahead_m + reach_m_ * reach_m_);
  const Eigen::Vector3f p = p_O.cast<float>();
  near_O_.Clear();
  for (std::size_t i = 0; i < cloud_O_.size(); ++i) {
    const float x = cloud_O_.x[i] - p.x();
    const float y = cloud_O_.y[i] - p.y();
    const float z = cloud_O_.z[i] - p.z();
    if (x * x + y * y + z * z < limit) near_O_.Add(x, y, z);
  }
}

void GripperCells::Face(const Matrix3d& R_OV) {
  const Eigen::Matrix3f R = R_OV.transpose().cast<float>();
  const auto reach = static_cast<float>(reach_m_ * reach_m_);
  const auto lowest = static_cast<float>(-kFingersBehind_m - kPalmDepth_m);
  const auto highest = static_cast<float>(highest_m_);
  y_V_.resize(near_O_.size());
  z_V_.resize(near_O_.size());
  row_.resize(near_O_.size());
  count_ = 0;
  for (std::size_t i = 0; i < near_O_.size(); ++i) {
    const float x = near_O_.x[i], y = near_O_.y[i], z = near_O_.z[i];
    const float along = R(0, 0) * x + R(0, 1) * y + R(0, 2) * z;
    const float across = R(1, 0) * x + R(1, 1) * y + R(1, 2) * z;
    const float up = R(2, 0) * x + R(2, 1) * y + R(2, 2) * z;
    const bool is_within =
        (along > lowest) & (along < highest) & (across * across + up * up < reach);
    if (!is_within) continue;
    y_V_[count_] = across;
    z_V_[count_] = up;
    // Not negative, so that the conversion is the floor.
    row_[count_] = static_cast<std::uint8_t>((along - lowest) / static_cast<float>(kRow_m));
    ++count_;
  }
}

GripperRows GripperCells::Fill(double angle_rad) const {
  const auto cosine = static_cast<float>(std::cos(angle_rad));
  const auto sine = static_cast<float>(std::sin(angle_rad));
  GripperRows rows = {};
  for (std::size_t i = 0; i < count_; ++i) {
    const float z = cosine * z_V_[i] - sine * y_V_[i];
    if (std::abs(z) >= static_cast<float>(kHalfHeight_m)) continue;
    const float y = cosine * y_V_[i] + sine * z_V_[i];
    const int column = static_cast<int>(y / static_cast<float>(kColumn_m) + kColumns / 2);
    rows[row_[i]] |= std::uint64_t{1} << column;
  }
  return rows;
}

}  // namespace palmist::grasp
