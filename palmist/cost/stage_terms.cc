#include "palmist/cost/stage_terms.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "palmist/cost/overlap.h"

namespace palmist::cost {
namespace {

/// The work of each phase at some ratios.
class Phases {
 public:
  explicit Phases(const StageTerms& terms) : terms_(terms) {}

  ResourceSeconds Forward(double weights, double activations) const {
    return {.compute = terms_.forward_compute_s,
            .device_to_device = terms_.gather_s,
            .host_to_device = weights * terms_.memory.weights * terms_.host_to_device_s_per_byte,
            .device_to_host =
                activations * terms_.moved_activation_bytes * terms_.device_to_host_s_per_byte};
  }

  ResourceSeconds Backward(double weights, double grads, double activations) const {
    const double in_bytes = weights * terms_.memory.weights + grads * terms_.memory.grads +
                            activations * terms_.moved_activation_bytes;
    return {.compute = terms_.backward_compute_s,
            .device_to_device = terms_.gather_s + terms_.steady_reduce_s,
            .host_to_device = in_bytes * terms_.host_to_device_s_per_byte,
            .device_to_host = grads * terms_.memory.grads * terms_.device_to_host_s_per_byte};
  }

  /// The first forward, with the optimizer's work.
  ResourceSeconds First(ResourceSeconds forward, double optimizer) const {
    forward.compute += terms_.is_step_deferred ? terms_.step_s : 0;
    forward.device_to_device += terms_.gather_updated_s;
    const double bytes = optimizer * terms_.memory.optimizer;
    forward.host_to_device += bytes * terms_.host_to_device_s_per_byte;
    forward.device_to_host += bytes * terms_.device_to_host_s_per_byte;
    return forward;
  }

  /// The last backward, with the reduction of gradients.
  ResourceSeconds Last(ResourceSeconds backward) const {
    backward.device_to_device += terms_.last_reduce_s;
    return backward;
  }

  double Seconds(const ResourceSeconds& work) const {
    return OverlappedSeconds(work, terms_.interference);
  }

