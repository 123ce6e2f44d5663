#include "palmist/planner/stage_choices.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include "palmist/planner/evaluator.h"
#include "palmist/planner/space.h"

namespace palmist::planner {
namespace {

constexpr int kOffloadCounts = 8;

std::vector<int> DevicesFrom(int first, int count) {
  std::vector<int> devices(static_cast<std::size_t>(count));
  std::iota(devices.begin(), devices.end(), first);
  return devices;
}

double LeastOf(const cost::LayerCost<double>& layer) {
  return layer.forward_s + layer.backward_s + layer.tp_forward_s + layer.tp_backward_s +
         layer.cp_forward_s + layer.cp_backward_s + layer.ep_forward_s + layer.ep_backward_s;
}

/// Whether a pipeline with `a` in place of `b` takes hardly longer; see kTolerance.
bool StandsFor(const StageChoice& a, const StageChoice& b) {
  const double extra_s = kTolerance * b.point.total_s();
  return a.point.forward_s <= (1 + kTolerance) * b.point.forward_s &&
         a.point.backward_s <= (1 + kTolerance) * b.point.backward_s &&
         a.point.first_extra_s <= b.point.first_extra_s + extra_s &&
         a.point.last_extra_s <= b.point.last_extra_s + extra_s && a.tail_s <= b.tail_s;
}

}  // namespace

/// Layer costs and rates of a shape, by how ZeRO shards.
struct StageChoices::Costs {
  cost::ModelCost<double> layers;
  std::vector<std::pair<cost::Layout, cost::StageRates>> rates;
};

StageChoices::StageChoices(const PlanRequest& request,
                           const model::Graph& graph,
                           const plan::Training& training,
                           const std::vector<StageShape>& shapes)
    : request_(request),
      graph_(graph),
      shapes_(shapes),
      variants_(CandidateVariants(request)),
      estimator_(graph,
                 request.cluster,
                 request.calibration,
                 training,
                 static_cast<double>(request.seq_len),
                 PredictOptionsOf(request)) {
  for (const cluster::NodeGroup& group : request.cluster.groups) {
    node_devices_ = std::max(node_devices_, group.devices_per_node);
  }
  for (int shape = 0; shape < static_cast<int>(shapes.size()); ++shape) {
    std::vector<double> fastest(graph.kinds.size(), std::numeric_limits<double>::infinity());
    // Where places are not alike, a stage may begin at any device.
    const int devices = request.cluster.num_devices();
    const bool is_alike =
        request.cluster.groups.size() == 1 && request.cluster.slow_devices.empty();
    const int last = devices - shapes[static_cast<std::size_t>(shape)].devices;
    for (int first_device = 0; first_device <= (is_alike ? 0 : last); ++first_device) {
      for (int ops = 0; ops < static_cast<int>(variants_.size()); ++ops) {
        const Costs& costs = CostsOf(shape, ops, first_device);
        for (std::size_t kind = 0; kind < fastest.size(); ++kind) {
          fastest[kind] = std::min(fastest[kind], LeastOf(costs.layers.kinds[kind]));
        }
      }
    }
    std::vector<double>& least = least_s_.emplace_back(1, 0.0);
    for (const int kind : graph.layers) {
      least.push_back(least.back() + fastest[static_cast<std::size_t>(kind)]);
    }
  }
}

StageChoices::~StageChoices() = default;

int StageChoices::PlaceClass(int shape, int first_device) const {
  if (!request_.cluster.slow_devices.empty()) return first_device;
  const int last = first_device + shapes_[static_cast<std::size_t>(shape)].devices - 1;
  const int groups = static_cast<int>(request_.cluster.groups.size());
  return request_.cluster.PlaceOf(first_device).group * groups +
         request_.cluster.PlaceOf(last).group;
}

const StageChoices::Costs& StageChoices::CostsOf(int shape, int ops, int first_device) {
  std::unique_ptr<Costs>& kept = costs_[{shape, ops, PlaceClass(shape, first_device)}];
  if (kept != nullptr) return *kept;
  kept = std::make_unique<Costs>();
  const StageShape& of = shapes_[static_cast<std::size_t>(shape)];
  const std::vector<int> devices = DevicesFrom(first_device, of.devices);
  for (const cost::Layout& layout :
       ZeroVariants(request_, of.layout, node_devices_, /*has_others=*/true)) {
    kept->rates.emplace_back(layout,
                             cost::ComputeRates(estimator_.layout_context(), layout, devices, {}));
  }
  kept->layers = estimator_.ModelFor(variants_[static_cast<std::size_t>(ops)])
                     .Evaluate(std::span(&kept->rates.front().second.inputs, 1))
                     .front();
  return *kept;
}

double StageChoices::HopSeconds(int shape, int next, int last_layer, int first_device) {
  const StageShape& here = shapes_[static_cast<std::size_t>(shape)];
  const StageShape& there = shapes_[static_cast<std::size_t>(next)];
  const int kind = graph_.layers[static_cast<std::size_t>(last_layer) + 1];
  const int beyond = first_device + here.devices;
  const cluster::Place from = request_.cluster.PlaceOf(beyond - 1);
  const cluster::Place to = request_.cluster.PlaceOf(beyond);
  const bool is_apart = from.node != to.node;
  const int key =
      (PlaceClass(shape, first_device) * 1024 + PlaceClass(next, beyond)) * 2 + is_apart;
  const auto [found, is_new] = hops_.try_emplace({shape, next, kind, key}, 0.0);
  if (!is_new) return found->second;
  const std::vector<int> devices = DevicesFrom(first_device, here.devices);
  const cost::StageRates rates = cost::ComputeRates(
      estimator_.layout_context(), here.layout, devices, DevicesFrom(beyond, there.devices));
  const auto bytes = [&](int of, int at) {
    const cost::LayerCost<double>& layer =
        CostsOf(of, 0, at).layers.kinds[static_cast<std::size_t>(kind)];
    return layer.input + layer.memory;
  };
  found->second = rates.send.Seconds(std::max(bytes(shape, first_device), bytes(next, beyond)));
  return found->second;
}

double StageChoices::LeastSeconds(int shape, int layer) const {
  return least_s_[static_cast<std::size_t>(shape)][static_cast<std::size_t>(layer)];
}

const std::vector<StageChoice>& StageChoices::At(int shape, const StagePlace& place) {
  const int num_layers = static_cast<int>(graph_.layers.size());
  const int count = place.last_layer - place.first_layer + 1;
  const bool is_last = place.last_layer + 1 == num_layers;
  const int in_flight = std::min(place.stages_behind, estimator_.training().micro_batches - 1);
  // Layers of one kind are alike wherever they are.
  const bool is_uniform = graph_.kinds.size() == 1;
  const auto [found, is_new] = choices_.try_emplace({shape,
                                                     PlaceClass(shape, place.first_device),
                                                     in_flight,
                                                     is_uniform ? count : place.first_layer,
                                                     is_uniform ? 0 : place.last_layer,
                                                     place.first_layer == 0,
                                                     is_last},
                                                    std::vector<StageChoice>());
  if (!is_new) return found->second;

  plan::Stage stage;
  const StageShape& of = shapes_[static_cast<std::size_t>(shape)];
  stage.devices = DevicesFrom(place.first_device, of.devices);
  stage.first_layer = place.first_layer;
  stage.last_layer = place.last_layer;
  stage.embedding = place.first_layer == 0;
  stage.head = is_last;
  cost::SetLayout(of.layout, stage);
  const int stages_in_front = place.first_layer == 0 ? 0 : 1;
  const int stages = stages_in_front + place.stages_behind + 1;
  const int devices = request_.cluster.num_devices();
  const cost::Estimator::Position position = {
      .index = stages_in_front,
      .num_stages = stages,
      .world = devices,
      .most_stages = stages > 1 ? std::min(num_layers, devices) : 0};
  const cost::Rate tied =
      cost::PairAllReduce(estimator_.layout_context(), 0, request_.cluster.num_devices() - 1);

  std::vector<StageChoice> tried;
  const auto add = [&](StageChoice choice) {
    choice.point = AsSeen(request_, estimator_.training().micro_batches, choice.point);
    if (choice.point.total_s() < most_s_) tried.push_back(choice);
  };
  const plan::OffloadRatios fixed_offload = request_.fixed.OffloadOver();
  const auto [fewest, most_recomputed] = RecomputeRange(request_, count);
  for (int ops = 0; ops < static_cast<int>(variants_.size()); ++ops) {
    const Costs& costs = CostsOf(shape, ops, place.first_device);
    stage.ops = variants_[static_cast<std::size_t>(ops)];
    for (const auto& [layout, rates] : costs.rates) {
      stage.zero = layout.zero;
      stage.zero_shard = layout.zero_shard;
      const auto terms_of = [&](int recomputed) {
        std::vector<bool> is_recomputed(static_cast<std::size_t>(count), false);
        std::fill(is_recomputed.end() - recomputed, is_recomputed.end(), true);
        cost::StageRates here = rates;
        here.send = {};  // added for each neighbour
        return estimator_.Terms(
            stage,
            cost::CountLayers(graph_, place.first_layer, place.last_layer, is_recomputed),
            position,
            costs.layers,
            here,
            tied);
      };
      StageChoice choice;
      choice.ops = ops;
      choice.zero = layout.zero;
      choice.zero_shard = layout.zero_shard;
      choice.offload = fixed_offload;
      const auto fits = [&](int recomputed, cost::StageEstimate& estimate) {
        estimate = cost::Compose(terms_of(recomputed), fixed_offload);
        ++evaluated_;
        return estimate.ExcessBytes() <= 0;
      };
      // The fewest recomputed layers that fit: memory falls with their number.
      int low = fewest, high = most_recomputed;
      cost::StageEstimate estimate;
      bool is_found = fits(low, estimate);
      if (!is_found && high > low && fits(high, estimate)) {
        is_found = true;
        while (high - low > 1) {
          const int middle = low + (high - low) / 2;
          cost::StageEstimate at_middle;
          if (fits(middle, at_middle)) {
            high = middle;
            estimate = at_middle;
          } else {
            low = middle;
          }
        }
        low = high;
      }
      if (is_found) {
        choice.recomputed = low;
        choice.point = estimate.point;
        choice.tail_s = estimate.optimizer_s;
        add(choice);
        if (low == fewest) continue;
      }
      if (request_.fixed.fixes_offload() || request_.space.offload != OffloadChoice::kGrid) {
        continue;
      }
      // With offload fewer layers do, down to none.
      const int most = is_found ? low - 1 : most_recomputed;
      const int step = std::max(1, (most + kOffloadCounts - 1) / kOffloadCounts);
      for (int recomputed = fewest; recomputed <= most; recomputed += step) {
        const cost::StageTerms terms = terms_of(recomputed);
        if (terms.forward_compute_s + terms.backward_compute_s + terms.forward_serial_s +
                terms.backward_serial_s >=
            most_s_) {
          break;  // more of them take longer
        }
        for (const cost::OffloadPoint& point :
             cost::OffloadFrontier(terms, cost::kOffloadRatios, evaluated_, most_s_)) {
          choice.recomputed = recomputed;
          choice.point = point.point;
          choice.tail_s = terms.is_step_deferred ? 0 : terms.step_s;
          choice.offload = point.ratios;
          add(choice);
        }
      }
    }
  }
  std::stable_sort(tried.begin(), tried.end(), [](const StageChoice& a, const StageChoice& b) {
    return a.point.total_s() < b.point.total_s();
  });
  std::vector<StageChoice>& kept = found->second;
  for (const StageChoice& choice : tried) {
    if (std::none_of(kept.begin(), kept.end(), [&](const StageChoice& other) {
          return StandsFor(other, choice);
        })) {
      kept.push_back(choice);
    }
  }
  constexpr std::int64_t kEntryBytes = 128;  // of the map, key included
  kept.shrink_to_fit();
  bytes_ += kEntryBytes + std::ssize(kept) * static_cast<std::int64_t>(sizeof(StageChoice));
  return kept;
}

void StageChoices::Clear() {
  choices_.clear();
  bytes_ = 0;
}

}  // namespace palmist::planner
