// Letters, as in the headers: S stages, stage i with K = S - 1 - i behind it, N passes of each
// stage each way (micro-batches, or with interleaved micro-batches times chunks v). F(k) and B(k)
// are passes of the stage at hand in its order, W(k) the weight gradient of B(k). A stage runs
//   F(0) .. F(n), B(0), F(n + 1), B(1), .. F(N - 1), B(N - 1 - n), .. B(N - 1)
// with n = `warm` passes ahead; a period is a backward and the forward after it, and there are
// N - 1 - n of them between the start of B(0) and the end of F(N - 1).
//
// With time reversed, backwards are forwards and the order is the same, so one function gives the
// paths into a stage and those out of it.
#include "palmist/schedule/paths.h"

#include <algorithm>
#include <vector>

#include "palmist/base/error.h"

namespace palmist::schedule {
namespace {

using Seconds = std::vector<double>;

/// What one way through the pipeline takes, by stage.
struct Way {
  Seconds pass_s;   // of one pass
  Seconds extra_s;  // before the first pass
};

struct Pipe {
  std::size_t stages = 0;
  Way forward;
  Way backward;   // with time reversed: its extra comes after the last pass
  Seconds hop_s;  // from stage i to the next one
};

/// The stages' times with `chunks` passes a micro-batch; `split` takes weight gradients out.
Pipe MakePipe(std::span<const StagePoint> stages, int chunks, bool split) {
  Pipe pipe;
  pipe.stages = stages.size();
  for (const StagePoint& stage : stages) {
    const double weight_grad_s = split ? stage.weight_grad_s : 0;
    pipe.forward.pass_s.push_back(stage.forward_s / chunks);
    pipe.forward.extra_s.push_back(stage.first_extra_s);
    pipe.backward.pass_s.push_back((stage.backward_s - weight_grad_s) / chunks);
    pipe.backward.extra_s.push_back(stage.last_extra_s);
    pipe.hop_s.push_back(stages.size() == 1 ? 0 : stage.hop_s);
  }
  return pipe;
}

/// The earliest start of the first pass on each stage.
Seconds Arrivals(const Way& way, const Seconds& hop_s) {
  Seconds arrival_s = way.extra_s;
  for (std::size_t i = 1; i < arrival_s.size(); ++i) {
    arrival_s[i] = std::max(arrival_s[i], arrival_s[i - 1] + way.pass_s[i - 1] + hop_s[i - 1]);
  }
  return arrival_s;
}

/// Longest paths from the start of all to the turn of each stage, or with time reversed from there
/// to the end of all.
struct End {
  Seconds bare_s;  // to the end of F(warm), by forwards only
  Seconds turn_s;  // to the start of B(0)
};

/// @param bare_s longest path to the end of F(warm) of stage i that leaves stage j <= i last,
/// without
///   the passes from j to i: called as bare_s(j, i).
template <class BareSeconds>
End MakeEnd(const Way& way, const Way& other, const Seconds& hop_s, const BareSeconds& bare_s) {
  const std::size_t stages = hop_s.size();
  End end{.bare_s = Seconds(stages, 0), .turn_s = Seconds(stages, 0)};
  for (std::size_t i = 0; i < stages; ++i) {
    double down_s = way.pass_s[i];
    for (std::size_t j = i + 1; j-- > 0;) {
      end.bare_s[i] = std::max(end.bare_s[i], bare_s(j, i) + down_s);
      if (j > 0) down_s += way.pass_s[j - 1] + hop_s[j - 1];
    }
  }
  for (std::size_t i = stages; i-- > 0;) {
    end.turn_s[i] = end.bare_s[i];
    if (i + 1 < stages) {
      end.turn_s[i] = std::max(end.turn_s[i], end.turn_s[i + 1] + other.pass_s[i + 1] + hop_s[i]);
    }
  }
  return end;
}

/// 1F1B, and ZB-H1, which is 1F1B with W(k - i) after B(k).
class SplitPaths {
 public:
  SplitPaths(std::span<const StagePoint> stages, int micro_batches, bool split)
      : pipe_(MakePipe(stages, 1, split)),
        stages_(static_cast<int>(stages.size())),
        passes_(micro_batches) {
    for (const StagePoint& stage : stages) {
      weight_grad_s_.push_back(split ? stage.weight_grad_s : 0);
    }
    // A stage ends with i + 1 weight gradients after its last backward.
    for (int i = 0; i < stages_; ++i) {
      pipe_.backward.extra_s[At(i)] += std::min(passes_, i + 1) * weight_grad_s_[At(i)];
    }
    first_s_ = Arrivals(pipe_.forward, pipe_.hop_s);
    last_s_ = Arrivals(pipe_.backward, pipe_.hop_s);
    head_ =
        MakeEnd(pipe_.forward, pipe_.backward, pipe_.hop_s, [this](std::size_t j, std::size_t i) {
          return first_s_[j] + Ahead(static_cast<int>(i)) * pipe_.forward.pass_s[j];
        });
    tail_ =
        MakeEnd(pipe_.backward, pipe_.forward, pipe_.hop_s, [this](std::size_t j, std::size_t i) {
          return last_s_[j] +
                 Backwards(static_cast<int>(j), passes_ - 1 - Ahead(static_cast<int>(i)));
        });
  }

