#include "palmist/grasp/search/fas.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace palmist::grasp {
namespace {

/// Bins large enough that few are visited, small enough that few of their points are in vain.
constexpr double kBinEdge_m = 0.03;
/// Bounds the memory of a scene with far outliers: its bins are larger instead.
constexpr int kMaxBinsPerAxis = 128;

/// The table's plane in the gripper's frame, for a quick test of each setting.
class TableTest {
 public:
  TableTest(const Candidate& candidate, const Gripper& gripper, const FasOptions& options) {
    if (!options.table) return;
    const Vector3d normal_G = candidate.R_CG.transpose() * options.table->normal;
    const double tips = options.depth_m;
    const double back = tips - gripper.finger_length_m - gripper.palm_depth_m - gripper.sweep_m;
    slope_x_ = normal_G.x();
    slope_y_ = normal_G.y();
    height_m_ = options.table->SignedDistance(candidate.p_CG) - options.table_clearance_m +
                std::min(normal_G.x() * back, normal_G.x() * tips) -
                std::abs(normal_G.y()) * gripper.finger_thickness_m -
                std::abs(normal_G.z()) * gripper.height_m / 2;
    is_used_ = true;
  }

  bool IsClear(const Setting& setting, double shift_m) const {
    constexpr double kRounding_m = 1e-9;
    return !is_used_ || height_m_ + slope_x_ * setting.distance_m + slope_y_ * shift_m -
                                std::abs(slope_y_) * setting.width_m / 2 >=
                            -kRounding_m;
  }

 private:
  bool is_used_ = false;
  double height_m_ = 0;
  double slope_x_ = 0, slope_y_ = 0;
};

/// Counts the points of a scene in the boxes of one candidate after another.
class PointCounter {
 public:
  PointCounter(const PointBins& points, const SearchSpace& space, int margin_y, double reach_m)
      : points_(points), space_(space), margin_y_(margin_y), reach_m_(reach_m) {
    sums_.assign(static_cast<std::size_t>(space.cells_x + 1) * (space.cells_y + 1), 0);
  }

  /// Finds what a gripper at the place may reach.
  void MoveTo(const Vector3d& place) {
    bins_.clear();
    // Float and the rotation's own error may move a point by far less than this.
    points_.BinsNear(place, reach_m_ + 1e-4, bins_);
  }

  /// Finds the grid positions of the points that may matter to the candidate.
  void Gather(const GripperFrame& frame) {
    const float half_height = static_cast<float>(space_.half_height_m);
    const float bin_limit = half_height + points_.bin_radius_m() + 1e-4f;
    std::size_t n = 0;
    for (const PointBins::Bin& bin : bins_) {
      const float height = frame.Height(
          bin.center[0] - frame.p[0], bin.center[1] - frame.p[1], bin.center[2] - frame.p[2]);
      if (!(std::abs(height) < bin_limit)) continue;
      const std::size_t count = bin.end - bin.begin;
      if (near_x_.size() < n + count) {
        for (auto* buffer : {&near_x_, &near_y_, &near_z_, &slab_x_, &slab_y_}) {
          buffer->resize(2 * (n + count));
        }
      }
      std::copy_n(points_.x().begin() + bin.begin, count, near_x_.begin() + n);
      std::copy_n(points_.y().begin() + bin.begin, count, near_y_.begin() + n);
      std::copy_n(points_.z().begin() + bin.begin, count, near_z_.begin() + n);
      n += count;
    }
    for (std::size_t i = 0; i < n; ++i) {
      const float dx = near_x_[i] - frame.p[0];
      const float dy = near_y_[i] - frame.p[1];
      const float dz = near_z_[i] - frame.p[2];
      near_x_[i] = frame.GridX(dx, dy, dz);
      near_y_[i] = frame.GridY(dx, dy, dz);
      near_z_[i] = std::abs(frame.Height(dx, dy, dz));
    }
    const float end_x = static_cast<float>(space_.cells_x);
    const float first_y = static_cast<float>(-margin_y_);
    const float end_y = static_cast<float>(space_.cells_y + margin_y_);
    slab_size_ = 0;
    for (std::size_t i = 0; i < n; ++i) {
      slab_x_[slab_size_] = near_x_[i];
      slab_y_[slab_size_] = near_y_[i];
      // No short circuits: the outcome cannot be foreseen, a branch would cost more.
      slab_size_ += static_cast<std::size_t>((near_z_[i] < half_height) & (near_x_[i] >= 0.0f) &
                                             (near_x_[i] < end_x) & (near_y_[i] >= first_y) &
                                             (near_y_[i] < end_y));
    }
  }

