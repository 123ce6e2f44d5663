#include "palmist/planner/whatif.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "palmist/base/units.h"
#include "palmist/plan/optimizer.h"

namespace palmist::planner {
namespace {

Error CannotFollow(const std::string& message, const std::string& hint) {
  return UsageError("--set", message, hint);
}

template <typename T>
Result<void> Take(const Result<T>& read, const std::string& key, std::optional<T>& value) {
  if (!read.ok()) return UsageError("--set " + key, read.error().message(), read.error().hint());
  value = *read;
  return {};
}

/// Splits the model evenly over `stages` stages like the first one.
void SplitAnew(int stages, plan::Plan& plan) {
  const plan::Stage front = plan.stages.front();
  const int layers = plan.stages.back().last_layer + 1;
  int devices = 0, recomputed = 0;
  for (const plan::Stage& stage : plan.stages) {
    if (stage.devices.size() != front.devices.size() || stage.tp != front.tp ||
        stage.cp != front.cp) {
      throw CannotFollow("pp can be changed where all stages have the same degrees",
                         "search instead: palmist plan … --fix pp=" + std::to_string(stages));
    }
    devices += static_cast<int>(stage.devices.size());
    recomputed += stage.num_recomputed();
  }
  if (stages > layers || devices % stages != 0) {
    throw CannotFollow("pp must divide the " + std::to_string(devices) +
                           " devices, and be at most the " + std::to_string(layers) + " layers",
                       "choose another pp");
  }
  std::vector<int> all;
  for (const plan::Stage& stage : plan.stages) {
    all.insert(all.end(), stage.devices.begin(), stage.devices.end());
  }
  plan.stages.clear();
  const auto each = static_cast<std::size_t>(devices / stages);
  for (int i = 0; i < stages; ++i) {
    plan::Stage stage = front;
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(each) * i;
    stage.devices.assign(first, first + static_cast<std::ptrdiff_t>(each));
    stage.first_layer = layers * i / stages;
    stage.last_layer = layers * (i + 1) / stages - 1;
    stage.embedding = i == 0;
    stage.head = i + 1 == stages;
    stage.recompute.clear();
    stage.chunks.clear();
    const int count = stage.num_layers();
    // Rounded up: memory that was enough stays enough.
    const int again = (count * recomputed + layers - 1) / layers;
    if (again > 0) {
      stage.recompute.push_back({stage.last_layer - again + 1, stage.last_layer, {}, {}});
    }
    plan.stages.push_back(std::move(stage));
  }
}

/// Deals the layers out in even chunks, `chunks` to a stage, or back in one piece each.
void SetChunks(int chunks, plan::Plan& plan) {
  const int stages = static_cast<int>(plan.stages.size());
  int layers = 0, recomputed = 0;
  for (const plan::Stage& stage : plan.stages) {
    layers += stage.num_layers();
    recomputed += stage.num_recomputed();
  }
  if (recomputed != 0 && recomputed != layers) {
    throw CannotFollow("interleaved stages recompute all layers or none",
                       "set recompute=none or recompute=full, too");
  }
  const int parts = stages * chunks;
  if (layers % parts != 0) {
    throw CannotFollow("pp times chunks, " + std::to_string(parts) + ", must divide the " +
                           std::to_string(layers) + " layers",
                       "choose another number of chunks");
  }
  const int each = layers / parts;
  for (int i = 0; i < stages; ++i) {
    plan::Stage& stage = plan.stages[static_cast<std::size_t>(i)];
    stage.chunks.clear();
    stage.recompute.clear();
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const int first = (chunk * stages + i) * each;
      stage.chunks.push_back({first, first + each - 1});
      if (recomputed > 0) stage.recompute.push_back({first, first + each - 1, {}, {}});
    }
    stage.first_layer = stage.chunks.front().first_layer;
    stage.last_layer = stage.chunks.back().last_layer;
    if (chunks == 1) stage.chunks.clear();
  }
}

/// Sets the degrees of one stage; those that are not set follow.
void SetDegrees(const Fixed& fixed, plan::Stage& stage) {
  const int devices = static_cast<int>(stage.devices.size());
  if (!stage.replicas.empty() && (fixed.dp || fixed.tp || fixed.cp || fixed.micro_batch)) {
    throw CannotFollow("a stage with replicas of their own has no one degree",
                       "edit its replicas in the plan file");
  }
  const bool is_split_anew = stage.dp * stage.tp * stage.cp != devices;
  stage.cp = fixed.cp.value_or(stage.cp);
  if (fixed.tp || !fixed.dp) stage.tp = fixed.tp.value_or(stage.tp);
  const auto divided = [&](int by) {
    if (devices % by != 0) {
      throw CannotFollow("the " + std::to_string(devices) +
                             " devices of a stage do not divide by " + std::to_string(by),
                         "choose degrees whose product is the number of devices");
    }
    return devices / by;
  };
  if (fixed.dp && !fixed.tp) stage.tp = divided(*fixed.dp * stage.cp);
  const int dp = divided(stage.tp * stage.cp);
  if (fixed.dp && *fixed.dp != dp) {
    throw CannotFollow(
        "dp * tp * cp must be the " + std::to_string(devices) + " devices of a stage",
        "set dp or tp, and the other follows");
  }
  stage.dp = dp;
  stage.ep = fixed.ep.value_or(stage.ep);
  stage.sp = fixed.sp.value_or(stage.sp && stage.tp > 1);
  const int zero_before = stage.zero;
  stage.zero = fixed.zero.value_or(stage.zero);
  const int replicas = stage.dp * stage.cp;
  if (replicas == 1) stage.zero = 0;
  const bool is_kept =
      zero_before > 0 && stage.zero > 0 && !is_split_anew && !fixed.dp && !fixed.tp && !fixed.cp;
  if (!is_kept) stage.zero_shard = stage.zero > 0 ? replicas : 1;
}

/// Makes micro-batches, their number and the global batch agree.
void SetMicroBatches(const Change& change, plan::Plan& plan) {
  plan::Training& training = plan.training;
  plan::Stage& front = plan.stages.front();
  if (change.fixed.micro_batch) front.micro_batch = *change.fixed.micro_batch;
  if (change.fixed.micro_batches) {
    training.micro_batches = *change.fixed.micro_batches;
  } else {
    const std::int64_t samples = static_cast<std::int64_t>(front.micro_batch) * front.dp;
    if (training.global_batch % samples != 0) {
      throw CannotFollow("a micro-batch of " + std::to_string(samples) +
                             " sequences does not divide the global batch of " +
                             std::to_string(training.global_batch),
                         "set micro_batch, micro_batches or global_batch, too");
    }
    training.micro_batches = static_cast<int>(training.global_batch / samples);
  }
  for (plan::Stage& stage : plan.stages) {
    if (!stage.replicas.empty()) continue;
    const std::int64_t each = static_cast<std::int64_t>(training.micro_batches) * stage.dp;
    if (training.global_batch % each != 0) {
      throw CannotFollow("the global batch of " + std::to_string(training.global_batch) +
                             " does not divide over " + std::to_string(training.micro_batches) +
                             " micro-batches and dp " + std::to_string(stage.dp),
                         "set micro_batches or global_batch, too");
    }
    stage.micro_batch = static_cast<int>(training.global_batch / each);
    if (change.fixed.micro_batch && stage.micro_batch != *change.fixed.micro_batch) {
      throw CannotFollow("micro_batch * micro_batches * dp must be the global batch of " +
                             std::to_string(training.global_batch),
                         "set micro_batch or micro_batches, and the other follows");
    }
  }
}

void SetDtype(const std::string& dtype, plan::Training& training) {
  // The copy in fp32 beside half-precision weights.
  constexpr double kMasterBytes = 4;
  if (training.grad_dtype == training.dtype) training.grad_dtype = dtype;
  if (dtype == "fp32" && training.dtype != "fp32") {
    training.optimizer.state_bytes_per_param =
        std::max(0.0, training.optimizer.state_bytes_per_param - kMasterBytes);
  }
  if (dtype != "fp32" && training.dtype == "fp32") {
    training.optimizer.state_bytes_per_param += kMasterBytes;
  }
  if (dtype == "fp32") training.grad_dtype = dtype;
  training.dtype = dtype;
}

}  // namespace

