/// Orientations that labels know to hold: the best that a network could answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "palmist/base/result.h"
#include "palmist/grasp/formats/dataset.h"
#include "palmist/grasp/label/label.h"
#include "palmist/grasp/label/scene_collisions.h"
#include "palmist/grasp/search/search_space.h"

namespace palmist::grasp {

struct OracleOptions {
  std::size_t per_object = 200;  ///< candidates at most
  double tips_m = 0.04;          ///< past the candidate's point, where FAS begins (FasOptions)
  double seen_m = 0.01;          ///< between a seen point and the depth of its pixel, at most
  std::uint64_t seed = 0;        ///< of the choice among labels of one friction
};

/// Reads the labels of a dataset (`palmist grasp label --data`), those of one scene at a time.
class Oracle {
 public:
  /// Keeps the reference: the dataset must outlive it.
  explicit Oracle(const Dataset& dataset, const OracleOptions& options = {})
      : dataset_(dataset), options_(options) {}

  /// Returns candidates of each object in the frame: those whose point the camera sees, that come
  /// from its side and meet neither another object nor the table; least friction first, at random
  /// among those of one friction. The finger tips are where the label has them, the score is
  /// 1.1 - friction.
  /// @returns an input error that names the labels that are missing or do not fit the scene
  Result<std::vector<Candidate>> Candidates(const FrameId& id,
                                            const DepthImage& depth,
                                            const Intrinsics& camera);

 private:
  Result<void> LoadScene(int scene);

  const Dataset& dataset_;
  OracleOptions options_;
  int scene_ = -1;
  SceneLabels scene_labels_;
  std::map<int, ObjectLabels> objects_;
};

}  // namespace palmist::grasp
