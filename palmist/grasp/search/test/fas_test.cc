#include "palmist/grasp/search/fas.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <numbers>
#include <vector>

#include "palmist/base/error.h"
#include "palmist/base/rng.h"
#include "palmist/grasp/core/analytic_scene.h"
#include "palmist/grasp/core/anchors.h"
#include "palmist/grasp/search/dense.h"

namespace palmist::grasp {
namespace {

[[maybe_unused]] const int kFixedSeed = setenv("RC_PARAMS", "seed=20260401", 1);

/// Fingers of three cells and a palm of three: the boxes of the public code.
Gripper ThreeCellGripper() {
  Gripper gripper;
  gripper.finger_thickness_m = 0.015;
  gripper.palm_depth_m = 0.015;
  return gripper;
}

/// Points in the middle of each cell of a box that has its middle at the origin.
std::vector<Vector3d> FilledBox(const Vector3d& size_m, double step_m = 0.005) {
  std::vector<Vector3d> points;
  const Vector3d half = size_m / 2;
  for (double x = -half.x() + step_m / 2; x < half.x(); x += step_m) {
    for (double y = -half.y() + step_m / 2; y < half.y(); y += step_m) {
      for (double z = -half.z() + step_m / 2; z < half.z(); z += step_m) {
        points.emplace_back(x, y, z);
      }
    }
  }
  return points;
}

std::vector<std::optional<FasFit>> Search(std::span<const Vector3d> points,
                                          std::span<const Candidate> candidates,
                                          const Gripper& gripper = {},
                                          const FasOptions& options = {},
                                          int threads = 1) {
  ThreadPool pool(threads);
  return SearchWidthAndDistance(FasScene(points), candidates, gripper, options, pool);
}

Matrix3d RandomRotation(Rng& rng) {
  Eigen::Quaterniond q(
      rng.Uniform() - 0.5, rng.Uniform() - 0.5, rng.Uniform() - 0.5, rng.Uniform() - 0.5);
  return q.normalized().toRotationMatrix();
}

void ExpectSame(const std::vector<std::optional<FasFit>>& a,
                const std::vector<std::optional<FasFit>>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].has_value(), b[i].has_value()) << i;
    if (!a[i]) continue;
    EXPECT_EQ(a[i]->distance_m, b[i]->distance_m) << i;
    EXPECT_EQ(a[i]->shift_m, b[i]->shift_m) << i;
    EXPECT_EQ(a[i]->inner_points, b[i]->inner_points) << i;
    EXPECT_EQ(a[i]->grasp.width_m, b[i]->grasp.width_m) << i;
    EXPECT_EQ(a[i]->grasp.score, b[i]->grasp.score) << i;
    EXPECT_EQ(a[i]->grasp.p_CG, b[i]->grasp.p_CG) << i;
  }
}

std::size_t CountFits(const std::vector<std::optional<FasFit>>& fits) {
  std::size_t count = 0;
  for (const auto& fit : fits) count += fit.has_value();
  return count;
}

TEST(SearchSpaceTest, HasTheCellsOfThePublicBoxes) {
  const SearchSpace space = MakeSearchSpace(ThreeCellGripper(), {});
  ASSERT_EQ(space.settings.size(), 50u);
  EXPECT_EQ(space.widths, 10);
  EXPECT_EQ(space.settings[0].distance_m, 0.02);
  EXPECT_EQ(space.settings[0].width_m, 0.01);
  // Width 0.1 at distance 0; four cells of height.
  const GripperCells& c = space.settings[29].cells;
  EXPECT_NEAR(space.settings[29].width_m, 0.1, 1e-15);
  EXPECT_NEAR(space.settings[29].distance_m, 0, 1e-15);
  const int fingers = 4 * (c.tips - c.base) * (c.inner_low - c.outer_low);
  const int inner = 4 * (c.tips - c.base) * (c.inner_high - c.inner_low);
  const int back = 4 * (c.base - c.back) * (c.outer_high - c.outer_low);
  EXPECT_EQ(fingers, 144);
  EXPECT_EQ(c.outer_high - c.inner_high, c.inner_low - c.outer_low);
  EXPECT_EQ(inner, 960);
  EXPECT_EQ(back, 312 + 1040);
}

