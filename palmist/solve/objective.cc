#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "palmist/base/error.h"
#include "palmist/solve/pipeline_solver.h"

namespace palmist::solve {

std::string_view ToString(Outcome outcome) {
  switch (outcome) {
    case Outcome::kOptimal:
      return "optimal";
    case Outcome::kInfeasible:
      return "infeasible";
    case Outcome::kTimeLimit:
      return "time_limit";
    case Outcome::kInterrupted:
      return "interrupted";
  }
  return {};
}

double MistIterationSeconds(std::span<const schedule::StagePoint> stages, int micro_batches) {
  PALMIST_ASSERT(micro_batches >= 1);
  double sum = 0, longest = 0, exposed = 0;
  for (const schedule::StagePoint& stage : stages) {
    exposed = std::max(exposed, stage.first_extra_s + stage.last_extra_s - sum);
    sum += stage.total_s();
    longest = std::max(longest, stage.total_s());
  }
  return (micro_batches - 1) * longest + sum + exposed;
}

double ObjectiveSeconds(const PipelineProblem& problem, std::span<const StageOption> stages) {
  PALMIST_ASSERT(static_cast<int>(stages.size()) == problem.stages);
  std::vector<schedule::StagePoint> points;
  double tail = 0;
  for (const StageOption& stage : stages) {
    points.push_back(stage.point);
    tail = std::max(tail, stage.tail_s);
  }
  const double pipeline =
      problem.objective == Objective::kMist
          ? MistIterationSeconds(points, problem.micro_batches)
          : schedule::IterationSeconds(problem.schedule, points, problem.micro_batches);
  return pipeline + tail;
}

}  // namespace palmist::solve
