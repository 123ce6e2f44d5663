#include "palmist/sim/simulate.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "palmist/base/error.h"

namespace palmist::sim {
namespace {

using schedule::Slot;
using schedule::StagePoint;

void CheckSeconds(double value, const std::string& field) {
  if (!(value >= 0) || std::isinf(value)) {
    throw InputError(field, "expected seconds of 0 or more, got " + std::to_string(value));
  }
}

/// Some 4 GB of timeline.
constexpr double kMaxSlots = 5e7;

void Check(const Pipeline& pipeline) {
  schedule::CheckSchedule(pipeline.schedule,
                          static_cast<int>(pipeline.stages.size()),
                          pipeline.micro_batches,
                          pipeline.chunks);
  const double slots = static_cast<double>(pipeline.stages.size()) * pipeline.micro_batches *
                       pipeline.chunks * (pipeline.schedule == "zb-h1" ? 3 : 2);
  if (slots > kMaxSlots) {
    throw InputError("training.micro_batches",
                     "expected a pipeline of at most 50 million slots to simulate, got " +
                         std::to_string(slots));
  }
  CheckSeconds(pipeline.tail_s, "tail_s");
  for (std::size_t i = 0; i < pipeline.stages.size(); ++i) {
    const StageWork& stage = pipeline.stages[i];
    const StagePoint& point = stage.point;
    const std::string path = "stages[" + std::to_string(i) + "].";
    CheckSeconds(point.forward_s, path + "forward_s");
    CheckSeconds(point.backward_s, path + "backward_s");
    CheckSeconds(point.first_extra_s, path + "first_extra_s");
    CheckSeconds(point.last_extra_s, path + "last_extra_s");
    CheckSeconds(point.hop_s, path + "hop_s");
    CheckSeconds(point.weight_grad_s, path + "weight_grad_s");
    if (point.weight_grad_s > point.backward_s) {
      throw InputError(path + "weight_grad_s",
                       "expected at most backward_s (" + std::to_string(point.backward_s) +
                           "), got " + std::to_string(point.weight_grad_s));
    }
    if (!stage.chunks.empty() && stage.chunks.size() != static_cast<std::size_t>(pipeline.chunks)) {
      throw InputError(path + "chunks",
                       "expected " + std::to_string(pipeline.chunks) + " or none, got " +
                           std::to_string(stage.chunks.size()));
    }
    for (std::size_t c = 0; c < stage.chunks.size(); ++c) {
      CheckSeconds(stage.chunks[c].forward_s, path + "chunks[" + std::to_string(c) + "].forward_s");
      CheckSeconds(stage.chunks[c].backward_s,
                   path + "chunks[" + std::to_string(c) + "].backward_s");
    }
  }
}

class Player {
 public:
  explicit Player(const Pipeline& pipeline)
      : pipeline_(pipeline),
        stages_(static_cast<int>(pipeline.stages.size())),
        last_part_(stages_ * pipeline.chunks - 1) {
    const std::size_t passes = static_cast<std::size_t>(last_part_ + 1) * G();
    arrival_[0].assign(passes, -1);
    arrival_[1].assign(passes, -1);
    timeline_.tail_s = pipeline.tail_s;
    for (int i = 0; i < stages_; ++i) {
      Stage stage;
      stage.order = schedule::SlotOrder(
          pipeline.schedule, stages_, i, pipeline.micro_batches, pipeline.chunks);
      stage.clock_s = Point(i).first_extra_s;
      state_.push_back(std::move(stage));
      StageTimeline line;
      line.slots.reserve(state_.back().order.size());
      line.first_extra_s = Point(i).first_extra_s;
      line.last_extra_s = Point(i).last_extra_s;
      timeline_.stages.push_back(std::move(line));
    }
    // The first stage's first chunk waits for nothing.
    for (std::size_t m = 0; m < G(); ++m) arrival_[0][m] = 0;
  }

  Timeline Play() {
    // Whoever finishes a slot wakes the stage that needs it, so each stage is tried at most once a
    // slot of its neighbours.
    std::vector<int> awake(static_cast<std::size_t>(stages_));
    std::iota(awake.rbegin(), awake.rend(), 0);
    while (!awake.empty()) {
      const int i = awake.back();
      awake.pop_back();
      while (RunNext(i, awake)) {
      }
    }
    for (int i = 0; i < stages_; ++i) Finish(i);
    timeline_.iteration_s += pipeline_.tail_s;
    for (StageTimeline& line : timeline_.stages) {
      const double span_s = timeline_.iteration_s - pipeline_.tail_s;
      line.idle_share = span_s > 0 ? std::max(0.0, 1 - line.busy_s / span_s) : 0;
      timeline_.idle_share += line.idle_share / stages_;
    }
    return std::move(timeline_);
  }

