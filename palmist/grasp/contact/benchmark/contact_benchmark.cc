// One grasp's contacts and friction: what labels are made of, a million times an object.
#include <benchmark/benchmark.h>

#include <vector>

#include "palmist/base/rng.h"
#include "palmist/grasp/contact/closure.h"
#include "palmist/grasp/contact/test/shapes.h"

namespace palmist::grasp {
namespace {

void ScoreGraspsOfSphere(benchmark::State& state, ContactRule rule) {
  const SignedDistanceGrid grid = SphereGrid(0.025);
  const DistanceLookup sphere(grid);
  Rng rng(1);
  const auto random_vector = [&rng] {
    return Vector3d(rng.Uniform() - 0.5, rng.Uniform() - 0.5, rng.Uniform() - 0.5);
  };
  std::vector<ClosingLine> lines;
  for (int i = 0; i < 1000; ++i) {
    lines.push_back({0.03 * random_vector(), random_vector().normalized(), 0.08});
  }
  std::size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(ClosureScore(sphere, lines[next], rule));
    next = (next + 1) % lines.size();
  }
}
BENCHMARK_CAPTURE(ScoreGraspsOfSphere, compat, ContactRule::kCompat);
BENCHMARK_CAPTURE(ScoreGraspsOfSphere, strict, ContactRule::kStrict);

}  // namespace
}  // namespace palmist::grasp
