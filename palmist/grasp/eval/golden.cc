#include "palmist/grasp/eval/golden.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>
#include <utility>

#include "palmist/base/file.h"
#include "palmist/base/json.h"
#include "palmist/base/npy.h"
#include "palmist/grasp/core/point_cloud.h"
#include "palmist/grasp/formats/annotation.h"

namespace palmist::grasp {
namespace {

constexpr std::size_t kMaxFailures = 100;
constexpr double kExact = 0;
constexpr double kClose = 1e-12;
constexpr double kNormalTolerance = 1e-7;

/// An array of rows, each access checked: the files are input.
template <typename T>
class Table {
 public:
  explicit Table(const std::string& path) : path_(path) {
    Result<NpyArray> array = ParseNpy(ReadFile(path).value());
    if (!array.ok()) throw array.error().WithPath(path);
    array_ = std::move(*array);
    if (array_.type != NpyTypeOf<T>()) {
      throw InputError(path,
                       fmt::format("expected an array of type {}, got {}",
                                   ToString(NpyTypeOf<T>()),
                                   ToString(array_.type)));
    }
    values_ = array_.As<T>();
    if (array_.shape.empty()) throw InputError(path, "expected rows, got a single value");
    if (rows() > 0) columns_ = values_.size() / rows();
  }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  std::size_t rows() const { return static_cast<std::size_t>(array_.shape[0]); }
  const std::vector<std::int64_t>& shape() const { return array_.shape; }
  const NpyArray& array() const { return array_; }
  std::span<const T> values() const { return values_; }

  T operator()(std::size_t row, std::size_t column = 0) const {
    if (row >= rows() || column >= columns_) {
      throw InputError(path_, fmt::format("no row {} with a column {}", row, column));
    }
    return values_[row * columns_ + column];
  }
  T Flat(std::size_t index) const {
    if (index >= values_.size()) throw InputError(path_, fmt::format("no value {}", index));
    return values_[index];
  }
  Vector3d Vector(std::size_t row, std::size_t column = 0) const {
    return Vector3d((*this)(row, column), (*this)(row, column + 1), (*this)(row, column + 2));
  }
  /// Returns the matrix number `index` of 16 values, row by row.
  Eigen::Matrix<T, 4, 4> Matrix(std::size_t index) const {
    if ((index + 1) * 16 > values_.size()) {
      throw InputError(path_, fmt::format("no 4x4 matrix number {}", index));
    }
    return Eigen::Map<const Eigen::Matrix<T, 4, 4, Eigen::RowMajor>>(&values_[index * 16]);
  }

