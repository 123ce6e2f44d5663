/// The search for width and distance on a rendered 1280x720 frame, against the dense method.
///
/// Limit: a candidate's slab, 2 cm thick, holds a few hundred of the scene's 20 000 voxels. Each is
/// rotated (27 operations) and counted (one increment); the grid has some 1500 cells, summed once.
/// At a few operations a cycle this is about 5 microseconds; the dense method tests 600 candidates x
/// 50 settings x 20 000 points, 6e8 tests of 4 boxes.
///
/// `voxels` are the points of the scene, `fits` the candidates that found a width; `times_grid` of
/// the dense method is its time as a multiple of the grid's on one thread, in the same run.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <vector>

#include "palmist/base/rng.h"
#include "palmist/grasp/core/anchors.h"
#include "palmist/grasp/core/point_cloud.h"
#include "palmist/grasp/search/dense.h"
#include "palmist/grasp/search/detect.h"
#include "palmist/grasp/search/test/scene_renderer.h"

namespace palmist::grasp {
namespace {

constexpr int kCandidates = 600;

const Intrinsics kRealSense{927.17, 927.37, 651.32, 349.62, 1280, 720};

struct Frame {
  DepthImage depth;
  std::vector<Vector3d> points;
  std::vector<Candidate> candidates;
  FasOptions options;
};

/// Twelve solids on a table of 0.84 m, seen from 0.7 m; each candidate at a point of its own.
const Frame& RenderedFrame() {
  static const Frame frame = [] {
    using testing::ShapeKind;
    testing::Scene scene;
    scene.table_half_m = 0.42;
    for (int i = 0; i < 12; ++i) {
      const double x = -0.27 + 0.18 * (i % 4), y = -0.18 + 0.18 * (i / 4);
      switch (i % 3) {
        case 0:
          scene.solids.push_back(
              testing::Standing(ShapeKind::kBox, {0.05, 0.12, 0.05 + 0.01 * i}, x, y, 0.7 * i));
          break;
        case 1:
          scene.solids.push_back(
              testing::Standing(ShapeKind::kCylinder, {0.06, 0, 0.06 + 0.01 * i}, x, y));
          break;
        default:
          scene.solids.push_back(testing::Standing(ShapeKind::kSphere, {0.07, 0, 0}, x, y));
      }
    }
    const Isometry3d X_WC = testing::LookAt({0, -0.35, 0.6}, {0, -0.02, 0});
    Frame made;
    made.depth = testing::Render(scene, kRealSense, X_WC).depth;
    made.points = VoxelDownsample(CloudFromDepth(made.depth, kRealSense), 0.005).points;
    made.options.table = testing::TableInCamera(X_WC);
    std::vector<Vector3d> on_objects;
    for (const Vector3d& point : made.points) {
      if (made.options.table->SignedDistance(point) > 0.01) on_objects.push_back(point);
    }
    Rng rng(0);
    for (int i = 0; i < kCandidates; ++i) {
      made.candidates.push_back({AnchorRotations()[rng.Integer(kAnchors)],
                                 on_objects[rng.Integer(std::ssize(on_objects))],
                                 rng.Uniform()});
    }
    return made;
  }();
  return frame;
}

Gripper PublicGripper() {
  Gripper gripper;
  gripper.finger_thickness_m = 0.015;
  gripper.palm_depth_m = 0.015;
  return gripper;
}

double CountFits(const std::vector<std::optional<FasFit>>& fits) {
  return static_cast<double>(
      std::ranges::count_if(fits, [](const auto& fit) { return fit.has_value(); }));
}

/// Both the scene's preparation and the search, on state.range(0) threads.
void Grid(benchmark::State& state) {
  const Frame& frame = RenderedFrame();
  ThreadPool pool(static_cast<int>(state.range(0)));
  std::vector<std::optional<FasFit>> fits;
  for (auto _ : state) {
    fits = SearchWidthAndDistance(
        FasScene(frame.points), frame.candidates, PublicGripper(), frame.options, pool);
    benchmark::DoNotOptimize(fits.data());
  }
  state.counters["voxels"] = static_cast<double>(frame.points.size());
  state.counters["fits"] = CountFits(fits);
}
BENCHMARK(Grid)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);

void Dense(benchmark::State& state) {
  const Frame& frame = RenderedFrame();
  ThreadPool pool(1);
  double grid_s = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 10; ++i) {
    const auto start = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(SearchWidthAndDistance(
        FasScene(frame.points), frame.candidates, PublicGripper(), frame.options, pool));
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    grid_s = std::min(grid_s, time.count());
  }
  double dense_s = 0;
  std::vector<std::optional<FasFit>> fits;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    fits = SearchWidthAndDistanceDensely(
        frame.points, frame.candidates, PublicGripper(), frame.options);
    dense_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  state.counters["fits"] = CountFits(fits);
  state.counters["times_grid"] = dense_s / grid_s;
}
BENCHMARK(Dense)->Iterations(1)->UseRealTime()->Unit(benchmark::kMillisecond);

/// The whole of detection from shape alone; the counters are the stages' milliseconds.
void Detect(benchmark::State& state) {
  const Frame& frame = RenderedFrame();
  ThreadPool pool(static_cast<int>(state.range(0)));
  Detection detection;
  for (auto _ : state) {
    detection = DetectWithOrientations(frame.depth, kRealSense, {}, pool).value();
  }
  for (const StageTime& time : detection.times) state.counters[time.stage] = 1e3 * time.time_s;
  state.counters["grasps"] = static_cast<double>(detection.grasps.size());
  state.counters["candidate_count"] = static_cast<double>(detection.candidates);
}
BENCHMARK(Detect)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace palmist::grasp
