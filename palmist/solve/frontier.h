/// Points of which none is better than another in every way.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace palmist::solve {

/// A set of N-dimensional points, smaller being better, without dominated ones. Each carries a tag.
/// A point equal to one already there is not kept, so the first of equals stays.
template <std::size_t N, typename Tag>
class ParetoFrontier {
 public:
  struct Point {
    std::array<double, N> cost;
    Tag tag;
  };

  /// Adds a point unless one that is there is at least as good in all; drops those it dominates.
  /// Returns whether it was kept. Complexity: O(points).
  bool Insert(const std::array<double, N>& cost, Tag tag) {
    for (const Point& point : points_) {
      if (Dominates(point.cost, cost)) return false;
    }
    std::erase_if(points_, [&](const Point& point) { return Dominates(cost, point.cost); });
    points_.push_back({cost, std::move(tag)});
    return true;
  }

  const std::vector<Point>& points() const { return points_; }

 private:
  static bool Dominates(const std::array<double, N>& a, const std::array<double, N>& b) {
    for (std::size_t i = 0; i < N; ++i) {
      if (a[i] > b[i]) return false;
    }
    return true;
  }

  std::vector<Point> points_;
};

}  // namespace palmist::solve
