#include "palmist/planner/full_search.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "palmist/base/thread_pool.h"
#include "palmist/planner/evaluator.h"
#include "palmist/planner/space.h"
#include "palmist/solve/frontier.h"

namespace palmist::planner {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Numbers of micro-batches searched between two looks at the best so far. Fixed, so that the
/// answer does not depend on the number of threads.
constexpr int kRound = 4;

/// Labels of unfinished pipelines are rounded up, so that more of them are dominated. All stages
/// together add this share of the cut-off at most: an iteration grows by five grains at most where
/// each field of a label grows by one (twice by the sum, and once by each of the others).
constexpr double kLabelTolerance = 0.004;
constexpr double kLabelError = 5;

enum Field { kTotal, kBracket, kFirstExtra, kLastExtra, kTail, kFields };
using Label = std::array<double, kFields>;

/// Where a label came from.
struct Step {
  StageChoice choice;
  int next_first = 0;   ///< first layer of the stage behind
  int next_device = 0;  ///< its first device
  int next_shape = -1;  ///< -1: none
  int behind = -1;      ///< index of the label behind
};

using Frontier = solve::ParetoFrontier<kFields, Step>;
using Labels = std::vector<Frontier::Point>;

/// Layers and devices in front of a partial pipeline, and the shape of its front stage.
using Key = std::tuple<int, int, int>;

/// Sizes of stages: powers of two, and three times those, within a node; whole nodes in like
/// numbers; and all devices.
std::vector<int> StageSizes(const cluster::Cluster& cluster) {
  int node = 1;
  for (const cluster::NodeGroup& group : cluster.groups) {
    node = std::max(node, group.devices_per_node);
  }
  const int all = cluster.num_devices();
  std::vector<int> sizes;
  for (int size = 1; size <= all; ++size) {
    const bool is_in_node = size <= node;
    if (!is_in_node && size % node != 0) continue;
    const int count = is_in_node ? size : size / node;
    int odd = count;
    while (odd % 2 == 0) odd /= 2;
    if (odd == 1 || (odd == 3 && !is_in_node) || size == all || size == node) sizes.push_back(size);
  }
  return sizes;
}

/// Whether devices first … first + size - 1 are whole nodes, or part of one: at a multiple of their
/// number where nodes hold a power of two.
bool IsAligned(const cluster::Cluster& cluster, int first, int size) {
  if (first < 0) return false;
  const cluster::Place begin = cluster.PlaceOf(first);
  const int node = cluster.groups[static_cast<std::size_t>(begin.group)].devices_per_node;
  if (size < node) {
    const bool is_power = (node & (node - 1)) == 0;
    return begin.index_in_node + size <= node && (!is_power || begin.index_in_node % size == 0);
  }
  const cluster::Place end = cluster.PlaceOf(first + size - 1);
  return begin.index_in_node == 0 &&
         end.index_in_node + 1 ==
             cluster.groups[static_cast<std::size_t>(end.group)].devices_per_node;
}

/// Counts the bytes of all searches.
class MemoryBudget {
 public:
  explicit MemoryBudget(std::int64_t limit) : limit_(limit) {}

  void Add(std::int64_t bytes) {
    const std::int64_t now = used_ += bytes;
    std::int64_t before = peak_;
    while (now > before && !peak_.compare_exchange_weak(before, now)) {
    }
  }
  bool is_spent() const { return peak_ > limit_; }
  std::int64_t peak() const { return peak_; }

 private:
  std::int64_t limit_;
  std::atomic<std::int64_t> used_ = 0, peak_ = 0;
};

/// The search for one number of micro-batches.
class PipelineSearch {
 public:
  PipelineSearch(const PlanRequest& request,
                 const model::Graph& graph,
                 int micro_batches,
                 MemoryBudget& budget)
      : budget_(budget),
        request_(request),
        graph_(graph),
        micro_batches_(micro_batches),
        layers_(static_cast<int>(graph.layers.size())),
        devices_(request.cluster.num_devices()),
        shapes_(ShapesOf(request, graph, micro_batches)),
        choices_(request, graph, TrainingWith(request, micro_batches), shapes_) {
    for (int shape = 0; shape < static_cast<int>(shapes_.size()); ++shape) {
      least_device_s_ =
          std::min(least_device_s_, choices_.LeastSeconds(shape, layers_) * DevicesOf(shape));
    }
  }

