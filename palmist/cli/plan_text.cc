#include "palmist/cli/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "palmist/base/units.h"
#include "palmist/plan/summary.h"

namespace palmist::cli {
namespace {

constexpr int kMostStages = 10;  // longer pipelines are abridged
constexpr int kBarWidth = 20;

std::string Bar(double share) {
  const int filled = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * kBarWidth));
  std::string bar;
  for (int i = 0; i < filled; ++i) bar += "█";
  for (int i = filled; i < kBarWidth; ++i) bar += "·";
  return bar;
}

std::string DescribeDevices(const plan::Stage& stage) {
  const auto [low, high] = std::minmax_element(stage.devices.begin(), stage.devices.end());
  return *low == *high ? fmt::format("{}", *low) : fmt::format("{}-{}", *low, *high);
}

std::string Header(const plan::Plan& plan) {
  const cluster::NodeGroup& group = plan.cluster.groups.front();
  std::string cluster = fmt::format("{} x {}", plan.cluster.num_devices(), group.device.name);
  if (plan.cluster.groups.size() > 1) cluster += " and others";
  const std::string work =
      plan.seq_len > 0
          ? fmt::format("sequence {}, batch {}", plan.seq_len, plan.training.global_batch)
          : fmt::format("batch {}", plan.training.global_batch);
  return fmt::format("{} ({} parameters) on {} ({}), {}, {}\n",
                     plan.model_name,
                     FormatCount(static_cast<double>(plan.params)),
                     plan.cluster_name,
                     cluster,
                     work,
                     plan.training.dtype);
}

/// "O 50% A 37.5%": shares of weights, gradients, optimizer states and activations on the host.
std::string DescribeOffload(const plan::OffloadRatios& ratios) {
  std::string text;
  const auto add = [&](char letter, double ratio) {
    if (ratio > 0) {
      text += fmt::format("{}{} {}", text.empty() ? "" : " ", letter, FormatPercent(ratio));
    }
  };
  add('W', ratios.weights);
  add('G', ratios.grads);
  add('O', ratios.optimizer);
  add('A', ratios.activations);
  return text.empty() ? "none" : text;
}

std::string StageTable(const plan::Plan& plan) {
  // A column of its own, as wide as needed, where any stage offloads.
  std::size_t offload_width = 0;
  for (const plan::Stage& stage : plan.stages) {
    if (stage.offload == plan::OffloadRatios()) continue;
    offload_width = std::max(
        {offload_width, std::string_view("offload").size(), DescribeOffload(stage.offload).size()});
  }
  const auto offload_column = [&](const std::string& text) {
    return offload_width == 0 ? "" : fmt::format("{:<{}}  ", text, offload_width);
  };
  std::string text =
      fmt::format("{:>5}  {:<9}{:<11}{:>6}{:>6}{:>4}{:>4}{:>5}{:>10}  {:<8}{}{:>9}{:>9}  {}\n",
                  "stage",
                  "layers",
                  "devices",
                  "batch",
                  "dp",
                  "tp",
                  "sp",
                  "zero",
                  "recompute",
                  "ops",
                  offload_column("offload"),
                  "forward",
                  "backward",
                  "memory");
  const int count = static_cast<int>(plan.stages.size());
  for (int i = 0; i < count; ++i) {
    if (count > kMostStages && i >= kMostStages / 2 && i < count - kMostStages / 2 + 1) {
      if (i == kMostStages / 2) {
        text += fmt::format("{:>5}  {} more stages\n", "…", count - kMostStages + 1);
      }
      continue;
    }
    const plan::Stage& stage = plan.stages[static_cast<std::size_t>(i)];
    const plan::MemoryBytes& memory = stage.predicted->memory;
    const int recomputed = stage.num_recomputed();
    text += fmt::format(
        "{:>5}  {:<9}{:<11}{:>6}{:>6}{:>4}{:>4}{:>5}{:>10}  {:<8}{}{:>9}{:>9}  {} {}\n",
        i,
        fmt::format("{}-{}", stage.first_layer, stage.last_layer),
        DescribeDevices(stage),
        stage.micro_batch,
        stage.dp,
        stage.tp,
        stage.sp ? "yes" : "no",
        stage.zero,
        recomputed == 0 ? "none" : fmt::format("{} of {}", recomputed, stage.num_layers()),
        plan::Describe(stage.ops),
        offload_column(DescribeOffload(stage.offload)),
        FormatSeconds(stage.predicted->forward_s),
        FormatSeconds(stage.predicted->backward_s),
        FormatBytes(memory.needed()),
        FormatPercent(memory.needed() / memory.limit));
  }
  return text;
}