 private:
  const StageTerms& terms_;
};

ResourceSeconds WithoutHost(ResourceSeconds work) {
  work.host_to_device = work.device_to_host = 0;
  return work;
}

/// Whether `a` is no longer than `b` in any part, but for rounding.
bool Beats(const schedule::StagePoint& a, const schedule::StagePoint& b, double rounding_s) {
  return a.forward_s <= b.forward_s + rounding_s && a.backward_s <= b.backward_s + rounding_s &&
         a.first_extra_s <= b.first_extra_s + rounding_s &&
         a.last_extra_s <= b.last_extra_s + rounding_s;
}

double BufferBytes(const StageTerms& terms, double weights, double grads) {
  return (terms.weights_sharded || weights > 0 ? terms.weight_buffer : 0) +
         (terms.grads_sharded || grads > 0 ? terms.grad_buffer : 0);
}

}  // namespace

double StageEstimate::ExcessBytes() const {
  return std::max(memory.needed() - memory.limit, host_bytes - host_limit_bytes);
}

StageEstimate Compose(const StageTerms& terms, const plan::OffloadRatios& ratios) {
  StageEstimate estimate;
  plan::MemoryBytes& bytes = estimate.memory;
  bytes = terms.memory;
  bytes.weights *= 1 - ratios.weights;
  bytes.grads *= 1 - ratios.grads;
  bytes.optimizer *= 1 - ratios.optimizer;
  bytes.activations = bytes.activations * (1 - ratios.activations) +
                      (ratios.activations > 0 ? terms.activation_buffer : 0);
  bytes.buffers += BufferBytes(terms, ratios.weights, ratios.grads);
  bytes.allocated_peak = bytes.weights + bytes.grads + bytes.optimizer + bytes.activations +
                         bytes.transient + bytes.buffers + bytes.logits;
  bytes.reserved_peak = bytes.allocated_peak * terms.reserved_over_allocated;
  bytes.communicators = terms.communicators;
  bytes.context = terms.context;
  bytes.limit = terms.limit;
  estimate.host_bytes = ratios.weights * terms.memory.weights + ratios.grads * terms.memory.grads +
                        ratios.optimizer * terms.memory.optimizer +
                        ratios.activations * terms.memory.activations;
  estimate.host_limit_bytes = terms.host_limit_bytes;

  const Phases phases(terms);
  const ResourceSeconds forward = phases.Forward(ratios.weights, ratios.activations);
  const ResourceSeconds backward =
      phases.Backward(ratios.weights, ratios.grads, ratios.activations);
  const double forward_s = phases.Seconds(forward), backward_s = phases.Seconds(backward);
  const double on_device_s =
      phases.Seconds(WithoutHost(forward)) + phases.Seconds(WithoutHost(backward));
  estimate.point.forward_s = forward_s + terms.forward_serial_s;
  estimate.point.backward_s = backward_s + terms.backward_serial_s;
  estimate.point.weight_grad_s = terms.weight_grad_s;
  estimate.compute_s = terms.forward_compute_s + terms.backward_compute_s;
  estimate.tp_s = terms.tp_s;
  estimate.cp_s = terms.cp_s;
  estimate.ep_s = terms.ep_s;
  estimate.pp_s = terms.pp_s;
  estimate.dp_s = on_device_s - estimate.compute_s;
  estimate.offload_s = forward_s + backward_s - on_device_s;

  const double last_s =
      terms.last_reduce_s > 0 ? phases.Seconds(phases.Last(backward)) : backward_s;
  estimate.point.last_extra_s = last_s - backward_s + terms.tied_s;
  const ResourceSeconds first = phases.First(forward, ratios.optimizer);
  estimate.point.first_extra_s = phases.Seconds(first) - forward_s;
  const double first_on_device_s =
      phases.Seconds(WithoutHost(first)) - phases.Seconds(WithoutHost(forward));
  estimate.extra_offload_s = std::max(0.0, estimate.point.first_extra_s - first_on_device_s);
  estimate.extra_optimizer_s =
      terms.is_step_deferred ? std::min(terms.step_s, first_on_device_s) : 0;
  estimate.optimizer_s = terms.is_step_deferred ? 0 : terms.step_s;
  return estimate;
}

std::vector<OffloadPoint> OffloadFrontier(const StageTerms& terms,
                                          std::span<const double> ratios,
                                          std::int64_t& evaluated,
                                          double most_s) {
  const std::size_t n = ratios.size();
  const Phases phases(terms);
  const plan::MemoryBytes& memory = terms.memory;
  // What must leave the device for the rest to fit.
  constexpr double kRounding = 1 - 1e-12;
  const double room = (terms.limit - terms.communicators - terms.context) /
                          terms.reserved_over_allocated * kRounding -
                      memory.transient - memory.buffers - memory.logits;
  // The phases are sums of differences: equal ones differ in their last digits.
  const double rounding_s = 1e-12 * (terms.forward_compute_s + terms.backward_compute_s +
                                     terms.gather_s + terms.steady_reduce_s + terms.step_s);
  std::vector<OffloadPoint> points;
  std::vector<double> first_s(n);
  for (const double weights : ratios) {
    for (const double activations : ratios) {
      const double held = memory.weights * (1 - weights) + memory.activations * (1 - activations) +
                          (activations > 0 ? terms.activation_buffer : 0);
      // Not even all states on the host would do.
      if (held + BufferBytes(terms, weights, 1) > room &&
          held + BufferBytes(terms, weights, 0) + memory.grads > room) {
        continue;
      }
      const ResourceSeconds forward = phases.Forward(weights, activations);
      const double forward_s = phases.Seconds(forward);
      const double serial_s = terms.forward_serial_s + terms.backward_serial_s;
      if (forward_s + terms.backward_compute_s + serial_s >= most_s) continue;
      for (std::size_t k = 0; k < n; ++k) {
        first_s[k] = phases.Seconds(phases.First(forward, ratios[k]));
      }
      for (const double grads : ratios) {
        const double with_grads =
            held + memory.grads * (1 - grads) + BufferBytes(terms, weights, grads);
        if (with_grads > room) continue;
        const ResourceSeconds backward = phases.Backward(weights, grads, activations);
        const double backward_s = phases.Seconds(backward);
        evaluated += static_cast<std::int64_t>(n);
        if (forward_s + backward_s + serial_s >= most_s) continue;
        const double last_s =
            terms.last_reduce_s > 0 ? phases.Seconds(phases.Last(backward)) : backward_s;
        for (std::size_t k = 0; k < n; ++k) {
          if (with_grads + memory.optimizer * (1 - ratios[k]) > room) continue;
          OffloadPoint point;
          point.ratios = {weights, grads, ratios[k], activations};
          point.host_bytes = weights * memory.weights + grads * memory.grads +
                             ratios[k] * memory.optimizer + activations * memory.activations;
          if (point.host_bytes > terms.host_limit_bytes) continue;
          point.point = {forward_s + terms.forward_serial_s,
                         backward_s + terms.backward_serial_s,
                         first_s[k] - forward_s,
                         last_s - backward_s + terms.tied_s};
          if (std::any_of(points.begin(), points.end(), [&](const OffloadPoint& other) {
                return Beats(other.point, point.point, rounding_s);
              })) {
            continue;
          }
          std::erase_if(points, [&](const OffloadPoint& other) {
            return Beats(point.point, other.point, 0);
          });
          points.push_back(point);
        }
      }
    }
  }
  return points;
}

}  // namespace palmist::cost