  /// Returns a lower bound of any iteration: all work, spread evenly.
  double Bound() const { return micro_batches_ * least_device_s_ / devices_; }

  /// Returns the shortest pipeline below the cut-off; with `size`, of stages of so many devices.
  /// Cut-offs do not rise from one call to the next.
  std::optional<FoundPipeline> Search(double cutoff_s,
                                      int size,
                                      const std::function<bool()>& stop) {
    cutoff_s_ = cutoff_s;
    size_ = size;
    stop_ = &stop;
    levels_.clear();
    choices_.SetMostSeconds(cutoff_s / micro_batches_);
    grain_s_ = kLabelTolerance / kLabelError * cutoff_s / std::min(layers_, devices_);
    const int most_stages = std::min(layers_, devices_);
    std::optional<std::pair<int, int>> best;  // stages, index of the label
    Key best_key;
    for (int stages = 1; stages <= most_stages; ++stages) {
      // Once more where memory binds tighter.
      if ((stages & (stages - 1)) == 0) BoundAhead(stages);
      std::map<Key, Frontier> frontiers;
      if (stages == 1) {
        Prepend({layers_, devices_, -1}, nullptr, 0, frontiers);
      } else {
        for (const auto& [key, labels] : levels_[static_cast<std::size_t>(stages) - 2]) {
          if (IsStopped()) break;
          if (std::get<0>(key) > 0) Prepend(key, &labels, stages - 1, frontiers);
        }
      }
      bool is_alive = false;
      std::map<Key, Labels>& here = levels_.emplace_back();
      for (auto& [key, frontier] : frontiers) {
        const Labels& labels = here[key] = frontier.points();
        frontier = {};
        labels_ += std::ssize(labels);
        if (std::get<0>(key) > 0) {
          is_alive = true;
          continue;
        }
        if (request_.fixed.pp && *request_.fixed.pp != stages) continue;
        for (std::size_t i = 0; i < labels.size(); ++i) {
          const double seconds = IterationSeconds(labels[i].cost);
          if (seconds >= cutoff_s_) continue;
          cutoff_s_ = seconds;
          best = {stages, static_cast<int>(i)};
          best_key = key;
        }
      }
      if (!is_alive || is_stopped_) break;
      if (request_.fixed.pp && stages >= *request_.fixed.pp) break;
    }
    std::optional<FoundPipeline> found;
    if (best) found = Trace(best->first, best_key, best->second);
    levels_.clear();
    held_labels_ = 0;
    CountBytes();
    return found;
  }

  /// Frees what further searches would use again.
  void Clear() {
    choices_.Clear();
    CountBytes();
  }

  bool is_stopped() const { return is_stopped_; }
  std::int64_t evaluated() const { return choices_.evaluated(); }
  std::int64_t labels() const { return labels_; }

 private:
  static plan::Training TrainingWith(const PlanRequest& request, int micro_batches) {
    Candidate candidate;
    candidate.micro_batches = micro_batches;
    return TrainingOf(request, candidate);
  }

  static std::vector<StageShape> ShapesOf(const PlanRequest& request,
                                          const model::Graph& graph,
                                          int micro_batches) {
    std::vector<StageShape> shapes;
    const std::int64_t samples = request.global_batch / micro_batches;
    for (const int size : StageSizes(request.cluster)) {
      for (const cost::Layout& layout : StageLayouts(request, graph, size, samples)) {
        // A fixed stage of ZeRO needs replicas to shard over.
        if (ZeroVariants(request, layout, 1, /*has_others=*/true).empty()) continue;
        shapes.push_back({layout, size});
      }
    }
    return shapes;
  }

