/// A stage with its offload ratios left open: what a search computes once and then asks of many
/// ratios.
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "palmist/cost/layout.h"
#include "palmist/plan/plan.h"
#include "palmist/schedule/pipeline.h"

namespace palmist::cost {

/// Everything a stage costs; the plan file's `predicted` and what explains it.
struct StageEstimate {
  schedule::StagePoint point;  ///< as the pipeline formula takes it
  plan::MemoryBytes memory;
  double host_bytes = 0;  ///< host memory a rank needs
  double host_limit_bytes = 0;
  double optimizer_s = 0;  ///< the step with what it moves, where it is not deferred
  /// Seconds of a steady micro-batch, by cause; together `point.forward_s + backward_s`.
  double compute_s = 0, tp_s = 0, cp_s = 0, ep_s = 0, dp_s = 0, pp_s = 0, offload_s = 0;
  /// Of `point.first_extra_s`: transfers to and from the host, and a deferred optimizer step.
  double extra_offload_s = 0, extra_optimizer_s = 0;

  /// Bytes by which the stage exceeds the device's or the host's limit; at most 0 where it fits.
  double ExcessBytes() const;
};

/// Bytes and seconds of one rank of a stage.
struct StageTerms {
  /// With nothing offloaded. `buffers` lacks what gathered and staged weights and gradients need,
  /// and what the totals, communicators and the limit are is filled in by `Compose`.
  plan::MemoryBytes memory;
  double communicators = 0, context = 0, limit = 0, reserved_over_allocated = 1;
  double host_limit_bytes = 0;
  /// Two of the largest layer, needed where weights or gradients are sharded or offloaded.
  double weight_buffer = 0, grad_buffer = 0;
  bool weights_sharded = false, grads_sharded = false;
  double activation_buffer = 0;  ///< needed where activations are offloaded

  /// What runs beside each other in a steady micro-batch (planner's phase table), host apart.
  double forward_compute_s = 0, backward_compute_s = 0, gather_s = 0, steady_reduce_s = 0;
  double weight_grad_s = 0;  ///< of `backward_compute_s`: what only gradients of weights need
  /// Collectives and sends that are waited for.
  double forward_serial_s = 0, backward_serial_s = 0;
  double last_reduce_s = 0;           ///< of unsharded gradients, beside the last backward
  double tied_s = 0;                  ///< reduction of tied embeddings, after it
  double step_s = 0;                  ///< the optimizer's arithmetic
  bool is_step_deferred = false;      ///< beside the first forward, else after everything
  double gather_updated_s = 0;        ///< weights that others updated, beside the first forward
  double moved_activation_bytes = 0;  ///< of one micro-batch, if all were offloaded
  double host_to_device_s_per_byte = 0, device_to_host_s_per_byte = 0;
  cluster::Interference interference;

  /// For explanations.
  double tp_s = 0, cp_s = 0, ep_s = 0, pp_s = 0;
};

/// Returns the estimate at some offload ratios: the phase table of the overlap-centric schedule.
/// Offloaded weights come in for every forward and backward; gradients go out and in with every
/// backward; activations go out with forward and come in with backward; optimizer states come in
/// and go out beside the first forward.
StageEstimate Compose(const StageTerms& terms, const plan::OffloadRatios& ratios);

/// Steps of the offload ratios that a search tries (Mist's grid).
inline constexpr double kOffloadRatios[] = {0, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1};

/// What a grid of ratios holds for one stage.
struct OffloadPoint {
  plan::OffloadRatios ratios;
  schedule::StagePoint point;
  double host_bytes = 0;
};

/// Returns the points of all combinations of `ratios` that fit device and host, take less than
/// `most_s` for a micro-batch, and that no other one matches or beats in all of point.forward_s,
/// backward_s, first_extra_s and last_extra_s; of those that differ by rounding alone the first.
/// Ratios rise from 0. Adds the number of combinations priced to `evaluated`.
///
/// The phases depend on three ratios at most each, so that n ratios cost 3 n^3 + n^2 overlaps, not
/// 4 n^4; the same numbers as `Compose` of each.
std::vector<OffloadPoint> OffloadFrontier(const StageTerms& terms,
                                          std::span<const double> ratios,
                                          std::int64_t& evaluated,
                                          double most_s = std::numeric_limits<double>::infinity());

}  // namespace palmist::cost
