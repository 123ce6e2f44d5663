#include "palmist/grasp/core/nms.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <numeric>
#include <unordered_map>

#include "palmist/grasp/core/cell.h"

namespace palmist::grasp {
namespace {

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
    const Cell cell = CellOf(grasp.p_CG, edge_m);
    const auto keys = KeysAround(cell);
    const bool is_suppressed = std::any_of(keys.begin(), keys.end(), [&](std::uint64_t key) {
      const auto near = kept_by_cell.find(key);
      return near != kept_by_cell.end() &&
             std::any_of(near->second.begin(), near->second.end(), suppresses);
    });
    if (is_suppressed) continue;
    kept_by_cell[CellKey(cell)].push_back(row);
    kept.push_back(row);
  }
  return kept;
}

}  // namespace palmist::grasp
