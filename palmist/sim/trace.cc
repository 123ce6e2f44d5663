#include "palmist/sim/trace.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

namespace palmist::sim {
namespace {

using nlohmann::ordered_json;
using schedule::Slot;

enum Track { kCompute, kSendForward, kSendBackward, kExtras };
constexpr const char* kTrackNames[] = {"compute", "send forward", "send backward", "extras"};
constexpr const char* kCategories[] = {"forward", "backward", "weight_grad"};

/// Whole nanoseconds, so that rounding lets no span reach into the next one.
double Nanoseconds(double seconds) { return std::round(seconds * 1e9); }

std::string Name(const Slot& slot, bool chunked) {
  constexpr const char* kLetters[] = {"F", "B", "W"};
  std::string name = kLetters[slot.kind] + std::to_string(slot.micro_batch);
  if (chunked) name += "." + std::to_string(slot.chunk);
  return name;
}

ordered_json Metadata(const char* kind, std::size_t stage, int track, const std::string& name) {
  return {{"ph", "M"}, {"name", kind}, {"pid", stage}, {"tid", track}, {"args", {{"name", name}}}};
}

ordered_json Span(std::string name,
                  std::string_view category,
                  std::size_t stage,
                  Track track,
                  double start_s,
                  double end_s) {
  return {{"ph", "X"},
          {"name", std::move(name)},
          {"cat", category},
          {"pid", stage},
          {"tid", static_cast<int>(track)},
          {"ts", Nanoseconds(start_s) / 1000},
          {"dur", (Nanoseconds(end_s) - Nanoseconds(start_s)) / 1000}};
}

ordered_json Args(const Slot& slot) {
  return {{"micro_batch", slot.micro_batch}, {"chunk", slot.chunk}};
}

}  // namespace

ordered_json ToChromeTrace(const Timeline& timeline, int micro_batches) {
  ordered_json events = ordered_json::array();
  bool chunked = false;
  int shown = 0;
  for (const SlotTime& slot : timeline.stages.front().slots) chunked |= slot.slot.chunk > 0;
  for (std::size_t i = 0; i < timeline.stages.size(); ++i) {
    events.push_back(Metadata("process_name", i, 0, "stage " + std::to_string(i)));
    for (int track = kCompute; track <= kExtras; ++track) {
      events.push_back(Metadata("thread_name", i, track, kTrackNames[track]));
    }
    const StageTimeline& stage = timeline.stages[i];
    if (stage.first_extra_s > 0) {
      events.push_back(Span("first_extra", "extra", i, kExtras, 0, stage.first_extra_s));
    }
    for (const SlotTime& slot : stage.slots) {
      if (slot.slot.micro_batch >= micro_batches) continue;
      shown = std::max(shown, slot.slot.micro_batch + 1);
      events.push_back(Span(Name(slot.slot, chunked),
                            kCategories[slot.slot.kind],
                            i,
                            kCompute,
                            slot.start_s,
                            slot.end_s));
      events.back()["args"] = Args(slot.slot);
    }
    if (stage.last_extra_s > 0) {
      const double start_s = stage.last_extra_start_s;
      events.push_back(
          Span("last_extra", "extra", i, kExtras, start_s, start_s + stage.last_extra_s));
    }
    if (timeline.tail_s > 0) {
      const double start_s = timeline.iteration_s - timeline.tail_s;
      events.push_back(Span("tail", "extra", i, kExtras, start_s, timeline.iteration_s));
    }
  }
  for (const HopTime& hop : timeline.hops) {
    if (hop.slot.micro_batch >= micro_batches) continue;
    const Track track = hop.slot.kind == Slot::kForward ? kSendForward : kSendBackward;
    events.push_back(Span(Name(hop.slot, chunked) + " to stage " + std::to_string(hop.to_stage),
                          "hop",
                          static_cast<std::size_t>(hop.from_stage),
                          track,
                          hop.start_s,
                          hop.end_s));
    events.back()["args"] = Args(hop.slot);
  }
  return {{"traceEvents", std::move(events)},
          {"displayTimeUnit", "ms"},
          {"otherData",
           {{"iteration_s", timeline.iteration_s},
            {"idle_share", timeline.idle_share},
            {"micro_batches_shown", shown}}}};
}

}  // namespace palmist::sim
