#include "palmist/cost/layout.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace palmist::cost {
namespace {

using cluster::CollectiveKind;

/// The slowest of the like groups that start at `starts`, of `size` devices `stride` apart.
/// Groups that lie alike in their nodes are priced once.
Rate SlowestGroup(const LayoutContext& context,
                  const std::vector<int>& devices,
                  CollectiveKind kind,
                  int size,
                  int stride,
                  int span) {
  Rate slowest;
  if (size <= 1) return slowest;
  const int count = static_cast<int>(devices.size());
  std::set<std::vector<int>> seen;
  std::vector<int> members(static_cast<std::size_t>(size));
  // Groups are blocks of `span` devices; inside a block each offset below `stride` is one.
  for (int block = 0; block + span <= count; block += span) {
    for (int offset = 0; offset < stride; ++offset) {
      std::vector<int> shape;
      for (int i = 0; i < size; ++i) {
        const int rank = block + offset + i * stride;
        const int device = devices[static_cast<std::size_t>(rank)];
        members[static_cast<std::size_t>(i)] = device;
        const cluster::Place place = context.cluster.PlaceOf(device);
        shape.push_back(place.group);
        shape.push_back(place.node - context.cluster.PlaceOf(members[0]).node);
      }
      if (!seen.insert(shape).second) continue;
      const cluster::CollectiveCost cost =
          cluster::GroupCost(context.cluster, context.calibration, kind, members);
      slowest.alpha_s = std::max(slowest.alpha_s, cost.alpha_s);
      slowest.s_per_byte =
          std::max(slowest.s_per_byte, cluster::WireFactor(kind, size) / cost.bytes_per_s);
    }
  }
  return slowest;
}

/// The slowest of the sends from each rank of a stage to its like of the next, all at once: those
/// that leave a node share its cards. Pairs that lie alike are priced once.
Rate SlowestSend(const LayoutContext& context,
                 const std::vector<int>& from,
                 const std::vector<int>& to) {
  const std::size_t count = std::min(from.size(), to.size());
  const auto pair = [&](std::size_t i) {
    return std::pair(context.cluster.PlaceOf(from[i * from.size() / count]),
                     context.cluster.PlaceOf(to[i * to.size() / count]));
  };
  std::map<int, int> leaving;  // node to its ranks that send to another node
  for (std::size_t i = 0; i < count; ++i) {
    const auto [here, there] = pair(i);
    if (here.node != there.node) ++leaving[here.node];
  }
  Rate slowest;
  std::set<std::tuple<int, int, int>> seen;
  for (std::size_t i = 0; i < count; ++i) {
    const auto [here, there] = pair(i);
    const int sharing = here.node == there.node ? 0 : leaving[here.node];
    if (!seen.insert({here.group, there.group, sharing}).second) continue;
    const int device = from[i * from.size() / count];
    const std::vector<int> ends = {device, to[i * to.size() / count]};
    std::vector<cluster::CollectiveCost> costs = {
        cluster::GroupCost(context.cluster, context.calibration, CollectiveKind::kSendRecv, ends)};
    if (sharing > 1) {
      costs.push_back(cluster::GroupCost(context.cluster.group_of(device),
                                         context.calibration.For(context.cluster.DeviceAt(device)),
                                         CollectiveKind::kSendRecv,
                                         sharing,
                                         2));
    }
    for (const cluster::CollectiveCost& cost : costs) {
      slowest.alpha_s = std::max(slowest.alpha_s, cost.alpha_s);
      slowest.s_per_byte = std::max(slowest.s_per_byte, 1 / cost.bytes_per_s);
    }
  }
  return slowest;
}

}  // namespace