 private:
  std::string path_;
  NpyArray array_;
  std::span<const T> values_;
  std::size_t columns_ = 0;
};

nlohmann::json ReadJson(const std::string& path) {
  Result<nlohmann::json> json = ParseJson(ReadFile(path).value());
  if (!json.ok()) throw json.error().WithPath(path);
  return std::move(*json);
}

SignedDistanceGrid ReadGrid(const std::string& path,
                            const Vector3d& origin_m,
                            double resolution_m) {
  const Table<float> table(path);
  if (table.shape().size() != 3) throw InputError(path, "expected an array with 3 dimensions");
  SignedDistanceGrid grid;
  for (int axis = 0; axis < 3; ++axis) grid.dims[axis] = static_cast<int>(table.shape()[axis]);
  grid.origin_m = origin_m;
  grid.resolution_m = resolution_m;
  grid.values_m.assign(table.values().begin(), table.values().end());
  return grid;
}

std::vector<Vector3d> ReadPoints(const std::string& path) {
  const Table<double> table(path);
  std::vector<Vector3d> points;
  for (std::size_t i = 0; i < table.rows(); ++i) points.push_back(table.Vector(i));
  return points;
}

Vector3d RequireVector(const JsonReader& reader, const std::string& name) {
  const std::vector<double> values = reader.RequireDoubles(name);
  if (values.size() != 3) reader.Fail(name, "expected 3 numbers");
  return Vector3d(values[0], values[1], values[2]);
}

/// The number of frames and objects that a scene's folder has, and its name.
struct SceneFolder {
  int scene;
  std::string name;  ///< relative, with a slash at the end
  nlohmann::json json;
};

std::vector<SceneFolder> SceneFolders(const std::string& folder) {
  const nlohmann::json manifest = ReadJson(folder + "/manifest.json");
  const JsonReader reader(manifest);
  std::vector<SceneFolder> scenes;
  for (const auto& item : reader.Child("ap_scenes").json().items()) {
    const std::string name = "scenes/" + item.key() + "/";
    nlohmann::json json = ReadJson(folder + "/" + name + "scene.json");
    const int scene = static_cast<int>(JsonReader(json).RequireInt("scene", 0, 9999));
    scenes.push_back({scene, name, std::move(json)});
  }
  return scenes;
}

GoldenScenes ReadScenes(const std::string& folder) {
  GoldenScenes golden;
  nlohmann::json list = {{"objects", ReadJson(folder + "/objects/objects.json")}};
  const JsonReader objects(list);
  for (const JsonReader& object : objects.Array("objects")) {
    ObjectModel& model = golden.objects.emplace_back();
    model.id = static_cast<int>(object.RequireInt("id", 0, 9999));
    model.cloud_O = ReadPoints(folder + "/" + object.RequireString("cloud"));
    model.grid = ReadGrid(folder + "/" + object.RequireString("sdf"),
                          RequireVector(object, "origin"),
                          object.RequireDouble("resolution"));
  }
  const auto axis = [&](const char* name) {
    const Table<double> table(folder + "/table/" + name + ".npy");
    return std::vector<double>(table.values().begin(), table.values().end());
  };
  const TablePoints table = {axis("x"), axis("y"), axis("z")};
  for (const SceneFolder& scene : SceneFolders(folder)) {
    const JsonReader reader(scene.json);
    const std::vector<std::int64_t> ids = reader.RequireInts("objects");
    const Table<float> poses(folder + "/" + scene.name + "object_poses_f32.npy");
    const Table<double> table_to_camera(folder + "/" + scene.name + "table_to_camera.npy");
    const auto frames = reader.RequireInt("frames", 0, 9999);
    for (int f = 0; f < frames; ++f) {
      GoldenFrame& frame = golden.frames.emplace_back();
      frame.scene = scene.scene;
      frame.frame = f;
      frame.folder = fmt::format("{}frame_{:04}/", scene.name, f);
      frame.grasps = ReadGraspGroup(folder + "/" + frame.folder + "grasps.npy").value();
      for (std::size_t i = 0; i < ids.size(); ++i) {
        const auto object = std::find_if(golden.objects.begin(),
                                         golden.objects.end(),
                                         [&](const ObjectModel& m) { return m.id == ids[i]; });
        if (object == golden.objects.end()) reader.Fail("objects", "unknown object");
        frame.input.objects.push_back(&*object);
        frame.input.X_CO.push_back(poses.Matrix(f * ids.size() + i));
      }
      frame.input.table = table;
      frame.input.X_CT = table_to_camera.Matrix(f);
      frame.input.grasps = frame.grasps;
    }
  }
  return golden;
}

class Checker {
 public:
  explicit Checker(std::string folder) : folder_(std::move(folder)) {}

  GoldenReport Run() {
    CheckLookups();
    CheckQuadratics();
    CheckNormals();
    CheckClosures("closure", GridsOfObjects());
    CheckClosures("property", PropertyGrids());
    CheckObjects();
    CheckScenes();
    return std::move(report_);
  }

 private:
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  /// Compares two numbers; two NaN are equal.
  template <typename... Args>
  void Expect(double actual,
              double expected,
              double tolerance,
              fmt::format_string<Args...> what,
              Args&&... args) {
    ++report_.checked;
    const bool is_near =
        std::abs(actual - expected) <= tolerance || (std::isnan(actual) && std::isnan(expected));
    if (is_near) return;
    ++report_.mismatches;
    if (report_.failures.size() >= kMaxFailures) return;
    report_.failures.push_back(fmt::format("{}: got {:.17g}, expected {:.17g}",
                                           fmt::format(what, std::forward<Args>(args)...),
                                           actual,
                                           expected));
  }

  /// Compares vectors; an absent one stands for NaN.
  void ExpectVector(const std::optional<Vector3d>& actual,
                    const Vector3d& expected,
                    double tolerance,
                    const char* what,
                    std::size_t row) {
    for (int i = 0; i < 3; ++i) {
      Expect(actual ? (*actual)[i] : NAN, expected[i], tolerance, "{}, row {}", what, row);
    }
  }