TEST(SearchSpaceTest, RoundsOutwardWhatIsNoWholeNumberOfCells) {
  Gripper gripper;
  gripper.finger_length_m = 0.043;
  gripper.finger_thickness_m = 0.012;
  gripper.palm_depth_m = 0.011;
  gripper.sweep_m = 0.05;
  FasOptions options;
  options.min_width_m = options.max_width_m = 0.034;
  options.min_distance_m = options.max_distance_m = 0.003;
  const SearchSpace space = MakeSearchSpace(gripper, options);
  ASSERT_EQ(space.settings.size(), 1u);
  const GripperCells& c = space.settings[0].cells;
  EXPECT_EQ(c.tips - space.origin_x, 9);        // 0.043 / 0.005 = 8.6
  EXPECT_EQ(c.base - space.origin_x, 0);        // 0
  EXPECT_EQ(c.back - space.origin_x, -13);      // -0.061 / 0.005 = -12.2
  EXPECT_EQ(c.inner_high - space.origin_y, 3);  // 0.017 / 0.005 = 3.4
  EXPECT_EQ(c.outer_high - space.origin_y, 6);  // 0.029 / 0.005 = 5.8
  EXPECT_EQ(c.inner_low + c.inner_high, 2 * space.origin_y);
  EXPECT_EQ(c.outer_low + c.outer_high, 2 * space.origin_y);
  EXPECT_EQ(c.back, 0);
  EXPECT_EQ(c.tips, space.cells_x);
  EXPECT_EQ(c.outer_high, space.cells_y);
}

TEST(SearchSpaceTest, KeepsToTheGrippersOpening) {
  Gripper gripper;
  gripper.min_opening_m = 0.02;
  gripper.max_opening_m = 0.085;
  const SearchSpace space = MakeSearchSpace(gripper, {});
  EXPECT_EQ(space.widths, 7);
  EXPECT_NEAR(space.settings[0].width_m, 0.02, 1e-12);
  EXPECT_NEAR(space.settings[6].width_m, 0.08, 1e-12);
  gripper.min_opening_m = 0.2;
  gripper.max_opening_m = 0.3;
  EXPECT_TRUE(MakeSearchSpace(gripper, {}).settings.empty());
  const std::vector<Candidate> candidates(3);
  EXPECT_EQ(CountFits(Search(FilledBox({0.05, 0.05, 0.05}), candidates, gripper)), 0u);
}

TEST(SearchSpaceTest, RefusesBadOptionsByName) {
  const auto refuses = [](const char* field, auto change) {
    FasOptions options;
    change(options);
    try {
      MakeSearchSpace({}, options);
      ADD_FAILURE() << field << " was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_EQ(error.field(), field);
    }
  };
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  refuses("cell_m", [](FasOptions& o) { o.cell_m = 0; });
  refuses("cell_m", [](FasOptions& o) { o.cell_m = kNan; });
  refuses("cell_m", [](FasOptions& o) { o.cell_m = 1e-6; });
  refuses("depth_m", [](FasOptions& o) { o.depth_m = kNan; });
  refuses("width_step_m", [](FasOptions& o) { o.width_step_m = 0; });
  refuses("width_step_m", [](FasOptions& o) { o.width_step_m = 1e-12; });
  refuses("width_step_m",
          [](FasOptions& o) { o.width_step_m = std::numeric_limits<double>::infinity(); });
  refuses("table_clearance_m", [](FasOptions& o) { o.table_clearance_m = kNan; });
  refuses("distance_step_m", [](FasOptions& o) { o.distance_step_m = -1; });
  refuses("max_width_m", [](FasOptions& o) { o.min_width_m = 0.2; });
  refuses("max_distance_m", [](FasOptions& o) { o.max_distance_m = kNan; });
  refuses("collision_points", [](FasOptions& o) { o.collision_points = 0; });
  refuses("min_inner_points", [](FasOptions& o) { o.min_inner_points = 0; });
  refuses("min_inner_share", [](FasOptions& o) { o.min_inner_share = 2; });
}

TEST(FasTest, TakesTheLargestDistanceThenTheSmallestWidth) {
  // A bar of 3 cm across the opening whose near face is 2 cm ahead of the point: the tips may go to
  // any distance, and the palm at -0.02 + distance stays clear of it.
  std::vector<Vector3d> points = FilledBox({0.02, 0.03, 0.1});
  for (Vector3d& point : points) point.x() += 0.03;
  const auto fits = Search(points, std::vector<Candidate>(1));
  ASSERT_TRUE(fits[0]);
  EXPECT_NEAR(fits[0]->distance_m, 0.02, 1e-12);
  EXPECT_NEAR(fits[0]->grasp.width_m, 0.03, 1e-12);
  EXPECT_NEAR(fits[0]->grasp.p_CG.x(), 0.02, 1e-12);
  EXPECT_NEAR(fits[0]->shift_m, 0, 1e-6);
  EXPECT_EQ(fits[0]->grasp.depth_m, 0.04);
  EXPECT_EQ(fits[0]->grasp.height_m, 0.02);
}

