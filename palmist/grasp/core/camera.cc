#include "palmist/grasp/core/camera.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <utility>

#include "palmist/base/file.h"
#include "palmist/base/json.h"
#include "palmist/base/npy.h"
#include "palmist/base/text.h"
#include "palmist/base/yaml.h"

namespace palmist::grasp {
namespace {

using nlohmann::json;

// The cameras of GraspNet-1Billion, from its files camK.npy.
const std::pair<const char*, Intrinsics> kPresets[] = {
    {"realsense", {927.17, 927.37, 651.32, 349.62, 1280, 720}},
    {"kinect", {631.55, 631.21, 638.43, 366.50, 1280, 720}},
};

constexpr double kMinMedianDepth_m = 0.1;
constexpr double kMaxMedianDepth_m = 5;
constexpr double kQuaternionTolerance = 1e-3;

Result<Intrinsics> ScaledPreset(const std::string& name, Intrinsics camera, int width, int height) {
  const double scale_x = static_cast<double>(width) / camera.width;
  const double scale_y = static_cast<double>(height) / camera.height;
  // One pixel of rounding is allowed.
  if (std::abs(width - scale_y * camera.width) > 1 &&
      std::abs(height - scale_x * camera.height) > 1) {
    return InputError("camera",
                      fmt::format("the preset {} is of images in the shape of {}x{}, got {}x{}",
                                  name,
                                  camera.width,
                                  camera.height,
                                  width,
                                  height),
                      "give a file with fx, fy, cx and cy of this camera");
  }
  // Centres of pixels are at whole numbers, so the image begins at -0.5.
  return Intrinsics{camera.fx * scale_x,
                    camera.fy * scale_y,
                    (camera.cx + 0.5) * scale_x - 0.5,
                    (camera.cy + 0.5) * scale_y - 0.5,
                    width,
                    height};
}

Result<json> NumbersOfNpy(std::string_view bytes) {
  PALMIST_ASSIGN_OR_RETURN(const NpyArray array, ParseNpy(bytes));
  json numbers = json::array();
  if (array.type == NpyType::kFloat64) {
    for (const double value : array.As<double>()) numbers.push_back(value);
  } else if (array.type == NpyType::kFloat32) {
    for (const float value : array.As<float>()) numbers.push_back(value);
  } else {
    return InputError(
        {}, fmt::format("expected numbers of type <f8 or <f4, got {}", ToString(array.type)));
  }
  return numbers;
}

/// Returns the numbers of a text that holds nothing else, between spaces and commas.
std::optional<json> NumbersOfText(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n,;";
  json numbers = json::array();
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
    if (text.empty()) break;
    const std::string_view word = text.substr(0, text.find_first_of(kSpace));
    double value = 0;
    const auto [end, error] = std::from_chars(word.begin(), word.end(), value);
    if (error != std::errc() || end != word.end()) return std::nullopt;
    numbers.push_back(value);
    text.remove_prefix(word.size());
  }
  if (numbers.empty()) return std::nullopt;
  return numbers;
}

/// Returns what a file of JSON, YAML, .npy or plain numbers holds; numbers alone as a list.
Result<json> ParseAny(std::string_view bytes) {
  if (bytes.starts_with("\x93NUMPY")) return NumbersOfNpy(bytes);
  if (std::optional<json> numbers = NumbersOfText(bytes)) return *std::move(numbers);
  const std::size_t first = bytes.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && (bytes[first] == '{' || bytes[first] == '['))
    return ParseJson(bytes);
  return ParseYaml(bytes);
}

/// Returns the matrix that a list of rows, or of all numbers row by row, holds.
/// @throws Error kInput
template <int size>
Eigen::Matrix<double, size, size> MatrixFromJson(const json& value, const std::string& field) {
  std::vector<double> numbers;
  const auto add = [&](const json& number) {
    if (number.is_number()) numbers.push_back(number.get<double>());
  };
  if (value.is_array()) {
    for (const json& row : value) {
      if (row.is_array() && row.size() == size) {
        for (const json& number : row) add(number);
      } else {
        add(row);
      }
    }
  }
  const bool all_finite = std::all_of(
      numbers.begin(), numbers.end(), [](double number) { return std::isfinite(number); });
  if (numbers.size() != size * size || !all_finite) {
    throw InputError(
        field,
        fmt::format("expected a {0}x{0} matrix of finite numbers, got {1}",
                    size,
                    value.is_array()
                        ? fmt::format("{} of them in a list of {}", numbers.size(), value.size())
                        : DescribeJson(value)),
        fmt::format("write {} numbers, row by row", size * size));
  }
  return Eigen::Map<Eigen::Matrix<double, size, size, Eigen::RowMajor>>(numbers.data());
}

