#include "palmist/grasp/label/label_file.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>
#include <utility>
#include <vector>

#include "palmist/base/file.h"

namespace palmist::grasp {
namespace {

constexpr double kVersion = 2;
constexpr std::size_t kOptionCount = 11;

std::array<double, kOptionCount> ToNumbers(const LabelOptions& options) {
  return {kVersion,
          options.spacing_m,
          static_cast<double>(options.views),
          static_cast<double>(options.angles),
          static_cast<double>(options.depths),
          options.max_width_m,
          options.min_approach_cosine,
          options.rule == ContactRule::kStrict ? 1.0 : 0.0,
          options.resolution_m,
          options.cloud_spacing_m,
          static_cast<double>(options.seed)};
}

Result<LabelOptions> OptionsFromNumbers(std::span<const double> numbers) {
  if (numbers.size() != kOptionCount || numbers[0] != kVersion) {
    return InputError("options",
                      fmt::format("expected {} numbers of version {}", kOptionCount, kVersion));
  }
  for (const std::size_t whole : {2, 3, 4, 7, 10}) {
    // Also false for what is not finite.
    if (!(std::abs(numbers[whole]) <= 2e9 && numbers[whole] == std::floor(numbers[whole]))) {
      return InputError(fmt::format("options[{}]", whole),
                        fmt::format("expected a whole number, got {}", numbers[whole]));
    }
  }
  LabelOptions options;
  options.spacing_m = numbers[1];
  options.views = static_cast<int>(numbers[2]);
  options.angles = static_cast<int>(numbers[3]);
  options.depths = static_cast<int>(numbers[4]);
  options.max_width_m = numbers[5];
  options.min_approach_cosine = numbers[6];
  options.rule = numbers[7] != 0 ? ContactRule::kStrict : ContactRule::kCompat;
  options.resolution_m = numbers[8];
  options.cloud_spacing_m = numbers[9];
  options.seed = static_cast<int>(numbers[10]);
  if (const Result<void> check = CheckOptions(options); !check.ok()) {
    return InputError("options", check.error().what());
  }
  return options;
}

/// Returns an array of `columns` columns, or of one dimension for 0.
template <typename T>
Result<std::span<const T>> Column(const NpzArrays& arrays, const char* name, std::int64_t columns) {
  const auto found = arrays.find(name);
  if (found == arrays.end()) return InputError(name, "is missing");
  const NpyArray& array = found->second;
  const bool has_shape =
      columns == 0 ? array.shape.size() == 1 : array.shape.size() == 2 && array.shape[1] == columns;
  if (array.type != NpyTypeOf<T>() || !has_shape) {
    return InputError(
        name,
        fmt::format("expected {} of the shape {}, got {} of {} dimensions",
                    ToString(NpyTypeOf<T>()),
                    columns == 0 ? std::string("(n,)") : fmt::format("(n, {})", columns),
                    ToString(array.type),
                    array.shape.size()));
  }
  return array.As<T>();
}

Result<ObjectLabels> LabelsFromArrays(const NpzArrays& arrays) {
  ObjectLabels labels;
  PALMIST_ASSIGN_OR_RETURN(const auto numbers, Column<double>(arrays, "options", 0));
  PALMIST_ASSIGN_OR_RETURN(labels.options, OptionsFromNumbers(numbers));
  PALMIST_ASSIGN_OR_RETURN(const auto key, Column<std::int64_t>(arrays, "key", 0));
  if (key.size() != 1) return InputError("key", fmt::format("expected 1, got {}", key.size()));
  labels.key = key[0];
  PALMIST_ASSIGN_OR_RETURN(const auto points, Column<float>(arrays, "points", 3));
  PALMIST_ASSIGN_OR_RETURN(const auto cells, Column<std::int32_t>(arrays, "cell", 0));
  PALMIST_ASSIGN_OR_RETURN(const auto widths, Column<std::uint8_t>(arrays, "width_steps", 0));
  PALMIST_ASSIGN_OR_RETURN(const auto classes, Column<std::uint8_t>(arrays, "friction_class", 0));
  if (widths.size() != cells.size() || classes.size() != cells.size()) {
    return InputError("cell",
                      fmt::format("{} cells, {} width_steps, {} friction_class",
                                  cells.size(),
                                  widths.size(),
                                  classes.size()));
  }
  for (std::size_t i = 0; i < points.size(); i += 3) {
    labels.points_O.emplace_back(points[i], points[i + 1], points[i + 2]);
    if (!labels.points_O.back().allFinite()) {
      return InputError(fmt::format("points[{}]", i / 3), "is not finite");
    }
  }
  const LabelOptions& options = labels.options;
  const double candidates =
      static_cast<double>(labels.points_O.size()) * options.views * options.angles * options.depths;
  if (candidates > std::numeric_limits<std::int32_t>::max()) {
    return InputError("points",
                      fmt::format("{} points have {:.3g} candidates, expected less than 2^31",
                                  labels.points_O.size(),
                                  candidates));
  }
  std::int64_t before = -1;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (cells[i] <= before || cells[i] >= candidates) {
      return InputError(
          fmt::format("cell[{}]", i),
          fmt::format("expected above {} and below {}, got {}", before, candidates, cells[i]));
    }
    before = cells[i];
    if (widths[i] == 0 || widths[i] * kWidthStep_m > options.max_width_m + 1e-9) {
      return InputError(fmt::format("width_steps[{}]", i),
                        fmt::format("{} steps of {} m, expected above 0 and at most {} m",
                                    widths[i],
                                    kWidthStep_m,
                                    options.max_width_m));
    }
    if (classes[i] > kLabelFrictions.size()) {
      return InputError(
          fmt::format("friction_class[{}]", i),
          fmt::format("expected 0 to {}, got {}", kLabelFrictions.size(), classes[i]));
    }
    labels.grasps.push_back({cells[i], widths[i], classes[i]});
  }
  return labels;
}

std::vector<float> FlatPoints(const ObjectLabels& labels) {
  std::vector<float> flat;
  flat.reserve(3 * labels.points_O.size());
  for (const Vector3d& p : labels.points_O) {
    for (const double value : p) flat.push_back(static_cast<float>(value));
  }
  return flat;
}

template <typename T>
NpyArray Array(std::vector<std::int64_t> shape, const std::vector<T>& values) {
  return MakeNpyArray<T>(std::move(shape), values);
}

}  // namespace

