#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "palmist/base/text.h"
#include "palmist/plan/plan.h"

namespace palmist::plan {
namespace {

using model::AttentionSpec;
using model::LayerSpec;
using model::MlpSpec;
using model::MoeSpec;

constexpr std::string_view kDtypes[] = {"bf16", "fp16", "fp32"};

[[noreturn]] void Fail(std::string path, std::string message, std::string hint = {}) {
  throw InputError(std::move(path), std::move(message), std::move(hint));
}

template <std::size_t n>
void CheckName(const std::string& path,
               const std::string& name,
               const std::string_view (&known)[n]) {
  if (std::find(std::begin(known), std::end(known), name) != std::end(known)) return;
  Fail(path, fmt::format("expected one of {}, got {}", fmt::join(known, ", "), Quote(name)));
}

void CheckDegree(const std::string& path, int value) {
  if (value < 1) Fail(path, fmt::format("expected a positive integer, got {}", value));
  if (value > kMaxDegree) {
    Fail(path, fmt::format("expected at most {}, got {}", kMaxDegree, value));
  }
}

/// Returns "4", "2 or 4", whichever degrees nearest to `degree` are valid, below and above it.
/// @param most no degree above it is valid.
template <typename Valid>
std::string NearestValid(int degree, std::int64_t most, Valid valid) {
  const int last = static_cast<int>(std::min<std::int64_t>(most, kMaxDegree));
  int below = std::min(degree - 1, last);
  while (below > 1 && !valid(below)) --below;
  int above = degree + 1;
  while (above <= last && !valid(above)) ++above;
  if (above > last) return std::to_string(below);
  return fmt::format("{} or {}", below, above);
}

/// The layers of a transformer in the order of the plan: an encoder's come first.
class LayerView {
 public:
  explicit LayerView(const model::ModelSpec& spec)
      : transformer_(spec.is_transformer() ? &spec.transformer() : nullptr) {}

  /// Returns a layer; null for convolutional models.
  const LayerSpec* at(int layer) const {
    if (transformer_ == nullptr) return nullptr;
    const auto i = static_cast<std::size_t>(layer);
    const std::size_t in_encoder = transformer_->encoder.size();
    return i < in_encoder ? &transformer_->encoder[i] : &transformer_->layers.at(i - in_encoder);
  }

 private:
  const model::TransformerSpec* transformer_;
};

/// Returns why `tp` ranks cannot share these heads; empty where they can.
std::string HeadsFault(const AttentionSpec& attention, int tp) {
  if (attention.heads % tp != 0) {
    return fmt::format("expected a divisor of the {} attention heads, got {}", attention.heads, tp);
  }
  if (attention.kv_heads % tp != 0 && tp % attention.kv_heads != 0) {
    return fmt::format("expected a divisor or a multiple of the {} key/value heads, got {}",
                       attention.kv_heads,
                       tp);
  }
  return {};
}

std::string WidthFault(const MlpSpec& mlp, int tp) {
  if (mlp.width % tp == 0) return {};
  return fmt::format("expected a divisor of the feed-forward width {}, got {}", mlp.width, tp);
}

/// Returns why `tp` ranks cannot share this layer; empty where they can.
std::string TensorParallelFault(const LayerSpec& layer, int tp) {
  std::string fault = HeadsFault(layer.attention, tp);
  if (fault.empty() && layer.cross_attention) fault = HeadsFault(*layer.cross_attention, tp);
  if (!fault.empty()) return fault;
  if (const auto* mlp = std::get_if<MlpSpec>(&layer.mlp)) return WidthFault(*mlp, tp);
  const auto& moe = std::get<MoeSpec>(layer.mlp);
  fault = WidthFault(moe.expert, tp);
  if (fault.empty() && moe.shared) fault = WidthFault(*moe.shared, tp);
  return fault;
}

/// Checks one plan. Methods throw at the first value that is wrong.
class Validator {
 public:
  Validator(const Plan& plan, const model::Graph& graph, const model::ModelSpec& spec)
      : plan_(plan),
        graph_(graph),
        layers_(spec),
        has_experts_(HasExperts(spec)),
        owner_(static_cast<std::size_t>(plan.cluster.num_devices()), -1) {}

