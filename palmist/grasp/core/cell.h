/// Cells of a grid of cubes, as keys of hash maps.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "palmist/grasp/core/pose.h"

namespace palmist::grasp {

using Cell = std::array<std::int64_t, 3>;

/// Returns the cell of a point. What is more than 2^19 cells out shares the outermost ones.
inline Cell CellOf(const Vector3d& p_m, double edge_m) {
  constexpr double kLimit = 1 << 19;
  Cell cell;
  for (int axis = 0; axis < 3; ++axis) {
    cell[axis] =
        static_cast<std::int64_t>(std::clamp(std::floor(p_m[axis] / edge_m), -kLimit, kLimit));
  }
  return cell;
}

/// A hash of three numbers, for cells of any size.
struct CellHash {
  std::size_t operator()(const Cell& cell) const {
    std::uint64_t hash = 0;
    for (const std::int64_t i : cell) {
      hash = (hash ^ static_cast<std::uint64_t>(i)) * 0x9E3779B97F4A7C15ULL;
    }
    return hash ^ hash >> 32;
  }
};

/// Returns a number of its own for each cell, and for the cells around it.
inline std::uint64_t CellKey(const Cell& cell) {
  constexpr std::int64_t kOffset = 1 << 20;
  std::uint64_t key = 0;
  for (const std::int64_t i : cell) key = key << 21 | static_cast<std::uint64_t>(i + kOffset);
  return key;
}

/// Returns the keys of a cell and the 26 around it.
inline std::array<std::uint64_t, 27> KeysAround(const Cell& cell) {
  std::array<std::uint64_t, 27> keys;
  for (int n = 0; n < 27; ++n) {
    keys[n] = CellKey({cell[0] + n / 9 - 1, cell[1] + n / 3 % 3 - 1, cell[2] + n % 3 - 1});
  }
  return keys;
}

}  // namespace palmist::grasp