using Share = std::pair<std::string, double>;

std::vector<Share> SplitMemory(const plan::MemoryBytes& memory) {
  return {{"weights", memory.weights},
          {"grads", memory.grads},
          {"optimizer", memory.optimizer},
          {"activations", memory.activations},
          {"transient", memory.transient},
          {"buffers", memory.buffers},
          {"logits", memory.logits},
          {"fragmentation", memory.reserved_peak - memory.allocated_peak},
          {"communicators", memory.communicators},
          {"context", memory.context}};
}

std::string ShareRow(const Share& share, double total, const std::string& value) {
  return fmt::format("{:<19}{:>9} {:>6} {}",
                     share.first,
                     value,
                     FormatPercent(share.second / total),
                     Bar(share.second / total));
}

/// Memory on the left, time on the right.
std::string Splits(const plan::Plan& plan) {
  const std::size_t fullest = plan::FullestStage(plan);
  const plan::MemoryBytes& memory = plan.stages[fullest].predicted->memory;
  const plan::Prediction& predicted = *plan.predicted;
  const std::vector<Share> left = SplitMemory(memory);
  std::vector<Share> right;
  for (const plan::TimeShare& share : plan::SplitTime(predicted)) {
    if (share.seconds > 0.0005 * predicted.iteration_time_s) {
      right.emplace_back(share.name, share.seconds);
    }
  }
  std::string text = fmt::format(
      "{:<60}{}\n",
      fmt::format("memory of stage {}, of {} a device", fullest, FormatBytes(memory.limit)),
      fmt::format("time of an iteration, {}", FormatSeconds(predicted.iteration_time_s)));
  for (std::size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    std::string line(60, ' ');
    if (i < left.size()) {
      // Bars are multi-byte: pad by hand.
      line = "  " + ShareRow(left[i], memory.limit, FormatBytes(left[i].second)) + "  ";
    }
    if (i < right.size()) {
      line += "  " + ShareRow(right[i], predicted.iteration_time_s, FormatSeconds(right[i].second));
    }
    text += line + '\n';
  }
  return text;
}

std::string StateBytes(const plan::Plan& plan) {
  const plan::Training& training = plan.training;
  const double weight = training.dtype == "fp32" ? 4 : 2;
  const double grad = training.grad_dtype == "fp32" ? 4 : 2;
  const double optimizer = training.optimizer.state_bytes_per_param;
  return fmt::format(
      "states: {} bytes a parameter = weights {} ({}) + gradients {} ({}) + {} {}, before ZeRO and "
      "tensor parallelism divide them\n",
      weight + grad + optimizer,
      weight,
      training.dtype,
      grad,
      training.grad_dtype,
      training.optimizer.name,
      optimizer);
}

}  // namespace

std::string FormatComparison(const plan::Plan& before, const plan::Plan& after) {
  std::string text = fmt::format("{:<22}{:>14}{:>14}{:>10}\n", "", "before", "after", "change");
  const auto row = [&](std::string_view name, double a, double b, std::string (*format)(double)) {
    std::string change = a > 0 ? FormatPercent(b / a - 1) : "";
    if (b > a && !change.empty()) change = "+" + change;
    text += fmt::format("{:<22}{:>14}{:>14}{:>10}\n", name, format(a), format(b), change);
  };
  const plan::Prediction &a = *before.predicted, &b = *after.predicted;
  const auto fits = [](bool does) { return does ? "yes" : "NO"; };
  row("iteration", a.iteration_time_s, b.iteration_time_s, FormatSeconds);
  row(before.seq_len > 0 ? "tokens/s" : "samples/s", a.tokens_per_s, b.tokens_per_s, FormatCount);
  const auto percent = [](double share) { return FormatPercent(share); };
  text += fmt::format("{:<22}{:>14}{:>14}\n",
                      "MFU",
                      percent(a.model_flops_utilization),
                      percent(b.model_flops_utilization));
  text += fmt::format("{:<22}{:>14}{:>14}\n", "fits", fits(a.fits), fits(b.fits));
  const auto fullest = [](const plan::Plan& plan) {
    return plan.stages[plan::FullestStage(plan)].predicted->memory.needed();
  };
  row("fullest device", fullest(before), fullest(after), [](double bytes) {
    return FormatBytes(bytes);
  });
  const std::vector<plan::TimeShare> of_a = plan::SplitTime(a), of_b = plan::SplitTime(b);
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    const double least_s = 0.0005 * a.iteration_time_s;
    if (of_a[i].seconds <= least_s && of_b[i].seconds <= least_s) continue;
    row(of_a[i].name, of_a[i].seconds, of_b[i].seconds, FormatSeconds);
  }
  return text;
}