  /// Makes sums_[x][y] the number of the slab's points in cells below x and y, with the grid moved
  /// by `shift` cells along y.
  void Count(float shift) {
    const int stride = space_.cells_y + 1;
    is_empty_ = slab_size_ == 0;
    if (is_empty_) return;
    std::fill(sums_.begin(), sums_.end(), 0);
    const float end_y = static_cast<float>(space_.cells_y);
    for (std::size_t i = 0; i < slab_size_; ++i) {
      const float y = slab_y_[i] - shift;
      if (y >= 0.0f && y < end_y) {
        const int cell_x = static_cast<int>(slab_x_[i]);
        const int cell_y = static_cast<int>(y);
        ++sums_[static_cast<std::size_t>(cell_x + 1) * stride + cell_y + 1];
      }
    }
    for (int x = 1; x <= space_.cells_x; ++x) {
      const std::int32_t* above = &sums_[static_cast<std::size_t>(x - 1) * stride];
      std::int32_t* row = &sums_[static_cast<std::size_t>(x) * stride];
      std::int32_t sum = 0;
      for (int y = 1; y < stride; ++y) {
        sum += row[y];
        row[y] = sum + above[y];
      }
    }
  }

  int Inner(const GripperCells& cells) const {
    return CountBox(cells.base, cells.tips, cells.inner_low, cells.inner_high);
  }

  /// Returns the points in fingers and back, of which there are `inner` between the fingers.
  int Touched(const GripperCells& c, int inner) const {
    return CountBox(c.base, c.tips, c.outer_low, c.outer_high) - inner +
           CountBox(c.back, c.base, c.outer_low, c.outer_high);
  }

  /// Returns how far the middle between the outermost inner points is from the grid's, in cells.
  float OffsetOfMiddle(const GripperCells& cells) const {
    float low = static_cast<float>(cells.inner_high);
    float high = static_cast<float>(cells.inner_low);
    for (std::size_t i = 0; i < slab_size_; ++i) {
      const bool is_inner = (slab_x_[i] >= static_cast<float>(cells.base)) &
                            (slab_x_[i] < static_cast<float>(cells.tips)) &
                            (slab_y_[i] >= static_cast<float>(cells.inner_low)) &
                            (slab_y_[i] < static_cast<float>(cells.inner_high));
      if (!is_inner) continue;
      low = std::min(low, slab_y_[i]);
      high = std::max(high, slab_y_[i]);
    }
    return 0.5f * (low + high) - static_cast<float>(space_.origin_y);
  }

 private:
  int CountBox(int x0, int x1, int y0, int y1) const {
    if (is_empty_) return 0;
    const int stride = space_.cells_y + 1;
    const std::int32_t* low = &sums_[static_cast<std::size_t>(x0) * stride];
    const std::int32_t* high = &sums_[static_cast<std::size_t>(x1) * stride];
    return high[y1] - high[y0] - low[y1] + low[y0];
  }

  const PointBins& points_;
  const SearchSpace& space_;
  int margin_y_;    ///< cells that the grid may be moved by
  double reach_m_;  ///< points farther away are in no box
  std::vector<PointBins::Bin> bins_;
  std::vector<float> near_x_, near_y_, near_z_, slab_x_, slab_y_;
  std::size_t slab_size_ = 0;
  std::vector<std::int32_t> sums_;
  bool is_empty_ = true;
};

/// Returns the cells that the grid may be moved by along y.
int MarginOf(const FasOptions& options, const SearchSpace& space) {
  if (!options.is_centered) return 0;
  return space.settings[space.widths - 1].cells.inner_high - space.origin_y;
}

double ReachOf(const SearchSpace& space, int margin_y) {
  const double x = std::max(space.origin_x, space.cells_x - space.origin_x) * space.cell_m;
  const double y = (space.origin_y + margin_y) * space.cell_m;
  return std::sqrt(x * x + y * y + space.half_height_m * space.half_height_m);
}

/// The search of one worker, with its buffers.
class Searcher {
 public:
  Searcher(const FasScene& scene,
           const Gripper& gripper,
           const FasOptions& options,
           const SearchSpace& space)
      : gripper_(gripper),
        options_(options),
        space_(space),
        margin_y_(MarginOf(options, space)),
        seen_(scene.seen, space, margin_y_, ReachOf(space, margin_y_)),
        hidden_(scene.hidden, space, margin_y_, ReachOf(space, margin_y_)) {}

