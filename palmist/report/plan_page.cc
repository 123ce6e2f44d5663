#include "palmist/report/plan_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "palmist/base/units.h"
#include "palmist/plan/summary.h"

namespace palmist::report {
namespace {

using nlohmann::json;
using plan::MemoryBytes;
using plan::Plan;
using plan::Stage;

/// The categories as they are stacked: model states, activations, overheads.
struct MemoryBand {
  const char* name;
  double MemoryBytes::*bytes;
  const char* color;
};
constexpr MemoryBand kMemoryBands[] = {
    {"weights", &MemoryBytes::weights, "--states-1"},
    {"grads", &MemoryBytes::grads, "--states-2"},
    {"optimizer", &MemoryBytes::optimizer, "--states-3"},
    {"activations", &MemoryBytes::activations, "--activations-1"},
    {"transient", &MemoryBytes::transient, "--activations-2"},
    {"logits", &MemoryBytes::logits, "--activations-3"},
    {"buffers", &MemoryBytes::buffers, "--overheads-1"},
    {"communicators", &MemoryBytes::communicators, "--overheads-2"},
    {"context", &MemoryBytes::context, "--overheads-3"},
};
static_assert(std::size(kMemoryBands) == std::size(plan::kMemoryCategories));

double Gib(double bytes) { return std::round(bytes / static_cast<double>(kGiB) * 1e4) / 1e4; }

std::string GibText(double bytes) {
  return fmt::format("{:.2f}", bytes / static_cast<double>(kGiB));
}

std::string Percent(double part, double whole) {
  return whole > 0 ? fmt::format("{:.0f}%", 100.0 * part / whole) : std::string("–");
}

/// Returns "0–3, 8, 9" for the devices 0, 1, 2, 3, 8 and 9.
std::string Ranges(std::vector<int> numbers) {
  std::sort(numbers.begin(), numbers.end());
  std::string text;
  for (std::size_t begin = 0, end = 0; begin < numbers.size(); begin = end) {
    while (end < numbers.size() && numbers[end] - numbers[begin] == static_cast<int>(end - begin)) {
      ++end;
    }
    if (!text.empty()) text += ", ";
    const int first = numbers[begin], last = numbers[end - 1];
    text += first == last ? std::to_string(first) : fmt::format("{}–{}", first, last);
  }
  return text;
}

std::string LayersText(const Stage& stage) {
  if (stage.chunks.empty()) {
    return fmt::format("{}–{} ({})", stage.first_layer, stage.last_layer, stage.num_layers());
  }
  std::string text;
  for (const auto& chunk : stage.chunks) {
    text += fmt::format("{}{}–{}", text.empty() ? "" : ", ", chunk.first_layer, chunk.last_layer);
  }
  return fmt::format("{} ({})", text, stage.num_layers());
}

std::string TensorParallelText(const Stage& stage) {
  if (stage.replicas.empty()) return std::to_string(stage.tp);
  std::string text;
  for (const auto& replica : stage.replicas) {
    text += (text.empty() ? "" : " + ") + std::to_string(replica.tp);
  }
  return text;
}

std::string MicroBatchText(const Stage& stage) {
  if (stage.replicas.empty()) return std::to_string(stage.micro_batch);
  std::string text;
  for (const auto& replica : stage.replicas) {
    text += (text.empty() ? "" : " + ") + std::to_string(replica.micro_batch);
  }
  return text;
}

std::string ZeroText(const Stage& stage) {
  if (stage.zero == 0) return "0";
  return fmt::format("{} over {}", stage.zero, stage.zero_shard);
}

std::string RecomputeText(const Stage& stage) {
  int full = 0, selective = 0;
  for (const auto& range : stage.recompute) {
    (range.mode == plan::RecomputeMode::kFull ? full : selective) +=
        range.last_layer - range.first_layer + 1;
  }
  if (full == 0 && selective == 0) return "none";
  std::string text;
  if (full > 0) text = full == stage.num_layers() ? "all layers" : fmt::format("{} layers", full);
  if (selective > 0) text += fmt::format("{}{} in part", full > 0 ? ", " : "", selective);
  return text;
}

std::string OffloadText(const Stage& stage) {
  const std::pair<const char*, double> ratios[] = {{"weights", stage.offload.weights},
                                                   {"grads", stage.offload.grads},
                                                   {"optimizer", stage.offload.optimizer},
                                                   {"activations", stage.offload.activations}};
  std::string text;
  for (const auto& [name, ratio] : ratios) {
    if (ratio > 0) text += fmt::format("{}{} {:.0f}%", text.empty() ? "" : ", ", name, 100 * ratio);
  }
  return text.empty() ? "none" : text;
}

std::string MemoryText(const Stage& stage) {
  if (!stage.predicted) return "–";
  const MemoryBytes& memory = stage.predicted->memory;
  return fmt::format("{} of {} GiB ({})",
                     GibText(memory.needed()),
                     GibText(memory.limit),
                     Percent(memory.needed(), memory.limit));
}

bool HasMemory(const Plan& plan) {
  return std::all_of(plan.stages.begin(), plan.stages.end(), [](const Stage& stage) {
    return stage.predicted.has_value();
  });
}

/// Returns the most that any stage needs of a device, in bytes.
double PeakBytes(const Plan& plan) {
  double peak = 0;
  for (const Stage& stage : plan.stages) {
    if (stage.predicted) peak = std::max(peak, stage.predicted->memory.needed());
  }
  return peak;
}

/// Returns the value that all stages share, or each one's, such as "4 / 2 / 2".
template <typename Text>
std::string OverStages(const Plan& plan, Text text) {
  constexpr std::size_t kMost = 8;
  std::vector<std::string> values;
  for (const Stage& stage : plan.stages) values.push_back(text(stage));
  if (std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end()) {
    return values.empty() ? "" : values.front();
  }
  const bool cut = values.size() > kMost;
  if (cut) values.resize(kMost);
  return fmt::format("{}{}", fmt::join(values, " / "), cut ? " / …" : "");
}

/// Returns "48,123,456".
std::string Grouped(std::int64_t count) {
  std::string digits = std::to_string(count);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

void AddVerdict(const Plan& plan, Page& page) {
  if (!plan.predicted) {
    page.AddCallout(CalloutKind::kNote, "This plan holds no prediction.");
    return;
  }
  if (plan.predicted->fits) {
    page.AddCallout(CalloutKind::kGood, "This plan fits into memory.");
    return;
  }
  page.AddCallout(CalloutKind::kBad, "This plan does not fit into memory.");
  if (plan.closest.empty()) return;
  Table table{{"stage", "short by", "what would make it fit"}, {}, "rrl"};
  for (const auto& miss : plan.closest) {
    table.rows.push_back({std::to_string(miss.stage), FormatBytes(miss.short_bytes), miss.change});
  }
  page.AddTable(table, "The closest miss");
}

void AddKeyFigures(const Plan& plan, Page& page) {
  std::vector<KeyFigure> figures;
  if (plan.predicted) {
    const plan::Prediction& predicted = *plan.predicted;
    figures.push_back({"one iteration", FormatSeconds(predicted.iteration_time_s)});
    figures.push_back({plan.seq_len > 0 ? "tokens per second" : "images per second",
                       FormatCount(predicted.tokens_per_s)});
    figures.push_back({"FLOPs utilization", FormatPercent(predicted.model_flops_utilization)});
    if (predicted.cost_usd_per_1e9_tokens) {
      figures.push_back(
          {"cost of 10⁹ tokens", fmt::format("{:.2f} USD", *predicted.cost_usd_per_1e9_tokens)});
    }
  }
  if (HasMemory(plan)) figures.push_back({"memory a device", FormatBytes(PeakBytes(plan))});
  figures.push_back({"parameters", FormatCount(static_cast<double>(plan.params))});
  page.AddKeyFigures(figures);
}

void AddTraining(const Plan& plan, Page& page) {
  const plan::Training& training = plan.training;
  std::size_t used = 0;
  for (const Stage& stage : plan.stages) used += stage.devices.size();
  page.AddParagraph(
      fmt::format("{} on {}: {} of {} devices, {} {}. An iteration has a global batch of {} in {} "
                  "micro-batches{}, schedule {}, {} with {}.",
                  plan.model_name,
                  plan.cluster_name,
                  used,
                  plan.cluster.num_devices(),
                  plan.stages.size(),
                  plan.stages.size() == 1 ? "stage" : "stages",
                  training.global_batch,
                  training.micro_batches,
                  plan.seq_len > 0 ? fmt::format(" with sequences of {} tokens", plan.seq_len) : "",
                  training.schedule,
                  training.dtype,
                  training.optimizer.name));
}

void AddStages(const Plan& plan, Page& page) {
  page.AddHeading("Stages");
  const auto any = [&](auto uses) {
    return std::any_of(plan.stages.begin(), plan.stages.end(), uses);
  };
  const bool has_sp = any([](const Stage& stage) { return stage.sp; });
  const bool has_cp = any([](const Stage& stage) { return stage.cp > 1; });
  const bool has_ep = any([](const Stage& stage) { return stage.ep > 1; });
  const bool has_offload =
      any([](const Stage& stage) { return stage.offload != plan::OffloadRatios{}; });

  // Columns that say the same nothing for every stage are left out.
  Table table{{"stage", "layers", "memory", "devices", "micro-batch", "dp", "tp"}, {}, ""};
  if (has_sp) table.headers.push_back("sp");
  if (has_cp) table.headers.push_back("cp");
  if (has_ep) table.headers.push_back("ep");
  table.headers.insert(table.headers.end(), {"ZeRO", "recomputed"});
  if (has_offload) table.headers.push_back("offloaded");
  table.headers.push_back("operators");
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const Stage& stage = plan.stages[i];
    std::vector<std::string> row = {std::to_string(i),
                                    LayersText(stage),
                                    MemoryText(stage),
                                    Ranges(stage.devices),
                                    MicroBatchText(stage),
                                    std::to_string(stage.dp),
                                    TensorParallelText(stage)};
    if (has_sp) row.push_back(stage.sp ? "yes" : "no");
    if (has_cp) {
      row.push_back(stage.cp > 1 ? fmt::format("{} ({})", stage.cp, stage.cp_kind) : "1");
    }
    if (has_ep) row.push_back(std::to_string(stage.ep));
    row.insert(row.end(), {ZeroText(stage), RecomputeText(stage)});
    if (has_offload) row.push_back(OffloadText(stage));
    row.push_back(plan::Describe(stage.ops));
    table.rows.push_back(std::move(row));
  }
  page.AddTable(table);
}

/// Returns the dashed lines at each stage's limit.
json LimitLines(const Plan& plan) {
  json lines = json::array();
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const double limit = Gib(plan.stages[i].predicted->memory.limit);
    const auto center = static_cast<double>(i);
    lines.push_back({{"type", "line"},
                     {"x0", center - 0.45},
                     {"x1", center + 0.45},
                     {"y0", limit},
                     {"y1", limit},
                     {"name", "limit"},
                     {"showlegend", i == 0},
                     {"line", {{"color", "--bad"}, {"width", 2}, {"dash", "dash"}}}});
  }
  return lines;
}

void AddMemory(const Plan& plan, Page& page) {
  page.AddHeading("Memory");
  Chart chart;
  chart.id = "memory";
  chart.caption =
      "Memory of the fullest rank of each stage by category, in GiB, against what the device may "
      "use.";
  std::vector<std::string> stages;
  double tallest = 0;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    stages.push_back(std::to_string(i));
    const MemoryBytes& memory = plan.stages[i].predicted->memory;
    tallest = std::max({tallest, memory.needed(), memory.limit});
  }
  chart.table = {{"stage"}, {}, std::string(std::size(kMemoryBands) + 5, 'r')};
  for (const MemoryBand& band : kMemoryBands) {
    chart.table.headers.push_back(band.name);
    json values = json::array();
    for (const Stage& stage : plan.stages) {
      values.push_back(Gib(stage.predicted->memory.*band.bytes));
    }
    chart.data.push_back(
        {{"type", "bar"},
         {"name", band.name},
         {"x", stages},
         {"y", std::move(values)},
         {"marker", {{"color", band.color}, {"line", {{"color", "--page"}, {"width", 1}}}}},
         {"hovertemplate", "%{y:.2f} GiB"}});
  }
  json fragmentation = json::array();
  for (const Stage& stage : plan.stages) {
    const MemoryBytes& memory = stage.predicted->memory;
    fragmentation.push_back(Gib(memory.reserved_peak - memory.allocated_peak));
  }
  chart.data.push_back({{"type", "bar"},
                        {"name", "fragmentation"},
                        {"x", stages},
                        {"y", std::move(fragmentation)},
                        {"marker", {{"color", "--shadow"}}},
                        {"hovertemplate", "%{y:.2f} GiB"}});
  chart.table.headers.insert(chart.table.headers.end(),
                             {"allocated peak", "reserved peak", "limit", "needed"});
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const MemoryBytes& memory = plan.stages[i].predicted->memory;
    std::vector<std::string> row = {stages[i]};
    for (const MemoryBand& band : kMemoryBands) row.push_back(GibText(memory.*band.bytes));
    row.insert(row.end(),
               {GibText(memory.allocated_peak),
                GibText(memory.reserved_peak),
                GibText(memory.limit),
                Percent(memory.needed(), memory.limit)});
    chart.table.rows.push_back(std::move(row));
  }
  chart.layout = {
      {"barmode", "stack"},
      {"height", 420},
      {"bargap", 0.3},
      {"hovermode", "x unified"},
      {"shapes", LimitLines(plan)},
      {"xaxis", {{"type", "category"}, {"title", {{"text", "stage"}}}, {"showgrid", false}}},
      {"yaxis", {{"title", {{"text", "GiB"}}}, {"range", {0, Gib(tallest) * 1.06}}}}};
  page.AddChart(chart);
}