/// @throws Error kInput
Intrinsics IntrinsicsFromMatrix(const json& value, const std::string& field) {
  Matrix3d K = MatrixFromJson<3>(value, field);
  // Open3D writes its matrix by columns: the principal point stands in the last row.
  if (K(0, 2) == 0 && K(1, 2) == 0) K.transposeInPlace();
  if (K(0, 1) != 0 || K(1, 0) != 0 || K(2, 0) != 0 || K(2, 1) != 0 || K(2, 2) != 1) {
    throw InputError(field,
                     "expected fx 0 cx / 0 fy cy / 0 0 1, got a matrix with other entries",
                     "write the camera's matrix without skew, in pixels");
  }
  return {K(0, 0), K(1, 1), K(0, 2), K(1, 2)};
}

/// @throws Error kInput
Intrinsics IntrinsicsFromJson(const json& value, int image_width, int image_height) {
  Intrinsics camera;
  camera.width = image_width;
  camera.height = image_height;
  const auto set = [&](const Intrinsics& matrix) {
    camera.fx = matrix.fx;
    camera.fy = matrix.fy;
    camera.cx = matrix.cx;
    camera.cy = matrix.cy;
  };
  if (value.is_array()) {
    set(IntrinsicsFromMatrix(value, {}));
    return camera;
  }
  const JsonReader reader(value);
  constexpr std::int64_t kMaxPixels = 1 << 30;
  camera.width = static_cast<int>(reader.OptionalInt("width", image_width, 1, kMaxPixels));
  camera.height = static_cast<int>(reader.OptionalInt("height", image_height, 1, kMaxPixels));
  if (reader.Has("intrinsic_matrix")) {
    set(IntrinsicsFromMatrix(value.at("intrinsic_matrix"), "intrinsic_matrix"));
  } else {
    camera.fx = reader.RequireDouble("fx");
    camera.fy = reader.RequireDouble("fy");
    camera.cx = reader.RequireDouble("cx");
    camera.cy = reader.RequireDouble("cy");
  }
  return camera;
}

/// @throws Error kInput
Isometry3d PoseFromJson(const json& value) {
  if (value.is_array()) return PoseFromMatrix(MatrixFromJson<4>(value, {}), {}).value();
  const JsonReader reader(value);
  const std::vector<double> t = reader.RequireDoubles("translation_m");
  const std::vector<double> q = reader.RequireDoubles("quaternion_wxyz");
  if (t.size() != 3)
    reader.Fail("translation_m", fmt::format("expected 3 numbers, got {}", t.size()));
  if (q.size() != 4)
    reader.Fail("quaternion_wxyz", fmt::format("expected 4 numbers, got {}", q.size()));
  const Eigen::Quaterniond rotation(q[0], q[1], q[2], q[3]);
  if (!(std::abs(rotation.norm() - 1) <= kQuaternionTolerance)) {
    reader.Fail("quaternion_wxyz",
                fmt::format("expected a length of 1, got {:.6g}", rotation.norm()),
                "write w first, then x, y, z");
  }
  Isometry3d pose = Isometry3d::Identity();
  pose.linear() = rotation.normalized().toRotationMatrix();
  pose.translation() = Vector3d(t[0], t[1], t[2]);
  return pose;
}

