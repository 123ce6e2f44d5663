/// Degrees and devices of a stage, turned into the rates its costs are evaluated with.
#pragma once

#include <vector>

#include "palmist/cluster/calibration.h"
#include "palmist/cluster/cluster.h"
#include "palmist/cost/layer_cost.h"
#include "palmist/cost/overlap.h"
#include "palmist/plan/plan.h"

namespace palmist::cost {

/// How many devices run a stage, and how they divide it. Ranks are laid out with tensor parallelism
/// innermost, then context, then data parallelism (Megatron-LM's order).
struct Layout {
  int micro_batch = 1;
  int dp = 1, tp = 1, cp = 1, ep = 1;
  bool sp = false;
  int zero = 0;
  int zero_shard = 1;
};

/// One collective's cost with the wire factor in it: seconds = alpha + bytes * per byte.
struct Rate {
  double alpha_s = 0;
  double s_per_byte = 0;
  double Seconds(double bytes) const { return bytes > 0 ? alpha_s + bytes * s_per_byte : 0; }
};

/// All that a stage's time needs to know of its machine.
struct StageRates {
  LayoutInputs inputs;
  Rate data_all_reduce;              ///< over dp * cp ranks
  Rate shard_gather, shard_scatter;  ///< over the ranks that share states
  Rate send;                         ///< to the next stage and back, all ranks at once
  double optimizer_s_per_byte = 0;
  double host_to_device_s_per_byte = 0, device_to_host_s_per_byte = 0;
  cluster::Interference interference;
  double peak_flops_per_s = 0;  ///< of all devices of the stage together
  double usable_bytes = 0;      ///< of the smallest device
  double host_bytes = 0;        ///< host memory a rank may use
  cluster::MemoryOverheads overheads;
};

/// Numbers that every stage shares.
struct LayoutContext {
  const cluster::Cluster& cluster;
  const cluster::Calibration& calibration;
  double seq_len = 1;
  std::string dtype = "bf16";
  double grad_bytes = 2;
  double expert_imbalance = 1;
};

/// Returns the rates of a stage on `devices`; the slowest device and group count.
/// @param next devices of the next stage; empty for the last one.
/// @pre devices.size() == dp * tp * cp, all in the cluster
StageRates ComputeRates(const LayoutContext& context,
                        const Layout& layout,
                        const std::vector<int>& devices,
                        const std::vector<int>& next);

/// Returns the rate of an all-reduce between the first and the last stage.
Rate PairAllReduce(const LayoutContext& context, int first_device, int last_device);

}  // namespace palmist::cost
