// All labels of one object, at the density of GraspNet-1Billion, on two threads.
#include <benchmark/benchmark.h>

#include "palmist/grasp/contact/signed_distance.h"
#include "palmist/grasp/core/mesh_shapes.h"
#include "palmist/grasp/label/label.h"

namespace palmist::grasp {
namespace {

void LabelMesh(benchmark::State& state, const TriangleMesh& mesh) {
  LabelOptions options;
  options.threads = 2;
  ObjectLabels labels;
  for (auto _ : state) labels = LabelObject(mesh, options).value();
  state.counters["points"] = static_cast<double>(labels.points_O.size());
  state.counters["grasps"] = static_cast<double>(labels.grasps.size());
}
BENCHMARK_CAPTURE(LabelMesh, box_10x7x4cm, BoxMesh(Vector3d(0.10, 0.07, 0.04)))
    ->Unit(benchmark::kSecond)
    ->UseRealTime()
    ->Iterations(1);
BENCHMARK_CAPTURE(LabelMesh, cylinder_10x6cm, CylinderMesh(0.03, 0.1, 64))
    ->Unit(benchmark::kSecond)
    ->UseRealTime()
    ->Iterations(1);
BENCHMARK_CAPTURE(LabelMesh, sphere_10cm, SphereMesh(0.05, 100))
    ->Unit(benchmark::kSecond)
    ->UseRealTime()
    ->Iterations(1);

void SignedDistances(benchmark::State& state) {
  const TriangleMesh mesh = SphereMesh(0.05, 100);
  for (auto _ : state) {
    benchmark::DoNotOptimize(SignedDistanceFromMesh(mesh, {.threads = 2}).value());
  }
}
BENCHMARK(SignedDistances)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace palmist::grasp
