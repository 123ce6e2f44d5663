/// The ways to run some layers as one stage: operators, ZeRO, recomputation and offload, the best
/// of them by the four times of a pipeline's stage.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "palmist/cost/predict.h"
#include "palmist/planner/request.h"

namespace palmist::planner {

/// Devices of a stage and how they divide it; the micro-batch is in the layout.
struct StageShape {
  cost::Layout layout;  ///< ZeRO left at 0
  int devices = 1;

  int samples() const { return layout.micro_batch * layout.dp; }
};

/// One way to run a stage.
struct StageChoice {
  schedule::StagePoint point;  ///< without what crosses to the next stage
  double tail_s = 0;           ///< the optimizer's step where it follows everything
  int ops = 0;                 ///< of CandidateVariants
  int zero = 0, zero_shard = 1;
  int recomputed = 0;  ///< layers at the stage's end
  plan::OffloadRatios offload;
};

/// How much longer a pipeline of kept choices may take than the one that it stands for: each time
/// grows by this share at most, and each extra by this share of a micro-batch, of which an
/// iteration has one or more and exposes two extras.
inline constexpr double kTolerance = 0.001;
inline constexpr double kIterationTolerance = 3 * kTolerance;

/// Where a stage stands.
struct StagePlace {
  int stages_behind = 0;
  int first_layer = 0, last_layer = 0;
  int first_device = 0;
};

/// Computes and keeps the choices for one number of micro-batches. Not for several threads at once.
class StageChoices {
 public:
  /// The references must outlive the object.
  StageChoices(const PlanRequest& request,
               const model::Graph& graph,
               const plan::Training& training,
               const std::vector<StageShape>& shapes);
  ~StageChoices();

  /// Choices that take this long for a micro-batch, or longer, are left out from now on.
  void SetMostSeconds(double most_s) { most_s_ = most_s; }

  /// Returns the choices of shape `shape` at a place: those that fit, without any that another one
  /// stands for (kTolerance). Tried are the fewest recomputed layers that fit without offload, and
  /// up to eight smaller numbers with it.
  const std::vector<StageChoice>& At(int shape, const StagePlace& place);

  /// Returns the seconds that a micro-batch takes from a stage of shape `shape` whose last layer is
  /// `last_layer` to the next one, of shape `next`, each way.
  double HopSeconds(int shape, int next, int last_layer, int first_device);

  /// Returns the least time of a micro-batch in layer 0 to `layer` - 1 with the shape: arithmetic
  /// and the collectives that are waited for.
  double LeastSeconds(int shape, int layer) const;

  std::int64_t evaluated() const { return evaluated_; }

  /// Bytes of the choices that are kept, nearly.
  std::int64_t bytes() const { return bytes_; }

  /// Forgets the choices.
  void Clear();

 private:
  struct Costs;

  const Costs& CostsOf(int shape, int ops, int first_device);
  int PlaceClass(int shape, int first_device) const;

  const PlanRequest& request_;
  const model::Graph& graph_;
  const std::vector<StageShape>& shapes_;
  std::vector<model::OpVariants> variants_;
  cost::Estimator estimator_;
  int node_devices_ = 1;
  std::map<std::tuple<int, int, int>, std::unique_ptr<Costs>> costs_;
  std::map<std::tuple<int, int, int, int, int, int, int>, std::vector<StageChoice>> choices_;
  std::map<std::tuple<int, int, int, int>, double> hops_;
  std::vector<std::vector<double>> least_s_;  // [shape][layers]
  double most_s_ = std::numeric_limits<double>::infinity();
  std::int64_t evaluated_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace palmist::planner
