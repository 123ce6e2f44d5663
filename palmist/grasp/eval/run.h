/// Evaluates a folder of grasps over the scenes of a dataset.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "palmist/base/result.h"
#include "palmist/base/thread_pool.h"
#include "palmist/grasp/eval/evaluate.h"
#include "palmist/grasp/formats/dataset.h"

namespace palmist::grasp {

/// Returns "compat" or "strict".
const char* ToString(ContactRule rule);

struct EvaluationOptions {
  std::string dump;  ///< DUMP/scene_%04d/CAMERA/%04d.npy: one grasp group for each frame
  std::string camera = "realsense";
  std::vector<int> scenes = {};  ///< none: all scenes that the dump has a folder of
  std::vector<ContactRule> rules = {ContactRule::kCompat, ContactRule::kStrict};
  /// Where each scene's result is kept, so that a later run skips what is done; none if empty.
  std::string results = {};
  int threads = HardwareThreads();
  int bootstrap_rounds = 2000;
  std::uint64_t seed = 0;  ///< of the bootstrap
};

struct FrameScore {
  int scene = 0, frame = 0;
  AveragePrecision precision;
};

/// The mean over frames, and how far it may be off for other scenes.
struct Score {
  std::int64_t scenes = 0, frames = 0;
  AveragePrecision precision;
  /// Of AP: the 2.5th and 97.5th percentile of the bootstrap over scenes.
  std::array<double, 2> interval_95 = {0, 0};
};

/// The mean of ObjectPrecision over the appearances of an object: one in each frame that shows it,
/// more where a scene has several of its kind.
struct ObjectScore {
  std::int64_t frames = 0;
  double ap = 0;
};

/// What one rule says of a dump.
struct RuleResult {
  Score all;
  std::map<Split, Score> splits;
  std::map<int, ObjectScore> objects;  ///< by id
  std::vector<FrameScore> frames;      ///< by scene and frame
};

struct EvaluationResult {
  /// One rule, with all grasps and without those that collide.
  struct Entry {
    ContactRule rule = ContactRule::kCompat;
    RuleResult all_grasps;
    RuleResult collisions_removed;
  };
  std::string camera;
  std::vector<Entry> entries;
  std::int64_t grasps = 0;  ///< in the dump's files
  std::int64_t frames_without_grasps = 0;
  std::int64_t scenes_reused = 0;  ///< found in the folder of results
};

/// Returns the mean precision over the first 10 ranks and all frictions of the grasps chosen for
/// one object, those beyond the frame's last rank included: its AP as though it were alone. 0 where
/// it has none.
double ObjectPrecision(const FrameResult& result, int object);

/// Returns the frames' mean, with a bootstrap over their scenes: each round draws as many scenes as
/// there are, with replacement. The same scenes and seed draw the same, so that two results on them
/// are paired. @pre rounds >= 1
/// Source: B. Efron, "Bootstrap methods", Annals of Statistics 7(1), 1979; percentile method.
Score ScoreOf(std::span<const FrameScore> frames, int rounds, std::uint64_t seed);

/// Evaluates `options.dump`: scene after scene, the frames of one at a time in parallel, so that
/// memory holds the models of one scene. Shows progress; a scene's result is written when it is
/// complete. The answer does not depend on the number of threads.
///
/// A file with no grasps is a result, of precision 0. An input error names a frame's file that is
/// missing or wrong; kInterrupted after a signal.
Result<EvaluationResult> EvaluateDump(const Dataset& dataset, const EvaluationOptions& options);

/// Returns {"compat": {"AP", "AP0.8", "AP0.4", "interval_95", "splits", "per_object", "per_frame",
/// "collisions_removed": {…}}, "strict": {…}, "camera", "grasps", …}.
nlohmann::json ToJson(const EvaluationResult& result);

}  // namespace palmist::grasp