 private:
  struct Stage {
    std::vector<Slot> order;
    std::size_t next = 0;
    double clock_s = 0;
    int held = 0;
    double link_free_s[2] = {0, 0};  // of the way to the next stage, and to the one before
  };

  std::size_t G() const { return static_cast<std::size_t>(pipeline_.micro_batches); }
  const StagePoint& Point(int i) const { return Work(i).point; }
  const StageWork& Work(int i) const { return pipeline_.stages[static_cast<std::size_t>(i)]; }
  Stage& State(int i) { return state_[static_cast<std::size_t>(i)]; }
  StageTimeline& Line(int i) { return timeline_.stages[static_cast<std::size_t>(i)]; }

  /// When the input of a part (a chunk of a stage, numbered through the model) has arrived; below 0
  /// if it has not.
  double& Arrival(Slot::Kind kind, int part, int micro_batch) {
    return arrival_[kind == Slot::kForward ? 0 : 1]
                   [static_cast<std::size_t>(part) * G() + static_cast<std::size_t>(micro_batch)];
  }

  double Seconds(int i, const Slot& slot) const {
    const StagePoint& point = Point(i);
    if (slot.kind == Slot::kWeightGrad) return point.weight_grad_s;
    const std::vector<ChunkTime>& chunks = Work(i).chunks;
    if (!chunks.empty()) {
      const ChunkTime& chunk = chunks[static_cast<std::size_t>(slot.chunk)];
      return slot.kind == Slot::kForward ? chunk.forward_s : chunk.backward_s;
    }
    if (slot.kind == Slot::kForward) return point.forward_s / pipeline_.chunks;
    if (pipeline_.schedule == "zb-h1") return point.backward_s - point.weight_grad_s;
    return point.backward_s / pipeline_.chunks;
  }

  /// Runs the next slot of stage `i` if its input is known; adds the stage it wakes to `awake`.
  bool RunNext(int i, std::vector<int>& awake) {
    Stage& stage = State(i);
    if (stage.next == stage.order.size()) return false;
    const Slot slot = stage.order[stage.next];
    const int part = slot.chunk * stages_ + i;
    double ready_s = 0;
    if (slot.kind != Slot::kWeightGrad) {
      ready_s = Arrival(slot.kind, part, slot.micro_batch);
      if (ready_s < 0) return false;
    }
    ++stage.next;
    StageTimeline& line = Line(i);
    const double start_s = std::max(stage.clock_s, ready_s);
    const double seconds = Seconds(i, slot);
    stage.clock_s = start_s + seconds;
    line.busy_s += seconds;
    line.slots.push_back({slot, start_s, stage.clock_s});
    if (slot.kind == Slot::kForward) {
      line.most_held = std::max(line.most_held, ++stage.held);
      if (part == last_part_) {
        Arrival(Slot::kBackward, part, slot.micro_batch) = stage.clock_s;
      } else {
        Send(i, slot, part + 1, awake);
      }
    } else {
      const bool last = pipeline_.schedule == "zb-h1" ? slot.kind == Slot::kWeightGrad : true;
      if (last) --stage.held;
      if (slot.kind == Slot::kBackward && part > 0) Send(i, slot, part - 1, awake);
    }
    return true;
  }

  void Send(int i, const Slot& slot, int part, std::vector<int>& awake) {
    const int to = part % stages_;
    const bool forward = slot.kind == Slot::kForward;
    // A hop belongs to the stage in front of the boundary; with one stage there is no boundary.
    const double hop_s = stages_ == 1 ? 0 : Point(forward ? i : to).hop_s;
    Stage& stage = State(i);
    double arrival_s = stage.clock_s;
    if (hop_s > 0) {
      double& free_s = stage.link_free_s[forward ? 0 : 1];
      const double start_s = std::max(stage.clock_s, free_s);
      arrival_s = free_s = start_s + hop_s;
      timeline_.hops.push_back({slot, i, to, start_s, arrival_s});
    }
    Arrival(slot.kind, part, slot.micro_batch) = arrival_s;
    if (to != i) awake.push_back(to);
  }

  void Finish(int i) {
    Stage& stage = State(i);
    PALMIST_ASSERT(stage.next == stage.order.size());  // else the orders wait for each other
    StageTimeline& line = Line(i);
    line.last_extra_start_s = stage.clock_s;
    line.busy_s += line.first_extra_s + line.last_extra_s;
    timeline_.iteration_s = std::max(timeline_.iteration_s, stage.clock_s + line.last_extra_s);
  }

  const Pipeline& pipeline_;
  const int stages_;
  const int last_part_;
  std::vector<double> arrival_[2];  // of forwards and backwards, by part and micro-batch
  std::vector<Stage> state_;
  Timeline timeline_;
};

}  // namespace

Timeline Simulate(const Pipeline& pipeline) {
  Check(pipeline);
  return Player(pipeline).Play();
}

}  // namespace palmist::sim