TEST(FasTest, StopsWhereThePalmWouldTouch) {
  // The near face is 5 mm ahead of the point: palm at tips - 0.06 = distance - 0.02.
  std::vector<Vector3d> points = FilledBox({0.06, 0.03, 0.1});
  for (Vector3d& point : points) point.x() += 0.03 + 0.005;
  const auto fits = Search(points, std::vector<Candidate>(1));
  ASSERT_TRUE(fits[0]);
  EXPECT_NEAR(fits[0]->distance_m, 0.02, 1e-12);
  for (Vector3d& point : points) point.x() -= 0.01;  // near face at -5 mm
  const auto closer = Search(points, std::vector<Candidate>(1));
  ASSERT_TRUE(closer[0]);
  EXPECT_NEAR(closer[0]->distance_m, 0.01, 1e-12);
}

TEST(FasTest, CentresOnTheObjectAndNarrowsTheWidth) {
  std::vector<Vector3d> points = FilledBox({0.04, 0.02, 0.1});
  for (Vector3d& point : points) point += Vector3d(0.03, 0.0225, 0);  // y from 12.5 to 32.5 mm
  FasOptions options;
  const auto centered = Search(points, std::vector<Candidate>(1), {}, options);
  options.is_centered = false;
  const auto plain = Search(points, std::vector<Candidate>(1), {}, options);
  ASSERT_TRUE(centered[0]);
  ASSERT_TRUE(plain[0]);
  EXPECT_NEAR(plain[0]->grasp.width_m, 0.07, 1e-12);
  EXPECT_EQ(plain[0]->shift_m, 0);
  EXPECT_NEAR(centered[0]->shift_m, 0.0225, 1e-6);
  EXPECT_NEAR(centered[0]->grasp.p_CG.y(), 0.0225, 1e-6);
  EXPECT_NEAR(centered[0]->grasp.width_m, 0.02, 1e-12);
  EXPECT_EQ(centered[0]->distance_m, plain[0]->distance_m);
}

TEST(FasTest, StaysWhereCentringWouldCollide) {
  // The right finger is between a bar and a wall; about the bar's middle it would be in the wall.
  std::vector<Vector3d> points = FilledBox({0.04, 0.03, 0.1});
  for (Vector3d& point : points) point += Vector3d(0.03, 0.0175, 0);  // y from 2.5 to 32.5 mm
  for (double x = -0.01; x < 0.05; x += 0.0025) points.emplace_back(x, 0.0555, 0.001);
  FasOptions options;
  options.min_distance_m = options.max_distance_m = 0;
  options.min_width_m = options.max_width_m = 0.07;  // right finger from 35 to 45 mm
  const auto fit = Search(points, std::vector<Candidate>(1), {}, options)[0];
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->shift_m, 0);
  EXPECT_EQ(fit->grasp.p_CG, Vector3d::Zero());
  // Without the wall it is moved.
  points.resize(8 * 6 * 20);
  const auto moved = Search(points, std::vector<Candidate>(1), {}, options)[0];
  ASSERT_TRUE(moved);
  EXPECT_NEAR(moved->shift_m, 0.0175, 1e-6);
}

TEST(FasTest, CountsPointsAgainstTheThresholds) {
  std::vector<Vector3d> points = FilledBox({0.02, 0.02, 0.02});  // 64 points
  for (Vector3d& point : points) point.x() += 0.02;
  FasOptions options;
  options.min_width_m = options.max_width_m = 0.04;
  options.min_distance_m = options.max_distance_m = 0;
  const std::vector<Candidate> candidate(1);
  options.min_inner_points = 64;
  EXPECT_TRUE(Search(points, candidate, {}, options)[0]);
  options.min_inner_points = 65;
  EXPECT_FALSE(Search(points, candidate, {}, options)[0]);
  options.min_inner_points = 1;
  options.min_inner_share = 64.0 / (8 * 12 * 4);
  EXPECT_TRUE(Search(points, candidate, {}, options)[0]);
  options.min_inner_share += 0.01;
  EXPECT_FALSE(Search(points, candidate, {}, options)[0]);
  options.min_inner_share = 0;
  points.emplace_back(0.02, 0.0225, 0);  // one in a finger
  EXPECT_TRUE(Search(points, candidate, {}, options)[0]);
  points.emplace_back(-0.05, 0.0, 0);  // one in the sweep
  EXPECT_FALSE(Search(points, candidate, {}, options)[0]);
  options.collision_points = 3;
  EXPECT_TRUE(Search(points, candidate, {}, options)[0]);
}