void AddTime(const Plan& plan, Page& page) {
  const plan::Prediction& predicted = *plan.predicted;
  const double whole = predicted.iteration_time_s;
  if (!(whole > 0)) return;
  std::vector<std::pair<std::string, double>> parts;
  for (const plan::TimeShare& share : plan::SplitTime(predicted)) {
    parts.emplace_back(share.name, share.seconds);
  }
  double rest = whole;
  for (const auto& [name, seconds] : parts) rest -= seconds;
  if (rest > 0.005 * whole) parts.emplace_back("other", rest);
  std::erase_if(parts, [](const auto& part) { return !(part.second > 0); });
  std::stable_sort(
      parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.second > b.second; });

  page.AddHeading("Time");
  Chart chart;
  chart.id = "time";
  chart.caption = fmt::format(
      "Where the {} of one iteration go on the slowest stage: computation, and what it does not "
      "hide.",
      FormatSeconds(whole));
  chart.table = {{"part", "time", "share"}, {}, "lrr"};
  json names = json::array(), seconds = json::array(), labels = json::array(),
       colors = json::array();
  for (const auto& [name, part] : parts) {
    const std::string time = FormatSeconds(part), share = Percent(part, whole);
    chart.table.rows.push_back({name, time, share});
    names.push_back(name);
    seconds.push_back(part);
    labels.push_back(fmt::format("{} · {}", time, share));
    colors.push_back(name == "compute" ? "--states-2" : "--activations-2");
  }
  chart.data = {{{"type", "bar"},
                 {"orientation", "h"},
                 {"x", std::move(seconds)},
                 {"y", std::move(names)},
                 {"text", std::move(labels)},
                 {"textposition", "auto"},
                 {"cliponaxis", false},
                 {"insidetextfont", {{"color", "--page"}}},
                 {"hoverinfo", "skip"},
                 {"marker", {{"color", std::move(colors)}}}}};
  const double longest = parts.empty() ? 1.0 : parts.front().second;
  chart.layout = {
      {"height", 70 + 36 * static_cast<int>(parts.size())},
      {"bargap", 0.35},
      {"showlegend", false},
      {"xaxis", {{"title", {{"text", "seconds"}}}, {"range", {0, longest * 1.2}}, {"nticks", 5}}},
      {"yaxis", {{"autorange", "reversed"}, {"showgrid", false}, {"ticksuffix", " "}}}};
  page.AddChart(chart);
}

