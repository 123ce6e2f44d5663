#include "palmist/plan/summary.h"

#include <fmt/format.h>

namespace palmist::plan {

std::string Describe(const model::OpVariants& ops) {
  const std::string_view attention = model::ToString(ops.attention);
  const std::string_view norm = model::ToString(ops.norm);
  if (ops.norm == ops.activation && ops.norm == ops.dropout && ops.norm == ops.loss) {
    if (ops.attention == ops.norm) return std::string(norm);
    return fmt::format("attention {}, rest {}", attention, norm);
  }
  return fmt::format("attention {}, norm {}, activation {}, dropout {}, loss {}",
                     attention,
                     norm,
                     model::ToString(ops.activation),
                     model::ToString(ops.dropout),
                     model::ToString(ops.loss));
}

std::string DescribeLayout(const Plan& plan) {
  const Stage& stage = plan.stages.front();
  std::string text = fmt::format("pp {}, dp {}, tp {}", plan.stages.size(), stage.dp, stage.tp);
  if (stage.sp) text += " (sp)";
  if (stage.cp > 1) text += fmt::format(", cp {}", stage.cp);
  if (stage.ep > 1) text += fmt::format(", ep {}", stage.ep);
  return text +
         fmt::format(
             ", ZeRO-{}, micro-batch {}, {}", stage.zero, stage.micro_batch, Describe(stage.ops));
}

std::size_t SlowestStage(const Plan& plan) {
  std::size_t slowest = 0;
  const auto seconds = [&](std::size_t i) {
    const StagePrediction& predicted = plan.stages[i].predicted.value();
    return predicted.forward_s + predicted.backward_s;
  };
  for (std::size_t i = 1; i < plan.stages.size(); ++i) {
    if (seconds(i) > seconds(slowest)) slowest = i;
  }
  return slowest;
}

std::size_t FullestStage(const Plan& plan) {
  std::size_t fullest = 0;
  double most = -1;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const MemoryBytes& memory = plan.stages[i].predicted->memory;
    if (memory.needed() / memory.limit > most) {
      most = memory.needed() / memory.limit;
      fullest = i;
    }
  }
  return fullest;
}

std::vector<TimeShare> SplitTime(const Prediction& prediction) {
  const ExposedSeconds& exposed = prediction.exposed_s;
  return {{"compute", prediction.compute_s},
          {"tensor parallelism", exposed.tp},
          {"data parallelism", exposed.dp},
          {"pipeline sends", exposed.pp},
          {"context parallelism", exposed.cp},
          {"expert parallelism", exposed.ep},
          {"host transfers", exposed.offload},
          {"optimizer step", exposed.optimizer},
          {"pipeline bubble", prediction.bubble_fraction * prediction.iteration_time_s}};
}

}  // namespace palmist::plan
