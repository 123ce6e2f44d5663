// Exact search. A pipeline is built from its last stage backwards, so that
// what a stage holds in flight depends only on the number of stages behind it. A partial pipeline
// is a label of numbers in which the iteration time rises, and rises still after any stage is put
// in front, so dominated labels may be dropped:
//   total  sum of t,
//   X      the bracket of the schedule's formula (schedule/pipeline.h), taken from its front stage,
//   DF, DB what extras of its stages remain exposed,
//   tail   the longest tail,
//   slow   GPipe only: the longest forward and the longest backward.
// Under Mist's objective they are total, the longest t, what of d remains exposed, and tail: a
// stage (t, d) in front makes them total + t, max(longest, t), max(d, exposed - t), max(tail_s,
// tail).
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "palmist/base/error.h"
#include "palmist/solve/frontier.h"
#include "palmist/solve/pipeline_solver.h"

namespace palmist::solve {
namespace {

using schedule::StagePoint;

enum Field { kTotal, kBracket, kFirstExtra, kLastExtra, kTail, kForward, kBackward, kFields };
using Label = std::array<double, kFields>;
/// Fields that Mist's objective uses for its own.
constexpr Field kLongest = kForward, kExposed = kFirstExtra;

/// Where a label came from: the stage in front, and the label behind it.
struct Step {
  int next_first = 0;  // first layer of the stage behind
  int behind = -1;     // index of the label behind, -1 for the last stage
  int tag = 0;
};

using Frontier = ParetoFrontier<kFields, Step>;
using Points = std::vector<Frontier::Point>;
/// points[k][j]: pipelines of the last k stages that hold layers j..layers - 1.
using Table = std::vector<std::vector<Points>>;

class LabelSearch final : public PipelineSolver {
 public:
  std::string_view name() const override { return "label"; }
  bool available() const override { return true; }

  PipelineSolution Solve(const PipelineProblem& problem) const override {
    PALMIST_ASSERT(problem.stages >= 1 && problem.layers >= problem.stages);
    const int stages = problem.stages, layers = problem.layers;
    Table table(static_cast<std::size_t>(stages) + 1,
                std::vector<Points>(static_cast<std::size_t>(layers) + 1));
    // Sums over stages of how fast each is, for bounds: speed[i] of the stages before i.
    std::vector<double> speed(static_cast<std::size_t>(stages) + 1, 0);
    for (int i = 0; i < stages; ++i) {
      const double slowness =
          problem.slowness.empty() ? 1 : problem.slowness[static_cast<std::size_t>(i)];
      speed[static_cast<std::size_t>(i) + 1] = speed[static_cast<std::size_t>(i)] + 1 / slowness;
    }
    for (int k = 1; k <= stages; ++k) {
      const int stage = stages - k;
      // Leave a layer for each stage in front; the frontmost stage takes all that is left.
      const int lowest = stage == 0 ? 0 : stage, highest = stage == 0 ? 0 : layers - k;
      for (int first = lowest; first <= highest; ++first) {
        if (problem.stop && problem.stop()) {
          PipelineSolution stopped;
          stopped.stopped = true;
          stopped.outcome = Outcome::kInterrupted;
          return stopped;
        }
        Frontier target;
        const int next_low = k == 1 ? layers : first + 1;
        const int next_high = k == 1 ? layers : layers - (k - 1);
        for (int next = next_low; next <= next_high; ++next) {
          const Points& behind = At(table, k - 1, next);
          if (k > 1 && behind.empty()) continue;
          if (TooLong(problem, speed, stage, first, next)) continue;
          for (const StageOption& option : problem.options(stage, first, next - 1)) {
            if (k == 1) {
              Add(problem, target, Prepend(problem, option, nullptr, 0), {next, -1, option.tag});
              continue;
            }
            for (std::size_t i = 0; i < behind.size(); ++i) {
              Add(problem,
                  target,
                  Prepend(problem, option, &behind[i].cost, k - 1),
                  {next, static_cast<int>(i), option.tag});
            }
          }
        }
        At(table, k, first) = target.points();
      }
    }
    return Best(problem, table);
  }

 private:
  static Points& At(Table& table, int k, int first) {
    return table[static_cast<std::size_t>(k)][static_cast<std::size_t>(first)];
  }