std::vector<std::string> Advice(const plan::Plan& plan) {
  std::vector<std::string> advice;
  const plan::MemoryBytes& memory = plan.stages[plan::FullestStage(plan)].predicted->memory;
  if (memory.needed() > 0.9 * memory.limit) {
    advice.push_back(
        fmt::format("memory is tight: {} allocated, about {} reserved by the allocator; set "
                    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to keep fragmentation low",
                    FormatBytes(memory.allocated_peak),
                    FormatBytes(memory.reserved_peak)));
  }
  const plan::ExposedSeconds& exposed = plan.predicted->exposed_s;
  const double network = exposed.tp + exposed.dp + exposed.pp + exposed.cp + exposed.ep;
  if (network > 0.25 * plan.predicted->iteration_time_s) {
    advice.push_back(
        fmt::format("network-bound: {} of the iteration waits for communication between devices",
                    FormatPercent(network / plan.predicted->iteration_time_s)));
  }
  return advice;
}

std::string FormatPlan(const plan::Plan& plan,
                       const std::vector<plan::Plan>& alternatives,
                       const std::string& binding,
                       const std::vector<std::string>& notes) {
  const plan::Prediction& predicted = *plan.predicted;
  std::string text = Header(plan);
  text += fmt::format("{} an iteration · {} {}/s · MFU {} · {} micro-batch{} · {}\n",
                      FormatSeconds(predicted.iteration_time_s),
                      FormatCount(predicted.tokens_per_s),
                      plan.seq_len > 0 ? "tokens" : "samples",
                      FormatPercent(predicted.model_flops_utilization),
                      plan.training.micro_batches,
                      plan.training.micro_batches == 1 ? "" : "es",
                      predicted.fits ? "fits" : "does NOT fit");
  if (predicted.cost_usd_per_1e9_tokens) {
    text += fmt::format("{:.2f} USD per 1e9 tokens\n", *predicted.cost_usd_per_1e9_tokens);
  }
  if (plan.search) {
    const plan::SearchSummary& search = *plan.search;
    text += fmt::format("{}: {} {}, {} evaluated, {} ruled out by bounds, gap {}, {}\n",
                        search.status,
                        search.candidates,
                        search.space == "full" ? "layouts and stages" : "layouts",
                        search.evaluated,
                        search.pruned,
                        FormatPercent(search.gap),
                        FormatSeconds(search.seconds));
  }
  text += '\n' + StageTable(plan) + '\n' + Splits(plan) + StateBytes(plan);
  if (!alternatives.empty()) {
    text += "\nalternatives\n";
    for (const plan::Plan& other : alternatives) {
      const plan::MemoryBytes& memory = other.stages[plan::FullestStage(other)].predicted->memory;
      text += fmt::format(
          "  {:<58}{:>9}  +{:<7}{:>9} a device\n",
          plan::DescribeLayout(other),
          FormatSeconds(other.predicted->iteration_time_s),
          FormatPercent(other.predicted->iteration_time_s / predicted.iteration_time_s - 1),
          FormatBytes(memory.needed()));
    }
  }
  if (!binding.empty()) text += "\nbinding: " + binding + '\n';
  for (const plan::ClosestMiss& miss : plan.closest) {
    text += fmt::format(
        "stage {} is short of {}: {}\n", miss.stage, FormatBytes(miss.short_bytes), miss.change);
  }
  for (const std::string& note : notes) text += "note: " + note + '\n';
  return text;
}

}  // namespace palmist::cli