TEST(FasTest, KeepsTheClearanceAboveTheTable) {
  std::vector<Vector3d> points = FilledBox({0.04, 0.03, 0.1});
  for (Vector3d& point : points) point.x() += 0.03;
  FasOptions options;
  options.table = Plane{-Vector3d::UnitX(), -0.055};  // at x = 0.055, its normal towards the hand
  options.table_clearance_m = 0.005;
  const auto fit = Search(points, std::vector<Candidate>(1), {}, options)[0];
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->distance_m, 0.01, 1e-12);  // tips at 0.05
  options.table_clearance_m = 0.006;
  EXPECT_NEAR(Search(points, std::vector<Candidate>(1), {}, options)[0]->distance_m, 0, 1e-12);
  options.table->offset_m = -0.01;
  EXPECT_FALSE(Search(points, std::vector<Candidate>(1), {}, options)[0]);
}

TEST(FasTest, ScoresByWidthAndDistance) {
  std::vector<Vector3d> points = FilledBox({0.02, 0.02, 0.1});
  for (Vector3d& point : points) point.x() += 0.03;
  Candidate candidate;
  candidate.score = 0.5;
  FasOptions options;
  options.width_cost_per_m = 2;
  options.distance_gain_per_m = 3;
  const auto fit = Search(points, {&candidate, 1}, {}, options)[0];
  ASSERT_TRUE(fit);
  EXPECT_DOUBLE_EQ(fit->grasp.score, 0.5 - 2 * fit->grasp.width_m + 3 * fit->distance_m);
}

TEST(FasTest, AnswersNoneForNothing) {
  const std::vector<Vector3d> none;
  EXPECT_EQ(CountFits(Search(none, std::vector<Candidate>(4))), 0u);
  EXPECT_TRUE(Search(FilledBox({0.1, 0.1, 0.1}), {}).empty());
}

TEST(FasTest, SurvivesNumbersThatAreNotFinite) {
  std::vector<Vector3d> points = FilledBox({0.02, 0.02, 0.1});
  for (Vector3d& point : points) point.x() += 0.03;
  const auto expected = Search(points, std::vector<Candidate>(1));
  points.emplace_back(std::numeric_limits<double>::quiet_NaN(), 0, 0);
  points.emplace_back(0, std::numeric_limits<double>::infinity(), 0);
  points.emplace_back(0, 0, -1e300);
  points.emplace_back(1e9, 1e9, 1e9);
  std::vector<Candidate> candidates(4);
  candidates[1].p_CG.x() = std::numeric_limits<double>::quiet_NaN();
  candidates[2].p_CG.x() = 1e300;
  candidates[3].R_CG(0, 0) = std::numeric_limits<double>::infinity();
  const auto fits = Search(points, candidates);
  ExpectSame({fits[0]}, expected);
  for (int i = 1; i < 4; ++i) EXPECT_FALSE(fits[i]) << i;
}

