#include "palmist/grasp/core/nms.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <numeric>
#include <unordered_map>

namespace palmist::grasp {
namespace {

using Cell = std::array<std::int64_t, 3>;

Cell CellOf(const Vector3d& p_m, double edge_m) {
  // What is further out shares the outermost cells, which costs time and no grasp.
  constexpr double kLimit = 1 << 19;
  Cell cell;
  for (int axis = 0; axis < 3; ++axis) {
    cell[axis] =
        static_cast<std::int64_t>(std::clamp(std::floor(p_m[axis] / edge_m), -kLimit, kLimit));
  }
  return cell;
}

/// A number of its own for each cell, and for the cells around it.
std::uint64_t Key(std::int64_t x, std::int64_t y, std::int64_t z) {
  constexpr std::int64_t kOffset = 1 << 20;
  return static_cast<std::uint64_t>(x + kOffset) << 42 |
         static_cast<std::uint64_t>(y + kOffset) << 21 | static_cast<std::uint64_t>(z + kOffset);
}

/// Returns the trace of AᵀB, of the larger one where B may be turned about its approach.
double Trace(const Matrix3d& A, const Matrix3d& B, bool is_symmetric) {
  const double turn = A.col(1).dot(B.col(1)) + A.col(2).dot(B.col(2));
  return A.col(0).dot(B.col(0)) + (is_symmetric ? std::abs(turn) : turn);
}

}  // namespace

std::vector<std::size_t> NonMaximumSuppression(std::span<const Grasp> grasps,
                                               const NmsOptions& options) {
  std::vector<std::size_t> order(grasps.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return grasps[a].score > grasps[b].score;
  });
  if (!(options.distance_m > 0 && options.angle_rad > 0)) return order;

  // A rotation by θ has the trace 1 + 2 cos θ; beyond π every one is nearer.
  const double min_trace = options.angle_rad > std::numbers::pi
                               ? -std::numeric_limits<double>::infinity()
                               : 1 + 2 * std::cos(options.angle_rad);
  const double edge_m = options.distance_m * (1 + 1e-9);  // no neighbour is lost by rounding
  const double max_squared_m2 = options.distance_m * options.distance_m;
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> kept_by_cell;
  std::vector<std::size_t> kept;
  for (const std::size_t row : order) {
    const Grasp& grasp = grasps[row];
    const auto suppresses = [&](std::size_t other) {
      return (grasps[other].p_CG - grasp.p_CG).squaredNorm() < max_squared_m2 &&
             Trace(grasps[other].R_CG, grasp.R_CG, options.is_symmetric) > min_trace;
    };
    const auto [x, y, z] = CellOf(grasp.p_CG, edge_m);
    bool is_suppressed = false;
    for (int around = 0; around < 27 && !is_suppressed; ++around) {
      const auto cell =
          kept_by_cell.find(Key(x + around / 9 - 1, y + around / 3 % 3 - 1, z + around % 3 - 1));
      is_suppressed = cell != kept_by_cell.end() &&
                      std::any_of(cell->second.begin(), cell->second.end(), suppresses);
    }
    if (is_suppressed) continue;
    kept_by_cell[Key(x, y, z)].push_back(row);
    kept.push_back(row);
  }
  return kept;
}

}  // namespace palmist::grasp