  double Longest() const {
    double longest_s = 0, last_alone_s = 0;
    for (int i = 0; i < stages_; ++i) {
      const double out_s = tail_.turn_s[At(i)];
      longest_s = std::max(
          {longest_s, head_.bare_s[At(i)] + out_s, head_.turn_s[At(i)] + tail_.bare_s[At(i)]});
      const int periods = passes_ - stages_ + i;
      if (periods <= 0) continue;
      longest_s = std::max(longest_s, head_.turn_s[At(i)] + Loops(i, 0, periods) + out_s);
      // The start of B(alone) is where weight gradients begin. Paths come there from a stage before
      // by F(S - 1), which no weight gradient precedes on any stage, or from one behind by
      // B(alone).
      const int alone = std::min(periods, i);
      double start_s = head_.turn_s[At(i)] + Periods(i, 0, alone);
      if (i == 0) {
        last_alone_s = head_.bare_s[0];
      } else {
        last_alone_s += pipe_.hop_s[At(i - 1)] + pipe_.forward.pass_s[At(i)];
        start_s = last_alone_s = std::max(start_s, last_alone_s);
      }
      if (alone == periods) longest_s = std::max(longest_s, start_s + out_s);
      double up_s = 0;
      for (int j = i + 1; j < stages_; ++j) {
        up_s += pipe_.backward.pass_s[At(j)] + pipe_.hop_s[At(j - 1)];
        start_s = std::max(start_s, head_.turn_s[At(j)] + Periods(j, 0, alone) + up_s);
      }
      longest_s = std::max(longest_s,
                           alone == periods ? start_s + tail_.bare_s[At(i)]
                                            : start_s + Loops(i, alone, periods - alone) + out_s);
      // A stage before has had its last forward while this one still alternates.
      up_s = pipe_.backward.pass_s[At(i)];
      for (int j = i - 1; j >= 0 && passes_ - stages_ + j >= 0; --j) {
        up_s += pipe_.hop_s[At(j)] + pipe_.backward.pass_s[At(j)];
        const int k = passes_ - stages_ + j;
        longest_s = std::max(
            longest_s,
            head_.turn_s[At(i)] + Periods(i, 0, k) + up_s + Backwards(j, k) + last_s_[At(j)]);
      }
    }
    return longest_s;
  }

 private:
  static std::size_t At(int i) { return static_cast<std::size_t>(i); }

  int Ahead(int i) const { return std::min(stages_ - 1 - i, passes_ - 1); }

  /// From the end of B(k) to the end of B(N - 1) where only backwards are left.
  double Backwards(int i, int k) const {
    return (passes_ - 1 - k) * pipe_.backward.pass_s[At(i)] +
           std::max(0, passes_ - 1 - std::max(k, i)) * weight_grad_s_[At(i)];
  }

  double PeriodSeconds(int i) const {
    return pipe_.forward.pass_s[At(i)] + pipe_.backward.pass_s[At(i)];
  }

  /// `count` periods from the start of B(from); those before B(i) have no weight gradient.
  double Periods(int i, int from, int count) const {
    const int alone = std::clamp(i - from, 0, count);
    return count * PeriodSeconds(i) + (count - alone) * weight_grad_s_[At(i)];
  }

  /// The same, or longer by going round with another stage: a round between stages top <= bottom
  /// takes their times and both ways' hops, and gains bottom - top + 1 periods.
  double Loops(int i, int from, int count) const {
    double longest_s = Periods(i, from, count);
    const int alone = std::clamp(i - from, 0, count);
    const auto go_round = [&](int top, int bottom, int most, double round_s) {
      const int length = bottom - top + 1;
      const int bare = (std::max(0, top - from) + length - 1) / length;
      // Few rounds may beat many: those at the start replace periods without weight gradients.
      for (const int rounds :
           {most, std::min(most, alone / length), std::min(most, alone / length + 1)}) {
        const int left = count - rounds * length;
        longest_s = std::max(
            longest_s,
            rounds * round_s + std::max(0, rounds - bare) * weight_grad_s_[At(top)] +
                left * PeriodSeconds(i) + std::min(left, count - alone) * weight_grad_s_[At(i)]);
      }
    };
    double round_s = PeriodSeconds(i);
    for (int j = i + 1; j < stages_; ++j) {
      // From F(k) down and back to B(k): the path must still come to a forward after its last
      // round.
      round_s += PeriodSeconds(j) + 2 * pipe_.hop_s[At(j - 1)];
      go_round(i, j, std::max(0, count - 1) / (j - i + 1), round_s);
    }
    round_s = PeriodSeconds(i);
    for (int j = i - 1; j >= 0; --j) {
      round_s += PeriodSeconds(j) + 2 * pipe_.hop_s[At(j)];
      go_round(j, i, count / (i - j + 1), round_s);
    }
    return longest_s;
  }