  void Check() {
    CheckModel();
    CheckTraining();
    CheckStageCount();
    CheckLayers();
    for (std::size_t i = 0; i < plan_.stages.size(); ++i) CheckStage(static_cast<int>(i));
    CheckClosest();
  }

 private:
  static bool HasExperts(const model::ModelSpec& spec) {
    if (!spec.is_transformer()) return false;
    const auto is_moe = [](const LayerSpec& layer) {
      return std::holds_alternative<MoeSpec>(layer.mlp);
    };
    const auto& transformer = spec.transformer();
    return std::any_of(transformer.encoder.begin(), transformer.encoder.end(), is_moe) ||
           std::any_of(transformer.layers.begin(), transformer.layers.end(), is_moe);
  }

  static std::string PathOf(int stage) { return fmt::format("stages[{}]", stage); }

  void CheckModel() const {
    if (const std::int64_t params = model::CountParameters(graph_); plan_.params != params) {
      Fail("model.params",
           fmt::format("expected {}, the model's parameters with tied ones counted once, got {}",
                       params,
                       plan_.params),
           "leave it out to have it counted");
    }
    if (!graph_.has_sequence) {
      if (plan_.seq_len == 0) return;
      Fail("model.seq_len",
           fmt::format("expected 0 for a convolutional model, got {}", plan_.seq_len));
    }
    if (plan_.seq_len < 1) {
      Fail("model.seq_len", fmt::format("expected a positive integer, got {}", plan_.seq_len));
    }
    if (graph_.max_positions > 0 && plan_.seq_len > graph_.max_positions) {
      Fail("model.seq_len",
           fmt::format("expected at most {}, the rows of the model's position table, got {}",
                       graph_.max_positions,
                       plan_.seq_len));
    }
  }

  void CheckTraining() const {
    const Training& training = plan_.training;
    if (training.global_batch < 1) {
      Fail("training.global_batch",
           fmt::format("expected a positive integer, got {}", training.global_batch));
    }
    CheckDegree("training.micro_batches", training.micro_batches);
    if (training.global_batch % training.micro_batches != 0) {
      Fail("training.micro_batches",
           fmt::format("expected a divisor of the global batch {}, got {}",
                       training.global_batch,
                       training.micro_batches));
    }
    CheckName("training.schedule", training.schedule, kSchedules);
    CheckName("training.dtype", training.dtype, kDtypes);
    CheckName("training.grad_dtype", training.grad_dtype, kDtypes);
    if (!(training.grad_clip >= 0 && std::isfinite(training.grad_clip))) {
      Fail("training.grad_clip",
           fmt::format("expected a number of at least 0, got {}", training.grad_clip));
    }
  }

  void CheckStageCount() const {
    if (plan_.stages.empty() || plan_.stages.size() > kMaxStages) {
      Fail("stages",
           fmt::format("expected 1 to {} stages, got {}", kMaxStages, plan_.stages.size()));
    }
  }

  /// Checks that the stages, or their chunks round by round, hold every layer once and in order.
  void CheckLayers() const {
    const std::size_t rounds = CheckChunkCounts();
    const int num_layers = static_cast<int>(graph_.layers.size());
    int next = 0;
    for (std::size_t round = 0; round < rounds; ++round) {
      for (std::size_t i = 0; i < plan_.stages.size(); ++i) {
        const Stage& stage = plan_.stages[i];
        const bool chunked = !stage.chunks.empty();
        const LayerRange range =
            chunked ? stage.chunks[round] : LayerRange{stage.first_layer, stage.last_layer};
        const std::string path =
            PathOf(static_cast<int>(i)) + (chunked ? fmt::format(".chunks[{}]", round) : "");
        if (range.first_layer != next) {
          Fail(path + ".first_layer",
               fmt::format(
                   "expected {}, the layer after the one before, got {}", next, range.first_layer));
        }
        if (range.last_layer < range.first_layer || range.last_layer >= num_layers) {
          Fail(path + ".last_layer",
               fmt::format("expected {} to {}, the model's last layer, got {}",
                           range.first_layer,
                           num_layers - 1,
                           range.last_layer));
        }
        next = range.last_layer + 1;
      }
    }
    if (next != num_layers) {
      Fail(fmt::format("stages[{}].last_layer", plan_.stages.size() - 1),
           fmt::format("expected {}, the model's last layer, got {}", num_layers - 1, next - 1));
    }
  }