std::vector<std::string> ChangeKeys() {
  std::vector<std::string> keys = {"seq", "global_batch", "dtype", "optimizer", "grad_clip", "ops"};
  for (std::string& key : FixKeys()) keys.push_back(std::move(key));
  return keys;
}

Result<void> ParseChange(std::string_view key_value, Change& change) {
  const std::size_t equals = key_value.find('=');
  const std::string key(key_value.substr(0, equals));
  const std::string_view text =
      equals == std::string_view::npos ? "" : key_value.substr(equals + 1);
  if (equals != std::string_view::npos) {
    if (key == "seq") return Take(ParseSequenceLength(text), key, change.seq_len);
    if (key == "global_batch") return Take(ParseCount(text), key, change.global_batch);
    if (key == "ops") return Take(model::ParseVariant(text), key, change.all_ops);
    if (key == "optimizer") {
      const Result<plan::Optimizer> named = plan::NamedOptimizer(text, "bf16");
      if (!named.ok()) return UsageError("--set optimizer", named.error().message(), "");
      change.optimizer = text;
      return {};
    }
    if (key == "grad_clip") {
      return Take(ParseNumber(text), key, change.grad_clip);
    }
    if (key == "dtype") {
      if (text != "bf16" && text != "fp16" && text != "fp32") {
        return UsageError("--set dtype",
                          "expected bf16, fp16 or fp32, got '" + std::string(text) + "'",
                          "for example --set dtype=bf16");
      }
      change.dtype = text;
      return {};
    }
    const std::vector<std::string> keys = ChangeKeys();
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      std::string listed;
      for (const std::string& known : keys) listed += (listed.empty() ? "" : ", ") + known;
      return UsageError("--set", "unknown key '" + key + "'", "the keys are " + listed);
    }
  }
  return ParseFix(key_value, change.fixed, "--set");
}

