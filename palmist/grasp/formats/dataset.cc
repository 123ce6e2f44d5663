#include "palmist/grasp/formats/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <system_error>

#include "palmist/base/file.h"
#include "palmist/base/text.h"
#include "palmist/base/units.h"
#include "palmist/grasp/formats/mesh_file.h"
#include "palmist/grasp/formats/parse_file.h"
#include "palmist/grasp/formats/ply.h"
#include "palmist/grasp/formats/sdf_text.h"

namespace palmist::grasp {
namespace {

constexpr std::int64_t kMaxLabelBytes = 16 * kGiB;
constexpr int kMaxObjectId = 999;  // Three digits in the names of its files.

/// Returns the number that a name such as "scene_0012" ends with, after `prefix` and before
/// `suffix`.
std::optional<int> NumberIn(std::string_view name,
                            std::string_view prefix,
                            std::string_view suffix) {
  if (name.size() <= prefix.size() + suffix.size() || !name.starts_with(prefix) ||
      !name.ends_with(suffix)) {
    return std::nullopt;
  }
  const std::string_view digits =
      name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
  int number = 0;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (status != std::errc() || end != digits.data() + digits.size() || number < 0) {
    return std::nullopt;
  }
  return number;
}

Result<std::vector<std::string>> List(const std::string& folder) {
  std::error_code code;
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator entry(folder, code), end; !code && entry != end;
       entry.increment(code)) {
    names.push_back(entry->path().filename().string());
  }
  if (code) return InputError(folder, "cannot list this folder: " + code.message());
  std::sort(names.begin(), names.end());
  return names;
}

/// Returns the numbers in the names of a folder's entries, rising.
Result<std::vector<int>> ListNumbers(const std::string& folder,
                                     std::string_view prefix,
                                     std::string_view suffix) {
  PALMIST_ASSIGN_OR_RETURN(const std::vector<std::string> names, List(folder));
  std::vector<int> numbers;
  for (const std::string& name : names) {
    if (const auto number = NumberIn(name, prefix, suffix)) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  if (numbers.empty()) {
    return InputError(folder, fmt::format("expected entries such as {}0000{}", prefix, suffix));
  }
  return numbers;
}

/// Reads an array of float64 or float32 whose shape is `shape`, of which -1 is any size.
Result<std::vector<double>> ReadNumbers(const std::string& path, std::vector<std::int64_t> shape) {
  return ParseFile(
      path, kDefaultMaxFileBytes, [&](std::string_view bytes) -> Result<std::vector<double>> {
        PALMIST_ASSIGN_OR_RETURN(const NpyArray array, ParseNpy(bytes));
        bool fits = array.shape.size() == shape.size();
        for (std::size_t i = 0; fits && i < shape.size(); ++i) {
          fits = shape[i] == -1 || shape[i] == array.shape[i];
        }
        if (!fits) {
          return InputError({},
                            fmt::format("expected an array of the shape ({}), got ({})",
                                        fmt::join(shape, ", "),
                                        fmt::join(array.shape, ", ")));
        }
        std::vector<double> numbers;
        if (array.type == NpyType::kFloat64) {
          const auto values = array.As<double>();
          numbers.assign(values.begin(), values.end());
        } else if (array.type == NpyType::kFloat32) {
          const auto values = array.As<float>();
          numbers.assign(values.begin(), values.end());
        } else {
          return InputError(
              {}, fmt::format("expected float64 or float32, got {}", ToString(array.type)));
        }
        for (const double number : numbers) {
          if (!std::isfinite(number)) return InputError({}, "expected finite numbers");
        }
        return numbers;
      });
}

using RowMajor3 = Eigen::Matrix<double, 3, 3, Eigen::RowMajor>;
using RowMajor4 = Eigen::Matrix<double, 4, 4, Eigen::RowMajor>;

}  // namespace

Split SplitOf(int scene) {
  if (scene < 0 || scene >= 190) return Split::kOther;
  if (scene < 100) return Split::kTrain;
  if (scene < 130) return Split::kSeen;
  return scene < 160 ? Split::kSimilar : Split::kNovel;
}

const char* ToString(Split split) {
  switch (split) {
    case Split::kTrain:
      return "train";
    case Split::kSeen:
      return "seen";
    case Split::kSimilar:
      return "similar";
    case Split::kNovel:
      return "novel";
    case Split::kOther:
      break;
  }
  return "other";
}

std::string DatasetPaths::Scene(int scene) const {
  return fmt::format("{}/scenes/scene_{:04}", root, scene);
}
std::string DatasetPaths::ObjectIds(int scene) const {
  return Scene(scene) + "/object_id_list.txt";
}
std::string DatasetPaths::Camera(int scene, std::string_view camera) const {
  return fmt::format("{}/{}", Scene(scene), camera);
}
std::string DatasetPaths::CameraK(int scene, std::string_view camera) const {
  return Camera(scene, camera) + "/camK.npy";
}
std::string DatasetPaths::CameraPoses(int scene, std::string_view camera) const {
  return Camera(scene, camera) + "/camera_poses.npy";
}
std::string DatasetPaths::Camera0WrtTable(int scene, std::string_view camera) const {
  return Camera(scene, camera) + "/cam0_wrt_table.npy";
}
std::string DatasetPaths::Rgb(const FrameId& id) const {
  return fmt::format("{}/rgb/{:04}.png", Camera(id.scene, id.camera), id.frame);
}
std::string DatasetPaths::Depth(const FrameId& id) const {
  return fmt::format("{}/depth/{:04}.png", Camera(id.scene, id.camera), id.frame);
}
std::string DatasetPaths::Label(const FrameId& id) const {
  return fmt::format("{}/label/{:04}.png", Camera(id.scene, id.camera), id.frame);
}
std::string DatasetPaths::Meta(const FrameId& id) const {
  return fmt::format("{}/meta/{:04}.mat", Camera(id.scene, id.camera), id.frame);
}
std::string DatasetPaths::Annotation(const FrameId& id) const {
  return fmt::format("{}/annotations/{:04}.xml", Camera(id.scene, id.camera), id.frame);
}
std::string DatasetPaths::Rect(const FrameId& id) const {
  return fmt::format("{}/rect/{:04}.npy", Camera(id.scene, id.camera), id.frame);
}
std::string DatasetPaths::Model(int object) const {
  return fmt::format("{}/models/{:03}", root, object);
}
std::string DatasetPaths::ModelPly(int object) const { return Model(object) + "/nontextured.ply"; }
std::string DatasetPaths::ModelObj(int object) const { return Model(object) + "/textured.obj"; }
std::string DatasetPaths::ModelSdf(int object) const { return Model(object) + "/textured.sdf"; }
std::string DatasetPaths::GraspLabels(int object) const {
  return fmt::format("{}/grasp_label/{:03}_labels.npz", root, object);
}
std::string DatasetPaths::CollisionLabels(int scene) const {
  return fmt::format("{}/collision_label/scene_{:04}/collision_labels.npz", root, scene);
}

std::string DumpPath(const std::string& dump_root, const FrameId& id) {
  return fmt::format("{}/scene_{:04}/{}/{:04}.npy", dump_root, id.scene, id.camera, id.frame);
}

Result<Dataset> Dataset::Open(const std::string& root) {
  Dataset dataset;
  dataset.paths_.root = root;
  auto scenes = ListNumbers(root + "/scenes", "scene_", "");
  if (!scenes.ok()) {
    return Error(ErrorKind::kInput,
                 scenes.error().message(),
                 scenes.error().field(),
                 "give the folder that holds scenes/scene_0000 and so on");
  }
  dataset.scenes_ = std::move(*scenes);
  return dataset;
}

std::vector<int> Dataset::ScenesOf(Split split) const {
  std::vector<int> chosen;
  std::copy_if(scenes_.begin(), scenes_.end(), std::back_inserter(chosen), [&](int scene) {
    return SplitOf(scene) == split;
  });
  return chosen;
}

Result<std::vector<std::string>> Dataset::Cameras(int scene) const {
  PALMIST_ASSIGN_OR_RETURN(std::vector<std::string> names, List(paths_.Scene(scene)));
  std::erase_if(names, [&](const std::string& name) {
    std::error_code ignored;
    return !std::filesystem::is_directory(paths_.Camera(scene, name), ignored);
  });
  return names;
}

Result<std::vector<int>> Dataset::Frames(int scene, std::string_view camera) const {
  return ListNumbers(paths_.Camera(scene, camera) + "/annotations", "", ".xml");
}

Result<std::vector<int>> Dataset::ObjectIds(int scene) const {
  return ParseFile(
      paths_.ObjectIds(scene),
      kDefaultMaxFileBytes,
      [](std::string_view rest) -> Result<std::vector<int>> {
        std::vector<int> ids;
        while (true) {
          const std::string_view word = TakeWord(rest);
          if (word.empty()) break;
          const std::optional<int> id = NumberIn(word, "", "");
          if (!id || *id > kMaxObjectId) {
            return InputError(
                {},
                fmt::format("expected object ids of 0 to {}, got {}", kMaxObjectId, Quote(word)));
          }
          ids.push_back(*id);
        }
        if (ids.empty()) return InputError({}, "expected object ids, it is empty");
        return ids;
      });
}

Result<Matrix3d> Dataset::CameraK(int scene, std::string_view camera) const {
  PALMIST_ASSIGN_OR_RETURN(const auto numbers, ReadNumbers(paths_.CameraK(scene, camera), {3, 3}));
  return Matrix3d(Eigen::Map<const RowMajor3>(numbers.data()));
}

Result<std::vector<Matrix4d>> Dataset::CameraPoses(int scene, std::string_view camera) const {
  PALMIST_ASSIGN_OR_RETURN(const auto numbers,
                           ReadNumbers(paths_.CameraPoses(scene, camera), {-1, 4, 4}));
  std::vector<Matrix4d> poses;
  for (std::size_t i = 0; i < numbers.size(); i += 16) {
    poses.emplace_back(Eigen::Map<const RowMajor4>(numbers.data() + i));
  }
  return poses;
}

Result<Matrix4d> Dataset::Camera0WrtTable(int scene, std::string_view camera) const {
  PALMIST_ASSIGN_OR_RETURN(const auto numbers,
                           ReadNumbers(paths_.Camera0WrtTable(scene, camera), {4, 4}));
  return Matrix4d(Eigen::Map<const RowMajor4>(numbers.data()));
}

Result<ColorImage> Dataset::Rgb(const FrameId& id) const { return ReadColor(paths_.Rgb(id)); }
Result<DepthValues> Dataset::Depth(const FrameId& id) const {
  return ReadDepthValues(paths_.Depth(id));
}
Result<LabelImage> Dataset::Label(const FrameId& id) const { return ReadLabels(paths_.Label(id)); }
Result<FrameMeta> Dataset::Meta(const FrameId& id) const { return ReadFrameMeta(paths_.Meta(id)); }
Result<std::vector<AnnotatedObject>> Dataset::Annotation(const FrameId& id) const {
  return ReadAnnotation(paths_.Annotation(id));
}

Result<PointCloud> Dataset::ModelCloud(int object) const {
  return ReadPlyCloud(paths_.ModelPly(object));
}

Result<TriangleMesh> Dataset::ModelMesh(int object) const {
  std::error_code ignored;
  const bool has_obj = std::filesystem::exists(paths_.ModelObj(object), ignored);
  return ReadMesh(has_obj ? paths_.ModelObj(object) : paths_.ModelPly(object));
}

Result<SignedDistanceGrid> Dataset::ModelSdf(int object) const {
  return ReadSdfText(paths_.ModelSdf(object));
}

Result<NpzArrays> Dataset::GraspLabels(int object) const {
  const std::string path = paths_.GraspLabels(object);
  PALMIST_ASSIGN_OR_RETURN(NpzArrays arrays, ReadNpz(path, kMaxLabelBytes));
  for (const char* name : {"points", "offsets", "collision", "scores"}) {
    if (!arrays.contains(name)) return InputError(path + ": " + name, "is missing");
  }
  // All follow from the scores': (P, V, A, D).
  const std::vector<std::int64_t>& shape = arrays.at("scores").shape;
  std::vector<std::int64_t> offsets_shape = shape;
  offsets_shape.push_back(3);
  if (shape.size() != 4 || arrays.at("collision").shape != shape ||
      arrays.at("offsets").shape != offsets_shape ||
      arrays.at("points").shape != std::vector<std::int64_t>{shape[0], 3}) {
    return InputError(path,
                      "expected points (P, 3), offsets (P, V, A, D, 3), collision and scores "
                      "(P, V, A, D), the shapes differ");
  }
  return arrays;
}

Result<std::vector<NpyArray>> Dataset::CollisionLabels(int scene) const {
  const std::string path = paths_.CollisionLabels(scene);
  PALMIST_ASSIGN_OR_RETURN(NpzArrays arrays, ReadNpz(path, kMaxLabelBytes));
  std::vector<NpyArray> labels;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const std::string name = fmt::format("arr_{}", i);
    const auto found = arrays.find(name);
    if (found == arrays.end()) return InputError(path + ": " + name, "is missing");
    if (found->second.type != NpyType::kBool || found->second.shape.size() != 4) {
      return InputError(path + ": " + name, "expected booleans of the shape (P, V, A, D)");
    }
    labels.push_back(std::move(found->second));
  }
  return labels;
}

}  // namespace palmist::grasp