  /// Returns how many times the stages take their turn over the layers.
  std::size_t CheckChunkCounts() const {
    const bool interleaved = plan_.training.schedule == "interleaved";
    const std::size_t rounds = interleaved ? plan_.stages.front().chunks.size() : 1;
    for (std::size_t i = 0; i < plan_.stages.size(); ++i) {
      const Stage& stage = plan_.stages[i];
      const std::string path = PathOf(static_cast<int>(i));
      if (!interleaved) {
        if (stage.chunks.empty()) continue;
        Fail(path + ".chunks",
             fmt::format("expected none with the schedule {}, got {}",
                         plan_.training.schedule,
                         stage.chunks.size()),
             "chunks belong to the schedule interleaved");
      }
      if (stage.chunks.size() < 2 || stage.chunks.size() != rounds) {
        Fail(path + ".chunks",
             fmt::format("expected {} with the schedule interleaved, got {}",
                         rounds < 2 ? "two or more" : std::to_string(rounds),
                         stage.chunks.size()),
             "every stage has the same number of chunks");
      }
      if (stage.first_layer != stage.chunks.front().first_layer) {
        Fail(path + ".first_layer",
             fmt::format("expected {}, where its first chunk begins, got {}",
                         stage.chunks.front().first_layer,
                         stage.first_layer));
      }
      if (stage.last_layer != stage.chunks.back().last_layer) {
        Fail(path + ".last_layer",
             fmt::format("expected {}, where its last chunk ends, got {}",
                         stage.chunks.back().last_layer,
                         stage.last_layer));
      }
    }
    return rounds;
  }

  void CheckStage(int index) {
    const Stage& stage = plan_.stages[static_cast<std::size_t>(index)];
    const std::string path = PathOf(index);
    CheckEnds(index, stage, path);
    const std::pair<const char*, int> degrees[] = {{"micro_batch", stage.micro_batch},
                                                   {"dp", stage.dp},
                                                   {"tp", stage.tp},
                                                   {"cp", stage.cp},
                                                   {"ep", stage.ep},
                                                   {"zero_shard", stage.zero_shard}};
    for (const auto& [name, value] : degrees) CheckDegree(path + "." + name, value);
    CheckDevices(index, stage, path);
    if (stage.replicas.empty()) {
      CheckLikeReplicas(stage, path);
      CheckTensorParallel(stage, stage.tp, path + ".tp");
      CheckSequence(stage, stage.tp, path);
    } else {
      CheckUnlikeReplicas(stage, path);
    }
    CheckExperts(stage, path);
    CheckZero(stage, path);
    CheckRecompute(stage, path);
    CheckOffload(stage, path);
  }

  void CheckEnds(int index, const Stage& stage, const std::string& path) const {
    const bool is_first = index == 0;
    const bool is_last = index + 1 == static_cast<int>(plan_.stages.size());
    if (stage.embedding != is_first) {
      Fail(path + ".embedding",
           fmt::format("expected {}: the first stage holds the embedding, got {}",
                       is_first,
                       stage.embedding));
    }
    if (stage.head != is_last) {
      Fail(path + ".head",
           fmt::format("expected {}: the last stage holds the head, got {}", is_last, stage.head));
    }
  }

  void CheckDevices(int index, const Stage& stage, const std::string& path) {
    if (stage.devices.empty()) Fail(path + ".devices", "expected at least one device, got none");
    for (std::size_t i = 0; i < stage.devices.size(); ++i) {
      const int device = stage.devices[i];
      const auto path_of = [&] { return fmt::format("{}.devices[{}]", path, i); };
      if (device < 0 || static_cast<std::size_t>(device) >= owner_.size()) {
        Fail(path_of(),
             fmt::format("expected a device from 0 to {}, got {}",
                         static_cast<std::int64_t>(owner_.size()) - 1,
                         device));
      }
      int& owner = owner_[static_cast<std::size_t>(device)];
      if (owner >= 0) {
        Fail(path_of(),
             fmt::format("expected a device that no stage has yet, got {}, which stage {} has",
                         device,
                         owner));
      }
      owner = index;
    }
  }