StageRates ComputeRates(const LayoutContext& context,
                        const Layout& layout,
                        const std::vector<int>& devices,
                        const std::vector<int>& next) {
  PALMIST_ASSERT(static_cast<int>(devices.size()) == layout.dp * layout.tp * layout.cp);
  StageRates rates;
  LayoutInputs& in = rates.inputs;
  in.b = layout.micro_batch;
  in.s = context.seq_len;
  in.tp = layout.tp;
  in.sd = layout.sp ? layout.tp : 1;
  in.cp = layout.cp;
  in.ep = layout.ep;
  in.x = context.expert_imbalance;
  in.grad_bytes = context.grad_bytes;

  rates.usable_bytes = rates.host_bytes = std::numeric_limits<double>::infinity();
  std::set<std::pair<int, double>> seen;
  for (const int index : devices) {
    const cluster::Device device = context.cluster.DeviceAt(index);
    const int group_index = context.cluster.PlaceOf(index).group;
    const double peak = device.PeakFlopsPerS(context.dtype);
    rates.peak_flops_per_s += peak;
    if (!seen.insert({group_index, device.speed}).second) continue;
    const cluster::NodeGroup& group = context.cluster.group_of(index);
    const cluster::DeviceCalibration& calibration = context.calibration.For(device);
    const cluster::SaturationCurve& gemm = calibration.compute.GemmCurve(context.dtype);
    const double memory_rate = device.memory_bytes_per_s * device.speed;
    const auto slower = [](double& value, double candidate) { value = std::max(value, candidate); };
    slower(in.gemm_s_per_flop, 1 / (peak * gemm.max_fraction));
    slower(in.gemm_launch_s,
           gemm.half_flops / (peak * gemm.max_fraction) + calibration.compute.launch_s);
    slower(in.attention_s_per_flop, 1 / (peak * calibration.compute.attention_fraction));
    slower(in.memory_s_per_byte, 1 / (memory_rate * calibration.compute.memory_bound_fraction));
    slower(in.launch_s, calibration.compute.launch_s);
    slower(rates.optimizer_s_per_byte, 1 / (memory_rate * calibration.compute.optimizer_fraction));
    slower(rates.host_to_device_s_per_byte,
           1 / (group.host_to_device.bytes_per_s * calibration.links.host_to_device_fraction));
    slower(rates.device_to_host_s_per_byte,
           1 / (group.device_to_host.bytes_per_s * calibration.links.device_to_host_fraction));
    if (device.usable_bytes() < rates.usable_bytes) {
      rates.usable_bytes = device.usable_bytes();
      rates.overheads = calibration.memory;
    }
    rates.host_bytes = std::min(rates.host_bytes, group.host_memory_per_device_bytes());
    const bool one_node = context.cluster.PlaceOf(devices.front()).node ==
                          context.cluster.PlaceOf(devices.back()).node;
    rates.interference = one_node ? calibration.interference : calibration.interference_inter_node;
  }

  const auto fill = [&](LayoutInputs::Group& group, int size, int stride) {
    const auto rate = [&](CollectiveKind kind) {
      return SlowestGroup(context, devices, kind, size, stride, size * stride);
    };
    const Rate reduce = rate(CollectiveKind::kAllReduce);
    const Rate gather = rate(CollectiveKind::kAllGather);
    const Rate scatter = rate(CollectiveKind::kReduceScatter);
    const Rate exchange = rate(CollectiveKind::kAllToAll);
    group = {reduce.alpha_s,
             reduce.s_per_byte,
             gather.alpha_s,
             gather.s_per_byte,
             scatter.alpha_s,
             scatter.s_per_byte,
             exchange.alpha_s,
             exchange.s_per_byte};
  };
  fill(in.tp_group, layout.tp, 1);
  fill(in.cp_group, layout.cp, layout.tp);
  fill(in.ep_group, layout.ep, layout.tp);
  const int replicas = layout.dp * layout.cp;
  rates.data_all_reduce = SlowestGroup(
      context, devices, CollectiveKind::kAllReduce, replicas, layout.tp, replicas * layout.tp);
  rates.shard_gather = SlowestGroup(context,
                                    devices,
                                    CollectiveKind::kAllGather,
                                    layout.zero_shard,
                                    layout.tp,
                                    layout.zero_shard * layout.tp);
  rates.shard_scatter = SlowestGroup(context,
                                     devices,
                                     CollectiveKind::kReduceScatter,
                                     layout.zero_shard,
                                     layout.tp,
                                     layout.zero_shard * layout.tp);
  rates.send = SlowestSend(context, devices, next);
  return rates;
}

Rate PairAllReduce(const LayoutContext& context, int first_device, int last_device) {
  if (first_device == last_device) return {};
  const std::vector<int> pair = {first_device, last_device};
  const cluster::CollectiveCost cost =
      cluster::GroupCost(context.cluster, context.calibration, CollectiveKind::kAllReduce, pair);
  return {cost.alpha_s, cluster::WireFactor(CollectiveKind::kAllReduce, 2) / cost.bytes_per_s};
}

}  // namespace palmist::cost
