#include "palmist/grasp/eval/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "palmist/base/file.h"
#include "palmist/base/hash.h"
#include "palmist/base/interrupt.h"
#include "palmist/base/json.h"
#include "palmist/base/progress.h"
#include "palmist/base/rng.h"
#include "palmist/grasp/core/point_cloud.h"

namespace palmist::grasp {
namespace {

using Json = nlohmann::json;

/// The layout of the files of scenes' results, and the rules behind their numbers. To be raised
/// when one of them changes.
constexpr int kSceneFileVersion = 3;

/// What is evaluated of a frame, by rule and whether collisions are removed.
std::vector<FrameOptions> Variants(const std::vector<ContactRule>& rules) {
  std::vector<FrameOptions> variants;
  for (const ContactRule rule : rules) {
    variants.push_back({rule, false});
    variants.push_back({rule, true});
  }
  return variants;
}

struct ObjectSum {
  int id = 0;
  double ap = 0;
};

/// What is kept of one frame under one variant.
struct VariantOfFrame {
  AveragePrecision precision;
  std::vector<ObjectSum> objects;
};

struct FrameRecord {
  int frame = 0;
  std::int64_t grasps = 0;
  std::vector<VariantOfFrame> variants;
};

struct SceneRecord {
  int scene = 0;
  std::vector<FrameRecord> frames;
};

Json ToJson(const SceneRecord& record, const std::string& key) {
  Json frames = Json::array();
  for (const FrameRecord& frame : record.frames) {
    Json variants = Json::array();
    for (const VariantOfFrame& variant : frame.variants) {
      Json objects = Json::array();
      for (const ObjectSum& object : variant.objects) {
        objects.push_back({{"id", object.id}, {"ap", object.ap}});
      }
      variants.push_back({{"precision", variant.precision.of_friction}, {"objects", objects}});
    }
    frames.push_back({{"frame", frame.frame}, {"grasps", frame.grasps}, {"variants", variants}});
  }
  return {{"palmist_grasp_eval", kSceneFileVersion},
          {"key", key},
          {"scene", record.scene},
          {"frames", frames}};
}

/// Returns a scene's kept result; none where the file is missing, damaged, or of other grasps.
std::optional<SceneRecord> ReadRecord(const std::string& path,
                                      const std::string& key,
                                      std::size_t variants) {
  const Result<std::string> text = ReadFile(path);
  if (!text.ok()) return std::nullopt;
  const Result<Json> json = ParseJson(*text);
  if (!json.ok()) return std::nullopt;
  try {
    const JsonReader reader(*json);
    if (reader.RequireString("key") != key) return std::nullopt;
    SceneRecord record;
    record.scene = static_cast<int>(reader.RequireInt("scene", 0, 9999));
    for (const JsonReader& frame_reader : reader.Array("frames")) {
      FrameRecord& frame = record.frames.emplace_back();
      frame.frame = static_cast<int>(frame_reader.RequireInt("frame", 0, 9999));
      frame.grasps = frame_reader.RequireInt("grasps", 0);
      for (const JsonReader& variant_reader : frame_reader.Array("variants")) {
        VariantOfFrame& variant = frame.variants.emplace_back();
        const std::vector<double> precision = variant_reader.RequireDoubles("precision", 0, 1);
        if (precision.size() != kFrictions.size()) return std::nullopt;
        std::copy(precision.begin(), precision.end(), variant.precision.of_friction.begin());
        for (const JsonReader& object : variant_reader.Array("objects")) {
          variant.objects.push_back({static_cast<int>(object.RequireInt("id", 0, 9999)),
                                     object.RequireDouble("ap", 0, 1)});
        }
      }
      if (frame.variants.size() != variants) return std::nullopt;
    }
    return record;
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Adds a file's bytes; one that is missing counts as such: who needs it names it.
void AddContent(const std::string& path, Fnv1a& hash) {
  const Result<std::string> bytes = ReadFile(path);
  hash.Add(fmt::format(";{}:", bytes.ok() ? static_cast<std::int64_t>(bytes->size()) : -1));
  if (bytes.ok()) hash.Add(*bytes);
}

/// Adds the size and the time of change of a file that is too large to read for a key.
void AddStamp(const std::string& path, Fnv1a& hash) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  const auto changed = std::filesystem::last_write_time(path, error);
  hash.Add(error ? ";none" : fmt::format(";{}@{}", bytes, changed.time_since_epoch().count()));
}

using Models = std::map<int, std::shared_ptr<const ObjectModel>>;

/// @throws Error (input) that names the file unless the matrix is a pose within kMaxReach_m
void CheckPose(const Matrix4d& matrix, const std::string& path) {
  const Isometry3d pose = PoseFromMatrix(matrix, path).value();
  if (pose.translation().norm() <= kMaxReach_m) return;
  throw InputError(path,
                   fmt::format("expected a translation within {} m, got {:.4g} m",
                               kMaxReach_m,
                               pose.translation().norm()),
                   "write it in metres");
}

/// @throws Error (input) that names the file for a cloud that is no object's in metres
void CheckCloud(const PointCloud& cloud, const std::string& path) {
  constexpr double kMaxSize_m = 2;
  if (cloud.points.empty()) throw InputError(path, "has no points");
  Eigen::AlignedBox3d box;
  for (std::size_t i = 0; i < cloud.size(); ++i) {
    if (!cloud.points[i].allFinite()) {
      throw InputError(path, fmt::format("point {} is not finite", i));
    }
    box.extend(cloud.points[i]);
  }
  if (box.diagonal().norm() > kMaxSize_m) {
    throw InputError(
        path,
        fmt::format(
            "expected an object of at most {} m, got {:.4g} m", kMaxSize_m, box.diagonal().norm()),
        "a model is in metres");
  }
}

class Evaluation {
 public:
  Evaluation(const Dataset& dataset, const EvaluationOptions& options)
      : dataset_(dataset), options_(options), variants_(Variants(options.rules)) {}

  EvaluationResult Run() {
    if (options_.rules.empty()) throw UsageError("rules", "expected compat, strict or both");
    if (options_.bootstrap_rounds < 1) throw UsageError("bootstrap_rounds", "expected 1 or more");
    if (options_.threads < 1) throw UsageError("threads", "expected 1 or more");
    const std::vector<int> scenes = Scenes();
    if (!options_.results.empty()) {
      std::error_code ignored;  // what it hides, CheckWritable says
      std::filesystem::create_directories(options_.results, ignored);
      CheckWritable(RecordPath(scenes[0])).value();
    }
    std::int64_t total = 0;
    std::map<int, std::vector<int>> frames;
    for (const int scene : scenes) {
      frames[scene] = dataset_.Frames(scene, options_.camera).value();
      CheckAnnotated(scene, frames[scene]);
      total += static_cast<std::int64_t>(frames[scene].size());
    }
    Progress progress("evaluating grasps", total);
    std::vector<SceneRecord> records;
    for (const int scene : scenes) {
      records.push_back(EvaluateOrReuse(scene, frames[scene], progress));
    }
    return Summarize(records);
  }

 private:
  std::vector<int> Scenes() const {
    std::vector<int> scenes = options_.scenes;
    if (scenes.empty()) {
      for (const int scene : dataset_.scenes()) {
        const std::filesystem::path file = DumpPath(options_.dump, {scene, options_.camera, 0});
        if (std::filesystem::is_directory(file.parent_path())) scenes.push_back(scene);
      }
    }
    std::sort(scenes.begin(), scenes.end());
    scenes.erase(std::unique(scenes.begin(), scenes.end()), scenes.end());
    if (scenes.empty()) {
      throw InputError(
          options_.dump,
          fmt::format("no grasps of a scene of {} seen by the camera {}",
                      dataset_.paths().root,
                      options_.camera),
          "a frame's grasps are expected in scene_0100/" + options_.camera + "/0000.npy");
    }
    return scenes;
  }

  /// @throws Error (input) that names grasps of a frame that the dataset does not have
  void CheckAnnotated(int scene, const std::vector<int>& frames) const {
    const std::filesystem::path folder =
        std::filesystem::path(DumpPath(options_.dump, {scene, options_.camera, 0})).parent_path();
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
      const std::string name = entry.path().filename().string();
      const bool is_frame =
          name.size() == 8 && name.ends_with(".npy") &&
          std::all_of(name.begin(), name.begin() + 4, [](char c) { return c >= '0' && c <= '9'; });
      if (!is_frame || std::binary_search(frames.begin(), frames.end(), std::stoi(name))) continue;
      throw InputError(entry.path().string(),
                       "is of a frame that the dataset has no annotation of",
                       "remove it, or restore the annotation");
    }
  }

  std::string RecordPath(int scene) const {
    return fmt::format("{}/scene_{:04}_{}.json", options_.results, scene, options_.camera);
  }

  /// Identifies what a scene's result depends on: grasps and the dataset's small files by content,
  /// models by size and time of change.
  std::string KeyOf(int scene, const std::vector<int>& frames) const {
    Fnv1a hash;
    const DatasetPaths& paths = dataset_.paths();
    hash.Add(fmt::format("{};{};{};", kSceneFileVersion, paths.root, scene));
    for (const ContactRule rule : options_.rules) hash.Add(ToString(rule));
    for (const int frame : frames) {
      const std::string bytes =
          ReadFile(DumpPath(options_.dump, {scene, options_.camera, frame})).value();
      hash.Add(fmt::format(";{}:{};", frame, bytes.size()));
      hash.Add(bytes);
      AddContent(paths.Annotation({scene, options_.camera, frame}), hash);
    }
    AddContent(paths.ObjectIds(scene), hash);
    AddContent(paths.Camera0WrtTable(scene, options_.camera), hash);
    AddContent(paths.CameraPoses(scene, options_.camera), hash);
    const std::vector<int> ids = dataset_.ObjectIds(scene).value();
    for (const int id : std::set<int>(ids.begin(), ids.end())) {
      hash.Add(fmt::format(";{}", id));
      AddStamp(paths.ModelPly(id), hash);
      AddStamp(paths.ModelSdf(id), hash);
    }
    return fmt::format("{:016x}", hash.value());
  }

  SceneRecord EvaluateOrReuse(int scene, const std::vector<int>& frames, Progress& progress) {
    std::string key;
    if (!options_.results.empty()) {
      key = KeyOf(scene, frames);
      if (auto record = ReadRecord(RecordPath(scene), key, variants_.size())) {
        ++scenes_reused_;
        progress.Advance(static_cast<std::int64_t>(frames.size()));
        return *std::move(record);
      }
    }
    SceneRecord record = EvaluateScene(scene, frames, progress);
    if (!options_.results.empty()) {
      WriteFileAtomic(RecordPath(scene), ToJson(record, key).dump()).value();
    }
    return record;
  }

  SceneRecord EvaluateScene(int scene, const std::vector<int>& frames, Progress& progress) {
    LoadModels(scene);
    const Matrix4d X_TC0 = dataset_.Camera0WrtTable(scene, options_.camera).value();
    const std::vector<Matrix4d> X_C0C = dataset_.CameraPoses(scene, options_.camera).value();
    const DatasetPaths& paths = dataset_.paths();
    CheckPose(X_TC0, paths.Camera0WrtTable(scene, options_.camera));
    for (const int frame : frames) {
      if (static_cast<std::size_t>(frame) >= X_C0C.size()) continue;
      CheckPose(X_C0C[frame], paths.CameraPoses(scene, options_.camera));
    }
    SceneRecord record;
    record.scene = scene;
    record.frames.resize(frames.size());
    ParallelFor(static_cast<std::int64_t>(frames.size()),
                options_.threads,
                [&](std::int64_t begin, std::int64_t end, int) {
                  for (std::int64_t i = begin; i < end; ++i) {
                    if (InterruptRequested()) {
                      throw Error(ErrorKind::kInterrupted, "stopped by a signal");
                    }
                    record.frames[i] = EvaluateFrameOf(scene, frames[i], X_TC0, X_C0C);
                    progress.Advance();
                  }
                });
    return record;
  }

  /// Loads what the scene needs; keeps what the last one had and this one has, too.
  void LoadModels(int scene) {
    Models needed;
    std::vector<std::pair<const int, std::shared_ptr<const ObjectModel>>*> missing;
    const std::vector<int> ids = dataset_.ObjectIds(scene).value();
    for (const int id : std::set<int>(ids.begin(), ids.end())) {
      auto& entry = *needed.try_emplace(id).first;
      if (const auto known = models_.find(id); known != models_.end()) {
        entry.second = known->second;
      } else {
        missing.push_back(&entry);
      }
    }
    models_.clear();
    ParallelFor(static_cast<std::int64_t>(missing.size()),
                options_.threads,
                [&](std::int64_t begin, std::int64_t end, int) {
                  for (std::int64_t i = begin; i < end; ++i) {
                    auto model = std::make_shared<ObjectModel>();
                    model->id = missing[i]->first;
                    const PointCloud cloud = dataset_.ModelCloud(model->id).value();
                    CheckCloud(cloud, dataset_.paths().ModelPly(model->id));
                    model->cloud_O = VoxelDownsample(cloud, kModelVoxel_m).points;
                    model->grid = dataset_.ModelSdf(model->id).value();
                    CheckGrid(model->grid, dataset_.paths().ModelSdf(model->id)).value();
                    missing[i]->second = std::move(model);
                  }
                });
    models_ = std::move(needed);
  }

  FrameRecord EvaluateFrameOf(int scene,
                              int frame,
                              const Matrix4d& X_TC0,
                              const std::vector<Matrix4d>& X_C0C) const {
    const FrameId id = {scene, options_.camera, frame};
    const GraspGroup grasps = ReadGraspGroup(DumpPath(options_.dump, id)).value();
    FrameInput input;
    input.grasps = grasps;
    input.table = table_;
    if (static_cast<std::size_t>(frame) >= X_C0C.size()) {
      throw InputError(dataset_.paths().CameraPoses(scene, options_.camera),
                       fmt::format("{} poses, none of frame {}", X_C0C.size(), frame));
    }
    input.X_CT = TableInCamera(X_TC0, X_C0C[frame]);
    const std::vector<AnnotatedObject> annotated = dataset_.Annotation(id).value();
    for (const AnnotatedObject& object : annotated) {
      const auto model = models_.find(object.id);
      if (model == models_.end()) {
        throw InputError(dataset_.paths().Annotation(id),
                         fmt::format("object {} is not among the scene's", object.id),
                         "add it to object_id_list.txt");
      }
      input.objects.push_back(model->second.get());
      input.X_CO.push_back(object.Pose());
    }

    FrameRecord record;
    record.frame = frame;
    record.grasps = static_cast<std::int64_t>(grasps.size());
    FrameEvaluator evaluator(input);
    for (const FrameOptions& variant : variants_) {
      const FrameResult result = evaluator.Evaluate(variant);
      VariantOfFrame& kept = record.variants.emplace_back();
      kept.precision = MeanPrecision({&result.accuracy, 1});
      for (std::size_t i = 0; i < input.objects.size(); ++i) {
        kept.objects.push_back(
            {input.objects[i]->id, ObjectPrecision(result, static_cast<int>(i))});
      }
    }
    return record;
  }

  EvaluationResult Summarize(const std::vector<SceneRecord>& records) const {
    EvaluationResult result;
    result.camera = options_.camera;
    result.scenes_reused = scenes_reused_;
    for (const SceneRecord& record : records) {
      for (const FrameRecord& frame : record.frames) {
        result.grasps += frame.grasps;
        result.frames_without_grasps += frame.grasps == 0;
      }
    }
    for (std::size_t i = 0; i < options_.rules.size(); ++i) {
      result.entries.push_back({options_.rules[i],
                                SummarizeVariant(records, 2 * i),
                                SummarizeVariant(records, 2 * i + 1)});
    }
    return result;
  }

  RuleResult SummarizeVariant(const std::vector<SceneRecord>& records, std::size_t variant) const {
    RuleResult result;
    std::map<Split, std::vector<FrameScore>> frames_of_split;
    for (const SceneRecord& record : records) {
      for (const FrameRecord& frame : record.frames) {
        const VariantOfFrame& kept = frame.variants[variant];
        const FrameScore score = {record.scene, frame.frame, kept.precision};
        result.frames.push_back(score);
        frames_of_split[SplitOf(record.scene)].push_back(score);
        for (const ObjectSum& object : kept.objects) {
          ObjectScore& sum = result.objects[object.id];
          ++sum.frames;
          sum.ap += object.ap;
        }
      }
    }
    for (auto& [id, object] : result.objects) object.ap /= static_cast<double>(object.frames);
    result.all = ScoreOf(result.frames, options_.bootstrap_rounds, options_.seed);
    for (const auto& [split, frames] : frames_of_split) {
      result.splits[split] = ScoreOf(frames, options_.bootstrap_rounds, options_.seed);
    }
    return result;
  }

  const Dataset& dataset_;
  const EvaluationOptions& options_;
  const std::vector<FrameOptions> variants_;
  const TablePoints table_ = PublicTable();
  Models models_;
  std::int64_t scenes_reused_ = 0;
};

Json ToJson(const AveragePrecision& precision) {
  return {{"AP", precision.ap()}, {"AP0.8", precision.ap_08()}, {"AP0.4", precision.ap_04()}};
}

Json ToJson(const Score& score) {
  Json json = ToJson(score.precision);
  json["interval_95"] = score.interval_95;
  json["scenes"] = score.scenes;
  json["frames"] = score.frames;
  return json;
}

Json ToJson(const RuleResult& result) {
  Json json = ToJson(result.all);
  json["splits"] = Json::object();
  for (const auto& [split, score] : result.splits) json["splits"][ToString(split)] = ToJson(score);
  json["per_object"] = Json::object();
  for (const auto& [id, object] : result.objects) {
    json["per_object"][std::to_string(id)] = {{"AP", object.ap}, {"frames", object.frames}};
  }
  json["per_frame"] = Json::array();
  for (const FrameScore& frame : result.frames) {
    Json entry = ToJson(frame.precision);
    entry["scene"] = frame.scene;
    entry["frame"] = frame.frame;
    json["per_frame"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace

const char* ToString(ContactRule rule) {
  return rule == ContactRule::kCompat ? "compat" : "strict";
}

double ObjectPrecision(const FrameResult& result, int object) {
  std::vector<double> scores;
  for (const std::size_t i : result.order) {
    if (result.evaluated[i].object == object) scores.push_back(result.evaluated[i].score);
  }
  for (const EvaluatedGrasp& grasp : result.beyond) {
    if (grasp.object == object) scores.push_back(grasp.score);
  }
  std::array<std::array<double, kFrictions.size()>, kGraspsPerObject> accuracy;
  Precision(scores, accuracy);
  double sum = 0;
  for (const auto& rank : accuracy) {
    for (const double value : rank) sum += value;
  }
  return sum / (kGraspsPerObject * kFrictions.size());
}

Score ScoreOf(std::span<const FrameScore> frames, int rounds, std::uint64_t seed) {
  PALMIST_ASSERT(rounds >= 1);
  Score score;
  if (frames.empty()) return score;
  struct Sum {
    double ap = 0, frames = 0;
  };
  std::map<int, Sum> sum_of_scene;
  for (const FrameScore& frame : frames) {
    Sum& sum = sum_of_scene[frame.scene];
    sum.ap += frame.precision.ap();
    ++sum.frames;
    for (std::size_t m = 0; m < kFrictions.size(); ++m) {
      score.precision.of_friction[m] += frame.precision.of_friction[m];
    }
  }
  for (double& value : score.precision.of_friction) value /= static_cast<double>(frames.size());
  score.scenes = static_cast<std::int64_t>(sum_of_scene.size());
  score.frames = static_cast<std::int64_t>(frames.size());

  std::vector<Sum> sums;
  for (const auto& [scene, sum] : sum_of_scene) sums.push_back(sum);
  Rng rng(seed);
  std::vector<double> means;
  for (int round = 0; round < rounds; ++round) {
    Sum drawn;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const Sum& sum = sums[rng.Integer(score.scenes)];
      drawn.ap += sum.ap;
      drawn.frames += sum.frames;
    }
    means.push_back(drawn.ap / drawn.frames);
  }
  std::sort(means.begin(), means.end());
  const auto tail = static_cast<std::size_t>(0.025 * rounds);
  score.interval_95 = {means[tail], means[means.size() - 1 - tail]};
  return score;
}

Result<EvaluationResult> EvaluateDump(const Dataset& dataset, const EvaluationOptions& options) {
  try {
    return Evaluation(dataset, options).Run();
  } catch (const Error& error) {
    return error;
  }
}

nlohmann::json ToJson(const EvaluationResult& result) {
  Json json = {{"camera", result.camera},
               {"grasps", result.grasps},
               {"frames_without_grasps", result.frames_without_grasps},
               {"scenes_reused", result.scenes_reused}};
  for (const EvaluationResult::Entry& entry : result.entries) {
    Json& of_rule = json[ToString(entry.rule)];
    of_rule = ToJson(entry.all_grasps);
    of_rule["collisions_removed"] = ToJson(entry.collisions_removed);
  }
  return json;
}

}  // namespace palmist::grasp
