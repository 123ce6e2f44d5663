#include "palmist/grasp/search/detect.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "palmist/base/error.h"
#include "palmist/grasp/core/cell.h"

namespace palmist::grasp {
namespace {

/// Appends the time between two calls of Stop.
class StageClock {
 public:
  explicit StageClock(std::vector<StageTime>& times) : times_(times) {}

  void Stop(std::string_view stage) {
    const auto now = std::chrono::steady_clock::now();
    times_.push_back({std::string(stage), std::chrono::duration<double>(now - start_).count()});
    start_ = now;
  }

 private:
  std::vector<StageTime>& times_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

Result<void> CheckDetection(const DepthImage& depth,
                            const Intrinsics& camera,
                            const DetectOptions& options) {
  PALMIST_RETURN_IF_ERROR(CheckIntrinsics(camera, depth.width, depth.height));
  const std::size_t pixels = static_cast<std::size_t>(depth.width) * depth.height;
  PALMIST_ASSERT(depth.z_m.size() == pixels);
  if (!options.workspace_mask.empty() && options.workspace_mask.size() != pixels) {
    return InputError("workspace",
                      "expected a mask of " + std::to_string(depth.width) + "x" +
                          std::to_string(depth.height) + " pixels as the depth image, got " +
                          std::to_string(options.workspace_mask.size()) + " pixels",
                      "make the mask from an image of this camera");
  }
  if (options.workspace_box &&
      !(options.workspace_box->lower_m.array() < options.workspace_box->upper_m.array()).all()) {
    return InputError("workspace_box", "expected lower corners below the upper ones");
  }
  if (options.table == TableMode::kGiven && !options.fas.table) {
    return InputError("table", "expected a plane, got none", "give one or choose auto");
  }
  return {};
}

/// Returns voxels of the space behind the points, as seen from the origin, above the table.
std::vector<Vector3d> BehindPoints(std::span<const Vector3d> points,
                                   const std::optional<Plane>& table,
                                   double depth_m,
                                   double voxel_m) {
  std::vector<Vector3d> behind;
  std::unordered_set<std::uint64_t> seen;
  for (const Vector3d& point : points) seen.insert(CellKey(CellOf(point, voxel_m)));
  const int steps = static_cast<int>(depth_m / voxel_m);
  for (const Vector3d& point : points) {
    const Vector3d step = voxel_m * point.stableNormalized();
    for (int k = 1; k <= steps; ++k) {
      const Vector3d place = point + k * step;
      if (table && table->SignedDistance(place) < 0) break;
      if (seen.insert(CellKey(CellOf(place, voxel_m))).second) behind.push_back(place);
    }
  }
  return behind;
}

}  // namespace

double DepthNoise(double z_m) { return 0.0012 + 0.0019 * (z_m - 0.4) * (z_m - 0.4); }

Result<DetectionScene> PrepareScene(const DepthImage& depth,
                                    const Intrinsics& camera,
                                    const DetectOptions& options,
                                    std::vector<StageTime>& times) {
  PALMIST_RETURN_IF_ERROR(CheckDetection(depth, camera, options));
  StageClock clock(times);
  const PointCloud cloud = CloudFromDepth(depth, camera);
  clock.Stop("cloud");

  DetectionScene scene;
  if (options.table == TableMode::kGiven) scene.table = options.fas.table;
  if (options.table == TableMode::kAuto) scene.table = FitPlane(cloud.points, options.plane);
  clock.Stop("table");

  PointCloud wanted, others;
  std::size_t next = 0;  // clouds have a point for each pixel with depth, in the order of pixels
  for (std::size_t pixel = 0; pixel < depth.z_m.size(); ++pixel) {
    if (depth.z_m[pixel] <= 0) continue;
    const Vector3d& point = cloud.points[next++];
    if (scene.table &&
        scene.table->SignedDistance(point) < options.table_margin_m + 3 * DepthNoise(point.z())) {
      continue;
    }
    const bool is_wanted = (options.workspace_mask.empty() || options.workspace_mask[pixel] != 0) &&
                           (!options.workspace_box ||
                            ((point.array() >= options.workspace_box->lower_m.array()).all() &&
                             (point.array() <= options.workspace_box->upper_m.array()).all()));
    (is_wanted ? wanted : others).points.push_back(point);
  }
  scene.objects = VoxelDownsample(wanted, options.fas.cell_m).points;
  scene.obstacles = VoxelDownsample(others, options.fas.cell_m).points;
  scene.obstacles.insert(scene.obstacles.end(), scene.objects.begin(), scene.objects.end());
  scene.hidden =
      BehindPoints(scene.obstacles, scene.table, options.hidden_depth_m, options.fas.cell_m);
  clock.Stop("voxels");
  return scene;
}

Detection DetectAmong(const DetectionScene& scene,
                      std::span<const Candidate> candidates,
                      const DetectOptions& options,
                      ThreadPool& pool) {
  Detection detection;
  detection.table = scene.table;
  detection.object_points = scene.objects.size();
  detection.candidates = candidates.size();
  StageClock clock(detection.times);
  FasOptions fas = options.fas;
  fas.table = scene.table;
  fas.max_width_m = std::max(fas.min_width_m, options.gripper.max_opening_m);
  GraspGroup found;
  for (std::optional<FasFit>& fit : SearchWidthAndDistance(
           FasScene(scene.obstacles, scene.hidden), candidates, options.gripper, fas, pool)) {
    if (fit) found.push_back(fit->grasp);
  }
  detection.fits = found.size();
  clock.Stop("search");

  for (const std::size_t row : NonMaximumSuppression(found, options.nms)) {
    if (detection.grasps.size() == options.top_k) break;
    detection.grasps.push_back(found[row]);
  }
  clock.Stop("suppression");
  return detection;
}

Result<Detection> DetectWithOrientations(const DepthImage& depth,
                                         const Intrinsics& camera,
                                         const DetectOptions& options,
                                         ThreadPool& pool) {
  std::vector<StageTime> times;
  PALMIST_ASSIGN_OR_RETURN(const DetectionScene scene, PrepareScene(depth, camera, options, times));
  StageClock clock(times);
  const Vector3d down = scene.table ? Vector3d(-scene.table->normal) : Vector3d::UnitZ();
  const double tips_m = options.fas.depth_m;
  std::vector<Candidate> candidates = options.given;
  const auto append = [&](const std::vector<Candidate>& more) {
    candidates.insert(candidates.end(), more.begin(), more.end());
  };
  if (options.uses_top_down) {
    append(TopDownCandidates(scene.objects, down, tips_m, options.top_down));
  }
  if (options.uses_random) append(RandomCandidates(scene.objects, down, options.random));
  if (options.uses_antipodal) {
    const std::vector<Vector3d> normals =
        EstimateNormals(scene.objects, options.normal_radius_m, pool);
    AntipodalOptions antipodal = options.antipodal;
    antipodal.max_width_m = options.gripper.max_opening_m;
    append(AntipodalCandidates(scene.objects, normals, down, tips_m, antipodal));
  }
  // From behind, a gripper would move through what the camera cannot see.
  std::erase_if(candidates, [](const Candidate& candidate) {
    return candidate.R_CG.col(0).dot(candidate.p_CG) <= 0;
  });
  clock.Stop("candidates");

  Detection detection = DetectAmong(scene, candidates, options, pool);
  detection.times.insert(detection.times.begin(), times.begin(), times.end());
  return detection;
}

Isometry3d CommandedPose(const Grasp& grasp, const Gripper& gripper) {
  const double x = grasp.depth_m - gripper.finger_length_m + gripper.grasp_point_m;
  Isometry3d X_CG = Isometry3d::Identity();
  X_CG.linear() = grasp.R_CG;
  X_CG.translation() = grasp.p_CG + x * grasp.approach();
  return X_CG;
}

}  // namespace palmist::grasp