  std::optional<FasFit> Search(const Candidate& candidate) {
    if (!candidate.p_CG.allFinite() || !candidate.R_CG.allFinite()) return std::nullopt;
    if (!has_place_ || candidate.p_CG != place_) {
      place_ = candidate.p_CG;
      has_place_ = true;
      seen_.MoveTo(place_);
      hidden_.MoveTo(place_);
    }
    const GripperFrame frame(candidate, space_);
    const TableTest table(candidate, gripper_, options_);
    seen_.Gather(frame);
    hidden_.Gather(frame);
    Count(0);
    const int best = FirstFit(0, static_cast<int>(space_.settings.size()), table, 0);
    if (best < 0) return std::nullopt;

    const GripperCells& cells = space_.settings[best].cells;
    const int inner_points = seen_.Inner(cells);
    if (options_.is_centered) {
      const float shift = seen_.OffsetOfMiddle(cells);
      const double shift_m = shift * space_.cell_m;
      Count(shift);
      const int first = best - best % space_.widths;
      const int centered = FirstFit(first, first + space_.widths, table, shift_m);
      if (centered >= 0) {
        const Setting& setting = space_.settings[centered];
        return internal::MakeFit(
            candidate, gripper_, options_, setting, shift_m, seen_.Inner(setting.cells));
      }
    }
    return internal::MakeFit(candidate, gripper_, options_, space_.settings[best], 0, inner_points);
  }

 private:
  void Count(float shift) {
    seen_.Count(shift);
    hidden_.Count(shift);
  }

  /// Returns the first of the settings [begin, end) that fits, or -1.
  int FirstFit(int begin, int end, const TableTest& table, double shift_m) const {
    for (int i = begin; i < end; ++i) {
      const Setting& setting = space_.settings[i];
      const GripperCells& cells = setting.cells;
      const int inner = seen_.Inner(cells);
      if (inner < setting.min_inner_points) continue;
      const int touched =
          seen_.Touched(cells, inner) + hidden_.Touched(cells, hidden_.Inner(cells));
      if (touched < options_.collision_points && table.IsClear(setting, shift_m)) return i;
    }
    return -1;
  }

  const Gripper& gripper_;
  const FasOptions& options_;
  const SearchSpace& space_;
  int margin_y_;
  PointCounter seen_, hidden_;
  Vector3d place_ = Vector3d::Zero();
  bool has_place_ = false;
};

}  // namespace

PointBins::PointBins(std::span<const Vector3d> points) {
  std::vector<Vector3d> kept;
  kept.reserve(points.size());
  for (const Vector3d& point : points) {
    // False for NaN, too.
    if ((point.array().abs() <= kFarthest_m).all()) kept.push_back(point);
  }
  begins_.assign(1, 0);
  if (kept.empty()) return;

  Vector3d upper = kept.front();
  lower_m_ = kept.front();
  for (const Vector3d& point : kept) {
    lower_m_ = lower_m_.cwiseMin(point);
    upper = upper.cwiseMax(point);
  }
  const Vector3d extent = upper - lower_m_;
  bin_m_ = std::max(kBinEdge_m, extent.maxCoeff() / (kMaxBinsPerAxis - 1));
  // A little more than the half diagonal, for what float leaves out.
  bin_radius_m_ = static_cast<float>(bin_m_ * std::sqrt(3.0) / 2 * (1 + 1e-5));
  for (int i = 0; i < 3; ++i) dims_[i] = static_cast<int>(extent[i] / bin_m_) + 1;

  const auto bin_of = [&](const Vector3d& point) {
    const Vector3d cell = (point - lower_m_) / bin_m_;
    return (static_cast<std::size_t>(cell.x()) * dims_[1] + static_cast<std::size_t>(cell.y())) *
               dims_[2] +
           static_cast<std::size_t>(cell.z());
  };
  begins_.assign(static_cast<std::size_t>(dims_[0]) * dims_[1] * dims_[2] + 1, 0);
  for (const Vector3d& point : kept) ++begins_[bin_of(point) + 1];
  for (std::size_t i = 1; i < begins_.size(); ++i) begins_[i] += begins_[i - 1];
  std::vector<std::int32_t> next(begins_.begin(), begins_.end() - 1);
  x_.resize(kept.size());
  y_.resize(kept.size());
  z_.resize(kept.size());
  for (const Vector3d& point : kept) {
    const std::int32_t row = next[bin_of(point)]++;
    x_[row] = static_cast<float>(point.x());
    y_[row] = static_cast<float>(point.y());
    z_[row] = static_cast<float>(point.z());
  }
}

