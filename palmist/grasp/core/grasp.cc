#include "palmist/grasp/core/grasp.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "palmist/base/file.h"

namespace palmist::grasp {
namespace {

constexpr std::array<const char*, kGraspColumns> kGraspNames = {"score",
                                                                "width",
                                                                "height",
                                                                "depth",
                                                                "r11",
                                                                "r12",
                                                                "r13",
                                                                "r21",
                                                                "r22",
                                                                "r23",
                                                                "r31",
                                                                "r32",
                                                                "r33",
                                                                "t_x",
                                                                "t_y",
                                                                "t_z",
                                                                "object_id"};
constexpr std::array<const char*, kRectGraspColumns> kRectGraspNames = {
    "center_x", "center_y", "open_x", "open_y", "height", "score", "object_id"};

/// Whole numbers up to this are exact in float64.
constexpr double kMaxObjectId = 9007199254740992.0;

std::string Shape(const NpyArray& array) {
  std::string text;
  for (const std::int64_t n : array.shape) text += fmt::format("{}, ", n);
  if (array.shape.size() != 1 && !text.empty()) text.resize(text.size() - 2);
  if (array.shape.size() == 1) text.pop_back();
  return fmt::format("({})", text);
}

/// Returns the numbers of an (N, columns) array, checked: all finite, the last a whole number.
template <std::size_t columns>
Result<std::vector<std::array<double, columns>>> Rows(
    const NpyArray& array, const std::array<const char*, columns>& names) {
  const std::vector<std::int64_t>& shape = array.shape;
  const bool is_empty = shape == std::vector<std::int64_t>{0};
  if (!is_empty && (shape.size() != 2 || shape[1] != static_cast<std::int64_t>(columns))) {
    return InputError(
        {},
        fmt::format("expected an array of shape (N, {}), got {}", columns, Shape(array)),
        "write one row per grasp");
  }
  if (array.type != NpyType::kFloat64 && array.type != NpyType::kFloat32) {
    return InputError(
        {},
        fmt::format("expected numbers of type <f8 or <f4, got {}", ToString(array.type)),
        "convert the array to float64");
  }
  std::vector<std::array<double, columns>> rows(is_empty ? 0 : shape[0]);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      const std::size_t at = row * columns + column;
      const double value =
          array.type == NpyType::kFloat64 ? array.As<double>()[at] : double{array.As<float>()[at]};
      if (!std::isfinite(value)) {
        return InputError(fmt::format("[{}].{}", row, names[column]),
                          fmt::format("expected a finite number, got {}", value),
                          "leave this grasp out");
      }
      rows[row][column] = value;
    }
    const double id = rows[row].back();
    if (id != std::trunc(id) || std::abs(id) > kMaxObjectId) {
      return InputError(fmt::format("[{}].{}", row, names.back()),
                        fmt::format("expected a whole number, got {}", id),
                        "write -1 where the object is not known");
    }
  }
  return rows;
}

}  // namespace

Grasp Transformed(const Isometry3d& X_AC, const Grasp& grasp) {
  Grasp transformed = grasp;
  transformed.R_CG = X_AC.linear() * grasp.R_CG;
  transformed.p_CG = X_AC * grasp.p_CG;
  return transformed;
}

Result<GraspGroup> GraspGroupFromArray(const NpyArray& array) {
  PALMIST_ASSIGN_OR_RETURN(const auto rows, Rows(array, kGraspNames));
  GraspGroup grasps(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::array<double, kGraspColumns>& row = rows[i];
    Grasp& grasp = grasps[i];
    grasp.score = row[0];
    grasp.width_m = row[1];
    grasp.height_m = row[2];
    grasp.depth_m = row[3];
    grasp.R_CG = Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>>(&row[4]);
    grasp.p_CG = Eigen::Map<const Vector3d>(&row[13]);
    grasp.object_id = static_cast<std::int64_t>(row[16]);
    PALMIST_RETURN_IF_ERROR(CheckRotation(grasp.R_CG, fmt::format("[{}].r11 to r33", i)));
  }
  return grasps;
}

NpyArray ToArray(std::span<const Grasp> grasps) {
  std::vector<double> values;
  values.reserve(grasps.size() * kGraspColumns);
  for (const Grasp& grasp : grasps) {
    values.insert(values.end(), {grasp.score, grasp.width_m, grasp.height_m, grasp.depth_m});
    for (int row = 0; row < 3; ++row) {
      for (int column = 0; column < 3; ++column) values.push_back(grasp.R_CG(row, column));
    }
    values.insert(values.end(), grasp.p_CG.begin(), grasp.p_CG.end());
    values.push_back(static_cast<double>(grasp.object_id));
  }
  return MakeNpyArray<double>({static_cast<std::int64_t>(grasps.size()), kGraspColumns}, values);
}

Result<GraspGroup> ReadGraspGroup(const std::string& path) {
  PALMIST_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  const Result<NpyArray> array = ParseNpy(bytes);
  if (!array.ok()) return array.error().WithFieldPrefix(path);
  Result<GraspGroup> grasps = GraspGroupFromArray(*array);
  if (!grasps.ok()) return grasps.error().WithFieldPrefix(path);
  return grasps;
}

Result<void> WriteGraspGroup(const std::string& path, std::span<const Grasp> grasps) {
  return WriteFileAtomic(path, WriteNpy(ToArray(grasps)));
}

Result<std::vector<RectGrasp>> RectGraspsFromArray(const NpyArray& array) {
  PALMIST_ASSIGN_OR_RETURN(const auto rows, Rows(array, kRectGraspNames));
  std::vector<RectGrasp> grasps;
  grasps.reserve(rows.size());
  for (const auto& [center_x, center_y, open_x, open_y, height, score, id] : rows) {
    grasps.push_back(
        {center_x, center_y, open_x, open_y, height, score, static_cast<std::int64_t>(id)});
  }
  return grasps;
}

NpyArray ToArray(std::span<const RectGrasp> grasps) {
  std::vector<double> values;
  values.reserve(grasps.size() * kRectGraspColumns);
  for (const RectGrasp& grasp : grasps) {
    values.insert(values.end(),
                  {grasp.center_x,
                   grasp.center_y,
                   grasp.open_x,
                   grasp.open_y,
                   grasp.height,
                   grasp.score,
                   static_cast<double>(grasp.object_id)});
  }
  return MakeNpyArray<double>({static_cast<std::int64_t>(grasps.size()), kRectGraspColumns},
                              values);
}

}  // namespace palmist::grasp