  void CheckLikeReplicas(const Stage& stage, const std::string& path) const {
    const std::int64_t tensor_and_data = std::int64_t{stage.dp} * stage.tp;
    const auto devices = static_cast<std::int64_t>(stage.devices.size());
    if (tensor_and_data > devices || tensor_and_data * stage.cp != devices) {
      Fail(path + ".devices",
           fmt::format("expected dp * tp * cp = {} * {} * {} devices, got {}",
                       stage.dp,
                       stage.tp,
                       stage.cp,
                       devices));
    }
    CheckBatch(
        std::int64_t{stage.micro_batch} * stage.dp, "micro_batch * dp", path + ".micro_batch");
  }

  void CheckUnlikeReplicas(const Stage& stage, const std::string& path) const {
    if (static_cast<std::size_t>(stage.dp) != stage.replicas.size()) {
      Fail(path + ".dp",
           fmt::format(
               "expected {}, the number of replicas, got {}", stage.replicas.size(), stage.dp));
    }
    std::int64_t samples = 0;
    std::vector<int> devices;
    std::set<int> checked_tp;  // there may be very many replicas, but few of unlike degree
    for (std::size_t i = 0; i < stage.replicas.size(); ++i) {
      const Replica& replica = stage.replicas[i];
      const std::string replica_path = fmt::format("{}.replicas[{}]", path, i);
      CheckDegree(replica_path + ".tp", replica.tp);
      CheckDegree(replica_path + ".micro_batch", replica.micro_batch);
      if (std::int64_t{replica.tp} * stage.cp !=
          static_cast<std::int64_t>(replica.devices.size())) {
        Fail(replica_path + ".devices",
             fmt::format("expected tp * cp = {} * {} devices, got {}",
                         replica.tp,
                         stage.cp,
                         replica.devices.size()));
      }
      if (checked_tp.insert(replica.tp).second) {
        CheckTensorParallel(stage, replica.tp, replica_path + ".tp");
        CheckSequence(stage, replica.tp, path);
      }
      samples += replica.micro_batch;
      devices.insert(devices.end(), replica.devices.begin(), replica.devices.end());
    }
    std::vector<int> expected = stage.devices;
    std::sort(expected.begin(), expected.end());
    std::sort(devices.begin(), devices.end());
    if (devices != expected) {
      Fail(path + ".replicas", "expected each device of the stage in one replica, got other sets");
    }
    CheckBatch(samples, "the sum of their micro_batch", path + ".replicas");
  }

  void CheckBatch(std::int64_t samples, const char* what, const std::string& path) const {
    const Training& training = plan_.training;
    const std::int64_t expected = training.global_batch / training.micro_batches;
    if (samples == expected) return;
    Fail(path,
         fmt::format("expected {} to be {} (a global batch of {} in {} micro-batches), got {}",
                     what,
                     expected,
                     training.global_batch,
                     training.micro_batches,
                     samples));
  }

  /// Calls `check` with each transformer layer of the stage.
  template <typename Check>
  void ForEachLayer(const Stage& stage, Check check) const {
    const LayerRange whole{stage.first_layer, stage.last_layer};
    const auto ranges =
        stage.chunks.empty() ? std::span(&whole, 1) : std::span<const LayerRange>(stage.chunks);
    for (const LayerRange& range : ranges) {
      for (int layer = range.first_layer; layer <= range.last_layer; ++layer) {
        if (const LayerSpec* spec = layers_.at(layer)) check(*spec);
      }
    }
  }

  void CheckTensorParallel(const Stage& stage, int tp, const std::string& path) const {
    if (!graph_.has_sequence && tp != 1) {
      Fail(path, fmt::format("expected 1 for a convolutional model, got {}", tp));
    }
    ForEachLayer(stage, [&](const LayerSpec& layer) {
      const std::string fault = TensorParallelFault(layer, tp);
      if (fault.empty()) return;
      const auto valid = [&](int degree) { return TensorParallelFault(layer, degree).empty(); };
      Fail(path, fault, NearestValid(tp, layer.attention.heads, valid) + " would do");
    });
  }

