/// The search for width and distance on a rendered 1280x720 frame, against the dense method.
///
/// Limit: a candidate's slab, 2 cm thick, holds a few hundred of the scene's 20 000 voxels. Each is
/// rotated (27 operations) and counted (one increment); the grid has some 1500 cells, summed once.
/// At a few operations a cycle this is about 5 microseconds; the dense method tests 600 candidates
/// x 50 settings x 20 000 points, 6e8 tests of 4 boxes.
///
/// `voxels` are the points of the scene, `fits` the candidates that found a width; `times_grid` of
/// the dense method is its time as a multiple of the grid's on one thread, in the same run. `Real`
/// is a Kinect's cloud of a milk carton and two bottles, where the folder PALMIST_SHARED_DATA or
/// ../shared/data beside the checkout has it.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <optional>
#include <vector>

#include "palmist/base/rng.h"
#include "palmist/grasp/core/analytic_scene.h"
#include "palmist/grasp/core/anchors.h"
#include "palmist/grasp/core/point_cloud.h"
#include "palmist/grasp/formats/pcd.h"
#include "palmist/grasp/search/dense.h"
#include "palmist/grasp/search/detect.h"

namespace palmist::grasp {
namespace {

constexpr int kCandidates = 600;

const Intrinsics kRealSense{927.17, 927.37, 651.32, 349.62, 1280, 720};

struct Frame {
  std::vector<Vector3d> points;
  std::vector<Candidate> candidates;
  FasOptions options;
};

/// The voxels of a cloud, and candidates of random anchors, each at a point of its own above the
/// table.
Frame FrameOf(const PointCloud& cloud, const std::optional<Plane>& table) {
  Frame frame;
  frame.points = VoxelDownsample(cloud, 0.005).points;
  frame.options.table = table;
  std::vector<Vector3d> on_objects;
  for (const Vector3d& point : frame.points) {
    if (!table || table->SignedDistance(point) > 0.01) on_objects.push_back(point);
  }
  Rng rng(0);
  for (int i = 0; i < kCandidates; ++i) {
    frame.candidates.push_back({AnchorRotations()[rng.Integer(kAnchors)],
                                on_objects[rng.Integer(std::ssize(on_objects))],
                                rng.Uniform()});
  }
  return frame;
}

const Isometry3d kX_WC = LookAt({0, -0.35, 0.6}, {0, -0.02, 0});

/// Twelve solids on a table of 0.6 m.
const DepthImage& RenderedDepth() {
  static const DepthImage depth = [] {
    AnalyticScene scene;
    scene.table_half_m = 0.3;
    for (int i = 0; i < 12; ++i) {
      const double x = -0.24 + 0.16 * (i % 4), y = -0.16 + 0.16 * (i / 4);
      const double height = 0.05 + 0.01 * i;
      scene.solids.push_back(i % 3 == 0 ? Standing(ShapeKind::kBox, {0.05, 0.1, height}, x, y, i)
                             : i % 3 == 1
                                 ? Standing(ShapeKind::kCylinder, {0.06, 0.06, height}, x, y)
                                 : Standing(ShapeKind::kSphere, {0.07, 0.07, 0.07}, x, y));
    }
    return Render(scene, kRealSense, kX_WC).depth;
  }();
  return depth;
}

const Frame& RenderedFrame() {
  static const Frame frame =
      FrameOf(CloudFromDepth(RenderedDepth(), kRealSense), TablePlaneInCamera(kX_WC));
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

/// Both the scene's preparation and the search.
void MeasureGrid(benchmark::State& state, const Frame& frame, int threads) {
  ThreadPool pool(threads);
  std::vector<std::optional<FasFit>> fits;
  for (auto _ : state) {
    fits = SearchWidthAndDistance(
        FasScene(frame.points), frame.candidates, PublicGripper(), frame.options, pool);
    benchmark::DoNotOptimize(fits.data());
  }
  state.counters["voxels"] = static_cast<double>(frame.points.size());
  state.counters["fits"] = CountFits(fits);
}

void Grid(benchmark::State& state) {
  MeasureGrid(state, RenderedFrame(), static_cast<int>(state.range(0)));
}
BENCHMARK(Grid)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);

void Real(benchmark::State& state) {
  const std::filesystem::path checkout = PALMIST_SOURCE_DIR;
  const char* shared = std::getenv("PALMIST_SHARED_DATA");
  const std::filesystem::path data =
      shared != nullptr ? std::filesystem::path(shared) : checkout.parent_path() / "shared/data";
  const auto real = ReadPcd(data / "frames/milk_cartoon_all_small_clorox.pcd");
  if (!real.ok()) {
    state.SkipWithError(real.error().what());
    return;
  }
  const Frame frame = FrameOf(real->cloud, FitPlane(real->cloud.points));
  MeasureGrid(state, frame, static_cast<int>(state.range(0)));
}
BENCHMARK(Real)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);

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
  ThreadPool pool(static_cast<int>(state.range(0)));
  Detection detection;
  for (auto _ : state) {
    detection = DetectWithOrientations(RenderedDepth(), kRealSense, {}, pool).value();
  }
  for (const StageTime& time : detection.times) state.counters[time.stage] = 1e3 * time.time_s;
  state.counters["grasps"] = static_cast<double>(detection.grasps.size());
  state.counters["candidate_count"] = static_cast<double>(detection.candidates);
}
BENCHMARK(Detect)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace palmist::grasp
