#include "palmist/solve/frontier.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

#include "palmist/base/rng.h"

namespace palmist::solve {
namespace {

// Before main, where RapidCheck reads it.
[[maybe_unused]] const int kFixedSeed = setenv("RC_PARAMS", "seed=20261201", 1);

/// What a frontier must do, as plainly as possible.
template <std::size_t N>
class NaiveFrontier {
 public:
  using Point = typename ParetoFrontier<N, int>::Point;
  bool Insert(const std::array<double, N>& cost, int tag) {
    for (const Point& point : points) {
      if (NoWorse(point.cost, cost)) return false;
    }
    std::erase_if(points, [&](const Point& point) { return NoWorse(cost, point.cost); });
    points.push_back({cost, tag});
    return true;
  }
  static bool NoWorse(const std::array<double, N>& a, const std::array<double, N>& b) {
    for (std::size_t i = 0; i < N; ++i) {
      if (!(a[i] <= b[i])) return false;
    }
    return true;
  }
  std::vector<Point> points;
};

/// Inserts random points, on a grid of `levels` steps a side so that many tie, into both.
template <std::size_t N>
void ExpectSame(std::uint64_t seed, int count, int levels, bool antichain) {
  Rng rng(seed, N);
  ParetoFrontier<N, int> frontier;
  NaiveFrontier<N> naive;
  for (int tag = 0; tag < count; ++tag) {
    std::array<double, N> cost;
    double sum = 0;
    for (double& c : cost) sum += c = static_cast<double>(rng.Integer(levels)) / levels;
    // Near a plane on which no point beats another, so that thousands stay.
    if (antichain) cost[0] = static_cast<double>(N) - sum + 0.1 * rng.Uniform();
    ASSERT_EQ(frontier.Insert(cost, tag), naive.Insert(cost, tag)) << "point " << tag;
  }
  const auto points = frontier.points();
  ASSERT_EQ(points.size(), naive.points.size());
  ASSERT_EQ(frontier.size(), naive.points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    ASSERT_EQ(points[i].tag, naive.points[i].tag);
    ASSERT_EQ(points[i].cost, naive.points[i].cost);
  }
}

RC_GTEST_PROP(ParetoFrontierTest, EqualsTheNaiveFilter, ()) {
  const auto seed = *rc::gen::inRange<std::uint64_t>(0, 1000000);
  const auto count = *rc::gen::inRange(0, 400);
  const auto levels = *rc::gen::element(2, 5, 30, 1000000);
  const auto antichain = *rc::gen::arbitrary<bool>();
  ExpectSame<1>(seed, count, levels, antichain);
  ExpectSame<2>(seed, count, levels, antichain);
  ExpectSame<4>(seed, count, levels, antichain);
  ExpectSame<7>(seed, count, levels, antichain);
}

TEST(ParetoFrontierTest, EqualsTheNaiveFilterOfThousands) {
  ExpectSame<3>(1, 4000, 1000000, true);
  ExpectSame<7>(2, 4000, 1000000, false);
  ExpectSame<4>(3, 4000, 12, true);
}

TEST(ParetoFrontierTest, TheFirstOfEqualsStays) {
  ParetoFrontier<2, int> frontier;
  EXPECT_TRUE(frontier.Insert({1, 2}, 0));
  EXPECT_FALSE(frontier.Insert({1, 2}, 1));
  EXPECT_TRUE(frontier.Insert({2, 1}, 2));
  EXPECT_TRUE(frontier.Insert({1, 1}, 3));
  EXPECT_FALSE(frontier.Insert({1, 1}, 4));
  const auto points = frontier.points();
  ASSERT_EQ(points.size(), 1U);
  EXPECT_EQ(points[0].tag, 3);
}

// A better point than all of several blocks leaves nothing of them.
TEST(ParetoFrontierTest, OnePointMayDropWholeBlocks) {
  ParetoFrontier<2, int> frontier;
  for (int i = 0; i < 1000; ++i) frontier.Insert({1.0 + i, 1000.0 - i}, i);
  EXPECT_EQ(frontier.size(), 1000U);
  EXPECT_TRUE(frontier.Insert({0, 500}, 1000));
  EXPECT_EQ(frontier.size(), 500U);
  EXPECT_TRUE(frontier.Insert({0, 0}, 1001));
  EXPECT_EQ(frontier.size(), 1U);
  EXPECT_FALSE(frontier.Insert({3, 3}, 1002));
}

}  // namespace
}  // namespace palmist::solve