void AddAlternatives(const Plan& plan, const std::vector<Plan>& alternatives, Page& page) {
  if (alternatives.empty()) return;
  page.AddHeading("Alternatives");
  Table table{{"plan",
               "iteration",
               "change",
               "peak",
               "stages",
               "micro-batch",
               "micro-batches",
               "dp",
               "tp",
               "ZeRO",
               "recomputed",
               "offloaded"},
              {},
              "lrrrrlrlllll"};
  const auto add = [&](const std::string& name, const Plan& each) {
    std::string time = "–", ratio = "–";
    if (each.predicted) {
      time = FormatSeconds(each.predicted->iteration_time_s);
      if (!each.predicted->fits) time += ", does not fit";
      if (plan.predicted && plan.predicted->iteration_time_s > 0) {
        ratio = fmt::format(
            "{:+.1f}%",
            100 * (each.predicted->iteration_time_s / plan.predicted->iteration_time_s - 1));
      }
    }
    table.rows.push_back(
        {name,
         time,
         &each == &plan ? "" : ratio,
         HasMemory(each) ? FormatBytes(PeakBytes(each)) : "–",
         std::to_string(each.stages.size()),
         OverStages(each, MicroBatchText),
         std::to_string(each.training.micro_batches),
         OverStages(each, [](const Stage& stage) { return std::to_string(stage.dp); }),
         OverStages(each, TensorParallelText),
         OverStages(each, [](const Stage& stage) { return std::to_string(stage.zero); }),
         OverStages(each, RecomputeText),
         OverStages(each, OffloadText)});
  };
  add("this plan", plan);
  for (std::size_t i = 0; i < alternatives.size(); ++i) add(std::to_string(i + 2), alternatives[i]);
  page.AddTable(table);
}