  Pipe pipe_;
  const int stages_;
  const int passes_;
  Seconds weight_grad_s_;
  Seconds first_s_;  // the start of F(0)
  Seconds last_s_;   // from the end of B(N - 1) to the end of all
  End head_;
  End tail_;
};

/// Interleaved 1F1B. A group is S passes: all micro-batches of a round through one chunk. On the
/// way forward, pass k + S of stage 0 follows pass k of the last stage wherever both are of one
/// round of v groups; backward passes are the same with time reversed.
class InterleavedPaths {
 public:
  InterleavedPaths(std::span<const StagePoint> stages, int micro_batches, int chunks)
      : pipe_(MakePipe(stages, chunks, false)),
        stages_(static_cast<int>(stages.size())),
        chunks_(chunks),
        passes_(micro_batches * chunks),
        first_s_(GroupStarts(pipe_.forward)),
        last_s_(GroupStarts(pipe_.backward)),
        head_(MakeEnd(
            pipe_.forward,
            pipe_.backward,
            pipe_.hop_s,
            [this](std::size_t j, std::size_t i) { return Bare(first_s_, pipe_.forward, j, i); })),
        tail_(MakeEnd(
            pipe_.backward, pipe_.forward, pipe_.hop_s, [this](std::size_t j, std::size_t i) {
              return Bare(last_s_, pipe_.backward, j, i);
            })) {}

  double Longest() const {
    const bool second_round = passes_ > (chunks_ + 1) * stages_;
    const Seconds in_s = second_round ? SecondRound(pipe_.forward, first_s_, head_) : Seconds();
    const Seconds out_s = second_round ? SecondRound(pipe_.backward, last_s_, tail_) : Seconds();
    double longest_s = 0;
    for (int i = 0; i < stages_; ++i) {
      const double head_s = head_.turn_s[At(i)], tail_s = tail_.turn_s[At(i)];
      longest_s = std::max({longest_s, head_.bare_s[At(i)] + tail_s, head_s + tail_.bare_s[At(i)]});
      const int periods = passes_ - 1 - Ahead(i);
      if (periods <= 0) continue;
      longest_s = std::max(longest_s, head_s + Loops(i, periods) + tail_s);
      if (!second_round) continue;
      // The pass that SecondRound reaches is `skipped` periods after the turn.
      const int skipped = (chunks_ + 1) * stages_ - Ahead(i);
      const double period_s = PeriodSeconds(i);
      if (skipped <= periods) {
        longest_s = std::max({longest_s,
                              in_s[At(i)] + (periods - skipped) * period_s + tail_s,
                              head_s + (periods - skipped) * period_s + out_s[At(i)]});
      }
      if (2 * skipped <= periods) {
        longest_s =
            std::max(longest_s, in_s[At(i)] + (periods - 2 * skipped) * period_s + out_s[At(i)]);
      }
    }
    return longest_s;
  }

 private:
  using Groups = std::vector<Seconds>;

  static std::size_t At(int i) { return static_cast<std::size_t>(i); }

  int Ahead(int i) const { return 2 * (stages_ - 1 - i) + (chunks_ - 1) * stages_; }

  double PeriodSeconds(int i) const {
    return pipe_.forward.pass_s[At(i)] + pipe_.backward.pass_s[At(i)];
  }

  /// The starts of the first v groups' first passes by stage, where all run one way.
  Groups GroupStarts(const Way& way) const {
    Groups starts = {Arrivals(way, pipe_.hop_s)};
    const std::size_t last = At(stages_ - 1);
    for (int group = 1; group < chunks_; ++group) {
      const Seconds& before_s = starts.back();
      Way next = way;
      for (std::size_t i = 0; i <= last; ++i) {
        next.extra_s[i] = before_s[i] + stages_ * way.pass_s[i];
      }
      next.extra_s[0] =
          std::max(next.extra_s[0], before_s[last] + way.pass_s[last] + pipe_.hop_s[last]);
      starts.push_back(Arrivals(next, pipe_.hop_s));
    }
    return starts;
  }

