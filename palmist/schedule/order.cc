#include "palmist/schedule/order.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "palmist/base/error.h"

namespace palmist::schedule {
namespace {

/// Passes of a stage one way; far beyond any run, and nothing computed from it overflows.
constexpr int kMaxPasses = 1 << 30;

/// Returns pass `index` of a stage under the interleaved schedule.
Slot InterleavedPass(Slot::Kind kind, int index, int stages, int chunks) {
  const int round = stages * chunks;
  const int chunk = index % round / stages;
  return {.kind = kind,
          .micro_batch = index / round * stages + index % stages,
          .chunk = kind == Slot::kForward ? chunk : chunks - 1 - chunk};
}

}  // namespace

void CheckSchedule(std::string_view schedule, int stages, int micro_batches, int chunks) {
  const bool interleaved = schedule == "interleaved";
  if (!interleaved && schedule != "gpipe" && schedule != "1f1b" && schedule != "zb-h1") {
    throw InputError(
        "training.schedule",
        "expected one of gpipe, 1f1b, interleaved, zb-h1, got \"" + std::string(schedule) + "\"");
  }
  if (stages < 1) {
    throw InputError("stages", "expected one stage or more, got " + std::to_string(stages));
  }
  if (micro_batches < 1) {
    throw InputError("training.micro_batches",
                     "expected one micro-batch or more, got " + std::to_string(micro_batches));
  }
  if (interleaved ? chunks < 2 : chunks != 1) {
    throw InputError("stages[0].chunks",
                     "expected " + std::string(interleaved ? "two or more" : "one chunk") +
                         " with the schedule " + std::string(schedule) + ", got " +
                         std::to_string(chunks),
                     interleaved ? "give each stage its chunks, or use 1f1b" : "use interleaved");
  }
  if (micro_batches > kMaxPasses / chunks) {
    throw InputError("training.micro_batches",
                     "expected at most " + std::to_string(kMaxPasses / chunks) + ", got " +
                         std::to_string(micro_batches));
  }
  if (interleaved && micro_batches % stages != 0) {
    throw InputError("training.micro_batches",
                     "expected a multiple of the " + std::to_string(stages) +
                         " stages with the schedule interleaved, got " +
                         std::to_string(micro_batches),
                     "change training.micro_batches, or use 1f1b");
  }
}

std::vector<Slot> SlotOrder(
    std::string_view schedule, int stages, int stage, int micro_batches, int chunks) {
  CheckSchedule(schedule, stages, micro_batches, chunks);
  if (stage < 0 || stage >= stages) {
    throw InputError("stages",
                     "expected a stage from 0 to " + std::to_string(stages - 1) + ", got " +
                         std::to_string(stage));
  }
  const bool split = schedule == "zb-h1";
  const int behind = stages - 1 - stage, passes = micro_batches * chunks;
  int ahead = behind;
  if (schedule == "gpipe") ahead = passes;
  if (schedule == "interleaved") ahead = 2 * behind + (chunks - 1) * stages;
  std::vector<Slot> order;
  order.reserve(static_cast<std::size_t>(passes) * (split ? 3 : 2));
  int forwards = 0;
  const auto forward = [&] {
    order.push_back(InterleavedPass(Slot::kForward, forwards++, stages, chunks));
  };
  while (forwards < std::min(ahead, passes)) forward();
  for (int k = 0; k < passes; ++k) {
    if (forwards < passes) forward();
    order.push_back(InterleavedPass(Slot::kBackward, k, stages, chunks));
    if (split && k >= stage) order.push_back({Slot::kWeightGrad, k - stage, 0});
  }
  for (int k = std::max(0, passes - stage); split && k < passes; ++k) {
    order.push_back({Slot::kWeightGrad, k, 0});
  }
  return order;
}

int InFlight(std::string_view schedule, int stages, int stage, int micro_batches, int chunks) {
  const std::int64_t behind = stages - 1 - stage;
  const std::int64_t passes = std::int64_t{micro_batches} * chunks;
  std::int64_t ahead = behind;
  if (schedule == "gpipe") ahead = passes;
  if (schedule == "interleaved" && chunks > 1) {
    ahead = 2 * behind + std::int64_t{chunks - 1} * stages;
  }
  if (schedule == "zb-h1") ahead = stages - 1;
  return static_cast<int>(std::min(ahead, passes - 1));
}

}  // namespace palmist::schedule
