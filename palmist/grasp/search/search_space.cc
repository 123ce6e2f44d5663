#include "palmist/grasp/search/search_space.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "palmist/base/error.h"

namespace palmist::grasp {
namespace {

constexpr double kBorderTolerance = 1e-6;
constexpr double kMaxCells = 1e6;
constexpr double kMaxSteps = 1e4;

int FloorCells(double cells) { return static_cast<int>(std::floor(cells + kBorderTolerance)); }
int CeilCells(double cells) { return static_cast<int>(std::ceil(cells - kBorderTolerance)); }

void Require(bool holds, const char* field, const char* expected) {
  if (!holds) throw UsageError(field, std::string("expected ") + expected);
}

void CheckOptions(const FasOptions& options) {
  Require(options.cell_m > 0 && std::isfinite(options.cell_m), "cell_m", "a positive length");
  Require(std::isfinite(options.depth_m) && std::abs(options.depth_m) <= 1,
          "depth_m",
          "a length of at most 1 m");
  Require(options.min_width_m > 0 && options.min_width_m <= options.max_width_m &&
              options.max_width_m <= 1,
          "max_width_m",
          "0 < min_width_m <= max_width_m <= 1");
  Require(options.min_distance_m >= -1 && options.min_distance_m <= options.max_distance_m &&
              options.max_distance_m <= 1,
          "max_distance_m",
          "-1 <= min_distance_m <= max_distance_m <= 1");
  Require(options.width_step_m > 0 && std::isfinite(options.width_step_m),
          "width_step_m",
          "a positive length");
  Require(options.distance_step_m > 0 && std::isfinite(options.distance_step_m),
          "distance_step_m",
          "a positive length");
  Require(std::isfinite(options.table_clearance_m), "table_clearance_m", "a length");
  Require(options.collision_points >= 1, "collision_points", "at least 1 point");
  Require(options.min_inner_points >= 1, "min_inner_points", "at least 1 point");
  Require(options.min_inner_share >= 0 && options.min_inner_share <= 1,
          "min_inner_share",
          "a share between 0 and 1");
}

/// Returns from, from + step, ... to `to`, with a tolerance for the last.
std::vector<double> Steps(double from, double to, double step, const char* field) {
  const double last = std::floor((to - from) / step + kBorderTolerance);
  Require(last < kMaxSteps, field, "a larger step: at most 10000 values");
  std::vector<double> values;
  for (int i = 0; i <= static_cast<int>(last); ++i) values.push_back(from + i * step);
  return values;
}

}  // namespace

SearchSpace MakeSearchSpace(const Gripper& gripper, const FasOptions& options) {
  CheckOptions(options);
  SearchSpace space;
  space.cell_m = options.cell_m;
  space.half_height_m = gripper.height_m / 2;

  std::vector<double> widths =
      Steps(options.min_width_m, options.max_width_m, options.width_step_m, "width_step_m");
  std::erase_if(widths, [&](double width) {
    const double tolerance = kBorderTolerance * options.cell_m;
    return width < gripper.min_opening_m - tolerance || width > gripper.max_opening_m + tolerance;
  });
  std::vector<double> distances = Steps(
      options.min_distance_m, options.max_distance_m, options.distance_step_m, "distance_step_m");
  std::reverse(distances.begin(), distances.end());
  if (widths.empty()) return space;
  Require(static_cast<double>(widths.size()) * static_cast<double>(distances.size()) <= kMaxSteps,
          "width_step_m",
          "larger steps: at most 10000 pairs of width and distance");

  const double cell = options.cell_m;
  const double thickness = gripper.finger_thickness_m;
  const double behind = gripper.finger_length_m + gripper.palm_depth_m + gripper.sweep_m;
  const double first_x = (distances.back() + options.depth_m - behind) / cell;
  const double last_x = (distances.front() + options.depth_m) / cell;
  const double half_y = (widths.back() / 2 + thickness) / cell;
  Require((last_x - first_x + 2) * (2 * half_y + 2) <= kMaxCells,
          "cell_m",
          "a larger cell: the grid would have more than a million");
  space.origin_x = -FloorCells(first_x);
  space.origin_y = CeilCells(half_y);
  space.cells_x = CeilCells(last_x) + space.origin_x;
  space.cells_y = 2 * space.origin_y;
  space.widths = static_cast<int>(widths.size());
  space.distances = static_cast<int>(distances.size());

  for (const double distance : distances) {
    const double tips = distance + options.depth_m;
    for (const double width : widths) {
      const int inner = FloorCells(width / 2 / cell);
      const int outer = CeilCells((width / 2 + thickness) / cell);
      const double inner_voxels =
          width * gripper.finger_length_m * gripper.height_m / (cell * cell * cell);
      space.settings.push_back(
          {.width_m = width,
           .distance_m = distance,
           .cells = {.back = FloorCells((tips - behind) / cell) + space.origin_x,
                     .base = FloorCells((tips - gripper.finger_length_m) / cell) + space.origin_x,
                     .tips = CeilCells(tips / cell) + space.origin_x,
                     .outer_low = space.origin_y - outer,
                     .inner_low = space.origin_y - inner,
                     .inner_high = space.origin_y + inner,
                     .outer_high = space.origin_y + outer},
           .min_inner_points =
               std::max(options.min_inner_points,
                        static_cast<int>(std::ceil(options.min_inner_share * inner_voxels)))});
    }
  }
  return space;
}

GripperFrame::GripperFrame(const Candidate& candidate, const SearchSpace& space)
    : origin_x(static_cast<float>(space.origin_x)), origin_y(static_cast<float>(space.origin_y)) {
  for (int i = 0; i < 3; ++i) {
    p[i] = static_cast<float>(candidate.p_CG[i]);
    x[i] = static_cast<float>(candidate.R_CG(i, 0) / space.cell_m);
    y[i] = static_cast<float>(candidate.R_CG(i, 1) / space.cell_m);
    z[i] = static_cast<float>(candidate.R_CG(i, 2));
  }
}

}  // namespace palmist::grasp
