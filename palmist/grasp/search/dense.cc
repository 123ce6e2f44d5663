#include "palmist/grasp/search/dense.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace palmist::grasp {
namespace {

struct GridPoint {
  float x, y, height;
  bool is_hidden;
};

struct Counts {
  int inner = 0, touched = 0;
};

bool IsInside(const GridPoint& point, int x0, int x1, float y, int y0, int y1) {
  return point.x >= static_cast<float>(x0) && point.x < static_cast<float>(x1) &&
         y >= static_cast<float>(y0) && y < static_cast<float>(y1);
}

Counts Count(const std::vector<GridPoint>& points,
             const GripperCells& c,
             float half_height,
             float shift) {
  Counts counts;
  for (const GridPoint& point : points) {
    if (!(std::abs(point.height) < half_height)) continue;
    const float y = point.y - shift;
    counts.inner +=
        !point.is_hidden && IsInside(point, c.base, c.tips, y, c.inner_low, c.inner_high);
    counts.touched += IsInside(point, c.base, c.tips, y, c.outer_low, c.inner_low) ||
                      IsInside(point, c.base, c.tips, y, c.inner_high, c.outer_high) ||
                      IsInside(point, c.back, c.base, y, c.outer_low, c.outer_high);
  }
  return counts;
}

/// Whether all eight corners of gripper and sweep are above the table.
bool ClearsTable(const Grasp& grasp, const Gripper& gripper, const FasOptions& options) {
  if (!options.table) return true;
  constexpr double kRounding_m = 1e-9;
  const double back =
      grasp.depth_m - gripper.finger_length_m - gripper.palm_depth_m - gripper.sweep_m;
  const double y = grasp.width_m / 2 + gripper.finger_thickness_m;
  const double z = gripper.height_m / 2;
  for (int corner = 0; corner < 8; ++corner) {
    const Vector3d corner_G(
        corner & 1 ? grasp.depth_m : back, corner & 2 ? y : -y, corner & 4 ? z : -z);
    const Vector3d corner_C = grasp.p_CG + grasp.R_CG * corner_G;
    if (options.table->SignedDistance(corner_C) < options.table_clearance_m - kRounding_m) {
      return false;
    }
  }
  return true;
}

/// Returns the first setting of [begin, end) that fits, after a test of all of them.
std::optional<FasFit> FirstFit(const std::vector<GridPoint>& points,
                               const Candidate& candidate,
                               const Gripper& gripper,
                               const FasOptions& options,
                               const SearchSpace& space,
                               std::size_t begin,
                               std::size_t end,
                               float shift) {
  std::optional<FasFit> best;
  for (std::size_t i = begin; i < end; ++i) {
    const Setting& setting = space.settings[i];
    const Counts counts =
        Count(points, setting.cells, static_cast<float>(space.half_height_m), shift);
    const FasFit fit =
        internal::MakeFit(candidate, gripper, options, setting, shift * space.cell_m, counts.inner);
    if (!best && counts.inner >= setting.min_inner_points &&
        counts.touched < options.collision_points && ClearsTable(fit.grasp, gripper, options)) {
      best = fit;
    }
  }
  return best;
}

float OffsetOfMiddle(const std::vector<GridPoint>& points,
                     const GripperCells& c,
                     const SearchSpace& space) {
  float low = static_cast<float>(c.inner_high);
  float high = static_cast<float>(c.inner_low);
  for (const GridPoint& point : points) {
    if (!point.is_hidden && std::abs(point.height) < static_cast<float>(space.half_height_m) &&
        IsInside(point, c.base, c.tips, point.y, c.inner_low, c.inner_high)) {
      low = std::min(low, point.y);
      high = std::max(high, point.y);
    }
  }
  return 0.5f * (low + high) - static_cast<float>(space.origin_y);
}

}  // namespace

std::vector<std::optional<FasFit>> SearchWidthAndDistanceDensely(
    std::span<const Vector3d> points,
    std::span<const Candidate> candidates,
    const Gripper& gripper,
    const FasOptions& options,
    std::span<const Vector3d> hidden) {
  const SearchSpace space = MakeSearchSpace(gripper, options);
  std::vector<std::optional<FasFit>> fits(candidates.size());
  if (space.settings.empty()) return fits;
  std::vector<GridPoint> grid_points;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const GripperFrame frame(candidates[i], space);
    grid_points.clear();
    const auto place = [&](const Vector3d& point, bool is_hidden) {
      const float dx = static_cast<float>(point.x()) - frame.p[0];
      const float dy = static_cast<float>(point.y()) - frame.p[1];
      const float dz = static_cast<float>(point.z()) - frame.p[2];
      grid_points.push_back(
          {frame.GridX(dx, dy, dz), frame.GridY(dx, dy, dz), frame.Height(dx, dy, dz), is_hidden});
    };
    for (const Vector3d& point : points) place(point, false);
    for (const Vector3d& point : hidden) place(point, true);
    fits[i] =
        FirstFit(grid_points, candidates[i], gripper, options, space, 0, space.settings.size(), 0);
    if (!fits[i] || !options.is_centered) continue;
    std::size_t first = 0;
    while (space.settings[first].distance_m != fits[i]->distance_m) ++first;
    std::size_t chosen = first;
    while (space.settings[chosen].width_m != fits[i]->grasp.width_m) ++chosen;
    const float shift = OffsetOfMiddle(grid_points, space.settings[chosen].cells, space);
    const std::optional<FasFit> centered = FirstFit(
        grid_points, candidates[i], gripper, options, space, first, first + space.widths, shift);
    if (centered) fits[i] = centered;
  }
  return fits;
}

}  // namespace palmist::grasp
