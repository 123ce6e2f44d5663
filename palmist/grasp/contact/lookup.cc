#include "palmist/grasp/contact/lookup.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

namespace palmist::grasp {

Vector3d RoundToFloat(const Vector3d& point) { return point.cast<float>().cast<double>(); }

Result<void> CheckGrid(const SignedDistanceGrid& grid, const std::string& what) {
  const auto& [nx, ny, nz] = grid.dims;
  if (nx < 1 || ny < 1 || nz < 1 ||
      static_cast<double>(grid.values_m.size()) != static_cast<double>(nx) * ny * nz) {
    return InputError(
        what, fmt::format("{} values for {} x {} x {} nodes", grid.values_m.size(), nx, ny, nz));
  }
  if (!(grid.resolution_m >= 1e-5 && grid.resolution_m <= 1)) {
    return InputError(what,
                      fmt::format("resolution of {} m, expected 1e-5 to 1", grid.resolution_m),
                      "a signed-distance grid is in metres");
  }
  return {};
}

struct DistanceLookup::Corners {
  int lower[3], upper[3];
  double share[3];  ///< of the upper node

  /// Returns the value at the place of what `at(x, y, z)` is at the nodes.
  template <typename At>
  auto Interpolate(const At& at) const {
    // By value: an expression of Eigen would outlive the vectors that it refers to.
    using Value = std::invoke_result_t<At, int, int, int>;
    const auto along_z = [&](int x, int y) -> Value {
      return at(x, y, lower[2]) * (1 - share[2]) + at(x, y, upper[2]) * share[2];
    };
    const auto along_y = [&](int x) -> Value {
      return along_z(x, lower[1]) * (1 - share[1]) + along_z(x, upper[1]) * share[1];
    };
    return Value(along_y(lower[0]) * (1 - share[0]) + along_y(upper[0]) * share[0]);
  }
};

DistanceLookup::DistanceLookup(const SignedDistanceGrid& grid) : grid_(&grid) {
  CheckGrid(grid, "grid").value();
  cells_per_m_ = 1 / grid.resolution_m;
  offset_cells_ = -cells_per_m_ * grid.origin_m;
  last_node_ = Vector3d(grid.dims[0] - 1, grid.dims[1] - 1, grid.dims[2] - 1);
  surface_threshold_m_ = grid.resolution_m * std::sqrt(2.0) / 2;
}

DistanceLookup::Corners DistanceLookup::CornersOf(const Vector3d& cells) const {
  Corners corners;
  for (int axis = 0; axis < 3; ++axis) {
    // In this order a NaN becomes 0.
    const double x = std::max(0.0, std::min(cells[axis], last_node_[axis]));
    corners.lower[axis] = static_cast<int>(x);
    corners.upper[axis] = std::min(corners.lower[axis] + 1, grid_->dims[axis] - 1);
    corners.share[axis] = x - corners.lower[axis];
  }
  return corners;
}

double DistanceLookup::Distance(const Vector3d& cells) const {
  const double on_grid_m = CornersOf(cells).Interpolate(
      [this](int x, int y, int z) { return static_cast<double>(grid_->at(x, y, z)); });
  const Eigen::Array3d beyond = (-cells.array()).max(cells.array() - last_node_.array() - 1).max(0);
  return on_grid_m + grid_->resolution_m * beyond.matrix().norm();
}

Vector3d DistanceLookup::NodeGradient(int x, int y, int z) const {
  const std::array<int, 3> node = {x, y, z};
  Vector3d gradient = Vector3d::Zero();
  for (int axis = 0; axis < 3; ++axis) {
    std::array<int, 3> before = node, after = node;
    before[axis] = std::max(node[axis] - 1, 0);
    after[axis] = std::min(node[axis] + 1, grid_->dims[axis] - 1);
    const int steps = after[axis] - before[axis];
    if (steps == 0) continue;
    gradient[axis] = (static_cast<double>(grid_->at(after[0], after[1], after[2])) -
                      grid_->at(before[0], before[1], before[2])) /
                     (steps * grid_->resolution_m);
  }
  return gradient;
}

Vector3d DistanceLookup::Gradient(const Vector3d& cells) const {
  return CornersOf(cells).Interpolate(
      [this](int x, int y, int z) { return NodeGradient(x, y, z); });
}

}  // namespace palmist::grasp
