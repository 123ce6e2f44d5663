// One frame of 200 grasps, 2 to 6 objects, on one core: the frames of the golden vectors in turn.
#include <benchmark/benchmark.h>

#include "palmist/grasp/eval/golden.h"
#include "tests/support/grasp_golden.h"

namespace palmist::grasp {
namespace {

void EvaluateGoldenFrames(benchmark::State& state, FrameOptions options) {
  const GoldenScenes golden = ReadGoldenScenes(test::GraspGolden()).value();
  std::vector<const GoldenFrame*> frames;
  for (const GoldenFrame& frame : golden.frames) {
    if (static_cast<std::int64_t>(frame.input.objects.size()) == state.range(0))
      frames.push_back(&frame);
  }
  std::size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(EvaluateFrame(frames[next]->input, options));
    next = (next + 1) % frames.size();
  }
}

void Objects(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("objects")->Arg(2)->Arg(4)->Arg(6)->Unit(benchmark::kMillisecond);
}
BENCHMARK_CAPTURE(EvaluateGoldenFrames, compat, {ContactRule::kCompat, false})->Apply(Objects);
BENCHMARK_CAPTURE(EvaluateGoldenFrames, strict, {ContactRule::kStrict, false})->Apply(Objects);
BENCHMARK_CAPTURE(EvaluateGoldenFrames, compat_collisions_removed, {ContactRule::kCompat, true})
    ->Apply(Objects);

}  // namespace
}  // namespace palmist::grasp