  /// Asks whether to stop; once it is so, it stays so.
  bool IsStopped() {
    CountBytes();
    is_stopped_ = is_stopped_ || budget_.is_spent() || (*stop_ && (*stop_)());
    return is_stopped_;
  }

  /// Tells the budget what this search holds.
  void CountBytes() {
    const std::int64_t bytes =
        choices_.bytes() + held_labels_ * static_cast<std::int64_t>(sizeof(Frontier::Point));
    budget_.Add(bytes - counted_bytes_);
    counted_bytes_ = bytes;
  }

  int DevicesOf(int shape) const { return shapes_[static_cast<std::size_t>(shape)].devices; }

  static double IterationSeconds(const Label& label) {
    return label[kBracket] + label[kFirstExtra] + label[kLastExtra] + label[kTail];
  }

  /// Sets what is ahead at least of `stages` others, for each number of layers and of devices: the
  /// slowest stage's time of a micro-batch, and the sum over stages. Memory counts: what is in
  /// flight in front is no less. Ends are left out: their layers are taken for middle ones.
  void BoundAhead(int stages) {
    const double most_s = cutoff_s_ / micro_batches_;
    struct Block {
      int devices, layers;
      double least_s;
    };
    std::map<std::pair<int, int>, double> least_of;
    for (int shape = 0; shape < static_cast<int>(shapes_.size()); ++shape) {
      if (size_ > 0 && DevicesOf(shape) != size_) continue;
      if (IsStopped()) break;
      for (int count = 1; count <= layers_; ++count) {
        double least_s = kNever;
        for (int first = 0; first + count <= layers_; ++first) {
          least_s = std::min(
              least_s,
              choices_.LeastSeconds(shape, first + count) - choices_.LeastSeconds(shape, first));
        }
        if (least_s >= most_s) break;
        // Of unlike layers or devices one place says nothing about the others.
        if (AreAllAlike() && count + 1 < layers_) {
          const StagePlace place = {stages, 1, count, 0};
          double found_s = kNever;
          for (const StageChoice& choice : choices_.At(shape, place)) {
            found_s = std::min(found_s, choice.point.total_s());
          }
          least_s = std::max(least_s, found_s);
          if (least_s >= most_s) break;
        }
        const auto [kept, is_new] = least_of.try_emplace({DevicesOf(shape), count}, least_s);
        if (!is_new) kept->second = std::min(kept->second, least_s);
      }
    }
    std::vector<Block> blocks;
    for (const auto& [key, least_s] : least_of) blocks.push_back({key.first, key.second, least_s});
    const auto size =
        static_cast<std::size_t>(layers_ + 1) * static_cast<std::size_t>(devices_ + 1);
    slowest_ahead_.assign(size, kNever);
    total_ahead_.assign(size, kNever);
    for (int devices = 0; devices <= devices_; ++devices) {
      slowest_ahead_[Ahead(0, devices)] = total_ahead_[Ahead(0, devices)] = 0;
    }
    for (int devices = 1; devices <= devices_; ++devices) {
      for (int layers = 1; layers <= layers_; ++layers) {
        double slowest = slowest_ahead_[Ahead(layers, devices - 1)];
        double total = total_ahead_[Ahead(layers, devices - 1)];
        for (const Block& block : blocks) {
          if (block.devices > devices) break;
          if (block.layers > layers) continue;
          const std::size_t rest = Ahead(layers - block.layers, devices - block.devices);
          slowest = std::min(slowest, std::max(block.least_s, slowest_ahead_[rest]));
          total = std::min(total, block.least_s + total_ahead_[rest]);
        }
        slowest_ahead_[Ahead(layers, devices)] = slowest;
        total_ahead_[Ahead(layers, devices)] = total;
      }
    }
  }

  bool AreAllAlike() const {
    return graph_.kinds.size() == 1 && request_.cluster.groups.size() == 1 &&
           request_.cluster.slow_devices.empty();
  }