  void CheckSequence(const Stage& stage, int tp, const std::string& path) const {
    CheckName(path + ".cp_kind", stage.cp_kind, kCpKinds);
    if (!graph_.has_sequence) {
      if (stage.sp) Fail(path + ".sp", "expected false for a convolutional model, got true");
      if (stage.cp != 1) {
        Fail(path + ".cp", fmt::format("expected 1 for a convolutional model, got {}", stage.cp));
      }
      return;
    }
    if (stage.cp > 1) {
      CheckMultiple(std::int64_t{2} * stage.cp, "2 * cp", path + ".cp", "set cp to 1");
      if (stage.cp_kind == "all_to_all") CheckHeadsPerRank(stage, tp, path);
    }
    if (stage.sp) {
      CheckMultiple(std::int64_t{stage.cp} * tp,
                    stage.cp > 1 ? "cp * tp" : "tp",
                    path + ".sp",
                    "set sp to false");
    }
  }

  void CheckMultiple(std::int64_t multiple,
                     const char* what,
                     const std::string& path,
                     const char* other_way) const {
    if (plan_.seq_len % multiple == 0) return;
    const std::int64_t below = plan_.seq_len / multiple * multiple;
    Fail(path,
         fmt::format("expected model.seq_len to be a multiple of {} = {}, got {}",
                     what,
                     multiple,
                     plan_.seq_len),
         fmt::format("{}{} of padded sequences, or {}",
                     below > 0 ? fmt::format("use a seq_len of {}, ", below) : "use a seq_len of ",
                     below + multiple,
                     other_way));
  }

  void CheckHeadsPerRank(const Stage& stage, int tp, const std::string& path) const {
    ForEachLayer(stage, [&](const LayerSpec& layer) {
      if (layer.attention.heads % (std::int64_t{tp} * stage.cp) == 0) return;
      Fail(path + ".cp",
           fmt::format("expected tp * cp to divide the {} attention heads with cp_kind "
                       "all_to_all, got {} * {}",
                       layer.attention.heads,
                       tp,
                       stage.cp),
           "cp_kind ring has no such limit");
    });
  }

  void CheckExperts(const Stage& stage, const std::string& path) const {
    if (stage.ep == 1) return;
    if (!has_experts_) {
      Fail(path + ".ep", fmt::format("expected 1 for a model without experts, got {}", stage.ep));
    }
    ForEachLayer(stage, [&](const LayerSpec& layer) {
      const auto* moe = std::get_if<MoeSpec>(&layer.mlp);
      if (moe == nullptr || moe->experts % stage.ep == 0) return;
      const auto valid = [&](int degree) { return moe->experts % degree == 0; };
      Fail(path + ".ep",
           fmt::format("expected a divisor of the {} experts, got {}", moe->experts, stage.ep),
           NearestValid(stage.ep, moe->experts, valid) + " would do");
    });
    const std::int64_t ranks = std::int64_t{stage.dp} * stage.cp;
    if (ranks % stage.ep != 0) {
      Fail(path + ".ep",
           fmt::format("expected a divisor of dp * cp = {}, whose ranks share the experts, got {}",
                       ranks,
                       stage.ep));
    }
  }

  void CheckZero(const Stage& stage, const std::string& path) const {
    if (stage.zero < 0 || stage.zero > 3) {
      Fail(path + ".zero", fmt::format("expected 0 to 3, got {}", stage.zero));
    }
    if (stage.zero == 0 && stage.zero_shard != 1) {
      Fail(path + ".zero_shard", fmt::format("expected 1 with zero 0, got {}", stage.zero_shard));
    }
    const std::int64_t ranks = std::int64_t{stage.dp} * stage.cp;
    if (ranks % stage.zero_shard != 0) {
      Fail(path + ".zero_shard",
           fmt::format("expected a divisor of dp * cp = {}, got {}", ranks, stage.zero_shard));
    }
  }

