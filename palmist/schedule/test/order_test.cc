#include "palmist/schedule/order.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "palmist/base/error.h"

namespace palmist::schedule {
namespace {

// RapidCheck reads its parameters from here at the first check.
[[maybe_unused]] const int kFixedSeed = setenv("RC_PARAMS", "seed=20240601 max_success=400", 1);

constexpr const char* kNames[] = {"gpipe", "1f1b", "interleaved", "zb-h1"};

struct Case {
  std::string schedule;
  int stages, micro_batches, chunks;
};

Case DrawCase() {
  Case c;
  c.schedule = kNames[*rc::gen::inRange(0, 4)];
  c.stages = *rc::gen::inRange(1, 10);
  c.chunks = c.schedule == "interleaved" ? *rc::gen::inRange(2, 6) : 1;
  c.micro_batches = *rc::gen::inRange(1, 40);
  if (c.schedule == "interleaved") c.micro_batches = c.stages * *rc::gen::inRange(1, 6);
  return c;
}

std::vector<Slot> Order(const Case& c, int stage) {
  return SlotOrder(c.schedule, c.stages, stage, c.micro_batches, c.chunks);
}

std::string Text(const std::vector<Slot>& order, bool chunks = false) {
  std::string text;
  for (const Slot& slot : order) {
    text += std::string(text.empty() ? "" : " ") + "FBW"[slot.kind] +
            std::to_string(slot.micro_batch) +
            (chunks ? "." + std::to_string(slot.chunk) : std::string());
  }
  return text;
}

TEST(SlotOrderTest, OrdersAreThoseOfThePapers) {
  EXPECT_EQ(Text(SlotOrder("gpipe", 2, 0, 3)), "F0 F1 F2 B0 B1 B2");
  EXPECT_EQ(Text(SlotOrder("1f1b", 3, 0, 4)), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(Text(SlotOrder("1f1b", 3, 2, 2)), "F0 B0 F1 B1");
  // Figure 3 (above) of the zero-bubble paper: four stages, here five micro-batches.
  EXPECT_EQ(Text(SlotOrder("zb-h1", 4, 0, 5)), "F0 F1 F2 F3 B0 W0 F4 B1 W1 B2 W2 B3 W3 B4 W4");
  EXPECT_EQ(Text(SlotOrder("zb-h1", 4, 3, 5)), "F0 B0 F1 B1 F2 B2 F3 B3 W0 F4 B4 W1 W2 W3 W4");
  // Megatron's: groups of two micro-batches, two chunks.
  EXPECT_EQ(Text(SlotOrder("interleaved", 2, 1, 2, 2), true),
            "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 B0.0 B1.0");
  EXPECT_EQ(Text(SlotOrder("interleaved", 2, 0, 4, 2), true),
            "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0");
}

TEST(SlotOrderTest, EveryPassRunsOnceAndInItsOrder) {
  EXPECT_TRUE(rc::check([] {
    const Case c = DrawCase();
    const std::size_t kinds = c.schedule == "zb-h1" ? 3 : 2;
    for (int stage = 0; stage < c.stages; ++stage) {
      std::set<std::tuple<int, int, int>> seen;
      for (const Slot& slot : Order(c, stage)) {
        RC_ASSERT(slot.micro_batch >= 0 && slot.micro_batch < c.micro_batches);
        RC_ASSERT(slot.chunk >= 0 && slot.chunk < c.chunks);
        RC_ASSERT(static_cast<std::size_t>(slot.kind) < kinds);
        if (slot.kind != Slot::kForward) {
          RC_ASSERT(seen.contains({slot.kind - 1, slot.micro_batch, slot.chunk}));
        }
        RC_ASSERT(seen.insert({slot.kind, slot.micro_batch, slot.chunk}).second);
      }
      RC_ASSERT(seen.size() == kinds * static_cast<std::size_t>(c.micro_batches * c.chunks));
    }
  }));
}

TEST(SlotOrderTest, NoStageWaitsForEver) {
  EXPECT_TRUE(rc::check([] {
    const Case c = DrawCase();
    const int last = c.stages * c.chunks - 1;
    std::set<std::tuple<int, int, int>> done;  // kind, part of the model, micro-batch
    std::vector<std::vector<Slot>> orders;
    std::vector<std::size_t> next(static_cast<std::size_t>(c.stages), 0);
    std::size_t left = 0;
    for (int i = 0; i < c.stages; ++i) {
      orders.push_back(Order(c, i));
      left += orders.back().size();
    }
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t i = 0; i < orders.size(); ++i) {
        for (; next[i] < orders[i].size(); ++next[i], --left, progress = true) {
          const Slot& slot = orders[i][next[i]];
          const int part = slot.chunk * c.stages + static_cast<int>(i);
          std::tuple<int, int, int> need = {slot.kind - 1, part, slot.micro_batch};
          if (slot.kind == Slot::kForward) need = {slot.kind, part - 1, slot.micro_batch};
          if (slot.kind == Slot::kBackward && part < last) {
            need = {slot.kind, part + 1, slot.micro_batch};
          }
          const bool free = slot.kind == Slot::kForward && part == 0;
          if (!free && !done.contains(need)) break;
          done.insert({slot.kind, part, slot.micro_batch});
        }
      }
    }
    RC_ASSERT(left == 0U);
  }));
}

TEST(InFlightTest, CountsWhatTheOrderHolds) {
  EXPECT_TRUE(rc::check([] {
    const Case c = DrawCase();
    for (int stage = 0; stage < c.stages; ++stage) {
      int held = 0, most = 0;
      for (const Slot& slot : Order(c, stage)) {
        if (slot.kind == Slot::kForward) most = std::max(most, ++held);
        if (slot.kind == (c.schedule == "zb-h1" ? Slot::kWeightGrad : Slot::kBackward)) --held;
      }
      RC_ASSERT(held == 0);
      RC_ASSERT(most == InFlight(c.schedule, c.stages, stage, c.micro_batches, c.chunks) + 1);
    }
  }));
}

TEST(InFlightTest, ZeroBubbleHoldsWhatOneForwardOneBackwardHoldsOnItsFirstStage) {
  for (int g = 1; g < 12; ++g) {
    for (int stage = 0; stage < 6; ++stage) {
      EXPECT_EQ(InFlight("zb-h1", 6, stage, g), InFlight("1f1b", 6, 0, g));
    }
  }
}

TEST(SlotOrderTest, WrongArgumentsAreNamed) {
  const auto field = [](auto... arguments) {
    try {
      SlotOrder(arguments...);
    } catch (const Error& error) {
      return error.field();
    }
    return std::string("none");
  };
  EXPECT_EQ(field("zigzag", 2, 0, 2), "training.schedule");
  EXPECT_EQ(field("1f1b", 0, 0, 2), "stages");
  EXPECT_EQ(field("1f1b", 2, 2, 2), "stages");
  EXPECT_EQ(field("1f1b", 2, 0, 0), "training.micro_batches");
  EXPECT_EQ(field("1f1b", 2, 0, 2, 2), "stages[0].chunks");
  EXPECT_EQ(field("interleaved", 2, 0, 2), "stages[0].chunks");
  EXPECT_EQ(field("interleaved", 2, 0, 3, 2), "training.micro_batches");
}

}  // namespace
}  // namespace palmist::schedule