  /// Compares directions whose sign has no meaning.
  void ExpectDirection(const std::optional<Vector3d>& actual,
                       const Vector3d& expected,
                       const char* what,
                       std::size_t row) {
    std::optional<Vector3d> turned = actual;
    if (turned && turned->dot(expected) < 0) *turned *= -1;
    ExpectVector(turned, expected, kNormalTolerance, what, row);
  }

  std::vector<SignedDistanceGrid> GridsOfObjects() const {
    std::vector<SignedDistanceGrid> grids;
    for (const ObjectModel& object : golden_.objects) grids.push_back(object.grid);
    return grids;
  }

  std::vector<SignedDistanceGrid> PropertyGrids() const {
    std::vector<SignedDistanceGrid> grids;
    for (int k = 0; k < 3; ++k) {
      grids.push_back(ReadGrid(
          Path(fmt::format("unit/property_sdf_{}.npy", k)), Vector3d::Constant(-0.06), 0.003));
    }
    return grids;
  }

  const SignedDistanceGrid& GridOfObject(double id) const {
    for (const ObjectModel& object : golden_.objects) {
      if (object.id == id) return object.grid;
    }
    throw InputError("object", fmt::format("no object {}", id));
  }

  void CheckLookups() {
    const Table<double> table(Path("unit/lookup.npy"));
    for (std::size_t row = 0; row < table.rows(); ++row) {
      const DistanceLookup lookup(GridOfObject(table(row)));
      const Vector3d cells = lookup.ToCells(RoundToFloat(table.Vector(row, 1)));
      ExpectVector(cells, table.Vector(row, 4), kClose, "unit/lookup grid place", row);
      Expect(lookup.Distance(cells), table(row, 7), kClose, "unit/lookup distance, row {}", row);
    }
  }

  void CheckQuadratics() {
    const Table<double> table(Path("unit/quadratic.npy"));
    for (std::size_t row = 0; row < table.rows(); ++row) {
      std::array<compat::Sample, 3> samples;
      for (std::size_t i = 0; i < 3; ++i)
        samples[i] = {table.Vector(row, 3 * i), table(row, 9 + i)};
      const std::optional<Vector3d> zero = compat::ZeroCrossing(samples);
      Expect(zero.has_value(), table(row, 12), kExact, "unit/quadratic found, row {}", row);
      const Vector3d expected = table.Vector(row, 13);
      const double tolerance = std::max(kClose, 1e-9 * (zero ? expected.norm() : 0));
      ExpectVector(zero, expected, tolerance, "unit/quadratic zero", row);
    }
  }

  void CheckNormals() {
    const Table<double> table(Path("unit/normals.npy"));
    for (std::size_t row = 0; row < table.rows(); ++row) {
      const DistanceLookup lookup(GridOfObject(table(row)));
      const Vector3d cells = table.Vector(row, 1);
      Expect(std::abs(lookup.Distance(cells)),
             table(row, 4),
             kClose,
             "unit/normals distance, row {}",
             row);
      if (table(row, 9) - table(row, 10) < 1e-6 * table(row, 8)) continue;
      ExpectDirection(
          compat::SurfaceNormal(lookup, cells), table.Vector(row, 5), "unit/normals normal", row);
    }
  }

  void CheckClosures(const std::string& prefix, const std::vector<SignedDistanceGrid>& grids) {
    const std::string name = "unit/" + prefix + "_";
    const Table<std::int32_t> objects(Path(name + "object.npy")),
        samples(Path(name + "samples.npy"));
    const Table<double> inputs(Path(name + "input.npy")), points(Path(name + "point.npy"));
    const Table<double> normals(Path(name + "normal.npy")), angles(Path(name + "angle.npy"));
    const Table<double> scores(Path(name + "score.npy"));
    const Table<std::uint8_t> found(Path(name + "found.npy"));
    for (std::size_t row = 0; row < inputs.rows(); ++row) {
      const auto object = static_cast<std::size_t>(objects(row));
      if (object >= grids.size()) throw InputError(name + "object.npy", "no such object");
      const DistanceLookup lookup(grids[object]);
      const ClosingLine line = {inputs.Vector(row, 0), inputs.Vector(row, 3), inputs(row, 6)};
      Expect(static_cast<double>(compat::SamplesPerFinger(line.width_m, lookup.resolution_m())),
             samples(row),
             kExact,
             "{}samples, row {}",
             name,
             row);
      const FingerContacts contacts = FindContacts(lookup, line, ContactRule::kCompat);
      const auto found_angles = ContactAngles(contacts, ContactRule::kCompat);
      ExpectContacts(contacts, found_angles, found, points, normals, angles, name, row);
      Expect(found_angles ? SmallestFriction(*found_angles) : kNoClosure,
             scores(row),
             kExact,
             "{}score, row {}",
             name,
             row);
    }
  }

