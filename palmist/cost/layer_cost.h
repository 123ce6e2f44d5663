/// What one layer costs on one rank: memory by liveness, time by roofline, for one micro-batch.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "palmist/cost/liveness.h"
#include "palmist/model/lower.h"
#include "palmist/symbolic/program.h"

namespace palmist::cost {

/// The costs of one layer; T is `Expr` while they are derived and `double` once evaluated.
/// Memory in bytes, parameters in elements on a rank, times in seconds a micro-batch.
template <typename T>
struct LayerCost {
  T input{};         ///< its input: all that a recomputed layer keeps
  T kept{};          ///< what it keeps for backward otherwise
  T boundary{};      ///< what the first such layer of a stage keeps besides
  T memory{};        ///< the encoder's output, kept once by all decoder layers of a stage
  T forward_peak{};  ///< largest live set in forward and in backward (see liveness.h)
  T backward_peak{};
  T weights{};         ///< trainable parameters
  T expert_weights{};  ///< those of `weights` that belong to routed experts
  T tied_weights{};    ///< of the head: parameters that live with the embedding
  T forward_s{};       ///< arithmetic, memory traffic and launches
  T backward_s{};
  /// The part of `backward_s` that only gradients of weights need. Of a matrix product's backward,
  /// two products as large as the forward one, that is one: half its time, half its launches.
  T weight_grad_s{};
  T tp_forward_s{};  ///< collectives of each group, waited for
  T tp_backward_s{};
  T cp_forward_s{};
  T cp_backward_s{};
  T ep_forward_s{};
  T ep_backward_s{};

  /// Calls `visit` with a pointer to each member, in a fixed order.
  template <typename Visit>
  static void ForEachField(Visit visit) {
    using C = LayerCost;
    for (const auto field : {&C::input,
                             &C::kept,
                             &C::boundary,
                             &C::memory,
                             &C::forward_peak,
                             &C::backward_peak,
                             &C::weights,
                             &C::expert_weights,
                             &C::tied_weights,
                             &C::forward_s,
                             &C::backward_s,
                             &C::weight_grad_s,
                             &C::tp_forward_s,
                             &C::tp_backward_s,
                             &C::cp_forward_s,
                             &C::cp_backward_s,
                             &C::ep_forward_s,
                             &C::ep_backward_s}) {
      visit(field);
    }
  }
};

/// What the expressions of a layer read: degrees and rates of one layout.
/// `inverse` rates are seconds per unit, so that a group of one rank is 0.
struct LayoutInputs {
  double b = 1, s = 1, tp = 1, sd = 1, cp = 1, ep = 1, x = 1;
  double grad_bytes = 2;
  double gemm_s_per_flop = 0;  ///< 1 / (peak * largest fraction)
  double gemm_launch_s = 0;    ///< per kernel: half-saturation of the curve, and the launch
  double attention_s_per_flop = 0;
  double memory_s_per_byte = 0;
  double launch_s = 0;  ///< per kernel
  /// alpha and seconds per byte (wire factor included) of each group's collectives.
  struct Group {
    double all_reduce_s = 0, all_reduce_s_per_byte = 0;
    double gather_s = 0, gather_s_per_byte = 0;    ///< all-gather
    double scatter_s = 0, scatter_s_per_byte = 0;  ///< reduce-scatter
    double all_to_all_s = 0, all_to_all_s_per_byte = 0;
  };
  Group tp_group, cp_group, ep_group;

  /// Names of the inputs, in the order of `Values`.
  static std::vector<std::string> Names();
  std::vector<double> Values() const;
};

/// Derives the costs of a lowered layer as expressions over `LayoutInputs::Names()`.
LayerCost<Expr> DeriveLayerCost(const model::LoweredLayer& layer);

}  // namespace palmist::cost