Result<void> WriteGraspLabels(const std::string& path, const ObjectLabels& labels) {
  const auto options = ToNumbers(labels.options);
  std::vector<std::int32_t> cells;
  std::vector<std::uint8_t> widths, classes;
  for (const GraspLabel& label : labels.grasps) {
    cells.push_back(label.cell);
    widths.push_back(label.width_steps);
    classes.push_back(label.friction_class);
  }
  const auto points = static_cast<std::int64_t>(labels.points_O.size());
  const auto grasps = static_cast<std::int64_t>(labels.grasps.size());
  NpzArrays arrays;
  arrays["options"] = MakeNpyArray<double>({kOptionCount}, options);
  arrays["key"] = MakeNpyArray<std::int64_t>({1}, std::span(&labels.key, 1));
  arrays["points"] = Array({points, 3}, FlatPoints(labels));
  arrays["cell"] = Array({grasps}, cells);
  arrays["width_steps"] = Array({grasps}, widths);
  arrays["friction_class"] = Array({grasps}, classes);
  return WriteNpz(path, arrays);
}

Result<ObjectLabels> ParseGraspLabels(std::string_view bytes) {
  PALMIST_ASSIGN_OR_RETURN(const NpzArrays arrays, ParseNpz(bytes));
  return LabelsFromArrays(arrays);
}

Result<ObjectLabels> ReadGraspLabels(const std::string& path) {
  PALMIST_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kDefaultMaxNpzBytes));
  Result<ObjectLabels> labels = ParseGraspLabels(bytes);
  if (!labels.ok()) return labels.error().WithPath(path);
  return labels;
}

Result<NpzArrays> ToDenseLabels(const ObjectLabels& labels) {
  const LabelOptions& options = labels.options;
  const auto points = static_cast<std::int64_t>(labels.points_O.size());
  const std::int64_t per_point =
      static_cast<std::int64_t>(options.views) * options.angles * options.depths;
  // ObjectLabels have 2^31 candidates at most, so that the product does not overflow.
  const std::int64_t cells = points * per_point;
  if (cells > kMaxDenseCells) {
    return InputError("labels",
                      fmt::format("{} candidates, expected {} at most", cells, kMaxDenseCells),
                      "keep the sparse labels");
  }
  std::vector<float> offsets(3 * cells), scores(cells, -1);
  std::vector<std::byte> collision(cells, std::byte{1});
  for (std::int64_t cell = 0; cell < cells; ++cell) {
    const auto depth = static_cast<int>(cell % options.depths);
    const auto angle = static_cast<int>(cell / options.depths % options.angles);
    offsets[3 * cell] = static_cast<float>(std::numbers::pi * angle / options.angles);
    offsets[3 * cell + 1] = static_cast<float>((depth + 1) * kDepthStep_m);
  }
  for (const GraspLabel& label : labels.grasps) {
    const auto cell = static_cast<std::size_t>(label.cell);
    offsets[3 * cell + 2] = static_cast<float>(label.width_steps * kWidthStep_m);
    collision[cell] = std::byte{0};
    if (label.friction_class > 0) {
      scores[cell] = static_cast<float>(kLabelFrictions[label.friction_class - 1]);
    }
  }
  const std::vector<std::int64_t> shape = {points, options.views, options.angles, options.depths};
  std::vector<std::int64_t> offsets_shape = shape;
  offsets_shape.push_back(3);
  NpzArrays arrays;
  arrays["points"] = Array({points, 3}, FlatPoints(labels));
  arrays["offsets"] = Array(std::move(offsets_shape), offsets);
  arrays["collision"] = {NpyType::kBool, shape, std::move(collision)};
  arrays["scores"] = Array(shape, scores);
  return arrays;
}

bool MakeSameLabels(const LabelOptions& a, const LabelOptions& b) {
  return ToNumbers(a) == ToNumbers(b);
}

}  // namespace palmist::grasp