  std::size_t Ahead(int layers, int devices) const {
    return static_cast<std::size_t>(devices) * static_cast<std::size_t>(layers_ + 1) +
           static_cast<std::size_t>(layers);
  }

  /// Whether a label with these layers and devices in front must end at or above the cut-off.
  bool IsHopeless(const Label& label, int layers, int devices) const {
    const std::size_t at = Ahead(layers, devices);
    // Each second of a stage in front hides one of either extra at most.
    const double extra_s = label[kFirstExtra] + label[kLastExtra];
    return std::max(label[kBracket] + std::max(total_ahead_[at], extra_s),
                    micro_batches_ * slowest_ahead_[at]) +
               label[kTail] >=
           cutoff_s_;
  }

  /// Puts a stage in front of each pipeline under a key.
  void Prepend(const Key& key,
               const Labels* behind,
               int stages_behind,
               std::map<Key, Frontier>& to) {
    const auto [end_layer, end_device, next_shape] = key;
    for (int shape = 0; shape < static_cast<int>(shapes_.size()); ++shape) {
      if (size_ > 0 && DevicesOf(shape) != size_) continue;
      const int first_device = end_device - DevicesOf(shape);
      if (!IsAligned(request_.cluster, first_device, DevicesOf(shape))) continue;
      if (next_shape >= 0 && !FitTogether(shape, next_shape)) continue;
      if (IsStopped()) return;
      const double hop_s =
          next_shape >= 0 ? choices_.HopSeconds(shape, next_shape, end_layer - 1, first_device) : 0;
      for (int first = end_layer - 1; first >= 0; --first) {
        const int count = end_layer - first;
        if (!IsNearMean(shape, count)) continue;
        const double least_s = choices_.LeastSeconds(shape, end_layer) -
                               choices_.LeastSeconds(shape, first) + 2 * hop_s;
        if (micro_batches_ * least_s >= cutoff_s_) break;  // more layers take longer still
        if (micro_batches_ * slowest_ahead_[Ahead(first, first_device)] >= cutoff_s_) continue;
        const StagePlace place = {stages_behind, first, end_layer - 1, first_device};
        for (const StageChoice& choice : choices_.At(shape, place)) {
          StageChoice here = choice;
          here.point.forward_s += hop_s;
          here.point.backward_s += hop_s;
          const Step step = {here, end_layer, end_device, next_shape, -1};
          if (behind == nullptr) {
            Add({first, first_device, shape}, Extended(here, nullptr, 0), step, to);
            continue;
          }
          for (std::size_t i = 0; i < behind->size(); ++i) {
            Step to_behind = step;
            to_behind.behind = static_cast<int>(i);
            Add({first, first_device, shape},
                Extended(here, &(*behind)[i].cost, stages_behind),
                to_behind,
                to);
          }
        }
      }
    }
  }

  /// Whether two shapes may be neighbours: samples and their parts in sequence are handed over.
  bool FitTogether(int shape, int next) const {
    const cost::Layout& a = shapes_[static_cast<std::size_t>(shape)].layout;
    const cost::Layout& b = shapes_[static_cast<std::size_t>(next)].layout;
    switch (request_.space.likeness) {
      case Likeness::kAll:
      case Likeness::kShape:
        return shape == next;
      case Likeness::kSamples:
        return a.cp == b.cp && a.dp == b.dp;
      case Likeness::kFree:
        return a.cp == b.cp;
    }
    return false;
  }

  /// Whether a stage may have so many layers: near the mean, where all stages have one shape.
  bool IsNearMean(int shape, int count) const {
    if (request_.space.layers_around_mean >= layers_) return true;
    const int stages = devices_ / DevicesOf(shape);
    return std::abs(count * stages - layers_) <= request_.space.layers_around_mean * stages;
  }