double MemoryLimitOf(const plan::Plan& plan) {
  if (plan.cluster.groups.size() != 1) return 1;
  double least = std::numeric_limits<double>::infinity();
  for (const plan::Stage& stage : plan.stages) {
    if (stage.predicted) least = std::min(least, stage.predicted->memory.limit);
  }
  return least > 1 && std::isfinite(least) ? least : 1;
}

plan::Plan WithChange(const plan::Plan& plan, const Change& change, const model::Model& model) {
  plan::Plan changed = plan;
  changed.predicted.reset();
  changed.search.reset();
  changed.closest.clear();
  const Fixed& fixed = change.fixed;
  if (change.seq_len) {
    if (plan.seq_len == 0) throw CannotFollow("the model has no sequence", "leave seq out");
    changed.seq_len = *change.seq_len;
  }
  plan::Training& training = changed.training;
  training.global_batch = change.global_batch.value_or(training.global_batch);
  training.schedule = fixed.schedule.value_or(training.schedule);
  training.grad_clip = change.grad_clip.value_or(training.grad_clip);
  if (change.dtype) SetDtype(*change.dtype, training);
  if (change.optimizer) {
    training.optimizer = plan::NamedOptimizer(*change.optimizer, training.dtype).value();
  }
  if (fixed.pp && *fixed.pp != static_cast<int>(plan.stages.size())) SplitAnew(*fixed.pp, changed);
  for (plan::Stage& stage : changed.stages) {
    stage.predicted.reset();
    SetDegrees(fixed, stage);
    stage.offload = fixed.OffloadOver(stage.offload);
    if (change.all_ops) stage.ops = model::UniformVariants(*change.all_ops);
    stage.ops = fixed.OpsOver(stage.ops);
    if (!fixed.recompute) continue;
    stage.recompute.clear();
    if (fixed.recompute == "full") {
      stage.recompute.push_back({stage.first_layer, stage.last_layer, {}, {}});
    }
  }
  const bool was_interleaved = plan.training.schedule == "interleaved";
  const bool is_interleaved = training.schedule == "interleaved";
  if (fixed.chunks && !is_interleaved) {
    throw CannotFollow("chunks are of the schedule interleaved", "set schedule=interleaved, too");
  }
  const bool is_dealt_anew = fixed.chunks || fixed.pp || is_interleaved != was_interleaved;
  if (is_dealt_anew && (is_interleaved || was_interleaved)) {
    const int before = plan.stages.front().num_chunks();
    SetChunks(is_interleaved ? fixed.chunks.value_or(std::max(2, before)) : 1, changed);
  }
  SetMicroBatches(change, changed);
  plan::Validate(changed, model::BuildGraph(model.spec), model.spec).value();
  return changed;
}

}  // namespace palmist::planner
