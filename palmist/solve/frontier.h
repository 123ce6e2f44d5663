/// Points of which none is better than another in every way.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace palmist::solve {

/// A set of N-dimensional points, smaller being better, without dominated ones. Each carries a tag.
/// A point equal to one already there is not kept, so the first of equals stays.
///
/// Points lie in blocks of up to `kBlock` neighbours with their bounding box; a block whose box
/// rules it out is not looked into. The idea is that of the ND-tree (Jaszkiewicz and Lust,
/// "ND-Tree- Based Update: A Fast Algorithm for the Dynamic Nondominance Problem", 2018), with one
/// level.
template <std::size_t N, typename Tag>
class ParetoFrontier {
 public:
  using Cost = std::array<double, N>;
  struct Point {
    Cost cost;
    Tag tag;
  };

  /// Adds a point unless one that is there is at least as good in all; drops those it dominates.
  /// Returns whether it was kept. Complexity: O(points) at worst; mostly O(points / kBlock) and a
  /// few blocks.
  /// @pre no coordinate is NaN
  bool Insert(const Cost& cost, Tag tag) {
    if (IsDominated(cost)) return false;
    EraseDominatedBy(cost);
    Block& block = NearestBlock(cost);
    block.Add(cost, {count_++, std::move(tag)});
    ++size_;
    if (block.costs.size() > kBlock) Split(block);
    return true;
  }

  std::size_t size() const { return size_; }

  /// Returns the points in the order in which they came. Complexity: O(points log points).
  std::vector<Point> points() const {
    std::vector<std::pair<std::uint64_t, Point>> ordered;
    ordered.reserve(size());
    for (const Block& block : blocks_) {
      for (std::size_t i = 0; i < block.costs.size(); ++i) {
        ordered.push_back({block.items[i].order, {block.costs[i], block.items[i].tag}});
      }
    }
    std::sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) {
      return a.first < b.first;
    });
    std::vector<Point> points;
    points.reserve(ordered.size());
    for (auto& [order, point] : ordered) points.push_back(std::move(point));
    return points;
  }

 private:
  static constexpr std::size_t kBlock = 64;

  struct Item {
    std::uint64_t order;
    Tag tag;
  };

  struct Block {
    Cost low, high;  // corners of the box
    std::vector<Cost> costs;
    std::vector<Item> items;

    Block() { ResetBox(); }
    void ResetBox() {
      low.fill(std::numeric_limits<double>::infinity());
      high.fill(-std::numeric_limits<double>::infinity());
    }
    void Widen(const Cost& cost) {
      for (std::size_t i = 0; i < N; ++i) {
        low[i] = std::min(low[i], cost[i]);
        high[i] = std::max(high[i], cost[i]);
      }
    }
    void Add(const Cost& cost, Item item) {
      Widen(cost);
      costs.push_back(cost);
      items.push_back(std::move(item));
    }
    void Erase(std::size_t i) {
      if (i + 1 < costs.size()) {
        costs[i] = costs.back();
        items[i] = std::move(items.back());
      }
      costs.pop_back();
      items.pop_back();
    }
  };

  static bool Dominates(const Cost& a, const Cost& b) {
    for (std::size_t i = 0; i < N; ++i) {
      if (a[i] > b[i]) return false;
    }
    return true;
  }

  /// Points that turn others away move to the front, and so do their blocks: they do so often.
  bool IsDominated(const Cost& cost) {
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      Block& block = blocks_[b];
      if (!Dominates(block.low, cost)) continue;
      for (std::size_t i = 0; i < block.costs.size(); ++i) {
        if (!Dominates(block.costs[i], cost)) continue;
        std::swap(block.costs[i], block.costs[i / 2]);
        std::swap(block.items[i], block.items[i / 2]);
        std::swap(block, blocks_[b / 2]);
        return true;
      }
    }
    return false;
  }

  void EraseDominatedBy(const Cost& cost) {
    for (std::size_t b = 0; b < blocks_.size();) {
      Block& block = blocks_[b];
      if (Dominates(cost, block.high)) {
        const std::size_t before = block.costs.size();
        for (std::size_t i = 0; i < block.costs.size();) {
          if (Dominates(cost, block.costs[i])) {
            block.Erase(i);
          } else {
            ++i;
          }
        }
        size_ -= before - block.costs.size();
        if (block.costs.empty()) {
          if (b + 1 < blocks_.size()) block = std::move(blocks_.back());
          blocks_.pop_back();
          continue;
        }
        if (block.costs.size() < before) {
          block.ResetBox();
          for (const Cost& kept : block.costs) block.Widen(kept);
        }
      }
      ++b;
    }
  }

  /// Returns the block whose box grows least.
  Block& NearestBlock(const Cost& cost) {
    if (blocks_.empty()) return blocks_.emplace_back();
    std::size_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      double growth = 0;
      for (std::size_t i = 0; i < N; ++i) {
        growth += std::max(0.0, blocks_[b].low[i] - cost[i]) +
                  std::max(0.0, cost[i] - blocks_[b].high[i]);
      }
      if (growth < least) {
        least = growth;
        best = b;
      }
    }
    return blocks_[best];
  }

  /// Halves a block along its longest side.
  void Split(Block& block) {
    std::size_t axis = 0;
    for (std::size_t i = 1; i < N; ++i) {
      if (block.high[i] - block.low[i] > block.high[axis] - block.low[axis]) axis = i;
    }
    std::vector<std::size_t> order(block.costs.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    const auto middle = order.begin() + static_cast<std::ptrdiff_t>(order.size() / 2);
    std::nth_element(order.begin(), middle, order.end(), [&](std::size_t a, std::size_t b) {
      return block.costs[a][axis] < block.costs[b][axis];
    });
    Block low, high;
    for (auto at = order.begin(); at != order.end(); ++at) {
      (at < middle ? low : high).Add(block.costs[*at], std::move(block.items[*at]));
    }
    block = std::move(low);
    blocks_.push_back(std::move(high));
  }

  std::vector<Block> blocks_;
  std::size_t size_ = 0;
  std::uint64_t count_ = 0;  // of points that were ever kept
};

}  // namespace palmist::solve