  Label Extended(const StageChoice& choice, const Label* behind, int stages_behind) const {
    static constexpr Label kNone{};
    const Label& rest = behind != nullptr ? *behind : kNone;
    const schedule::StagePoint& point = choice.point;
    Label label;
    label[kTotal] = point.total_s() + rest[kTotal];
    label[kFirstExtra] = std::max({0.0, point.first_extra_s, rest[kFirstExtra] - point.forward_s});
    label[kLastExtra] = std::max({0.0, point.last_extra_s, rest[kLastExtra] - point.backward_s});
    label[kTail] = std::max(choice.tail_s, rest[kTail]);
    label[kBracket] =
        std::max(schedule::Bracket1F1B(point, rest[kTotal], stages_behind, micro_batches_),
                 rest[kBracket] + point.total_s());
    return label;
  }

  void Add(const Key& key, const Label& label, const Step& step, std::map<Key, Frontier>& to) {
    if (IsHopeless(label, std::get<0>(key), std::get<1>(key))) return;
    Label rounded = label;
    if (std::get<0>(key) > 0) {
      for (double& field : rounded) field = std::ceil(field / grain_s_) * grain_s_;
    }
    Frontier& frontier = to[key];
    held_labels_ -= static_cast<std::int64_t>(frontier.size());
    frontier.Insert(rounded, step);
    held_labels_ += static_cast<std::int64_t>(frontier.size());
  }

  FoundPipeline Trace(int stages, Key key, int index) const {
    FoundPipeline found;
    found.micro_batches = micro_batches_;
    for (int k = stages; k >= 1; --k) {
      const Frontier::Point& label =
          levels_[static_cast<std::size_t>(k) - 1].at(key)[static_cast<std::size_t>(index)];
      if (k == stages) found.iteration_s = IterationSeconds(label.cost);
      const Step& step = label.tag;
      const auto [first, first_device, shape] = key;
      found.stages.push_back({shapes_[static_cast<std::size_t>(shape)],
                              step.choice,
                              first_device,
                              first,
                              step.next_first - 1});
      key = {step.next_first, step.next_device, step.next_shape};
      index = step.behind;
    }
    return found;
  }

  MemoryBudget& budget_;
  const PlanRequest& request_;
  const model::Graph& graph_;
  int micro_batches_, layers_, devices_;
  std::vector<StageShape> shapes_;
  StageChoices choices_;
  double least_device_s_ = kNever;                   // of all layers, times devices
  std::vector<double> slowest_ahead_, total_ahead_;  // see BoundAhead
  std::vector<std::map<Key, Labels>> levels_;
  double cutoff_s_ = kNever;
  double grain_s_ = 0;  // labels are rounded up to it
  int size_ = 0;        // of all stages; 0: any
  const std::function<bool()>* stop_ = nullptr;
  bool is_stopped_ = false;
  std::int64_t labels_ = 0;       // of all levels and searches
  std::int64_t held_labels_ = 0;  // in memory now
  std::int64_t counted_bytes_ = 0;
};

}  // namespace