TEST(FasTest, EqualsTheDenseReferenceOnRandomClouds) {
  std::size_t fitted = 0, shifted = 0;
  const bool held = rc::check("grid equals dense", [&] {
    Rng rng(*rc::gen::arbitrary<std::uint32_t>());
    std::vector<Vector3d> points;
    for (int blob = 0; blob < 6; ++blob) {
      const Vector3d middle(rng.Uniform() * 0.2, rng.Uniform() * 0.2, 0.5 + rng.Uniform() * 0.1);
      const Vector3d size(
          0.01 + rng.Uniform() * 0.05, 0.01 + rng.Uniform() * 0.05, 0.01 + rng.Uniform() * 0.05);
      for (int i = 0; i < 40; ++i) {
        points.push_back(middle +
                         Vector3d(rng.Uniform() - 0.5, rng.Uniform() - 0.5, rng.Uniform() - 0.5)
                             .cwiseProduct(size));
      }
    }
    std::vector<Candidate> candidates(12);
    for (Candidate& candidate : candidates) {
      candidate.R_CG = RandomRotation(rng);
      candidate.p_CG =
          rng.Integer(3) == 0 ? candidates[0].p_CG : points[rng.Integer(std::ssize(points))];
      candidate.score = rng.Uniform();
    }
    Gripper gripper;
    gripper.finger_thickness_m = 0.005 + rng.Uniform() * 0.02;
    gripper.finger_length_m = 0.03 + rng.Uniform() * 0.04;
    gripper.height_m = 0.01 + rng.Uniform() * 0.02;
    FasOptions options;
    options.collision_points = 1 + static_cast<int>(rng.Integer(4));
    options.min_inner_points = 1 + static_cast<int>(rng.Integer(10));
    options.is_centered = rng.Integer(4) > 0;
    if (rng.Integer(2) == 0) {
      options.table = Plane{RandomRotation(rng).col(0), 0};
      options.table->offset_m = options.table->normal.dot(points[0]) - 0.05;
    }
    // Some of the points are behind others.
    const auto seen =
        static_cast<std::size_t>(rng.Integer(2) == 0 ? points.size() : points.size() / 2);
    const auto hidden = std::span(points).subspan(seen);
    const auto in_sight = std::span(points).first(seen);
    ThreadPool pool(1);
    const auto fits =
        SearchWidthAndDistance(FasScene(in_sight, hidden), candidates, gripper, options, pool);
    ExpectSame(fits, SearchWidthAndDistanceDensely(in_sight, candidates, gripper, options, hidden));
    fitted += CountFits(fits);
    for (const auto& fit : fits) shifted += fit && fit->shift_m != 0;
    RC_ASSERT(!::testing::Test::HasFailure());
  });
  EXPECT_TRUE(held);
  EXPECT_GT(fitted, 100u);
  EXPECT_GT(shifted, 30u);
}

/// The voxels of a rendered table with a box, a cylinder and a sphere, and candidates on them.
struct Frame {
  std::vector<Vector3d> points;
  std::vector<Candidate> candidates;
  Plane table;
};

Frame SceneWithCandidates(int candidates) {
  const AnalyticScene scene{{Standing(ShapeKind::kBox, {0.04, 0.12, 0.08}, -0.1, 0, 0.4),
                             Standing(ShapeKind::kCylinder, {0.05, 0, 0.12}, 0.05, 0.05),
                             Standing(ShapeKind::kSphere, {0.06, 0, 0}, 0.1, -0.1)}};
  const Intrinsics camera{231.8, 231.8, 160, 90, 320, 180};
  const Isometry3d X_WC = LookAt({0.1, -0.45, 0.5}, {0, 0, 0});
  const RenderedFrame image = Render(scene, camera, X_WC);
  Frame frame;
  frame.points = VoxelDownsample(CloudFromDepth(image.depth, camera), 0.005).points;
  frame.table = TablePlaneInCamera(X_WC);
  std::vector<Vector3d> on_objects;
  for (const Vector3d& point : frame.points) {
    if (frame.table.SignedDistance(point) > 0.01) on_objects.push_back(point);
  }
  Rng rng(7);
  for (int i = 0; i < candidates; ++i) {
    frame.candidates.push_back({AnchorRotations()[rng.Integer(kAnchors)],
                                on_objects[rng.Integer(std::ssize(on_objects))],
                                rng.Uniform()});
  }
  return frame;
}

TEST(FasTest, EqualsTheDenseReferenceOnARenderedScene) {
  const Frame frame = SceneWithCandidates(120);
  FasOptions options;
  options.table = frame.table;
  options.collision_points = 4;
  const auto fits = Search(frame.points, frame.candidates, ThreeCellGripper(), options);
  EXPECT_GT(CountFits(fits), 5u);
  ExpectSame(
      fits,
      SearchWidthAndDistanceDensely(frame.points, frame.candidates, ThreeCellGripper(), options));
}

TEST(FasTest, IsTheSameForAnyNumberOfThreads) {
  const Frame frame = SceneWithCandidates(301);
  const auto one = Search(frame.points, frame.candidates);
  EXPECT_GT(CountFits(one), 5u);
  for (const int threads : {2, 5}) {
    ExpectSame(one, Search(frame.points, frame.candidates, {}, {}, threads));
  }
}

TEST(FasTest, DoesNotDependOnTheOrderOfPoints) {
  Frame frame = SceneWithCandidates(200);
  const auto fits = Search(frame.points, frame.candidates);
  std::reverse(frame.points.begin(), frame.points.end());
  ExpectSame(fits, Search(frame.points, frame.candidates));
}

}  // namespace
}  // namespace palmist::grasp
