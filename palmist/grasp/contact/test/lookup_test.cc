#include "palmist/grasp/contact/lookup.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "palmist/base/rng.h"
#include "palmist/grasp/contact/test/shapes.h"

namespace palmist::grasp {
namespace {

/// Distances that are linear in the place: what interpolation and differences give back exactly.
SignedDistanceGrid LinearGrid(const Vector3d& slope) {
  return GridOf([&](const Vector3d& p_O) { return slope.dot(p_O); }, {9, 6, 12}, 0.25);
}

TEST(LookupTest, LinearDistancesComeBackBetweenNodes) {
  const Vector3d slope(0.5, -0.25, 1);
  const SignedDistanceGrid grid = LinearGrid(slope);
  const DistanceLookup lookup(grid);
  Rng rng(1);
  for (int i = 0; i < 200; ++i) {
    const Vector3d cells(8 * rng.Uniform(), 5 * rng.Uniform(), 11 * rng.Uniform());
    EXPECT_NEAR(lookup.Distance(cells), slope.dot(lookup.ToModel(cells)), 1e-6);
    EXPECT_LT((lookup.Gradient(cells) - slope).norm(), 1e-5);
  }
}

TEST(LookupTest, CellsAndModelAreInverse) {
  const SignedDistanceGrid grid = LinearGrid(Vector3d::UnitX());
  const DistanceLookup lookup(grid);
  EXPECT_LT(lookup.ToCells(grid.origin_m).norm(), 1e-12);
  const Vector3d p_O(0.1, 0.2, -0.3);
  EXPECT_LT((lookup.ToModel(lookup.ToCells(p_O)) - p_O).norm(), 1e-12);
}

TEST(LookupTest, OffTheGridTheDistanceToItIsAdded) {
  const SignedDistanceGrid grid = LinearGrid(Vector3d::UnitX());
  const DistanceLookup lookup(grid);
  const double on_border_m = lookup.Distance(Vector3d(8, 2, 3));
  // The cell behind the last node belongs to the grid.
  EXPECT_EQ(lookup.Distance(Vector3d(8.7, 2, 3)), on_border_m);
  EXPECT_NEAR(lookup.Distance(Vector3d(12, 2, 3)), on_border_m + 3 * 0.25, 1e-12);
  EXPECT_NEAR(
      lookup.Distance(Vector3d(-3, -4, 3)), lookup.Distance(Vector3d(0, 0, 3)) + 5 * 0.25, 1e-12);
}

TEST(LookupTest, NoPlaceReadsBesideTheGrid) {
  const SignedDistanceGrid grid = LinearGrid(Vector3d::UnitX());
  const DistanceLookup lookup(grid);
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double x : {infinity, -infinity, 1e300, -1e300}) {
    EXPECT_GT(lookup.Distance(Vector3d(x, 1, 1)), 1e9) << x;
  }
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(lookup.Gradient(Vector3d(nan, nan, nan)).allFinite());
}

TEST(LookupTest, AGridOfOneNodeHasNoGradient) {
  const SignedDistanceGrid grid = {{1, 1, 1}, Vector3d::Zero(), 0.1, {0.5f}};
  const DistanceLookup lookup(grid);
  EXPECT_EQ(lookup.Distance(Vector3d(0.5, 0.5, 0.5)), 0.5);
  EXPECT_EQ(lookup.Gradient(Vector3d::Zero()), Vector3d::Zero());
}

TEST(LookupTest, RoundsToFloat) {
  const Vector3d rounded = RoundToFloat(Vector3d(0.1, 1.0 / 3, -2));
  EXPECT_EQ(rounded, Vector3d(0.1f, 1.0f / 3, -2));
  EXPECT_NE(rounded.x(), 0.1);
}

TEST(LookupTest, WrongGridsAreNamed) {
  SignedDistanceGrid grid = LinearGrid(Vector3d::UnitX());
  EXPECT_TRUE(CheckGrid(grid, "a.sdf").ok());
  grid.values_m.pop_back();
  EXPECT_NE(std::string(CheckGrid(grid, "a.sdf").error().what()).find("a.sdf: 647 values for"),
            std::string::npos);
  EXPECT_THROW(DistanceLookup{grid}, Error);
  grid = LinearGrid(Vector3d::UnitX());
  for (const double resolution_m : {0.0, -0.1, 3.0, std::nan("")}) {
    grid.resolution_m = resolution_m;
    EXPECT_FALSE(CheckGrid(grid, "a.sdf").ok()) << resolution_m;
  }
  grid.dims = {-9, -6, 12};
  EXPECT_FALSE(CheckGrid(grid, "a.sdf").ok());
}

}  // namespace
}  // namespace palmist::grasp