  double Bare(const Groups& starts, const Way& way, std::size_t j, std::size_t i) const {
    const int ahead = std::min(Ahead(static_cast<int>(i)), passes_ - 1);
    double longest_s = 0;
    for (int group = 0; group < chunks_ && group * stages_ <= ahead; ++group) {
      longest_s =
          std::max(longest_s, starts[At(group)][j] + (ahead - group * stages_) * way.pass_s[j]);
    }
    return longest_s;
  }

  /// To the end of F((v + 1) S) of each stage by F(v S) of the last stage: the first pass of the
  /// second round, and the same micro-batch's through the next chunk.
  Seconds SecondRound(const Way& way, const Groups& starts, const End& end) const {
    double longest_s = 0, down_s = 0;
    for (int i = stages_ - 1; i >= 0; --i) {
      const int periods = chunks_ * stages_ - Ahead(i);
      const double here_s = periods > 0 ? end.turn_s[At(i)] + periods * PeriodSeconds(i)
                                        : starts.back()[At(i)] + (stages_ + 1) * way.pass_s[At(i)];
      longest_s = std::max(longest_s, here_s + down_s);
      if (i > 0) down_s += way.pass_s[At(i)] + pipe_.hop_s[At(i - 1)];
    }
    Seconds reached_s;
    longest_s += pipe_.hop_s.back();
    for (int i = 0; i < stages_; ++i) {
      longest_s += way.pass_s[At(i)];
      reached_s.push_back(longest_s);
      longest_s += pipe_.hop_s[At(i)];
    }
    return reached_s;
  }

  /// `count` periods from the start of B(0), or longer: where hops take long, a round's backwards
  /// are quicker run than passed on, from one chunk to the next around the pipeline.
  double Loops(int i, int count) const {
    double around_s = 0;
    for (int j = 0; j < stages_; ++j) around_s += pipe_.backward.pass_s[At(j)] + pipe_.hop_s[At(j)];
    const int length = chunks_ * stages_, rounds = count / length;
    const double round_s = (chunks_ - 1) * around_s + stages_ * PeriodSeconds(i);
    return std::max(count * PeriodSeconds(i),
                    rounds * round_s + (count - rounds * length) * PeriodSeconds(i));
  }

  const Pipe pipe_;
  const int stages_;
  const int chunks_;
  const int passes_;
  const Groups first_s_;  // from the start of all
  const Groups last_s_;   // to the end of all
  const End head_;
  const End tail_;
};

/// The longest path through all passes of one way to the end of the last stage's last pass: it
/// stays on a stage, or on a boundary where transfers wait for each other.
double OneWay(const Way& way, const Seconds& hop_s, int passes) {
  const Seconds arrival_s = Arrivals(way, hop_s);
  double longest_s = 0, down_s = 0;
  for (std::size_t i = arrival_s.size(); i-- > 0;) {
    const double slowest_s =
        i + 1 < hop_s.size() ? std::max(way.pass_s[i], hop_s[i]) : way.pass_s[i];
    down_s += way.pass_s[i];
    longest_s = std::max(longest_s, arrival_s[i] + (passes - 1) * slowest_s + down_s);
    if (i > 0) down_s += hop_s[i - 1];
  }
  return longest_s;
}

}  // namespace

double PathGPipe(std::span<const StagePoint> stages, int micro_batches) {
  PALMIST_ASSERT(!stages.empty() && micro_batches >= 1);
  const Pipe pipe = MakePipe(stages, 1, false);
  return OneWay(pipe.forward, pipe.hop_s, micro_batches) +
         OneWay(pipe.backward, pipe.hop_s, micro_batches);
}

double Path1F1B(std::span<const StagePoint> stages, int micro_batches) {
  PALMIST_ASSERT(!stages.empty() && micro_batches >= 1);
  return SplitPaths(stages, micro_batches, false).Longest();
}

double PathZbH1(std::span<const StagePoint> stages, int micro_batches) {
  PALMIST_ASSERT(!stages.empty() && micro_batches >= 1);
  return SplitPaths(stages, micro_batches, true).Longest();
}

double PathInterleaved(std::span<const StagePoint> stages, int micro_batches, int chunks) {
  PALMIST_ASSERT(!stages.empty() && micro_batches >= 1 && chunks >= 2);
  PALMIST_ASSERT(micro_batches % static_cast<int>(stages.size()) == 0);
  return InterleavedPaths(stages, micro_batches, chunks).Longest();
}

double PathSeconds(std::string_view schedule,
                   std::span<const StagePoint> stages,
                   int micro_batches,
                   int chunks) {
  CheckSchedule(schedule, static_cast<int>(stages.size()), micro_batches, chunks);
  if (schedule == "gpipe") return PathGPipe(stages, micro_batches);
  if (schedule == "1f1b") return Path1F1B(stages, micro_batches);
  if (schedule == "zb-h1") return PathZbH1(stages, micro_batches);
  return PathInterleaved(stages, micro_batches, chunks);
}

}  // namespace palmist::schedule