  void ExpectContacts(const FingerContacts& contacts,
                      const std::optional<std::array<double, 2>>& contact_angles,
                      const Table<std::uint8_t>& found,
                      const Table<double>& points,
                      const Table<double>& normals,
                      const Table<double>& angles,
                      const std::string& name,
                      std::size_t row) {
    for (std::size_t finger = 0; finger < 2; ++finger) {
      const std::optional<Contact>& contact = contacts[finger];
      Expect(contact.has_value(), found(row, finger), kExact, "{}contact found, row {}", name, row);
      std::optional<Vector3d> point, normal;
      if (contact) point = contact->p_O, normal = contact->normal_O;
      ExpectVector(
          point, points.Vector(row, 3 * finger), kClose, (name + "contact point").c_str(), row);
      ExpectDirection(
          normal, normals.Vector(row, 3 * finger), (name + "contact normal").c_str(), row);
      Expect(contact_angles ? (*contact_angles)[finger] : NAN,
             angles(row, finger),
             kNormalTolerance,
             "{}contact angle, row {}",
             name,
             row);
    }
  }

  /// The clouds before and behind voxel sampling, as sets.
  void CheckObjects() {
    const nlohmann::json list = {{"objects", ReadJson(Path("objects/objects.json"))}};
    for (const JsonReader& object : JsonReader(list).Array("objects")) {
      const std::string raw_name = object.OptionalString("raw_cloud", "");
      if (raw_name.empty()) continue;
      const Table<float> raw(Path(raw_name));
      PointCloud cloud;
      for (std::size_t i = 0; i < raw.rows(); ++i) cloud.points.push_back(raw.Vector(i));
      const PointCloud thinned = VoxelDownsample(cloud, kModelVoxel_m);
      const std::vector<Vector3d> expected = ReadPoints(Path(object.RequireString("cloud")));
      Expect(static_cast<double>(thinned.size()),
             static_cast<double>(expected.size()),
             kExact,
             "{}: points after voxel sampling",
             raw_name);
      const KdTree tree(thinned.points);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const auto nearest = tree.Nearest(expected[i]);
        Expect(nearest ? nearest->distance_m : NAN,
               0,
               kClose,
               "{}: distance to point {} after voxel sampling",
               raw_name,
               i);
      }
    }
  }

  void CheckScenes() {
    std::vector<Accuracy> all;
    for (const SceneFolder& scene : SceneFolders(folder_)) {
      CheckPoses(scene);
      const JsonReader reader(scene.json);
      const std::vector<JsonReader> frame_aps = reader.Array("ap_frames");
      const Table<double> accuracies(Path(scene.name + "accuracy.npy"));
      std::vector<Accuracy> of_scene;
      for (const GoldenFrame& frame : golden_.frames) {
        if (frame.scene != scene.scene) continue;
        const FrameResult result = EvaluateFrame(frame.input);
        CheckFrame(frame, result);
        const auto f = static_cast<std::size_t>(frame.frame);
        if (f >= frame_aps.size()) reader.Fail("ap_frames", "fewer than frames");
        ExpectAccuracy(result.accuracy, accuracies, f, scene.name);
        ExpectAp({&result.accuracy, 1}, frame_aps[f], frame.folder);
        of_scene.push_back(result.accuracy);
      }
      ExpectAp(of_scene, reader.Child("ap"), scene.name);
      all.insert(all.end(), of_scene.begin(), of_scene.end());
    }
    const nlohmann::json manifest = ReadJson(Path("manifest.json"));
    ExpectAp(all, JsonReader(manifest).Child("ap"), "all scenes");
  }

