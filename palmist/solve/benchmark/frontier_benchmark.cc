/// Inserting points into a frontier, against a plain list that is scanned for each of them, and
/// whole label searches, whose time goes there.
///
/// `Plane` points beat each other rarely, so that nearly all stay; of `Cloud` points few do.
/// Counters: points kept, and items (points inserted) per second.
#include <benchmark/benchmark.h>

#include <array>
#include <vector>

#include "palmist/base/rng.h"
#include "palmist/solve/frontier.h"
#include "palmist/solve/pipeline_solver.h"

namespace palmist::solve {
namespace {

/// The peer: every point is compared with every other.
template <std::size_t N, typename Tag>
class PlainFrontier {
 public:
  using Point = typename ParetoFrontier<N, Tag>::Point;
  bool Insert(const std::array<double, N>& cost, Tag tag) {
    const auto no_worse = [](const auto& a, const auto& b) {
      for (std::size_t i = 0; i < N; ++i) {
        if (a[i] > b[i]) return false;
      }
      return true;
    };
    for (const Point& point : points_) {
      if (no_worse(point.cost, cost)) return false;
    }
    std::erase_if(points_, [&](const Point& point) { return no_worse(cost, point.cost); });
    points_.push_back({cost, tag});
    return true;
  }
  std::size_t size() const { return points_.size(); }

 private:
  std::vector<Point> points_;
};

enum Shape { kPlane, kCloud };

template <std::size_t N>
std::vector<std::array<double, N>> Points(int count, Shape shape) {
  Rng rng(3, N);
  std::vector<std::array<double, N>> points(static_cast<std::size_t>(count));
  for (auto& point : points) {
    double sum = 0;
    for (double& c : point) sum += c = rng.Uniform();
    if (shape == kPlane) point[0] = static_cast<double>(N) - sum + 0.01 * rng.Uniform();
  }
  return points;
}

template <template <std::size_t, typename> typename Frontier, std::size_t N, Shape kShape>
void BM_Insert(benchmark::State& state) {
  const auto points = Points<N>(static_cast<int>(state.range(0)), kShape);
  std::size_t kept = 0;
  for (auto _ : state) {
    Frontier<N, int> frontier;
    int tag = 0;
    for (const auto& point : points) frontier.Insert(point, tag++);
    kept = frontier.size();
  }
  state.counters["kept"] = static_cast<double>(kept);
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void BM_LabelSearch(benchmark::State& state, Objective objective, bool tails) {
  PipelineProblem problem;
  problem.stages = 8;
  problem.layers = static_cast<int>(state.range(0));
  problem.micro_batches = 16;
  problem.objective = objective;
  problem.options = [&](int stage, int first, int last) {
    std::vector<StageOption> options;
    for (int o = 0; o < 6; ++o) {
      Rng rng(7, static_cast<std::uint64_t>(((stage * 64 + first) * 64 + last) * 8 + o));
      const double t = (last - first + 1) * (1 + 0.1 * o + 0.3 * rng.Uniform());
      options.push_back({{t / 3, 2 * t / 3, 20 * rng.Uniform() / (1 + o), 10 * rng.Uniform()},
                         tails ? rng.Uniform() : 0,
                         o});
    }
    return options;
  };
  const auto solver = MakeLabelSearch();
  for (auto _ : state) benchmark::DoNotOptimize(solver->Solve(problem));
}

constexpr int kFew = 1000, kMany = 8000;
BENCHMARK_TEMPLATE(BM_Insert, ParetoFrontier, 2, kPlane)->Arg(kFew)->Arg(kMany);
BENCHMARK_TEMPLATE(BM_Insert, PlainFrontier, 2, kPlane)->Arg(kFew)->Arg(kMany);
BENCHMARK_TEMPLATE(BM_Insert, ParetoFrontier, 4, kPlane)->Arg(kFew)->Arg(kMany);
BENCHMARK_TEMPLATE(BM_Insert, PlainFrontier, 4, kPlane)->Arg(kFew)->Arg(kMany);
BENCHMARK_TEMPLATE(BM_Insert, ParetoFrontier, 7, kPlane)->Arg(kFew)->Arg(kMany);
BENCHMARK_TEMPLATE(BM_Insert, PlainFrontier, 7, kPlane)->Arg(kFew)->Arg(kMany);
BENCHMARK_TEMPLATE(BM_Insert, ParetoFrontier, 4, kCloud)->Arg(kFew)->Arg(kMany);
BENCHMARK_TEMPLATE(BM_Insert, PlainFrontier, 4, kCloud)->Arg(kFew)->Arg(kMany);
BENCHMARK_TEMPLATE(BM_Insert, ParetoFrontier, 7, kCloud)->Arg(kFew)->Arg(kMany);
BENCHMARK_TEMPLATE(BM_Insert, PlainFrontier, 7, kCloud)->Arg(kFew)->Arg(kMany);
BENCHMARK_CAPTURE(BM_LabelSearch, Exact, Objective::kExact, false)
    ->Arg(16)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_LabelSearch, Mist, Objective::kMist, false)
    ->Arg(16)
    ->Arg(48)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_LabelSearch, MistWithTails, Objective::kMist, true)
    ->Arg(48)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace palmist::solve
