#include <benchmark/benchmark.h>

#include <numbers>

#include "palmist/base/rng.h"
#include "palmist/grasp/core/anchors.h"
#include "palmist/grasp/core/camera.h"
#include "palmist/grasp/core/nms.h"
#include "palmist/grasp/core/point_cloud.h"

namespace palmist::grasp {
namespace {

Matrix3d RandomRotation(Rng& rng) {
  const double z = 1 - rng.Uniform();
  const double longitude = 2 * std::numbers::pi * rng.Uniform();
  const double radius = std::sqrt(1 - z * z);
  const Vector3d view(radius * std::cos(longitude), radius * std::sin(longitude), -z);
  return RotationFromView(view, 2 * std::numbers::pi * rng.Uniform());
}

/// A table 0.6 m away under a wave of objects, at 1280x720.
PointCloud Cloud() {
  const Intrinsics camera = LoadIntrinsics("realsense", 1280, 720).value();
  DepthImage depth{1280, 720, std::vector<float>(1280 * 720)};
  for (int v = 0; v < 720; ++v) {
    for (int u = 0; u < 1280; ++u) {
      depth.z_m[v * 1280 + u] =
          static_cast<float>(0.6 - std::max(0.0, 0.05 * std::sin(0.02 * u) * std::sin(0.02 * v)));
    }
  }
  return CloudFromDepth(depth, camera);
}

void BM_NonMaximumSuppression(benchmark::State& state) {
  Rng rng(1);
  GraspGroup grasps(state.range(0));
  for (Grasp& grasp : grasps) {
    grasp.score = rng.Uniform();
    grasp.R_CG = RandomRotation(rng);
    grasp.p_CG = Vector3d(0.5 * rng.Uniform(), 0.4 * rng.Uniform(), 0.5 + 0.1 * rng.Uniform());
  }
  std::size_t kept = 0;
  for (auto _ : state) kept = NonMaximumSuppression(grasps).size();
  state.counters["kept"] = static_cast<double>(kept);
}
BENCHMARK(BM_NonMaximumSuppression)->Arg(200)->Arg(1000)->Arg(10000);

void BM_VoxelDownsample(benchmark::State& state) {
  const PointCloud cloud = Cloud();
  const double voxel_m = 1e-3 * static_cast<double>(state.range(0));
  std::size_t voxels = 0;
  for (auto _ : state) voxels = VoxelDownsample(cloud, voxel_m).size();
  state.counters["points"] = static_cast<double>(cloud.size());
  state.counters["voxels"] = static_cast<double>(voxels);
}
BENCHMARK(BM_VoxelDownsample)->ArgName("mm")->Arg(2)->Arg(5)->Unit(benchmark::kMillisecond);

void BM_CloudFromDepth(benchmark::State& state) {
  const Intrinsics camera = LoadIntrinsics("realsense", 1280, 720).value();
  const DepthImage depth{1280, 720, std::vector<float>(1280 * 720, 0.5F)};
  for (auto _ : state) benchmark::DoNotOptimize(CloudFromDepth(depth, camera));
}
BENCHMARK(BM_CloudFromDepth)->Unit(benchmark::kMillisecond);

void BM_DepthFromValues(benchmark::State& state) {
  const std::vector<float> values(1280 * 720, 500.0F);
  for (auto _ : state) benchmark::DoNotOptimize(DepthFromValues(1280, 720, values, 1000));
}
BENCHMARK(BM_DepthFromValues)->Unit(benchmark::kMillisecond);

void BM_NearestAnchor(benchmark::State& state) {
  Rng rng(2);
  std::vector<Matrix3d> rotations;
  for (int i = 0; i < 1024; ++i) rotations.push_back(RandomRotation(rng));
  std::size_t next = 0;
  for (auto _ : state)
    benchmark::DoNotOptimize(NearestAnchor(rotations[next++ % 1024], state.range(0) != 0));
}
BENCHMARK(BM_NearestAnchor)->ArgName("symmetric")->Arg(0)->Arg(1);

void BM_FitPlane(benchmark::State& state) {
  const PointCloud cloud = VoxelDownsample(Cloud(), 0.005);
  for (auto _ : state) benchmark::DoNotOptimize(FitPlane(cloud.points));
}
BENCHMARK(BM_FitPlane)->Unit(benchmark::kMillisecond);

void BM_KdTreeNearest(benchmark::State& state) {
  const PointCloud cloud = VoxelDownsample(Cloud(), 0.005);
  const KdTree tree(cloud.points);
  std::size_t next = 0;
  for (auto _ : state) {
    const Vector3d& point = cloud.points[next++ % cloud.size()];
    benchmark::DoNotOptimize(tree.Nearest(point + Vector3d(0, 0, -0.01)));
  }
}
BENCHMARK(BM_KdTreeNearest);

}  // namespace
}  // namespace palmist::grasp