  /// From the text of an annotation to float32 matrices and their inverses; the table.
  void CheckPoses(const SceneFolder& scene) {
    const Table<float> poses(Path(scene.name + "object_poses_f32.npy"));
    const Table<float> inverses(Path(scene.name + "object_poses_inverse_f32.npy"));
    const Table<double> cameras(Path(scene.name + "camera_poses.npy"));
    const Table<double> tables(Path(scene.name + "table_to_camera.npy"));
    const Matrix4d X_TC0 = Table<double>(Path(scene.name + "cam0_wrt_table.npy")).Matrix(0);
    const JsonReader reader(scene.json);
    const nlohmann::json& frames = scene.json.at("pose_text");
    std::size_t index = 0;
    for (std::size_t f = 0; f < frames.size(); ++f) {
      const nlohmann::json list = {{"objects", frames[f]}};
      for (const JsonReader& object : JsonReader(list).Array("objects")) {
        AnnotatedObject annotated;
        std::istringstream position(object.RequireString("position"));
        std::istringstream quaternion(object.RequireString("quaternion_wxyz"));
        for (double& x : annotated.p_CO) position >> x;
        for (double& x : annotated.quaternion_wxyz) quaternion >> x;
        ExpectMatrix(annotated.Pose(), poses.Matrix(index), kExact, scene.name + "pose", index);
        ExpectMatrix(InversePose(poses.Matrix(index)),
                     inverses.Matrix(index),
                     kExact,
                     scene.name + "inverse pose",
                     index);
        ++index;
      }
      ExpectMatrix(TableInCamera(X_TC0, cameras.Matrix(f)),
                   tables.Matrix(f),
                   kClose,
                   scene.name + "table to camera",
                   f);
    }
  }

  template <typename Matrix>
  void ExpectMatrix(const Matrix& actual,
                    const Matrix& expected,
                    double tolerance,
                    const std::string& what,
                    std::size_t index) {
    for (int i = 0; i < 16; ++i) {
      Expect(actual(i / 4, i % 4), expected(i / 4, i % 4), tolerance, "{} {}", what, index);
    }
  }

  void CheckFrame(const GoldenFrame& frame, const FrameResult& result) {
    const std::string& name = frame.folder;
    ExpectList(name + "nms_rows.npy", result.kept_rows, [](std::size_t row) { return row; });
    const auto& assigned = result.assignments;
    ExpectList(name + "assign_object.npy", assigned, [](const auto& a) { return a.object; });
    ExpectList(name + "assign_point.npy", assigned, [](const auto& a) { return a.point; });
    const Table<double> distances(Path(name + "assign_distance.npy"));
    Expect(static_cast<double>(distances.rows()),
           static_cast<double>(assigned.size()),
           kExact,
           "{}assign_distance: number of rows",
           name);
    for (std::size_t i = 0; i < std::min(assigned.size(), distances.rows()); ++i) {
      Expect(assigned[i].distance_m, distances(i), kClose, "{}assign_distance, row {}", name, i);
    }
    CheckEvaluated(frame, result);
    ExpectAccuracy(result.accuracy, Table<double>(Path(name + "accuracy.npy")), 0, name);

    const Table<double> table_points(Path(name + "table_sample.npy"));
    for (std::size_t i = 0; i < table_points.rows(); ++i) {
      const auto& [xs, ys, zs] = frame.input.table;
      if (xs.empty() || ys.empty() || zs.empty()) break;
      const std::size_t point = i * 997;
      const Vector3d p_T(xs[point / zs.size() % xs.size()],
                         ys[point / zs.size() / xs.size() % ys.size()],
                         zs[point % zs.size()]);
      const Vector3d p_C = (frame.input.X_CT * p_T.homogeneous()).head<3>();
      ExpectVector(p_C, table_points.Vector(i), kClose, (name + "table_sample").c_str(), i);
    }
  }