float MedianOf(std::vector<float>& values) {
  const auto middle = values.begin() + (values.size() - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

Result<void> CheckIntrinsics(const Intrinsics& camera, int image_width, int image_height) {
  const auto check_length = [](const char* name, double length_px) -> Result<void> {
    if (std::isfinite(length_px) && length_px > 0) return {};
    return InputError(name,
                      fmt::format("expected a focal length above 0 pixels, got {}", length_px));
  };
  const auto check_size = [](const char* name, int camera_px, int image_px) -> Result<void> {
    if (camera_px == image_px && image_px > 0) return {};
    return InputError(name,
                      fmt::format("expected the image's {} pixels, got {}", image_px, camera_px),
                      "give the intrinsics of this camera at this resolution");
  };
  const auto check_center = [](const char* name, double center_px, int size_px) -> Result<void> {
    if (center_px >= -0.5 && center_px <= size_px - 0.5) return {};
    return InputError(name,
                      fmt::format("expected a principal point inside of the image's {} pixels, "
                                  "got {}",
                                  size_px,
                                  center_px),
                      "are fx, fy, cx and cy in this order, and of this resolution?");
  };
  PALMIST_RETURN_IF_ERROR(check_size("width", camera.width, image_width));
  PALMIST_RETURN_IF_ERROR(check_size("height", camera.height, image_height));
  PALMIST_RETURN_IF_ERROR(check_length("fx", camera.fx));
  PALMIST_RETURN_IF_ERROR(check_length("fy", camera.fy));
  PALMIST_RETURN_IF_ERROR(check_center("cx", camera.cx, image_width));
  return check_center("cy", camera.cy, image_height);
}

Result<Intrinsics> LoadIntrinsics(const std::string& name_or_path,
                                  int image_width,
                                  int image_height) {
  for (const auto& [name, camera] : kPresets) {
    if (name_or_path == name) return ScaledPreset(name, camera, image_width, image_height);
  }
  const Result<std::string> bytes = ReadFile(name_or_path);
  if (!bytes.ok()) {
    return InputError("camera",
                      bytes.error().message(),
                      "give a file, or one of the presets realsense and kinect");
  }
  Result<Intrinsics> camera = ParseIntrinsics(*bytes, image_width, image_height);
  if (!camera.ok()) return camera.error().WithFieldPrefix(name_or_path);
  return camera;
}

Result<Intrinsics> ParseIntrinsics(std::string_view bytes, int image_width, int image_height) {
  PALMIST_ASSIGN_OR_RETURN(const json value, ParseAny(bytes));
  try {
    const Intrinsics camera = IntrinsicsFromJson(value, image_width, image_height);
    PALMIST_RETURN_IF_ERROR(CheckIntrinsics(camera, image_width, image_height));
    return camera;
  } catch (const Error& error) {
    return error;
  }
}

Result<DepthImage> DepthFromValues(int width,
                                   int height,
                                   const std::vector<float>& values,
                                   double units_per_m) {
  PALMIST_ASSERT(width >= 0 && height >= 0 &&
                 values.size() == static_cast<std::size_t>(width) * height);
  if (!(std::isfinite(units_per_m) && units_per_m > 0)) {
    return InputError("--depth-scale",
                      fmt::format("expected a number of units per metre, got {}", units_per_m),
                      "1000 where depth is in millimetres");
  }
  DepthImage depth{width, height, std::vector<float>(values.size())};
  std::size_t count = 0, too_near = 0, too_far = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto z_m = static_cast<float>(values[i] / units_per_m);
    if (!(z_m > 0 && std::isfinite(z_m))) continue;
    depth.z_m[i] = z_m;
    ++count;
    too_near += z_m < kMinMedianDepth_m;
    too_far += z_m > kMaxMedianDepth_m;
  }
  if (count == 0) {
    return InputError("depth",
                      "expected an image with depth, got no pixel above 0",
                      "is this the depth image? if so, mend --depth-scale");
  }
  if (2 * too_near <= count && 2 * too_far <= count) return depth;

  std::erase(depth.z_m, 0.0F);
  const double median_m = MedianOf(depth.z_m);
  std::string hint = "give the units per metre with --depth-scale: 1000 for millimetres";
  for (const double usual : {1.0, 1000.0, 4000.0, 10000.0}) {
    const double mended_m = median_m * units_per_m / usual;
    if (mended_m < kMinMedianDepth_m || mended_m > kMaxMedianDepth_m) continue;
    hint = fmt::format("--depth-scale {} would make it {:.3g} m", usual, mended_m);
    break;
  }
  return InputError(
      "--depth-scale",
      fmt::format("expected a median depth between {} and {} m, got {:.4g} m with {} units per "
                  "metre",
                  kMinMedianDepth_m,
                  kMaxMedianDepth_m,
                  median_m,
                  units_per_m),
      hint);
}

PointCloud CloudFromDepth(const DepthImage& depth,
                          const Intrinsics& camera,
                          const ColorImage* color) {
  PALMIST_ASSERT(depth.z_m.size() == static_cast<std::size_t>(depth.width) * depth.height);
  PALMIST_ASSERT(color == nullptr || color->rgb.size() == 3 * depth.z_m.size());
  PointCloud cloud;
  const std::size_t count = depth.z_m.size() - std::count(depth.z_m.begin(), depth.z_m.end(), 0.0F);
  cloud.points.reserve(count);
  if (color != nullptr) cloud.colors.reserve(count);
  for (int v = 0; v < depth.height; ++v) {
    const double slope_y = (v - camera.cy) / camera.fy;
    for (int u = 0; u < depth.width; ++u) {
      const double z_m = depth.at(u, v);
      if (z_m == 0) continue;
      cloud.points.emplace_back((u - camera.cx) / camera.fx * z_m, slope_y * z_m, z_m);
      if (color == nullptr) continue;
      const std::uint8_t* rgb = &color->rgb[3 * (static_cast<std::size_t>(v) * depth.width + u)];
      cloud.colors.push_back({rgb[0], rgb[1], rgb[2]});
    }
  }
  return cloud;
}

std::optional<Intrinsics> FitIntrinsics(const DepthImage& depth, std::span<const Vector3d> points) {
  constexpr std::size_t kFewest = 100;
  constexpr double kMostError_pixels = 0.5;
  const std::size_t count = depth.z_m.size() - std::count(depth.z_m.begin(), depth.z_m.end(), 0.0F);
  if (count < kFewest || count != points.size()) return std::nullopt;
  // Each axis: pixel = f · slope + c.
  std::array<std::vector<double>, 2> pixels, slopes;
  std::size_t next = 0;
  for (int v = 0; v < depth.height; ++v) {
    for (int u = 0; u < depth.width; ++u) {
      if (depth.at(u, v) == 0) continue;
      const Vector3d& p = points[next++];
      pixels[0].push_back(u);
      pixels[1].push_back(v);
      for (int axis = 0; axis < 2; ++axis) slopes[axis].push_back(p[axis] / p.z());
    }
  }
  std::array<double, 2> focal, center;
  const auto n = static_cast<double>(count);
  double error = 0;
  for (int axis = 0; axis < 2; ++axis) {
    const Eigen::Map<const Eigen::ArrayXd> pixel(pixels[axis].data(), std::ssize(pixels[axis]));
    const Eigen::Map<const Eigen::ArrayXd> slope(slopes[axis].data(), std::ssize(slopes[axis]));
    const double spread = (slope - slope.mean()).square().sum();
    focal[axis] = ((slope - slope.mean()) * (pixel - pixel.mean())).sum() / spread;
    center[axis] = pixel.mean() - focal[axis] * slope.mean();
    error += (pixel - focal[axis] * slope - center[axis]).abs().sum() / n;
  }
  const Intrinsics camera = {focal[0], focal[1], center[0], center[1], depth.width, depth.height};
  // Also none for what is not finite.
  if (!(error <= kMostError_pixels)) return std::nullopt;
  if (!CheckIntrinsics(camera, depth.width, depth.height).ok()) return std::nullopt;
  return camera;
}

float MedianDepth(const DepthImage& depth, int u, int v, int radius) {
  const auto clamp = [](std::int64_t at, int size) {
    return static_cast<int>(std::clamp<std::int64_t>(at, 0, size));
  };
  const int u_end = clamp(std::int64_t{u} + radius + 1, depth.width);
  const int v_end = clamp(std::int64_t{v} + radius + 1, depth.height);
  std::vector<float> found;
  for (int y = clamp(std::int64_t{v} - radius, depth.height); y < v_end; ++y) {
    for (int x = clamp(std::int64_t{u} - radius, depth.width); x < u_end; ++x) {
      if (depth.at(x, y) > 0) found.push_back(depth.at(x, y));
    }
  }
  return found.empty() ? 0 : MedianOf(found);
}

Result<Isometry3d> LoadHandEye(const std::string& path) {
  PALMIST_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  Result<Isometry3d> pose = ParseHandEye(bytes);
  if (!pose.ok()) return pose.error().WithFieldPrefix(path);
  return pose;
}

Result<Isometry3d> ParseHandEye(std::string_view bytes) {
  PALMIST_ASSIGN_OR_RETURN(const json value, ParseAny(bytes));
  try {
    Isometry3d pose = PoseFromJson(value);
    pose.linear() = NearestRotation(pose.linear());
    if (!(pose.translation().norm() <= kMaxReach_m)) {
      return InputError({},
                        fmt::format("expected a translation of at most {} m, got {:.4g} m",
                                    kMaxReach_m,
                                    pose.translation().norm()),
                        "write it in metres");
    }
    return pose;
  } catch (const Error& error) {
    return error;
  }
}

}  // namespace palmist::grasp