  void CheckRecompute(const Stage& stage, const std::string& path) const {
    int next = stage.first_layer;
    for (std::size_t i = 0; i < stage.recompute.size(); ++i) {
      const RecomputeRange& range = stage.recompute[i];
      const std::string range_path = fmt::format("{}.recompute[{}]", path, i);
      if (range.first_layer < next) {
        Fail(range_path + ".first_layer",
             fmt::format("expected a layer of the stage after earlier ranges ({} or later), got {}",
                         next,
                         range.first_layer));
      }
      if (range.last_layer < range.first_layer || range.last_layer > stage.last_layer) {
        Fail(range_path + ".last_layer",
             fmt::format("expected {} to {}, the stage's last layer, got {}",
                         range.first_layer,
                         stage.last_layer,
                         range.last_layer));
      }
      if (!stage.chunks.empty() && !IsInOneChunk(range, stage)) {
        Fail(
            range_path,
            fmt::format(
                "expected layers of one chunk, got {} to {}", range.first_layer, range.last_layer));
      }
      if (range.mode == RecomputeMode::kFull && !range.modules.empty()) {
        Fail(range_path + ".modules",
             fmt::format("expected none with mode full, got {}", range.modules.size()));
      }
      next = range.last_layer + 1;
    }
  }

  static bool IsInOneChunk(const RecomputeRange& range, const Stage& stage) {
    return std::any_of(stage.chunks.begin(), stage.chunks.end(), [&](const LayerRange& chunk) {
      return chunk.first_layer <= range.first_layer && range.last_layer <= chunk.last_layer;
    });
  }

  static void CheckOffload(const Stage& stage, const std::string& path) {
    const std::pair<const char*, double> ratios[] = {{"weights", stage.offload.weights},
                                                     {"grads", stage.offload.grads},
                                                     {"optimizer", stage.offload.optimizer},
                                                     {"activations", stage.offload.activations}};
    for (const auto& [name, ratio] : ratios) {
      if (ratio >= 0.0 && ratio <= 1.0) continue;
      Fail(path + ".offload." + name, fmt::format("expected a number from 0 to 1, got {}", ratio));
    }
  }

  void CheckClosest() const {
    for (std::size_t i = 0; i < plan_.closest.size(); ++i) {
      const int stage = plan_.closest[i].stage;
      if (stage >= 0 && static_cast<std::size_t>(stage) < plan_.stages.size()) continue;
      Fail(fmt::format("closest[{}].stage", i),
           fmt::format("expected a stage from 0 to {}, got {}", plan_.stages.size() - 1, stage));
    }
  }

  const Plan& plan_;
  const model::Graph& graph_;
  const LayerView layers_;
  const bool has_experts_;
  std::vector<int> owner_;  // stage that has each device; -1: none yet
};

}  // namespace

bool Stage::recomputes(int layer) const {
  return std::any_of(recompute.begin(), recompute.end(), [&](const RecomputeRange& range) {
    return range.mode == RecomputeMode::kFull && range.first_layer <= layer &&
           layer <= range.last_layer;
  });
}

int Stage::num_layers() const {
  if (chunks.empty()) return last_layer - first_layer + 1;
  return std::accumulate(chunks.begin(), chunks.end(), 0, [](int sum, const LayerRange& chunk) {
    return sum + chunk.last_layer - chunk.first_layer + 1;
  });
}

int Stage::num_chunks() const { return std::max(1, static_cast<int>(chunks.size())); }

int Stage::num_recomputed() const {
  return std::accumulate(
      recompute.begin(), recompute.end(), 0, [](int sum, const RecomputeRange& range) {
        return sum + range.last_layer - range.first_layer + 1;
      });
}

Result<void> Validate(const Plan& plan, const model::Graph& graph, const model::ModelSpec& spec) {
  try {
    Validator(plan, graph, spec).Check();
    return {};
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    return error;
  }
}

Result<void> Validate(const Plan& plan, const model::Graph& graph) {
  auto parsed = model::ParseConfig(plan.model_config, plan.model_name);
  if (!parsed.ok()) return parsed.error().WithFieldPrefix("model.config");
  return Validate(plan, graph, parsed->spec);
}

}  // namespace palmist::plan