void PointBins::BinsNear(const Vector3d& place, double radius_m, std::vector<Bin>& found) const {
  if (x_.empty()) return;
  std::array<int, 3> first, last;
  for (int i = 0; i < 3; ++i) {
    const double from = std::floor((place[i] - radius_m - lower_m_[i]) / bin_m_);
    const double to = std::floor((place[i] + radius_m - lower_m_[i]) / bin_m_);
    if (to < 0 || from >= dims_[i]) return;
    first[i] = static_cast<int>(std::max(from, 0.0));
    last[i] = static_cast<int>(std::min(to, dims_[i] - 1.0));
  }
  const double limit = radius_m + bin_radius_m_;
  for (int x = first[0]; x <= last[0]; ++x) {
    for (int y = first[1]; y <= last[1]; ++y) {
      const std::size_t row = (static_cast<std::size_t>(x) * dims_[1] + y) * dims_[2];
      for (int z = first[2]; z <= last[2]; ++z) {
        const std::int32_t begin = begins_[row + z], end = begins_[row + z + 1];
        if (begin == end) continue;
        const Vector3d center = lower_m_ + Vector3d(x + 0.5, y + 0.5, z + 0.5) * bin_m_;
        if ((center - place).squaredNorm() > limit * limit) continue;
        found.push_back({begin,
                         end,
                         {static_cast<float>(center.x()),
                          static_cast<float>(center.y()),
                          static_cast<float>(center.z())}});
      }
    }
  }
}

std::vector<std::optional<FasFit>> SearchWidthAndDistance(const FasScene& scene,
                                                          std::span<const Candidate> candidates,
                                                          const Gripper& gripper,
                                                          const FasOptions& options,
                                                          ThreadPool& pool) {
  const SearchSpace space = MakeSearchSpace(gripper, options);
  std::vector<std::optional<FasFit>> fits(candidates.size());
  if (space.settings.empty()) return fits;
  pool.ParallelFor(static_cast<std::int64_t>(candidates.size()),
                   [&](std::int64_t begin, std::int64_t end, int) {
                     Searcher searcher(scene, gripper, options, space);
                     for (std::int64_t i = begin; i < end; ++i) {
                       fits[i] = searcher.Search(candidates[i]);
                     }
                   });
  return fits;
}

namespace internal {

FasFit MakeFit(const Candidate& candidate,
               const Gripper& gripper,
               const FasOptions& options,
               const Setting& setting,
               double shift_m,
               int inner_points) {
  FasFit fit;
  fit.distance_m = setting.distance_m;
  fit.shift_m = shift_m;
  fit.inner_points = inner_points;
  fit.grasp.score = candidate.score - options.width_cost_per_m * setting.width_m +
                    options.distance_gain_per_m * setting.distance_m;
  fit.grasp.width_m = setting.width_m;
  fit.grasp.height_m = gripper.height_m;
  fit.grasp.depth_m = options.depth_m;
  fit.grasp.R_CG = candidate.R_CG;
  fit.grasp.p_CG =
      candidate.p_CG + setting.distance_m * candidate.R_CG.col(0) + shift_m * candidate.R_CG.col(1);
  return fit;
}

}  // namespace internal
}  // namespace palmist::grasp