void AddSearch(const Plan& plan, Page& page) {
  if (!plan.search) return;
  const plan::SearchSummary& search = *plan.search;
  page.AddHeading("How good is it");
  page.AddParagraph(fmt::format(
      "No plan of the space “{}” is faster than {} an iteration, by this cost model; this plan is "
      "within {} of that bound (status: {}).",
      search.space,
      FormatSeconds(search.lower_bound_s),
      FormatPercent(search.gap),
      search.status));
  page.AddTable({{"search", "value"},
                 {{"status", search.status},
                  {"lower bound", FormatSeconds(search.lower_bound_s)},
                  {"gap", FormatPercent(search.gap)},
                  {"space", search.space},
                  {"candidates", Grouped(search.candidates)},
                  {"evaluated", Grouped(search.evaluated)},
                  {"pruned with a proof", Grouped(search.pruned)},
                  {"time", FormatSeconds(search.seconds)}},
                 "lr"});
}

void AddProvenance(const Plan& plan, Page& page) {
  if (plan.provenance.empty()) return;
  page.AddHeading("Where this comes from");
  Table table{{"what", "value"}, {}, "ll"};
  for (const auto& [name, value] : plan.provenance) table.rows.push_back({name, value});
  page.AddTable(table);
}

}  // namespace

Page PlanPage(const Plan& plan, const std::vector<Plan>& alternatives, const PlanPageText& text) {
  Page page(fmt::format("{} on {}", plan.model_name, plan.cluster_name));
  AddVerdict(plan, page);
  AddKeyFigures(plan, page);
  AddTraining(plan, page);
  if (!text.what_binds.empty()) {
    page.AddHeading("What binds");
    page.AddParagraph(text.what_binds);
  }
  if (!text.notes.empty()) page.AddList(text.notes);
  AddStages(plan, page);
  if (HasMemory(plan)) AddMemory(plan, page);
  if (plan.predicted) AddTime(plan, page);
  AddAlternatives(plan, alternatives, page);
  AddSearch(plan, page);
  AddProvenance(plan, page);
  return page;
}

}  // namespace palmist::report