FullSearchResult SearchFullSpace(const PlanRequest& request,
                                 const model::Graph& graph,
                                 const FullSearchOptions& options) {
  FullSearchResult result;
  const std::vector<int> counts = MicroBatchCounts(request);
  MemoryBudget budget(options.most_bytes);
  std::vector<std::unique_ptr<PipelineSearch>> searches(counts.size());
  ParallelFor(std::ssize(counts), request.threads, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      searches[static_cast<std::size_t>(i)] = std::make_unique<PipelineSearch>(
          request, graph, counts[static_cast<std::size_t>(i)], budget);
    }
  });
  std::sort(searches.begin(), searches.end(), [](const auto& a, const auto& b) {
    return a->Bound() < b->Bound();
  });
  double shortest = options.cutoff_s;
  // What stands for a pipeline may take a little longer than it.
  const auto wanted = [&] {
    return shortest * (1 - options.gap) * (1 + kIterationTolerance + kLabelTolerance);
  };
  const std::vector<int> sizes = StageSizes(request.cluster);
  const std::size_t rounds = (searches.size() + kRound - 1) / kRound * (sizes.size() + 1);
  std::size_t rounds_done = 0;
  // Runs some searches at one cut-off, so that the answer does not depend on the threads.
  const auto run = [&](std::span<const std::pair<std::size_t, int>> tasks) {
    const double cutoff_s = wanted();
    std::vector<std::optional<FoundPipeline>> found(tasks.size());
    ParallelFor(std::ssize(tasks), request.threads, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto [index, size] = tasks[static_cast<std::size_t>(i)];
        if (searches[index]->Bound() >= cutoff_s) continue;
        found[static_cast<std::size_t>(i)] = searches[index]->Search(cutoff_s, size, options.stop);
        if (size == 0) searches[index]->Clear();  // that was its last
      }
    });
    for (std::optional<FoundPipeline>& pipeline : found) {
      if (!pipeline || pipeline->iteration_s >= shortest) continue;
      shortest = pipeline->iteration_s;
      result.best = {std::move(*pipeline)};
    }
    ++rounds_done;
    if (options.progress) {
      options.progress(static_cast<double>(rounds_done) / static_cast<double>(rounds),
                       result.best.empty() ? 0 : result.best.front().iteration_s);
    }
  };
  const auto is_stopped = [&] {
    return std::any_of(
        searches.begin(), searches.end(), [](const auto& search) { return search->is_stopped(); });
  };
  // Stages of one size first: few, and often near the best, which then cuts off more.
  for (const int size : sizes) {
    for (std::size_t i = 0; i < searches.size() && !is_stopped(); i += kRound) {
      std::vector<std::pair<std::size_t, int>> tasks;
      for (std::size_t k = i; k < std::min(i + kRound, searches.size()); ++k) {
        tasks.emplace_back(k, size);
      }
      run(tasks);
    }
  }
  std::size_t done = 0;
  while (done < searches.size() && searches[done]->Bound() < wanted() && !is_stopped()) {
    std::vector<std::pair<std::size_t, int>> tasks;
    for (std::size_t k = done; k < std::min(done + kRound, searches.size()); ++k) {
      tasks.emplace_back(k, 0);
    }
    run(tasks);
    done += tasks.size();
  }
  result.is_complete = !is_stopped();
  result.is_out_of_memory = budget.is_spent();
  result.peak_bytes = budget.peak();
  // What was searched has nothing below the cut-off of its round but what was found.
  result.lower_bound_s = shortest * (1 - options.gap);
  for (std::size_t i = 0; i < searches.size(); ++i) {
    result.evaluated += searches[i]->evaluated();
    result.labels += searches[i]->labels();
    if (i >= done || searches[i]->is_stopped()) {
      result.lower_bound_s = std::min(result.lower_bound_s, searches[i]->Bound());
    }
  }
  return result;
}

plan::Plan MakePlan(const PlanRequest& request,
                    const model::Graph& graph,
                    const FoundPipeline& found) {
  Candidate candidate;
  candidate.micro_batches = found.micro_batches;
  plan::Plan plan = EmptyPlan(request, graph, candidate);
  const std::vector<model::OpVariants> variants = CandidateVariants(request);
  for (const FoundStage& at : found.stages) {
    plan::Stage stage;
    stage.devices.resize(static_cast<std::size_t>(at.shape.devices));
    std::iota(stage.devices.begin(), stage.devices.end(), at.first_device);
    stage.first_layer = at.first_layer;
    stage.last_layer = at.last_layer;
    stage.embedding = at.first_layer == 0;
    stage.head = at.last_layer + 1 == static_cast<int>(graph.layers.size());
    cost::SetLayout(at.shape.layout, stage);
    stage.zero = at.choice.zero;
    stage.zero_shard = at.choice.zero_shard;
    stage.ops = variants[static_cast<std::size_t>(at.choice.ops)];
    stage.offload = at.choice.offload;
    RecomputeLast(at.choice.recomputed, stage);
    plan.stages.push_back(std::move(stage));
  }
  cost::Predict(plan, graph, request.calibration, PredictOptionsOf(request));
  return plan;
}

}  // namespace palmist::planner