  /// Whether stage `stage` with layers first..next - 1, or the stages in front of it, must take
  /// longer than the cut-off: some stage in front has at least its share of what is left.
  static bool TooLong(const PipelineProblem& problem,
                      const std::vector<double>& speed,
                      int stage,
                      int first,
                      int next) {
    if (problem.least_s.empty()) return false;
    const auto at = static_cast<std::size_t>(stage);
    const double before = problem.least_s[static_cast<std::size_t>(first)];
    const double here = problem.least_s[static_cast<std::size_t>(next)] - before;
    const double g = problem.micro_batches;
    return g * here > problem.cutoff_s * (speed[at + 1] - speed[at]) ||
           g * before > problem.cutoff_s * speed[at];
  }

  static Label Prepend(const PipelineProblem& problem,
                       const StageOption& option,
                       const Label* behind,
                       int stages_behind) {
    static constexpr Label kNone{};
    const Label& rest = behind != nullptr ? *behind : kNone;
    const StagePoint& point = option.point;
    const double f = point.forward_s, b = point.backward_s, t = point.total_s();
    const double r = rest[kTotal];
    if (problem.objective == Objective::kMist) {
      Label label{};
      label[kTotal] = t + r;
      label[kLongest] = std::max(t, rest[kLongest]);
      label[kExposed] = std::max(point.first_extra_s + point.last_extra_s, rest[kExposed] - t);
      label[kTail] = std::max(option.tail_s, rest[kTail]);
      return label;
    }
    const double x = schedule::Bracket1F1B(point, r, stages_behind, problem.micro_batches);
    Label label;
    label[kTotal] = t + r;
    label[kFirstExtra] = std::max({0.0, point.first_extra_s, rest[kFirstExtra] - f});
    label[kLastExtra] = std::max({0.0, point.last_extra_s, rest[kLastExtra] - b});
    label[kTail] = std::max(option.tail_s, rest[kTail]);
    const bool gpipe = problem.schedule == "gpipe";
    label[kBracket] = gpipe ? 0 : std::max(x, rest[kBracket] + t);
    label[kForward] = gpipe ? std::max(f, rest[kForward]) : 0;
    label[kBackward] = gpipe ? std::max(b, rest[kBackward]) : 0;
    return label;
  }

  static double IterationSeconds(const PipelineProblem& problem, const Label& label) {
    if (problem.objective == Objective::kMist) {
      return label[kTotal] + (problem.micro_batches - 1) * label[kLongest] + label[kExposed] +
             label[kTail];
    }
    const double pipeline =
        problem.schedule == "gpipe"
            ? label[kTotal] + (problem.micro_batches - 1) * (label[kForward] + label[kBackward])
            : label[kBracket];
    return pipeline + label[kFirstExtra] + label[kLastExtra] + label[kTail];
  }

  static void Add(const PipelineProblem& problem, Frontier& target, const Label& label, Step step) {
    // Extras may still hide behind stages in front; all else only grows.
    const double least = IterationSeconds(problem, label) - label[kFirstExtra] - label[kLastExtra];
    if (least > problem.cutoff_s) return;
    target.Insert(label, step);
  }

  static PipelineSolution Best(const PipelineProblem& problem, Table& table) {
    PipelineSolution solution;
    solution.lower_bound_s = problem.cutoff_s;
    int index = -1;
    const auto& complete = At(table, problem.stages, 0);
    for (std::size_t i = 0; i < complete.size(); ++i) {
      const double seconds = IterationSeconds(problem, complete[i].cost);
      if (seconds > problem.cutoff_s) continue;
      if (!solution.found || seconds < solution.iteration_s) {
        solution.found = true;
        solution.outcome = Outcome::kOptimal;
        solution.iteration_s = solution.lower_bound_s = seconds;
        index = static_cast<int>(i);
      }
    }
    int first = 0;
    for (int k = problem.stages; k >= 1 && index >= 0; --k) {
      const Step& step = At(table, k, first)[static_cast<std::size_t>(index)].tag;
      solution.first.push_back(first);
      solution.tag.push_back(step.tag);
      first = step.next_first;
      index = step.behind;
    }
    return solution;
  }
};

}  // namespace

std::unique_ptr<PipelineSolver> MakeLabelSearch() { return std::make_unique<LabelSearch>(); }

}  // namespace palmist::solve