  void CheckEvaluated(const GoldenFrame& frame, const FrameResult& result) {
    const std::string& name = frame.folder;
    const auto& evaluated = result.evaluated;
    ExpectList(name + "eval_rows.npy", evaluated, [](const auto& e) { return e.row; });
    ExpectList(name + "eval_object.npy", evaluated, [](const auto& e) { return e.object; });
    ExpectList(name + "order.npy", result.order, [](std::size_t i) { return i; });
    const Table<std::uint8_t> collision(Path(name + "collision.npy")),
        empty(Path(name + "empty.npy"));
    const Table<std::uint8_t> found(Path(name + "contact_found.npy"));
    const Table<std::int32_t> counts(Path(name + "point_counts.npy"));
    const Table<double> centers(Path(name + "center_object.npy")),
        axes(Path(name + "axis_object.npy"));
    const Table<double> points(Path(name + "contact_point.npy"));
    const Table<double> normals(Path(name + "contact_normal.npy"));
    const Table<double> angles(Path(name + "contact_angle.npy"));
    const Table<double> closures(Path(name + "closure_score.npy")),
        scores(Path(name + "score.npy"));
    Expect(static_cast<double>(counts.rows()),
           static_cast<double>(evaluated.size()),
           kExact,
           "{}point_counts: number of rows",
           name);
    for (std::size_t i = 0; i < std::min(evaluated.size(), counts.rows()); ++i) {
      const EvaluatedGrasp& grasp = evaluated[i];
      const bool is_empty = grasp.counts.is_empty();
      Expect(grasp.counts.collides(), collision(i), kExact, "{}collision, row {}", name, i);
      Expect(is_empty, empty(i), kExact, "{}empty, row {}", name, i);
      const std::array<int, 4> own = {grasp.counts.left_finger,
                                      grasp.counts.right_finger,
                                      grasp.counts.palm,
                                      grasp.counts.inside};
      for (std::size_t k = 0; k < own.size(); ++k) {
        Expect(own[k], counts(i, k), kExact, "{}point_counts, row {}", name, i);
      }
      std::optional<Vector3d> center, axis;
      if (!is_empty) center = grasp.line.center_O, axis = grasp.line.axis_O;
      ExpectVector(center, centers.Vector(i), kClose, (name + "center_object").c_str(), i);
      ExpectVector(axis, axes.Vector(i), kClose, (name + "axis_object").c_str(), i);
      ExpectContacts(grasp.contacts, grasp.angles_rad, found, points, normals, angles, name, i);
      Expect(is_empty ? NAN : grasp.closure_score,
             closures(i),
             kExact,
             "{}closure_score, row {}",
             name,
             i);
      Expect(grasp.score, scores(i), kExact, "{}score, row {}", name, i);
    }
  }

  template <typename List, typename Member>
  void ExpectList(const std::string& name, const List& actual, const Member& member) {
    const Table<std::int32_t> expected(Path(name));
    Expect(static_cast<double>(actual.size()),
           static_cast<double>(expected.rows()),
           kExact,
           "{}: number of rows",
           name);
    for (std::size_t i = 0; i < std::min(actual.size(), expected.rows()); ++i) {
      Expect(static_cast<double>(member(actual[i])), expected(i), kExact, "{}, row {}", name, i);
    }
  }

  /// Compares with the values of one frame of an array (frames, 50, 6) or (50, 6).
  void ExpectAccuracy(const Accuracy& actual,
                      const Table<double>& expected,
                      std::size_t frame,
                      const std::string& name) {
    for (std::size_t k = 0; k < actual.size(); ++k) {
      for (std::size_t m = 0; m < kFrictions.size(); ++m) {
        const double value = expected.Flat((frame * kRanks + k) * kFrictions.size() + m);
        Expect(actual[k][m], value, kClose, "{} accuracy [{}][{}]", name, k, m);
      }
    }
  }

  void ExpectAp(std::span<const Accuracy> accuracies,
                const JsonReader& expected,
                const std::string& name) {
    const AveragePrecision ap = MeanPrecision(accuracies);
    Expect(ap.ap(), expected.RequireDouble("AP"), kClose, "{} AP", name);
    for (std::size_t m = 0; m < kFrictions.size(); ++m) {
      const std::string key = fmt::format("AP_mu{:.1f}", kFrictions[m]);
      Expect(ap.of_friction[m], expected.RequireDouble(key), kClose, "{} {}", name, key);
    }
  }

  const std::string folder_;
  const GoldenScenes golden_ = ReadScenes(folder_);
  GoldenReport report_;
};

}  // namespace

Result<GoldenScenes> ReadGoldenScenes(const std::string& folder) {
  try {
    return ReadScenes(folder);
  } catch (const Error& error) {
    return error;
  }
}

Result<GoldenReport> CheckGolden(const std::string& folder) {
  try {
    return Checker(folder).Run();
  } catch (const Error& error) {
    return error;
  }
}

}  // namespace palmist::grasp
