#include "palmist/schedule/pipeline.h"

#include <algorithm>
#include <string>

#include "palmist/base/error.h"
#include "palmist/schedule/paths.h"

namespace palmist::schedule {
namespace {

/// What the extras of all stages add: each may hide in the time until its stage starts or ends.
double ExtraSeconds(std::span<const StagePoint> stages) {
  double first = 0, last = 0, forward_before = 0, backward_before = 0;
  for (const StagePoint& stage : stages) {
    first = std::max(first, stage.first_extra_s - forward_before);
    last = std::max(last, stage.last_extra_s - backward_before);
    forward_before += stage.forward_s + stage.hop_s;
    backward_before += stage.backward_s + stage.hop_s;
  }
  return first + last;
}

/// The stage that decides an iteration.
struct Longest {
  std::size_t stage = 0;
  double before_s = 0;   // one micro-batch in the stages in front
  double bracket_s = 0;  // see Bracket1F1B
};

Longest LongestBracket(std::span<const StagePoint> stages, int micro_batches) {
  Longest longest;
  double before = 0, behind = 0;
  for (const StagePoint& stage : stages) behind += stage.total_s();
  for (std::size_t i = 0; i < stages.size(); ++i) {
    behind -= stages[i].total_s();
    const int stages_behind = static_cast<int>(stages.size() - 1 - i);
    const double bracket = Bracket1F1B(stages[i], behind, stages_behind, micro_batches);
    if (i == 0 || before + bracket > longest.before_s + longest.bracket_s) {
      longest = {i, before, bracket};
    }
    before += stages[i].total_s();
  }
  return longest;
}

}  // namespace

double Bracket1F1B(const StagePoint& stage, double behind_s, int stages_behind, int micro_batches) {
  const double f = stage.forward_s, b = stage.backward_s;
  const double g = micro_batches, k = stages_behind;
  if (g > k) {
    return g * (f + b) - k * b + std::max(0.0, behind_s - k * f) + std::max(k * b, behind_s);
  }
  return std::max(g * (f + b), behind_s + std::max(f + g * b, g * f + b));
}

IterationTerms Terms1F1B(std::span<const StagePoint> stages, int micro_batches) {
  const Longest longest = LongestBracket(stages, micro_batches);
  IterationTerms terms;
  terms.stage = static_cast<int>(longest.stage);
  terms.before_s = longest.before_s;
  terms.steady_s = micro_batches * stages[longest.stage].total_s();
  terms.behind_s = longest.bracket_s - terms.steady_s;
  terms.extra_s = ExtraSeconds(stages);
  return terms;
}

double Iteration1F1B(std::span<const StagePoint> stages, int micro_batches) {
  PALMIST_ASSERT(!stages.empty() && micro_batches >= 1);
  for (const StagePoint& stage : stages.first(stages.size() - 1)) {
    if (stage.hop_s > 0) return Path1F1B(stages, micro_batches);
  }
  const Longest longest = LongestBracket(stages, micro_batches);
  return longest.before_s + longest.bracket_s + ExtraSeconds(stages);
}

double IterationGPipe(std::span<const StagePoint> stages, int micro_batches) {
  PALMIST_ASSERT(!stages.empty() && micro_batches >= 1);
  double sum = 0, longest_forward = 0, longest_backward = 0;
  for (const StagePoint& stage : stages) {
    sum += stage.total_s();
    longest_forward = std::max(longest_forward, stage.forward_s);
    longest_backward = std::max(longest_backward, stage.backward_s);
  }
  for (const StagePoint& stage : stages.first(stages.size() - 1)) sum += 2 * stage.hop_s;
  return sum + (micro_batches - 1) * (longest_forward + longest_backward) + ExtraSeconds(stages);
}

double IterationSeconds(std::string_view schedule,
                        std::span<const StagePoint> stages,
                        int micro_batches,
                        int chunks) {
  if (schedule == "interleaved" && chunks == 1) {
    throw Error(ErrorKind::kUnavailable,
                "expected the number of chunks with the schedule interleaved",
                "training.schedule",
                "use 1f1b");
  }
  CheckSchedule(schedule, static_cast<int>(stages.size()), micro_batches, chunks);
  if (schedule == "1f1b") return Iteration1F1B(stages, micro_batches);
  if (schedule == "gpipe") return IterationGPipe(stages, micro_batches);
  if (schedule == "interleaved") return PathInterleaved(stages, micro_batches, chunks);
  const auto is_split = [](const StagePoint& stage) { return stage.weight_grad_s > 0; };
  if (std::none_of(stages.begin(), stages.end(), is_split)) {
    throw Error(ErrorKind::kUnavailable,
                "expected the times of weight gradients with the schedule zb-h1",
                "training.schedule",
                "use 1f1b");
  }
  return PathZbH1(stages, micro_batches);
}

}  // namespace palmist::schedule
