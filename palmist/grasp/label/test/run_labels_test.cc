#include "palmist/grasp/label/run_labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "palmist/base/file.h"
#include "palmist/base/interrupt.h"
#include "palmist/grasp/contact/signed_distance.h"
#include "palmist/grasp/core/mesh_shapes.h"
#include "palmist/grasp/formats/dataset.h"
#include "palmist/grasp/formats/sdf_text.h"
#include "palmist/grasp/formats/test/test_files.h"
#include "palmist/grasp/label/label_file.h"
#include "palmist/grasp/label/test/label_dataset.h"

namespace palmist::grasp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A dataset of a box, a cylinder and a sphere, the objects 0, 2 and 11.
class RunLabelsTest : public ::testing::Test {
 protected:
  RunLabelsTest() {
    options_.label.spacing_m = 0.02;
    options_.label.views = 30;
    Fill(root());
  }

  static void Fill(const std::string& root) {
    const DatasetPaths paths{root};
    std::filesystem::create_directories(paths.Scene(0));
    AddModel(paths, 0, BoxMesh(Vector3d(0.03, 0.05, 0.07)));
    AddModel(paths, 2, CylinderMesh(0.02, 0.08, 24));
    AddModel(paths, 11, SphereMesh(0.03, 24));
  }

  std::string root() const { return folder_.File("data"); }
  std::string Bytes(int object) const { return ReadFile(SparseLabelsPath(root(), object)).value(); }

  Folder folder_;
  LabelRunOptions options_;
};

TEST_F(RunLabelsTest, LabelsAllObjects) {
  const LabelRun run = RunLabels(root(), options_).value();
  EXPECT_THAT(run.written, ElementsAre(0, 2, 11));
  EXPECT_THAT(run.skipped, IsEmpty());
  EXPECT_THAT(run.failed, IsEmpty());
  for (const int object : run.written) {
    EXPECT_FALSE(ReadGraspLabels(SparseLabelsPath(root(), object)).value().grasps.empty());
  }
}

TEST_F(RunLabelsTest, MakesTheSameBytesForAnyNumberOfThreads) {
  RunLabels(root(), options_).value();
  const std::string box = Bytes(0), sphere = Bytes(11);
  std::filesystem::remove_all(root() + "/grasp_label");
  options_.label.threads = 2;
  RunLabels(root(), options_).value();
  EXPECT_EQ(Bytes(0), box);
  EXPECT_EQ(Bytes(11), sphere);
}

TEST_F(RunLabelsTest, GoesOnWhereItStopped) {
  RunLabels(root(), options_).value();
  const std::string cylinder = Bytes(2);
  const auto time = std::filesystem::last_write_time(SparseLabelsPath(root(), 0));
  std::filesystem::remove(SparseLabelsPath(root(), 2));
  const LabelRun run = RunLabels(root(), options_).value();
  EXPECT_THAT(run.written, ElementsAre(2));
  EXPECT_THAT(run.skipped, ElementsAre(0, 11));
  EXPECT_EQ(Bytes(2), cylinder);
  EXPECT_EQ(std::filesystem::last_write_time(SparseLabelsPath(root(), 0)), time);
}

TEST_F(RunLabelsTest, ShardsAreApartAndTogetherAll) {
  options_.shards = 2;
  EXPECT_THAT(RunLabels(root(), options_).value().written, ElementsAre(0, 11));
  options_.shard = 1;
  EXPECT_THAT(RunLabels(root(), options_).value().written, ElementsAre(2));
  options_.shards = 7;
  options_.shard = 6;
  const LabelRun none = RunLabels(root(), options_).value();
  EXPECT_TRUE(none.written.empty() && none.skipped.empty() && none.failed.empty());
}

TEST_F(RunLabelsTest, NamesObjectsThatFailAndLabelsTheOthers) {
  WriteFileAtomic(DatasetPaths{root()}.ModelObj(2), "v 0 0 0\nv 1 0 0\nv 0 nan 0\nf 1 2 3\n")
      .value();
  WriteFileAtomic(DatasetPaths{root()}.ModelSdf(11), "1 1").value();
  const LabelRun run = RunLabels(root(), options_).value();
  EXPECT_THAT(run.written, ElementsAre(0));
  ASSERT_EQ(run.failed.size(), 2U);
  EXPECT_EQ(run.failed[0].first, 2);
  EXPECT_THAT(run.failed[0].second.what(), HasSubstr("models/002"));
  EXPECT_EQ(run.failed[1].first, 11);
  EXPECT_THAT(run.failed[1].second.what(), HasSubstr("textured.sdf"));
}

TEST_F(RunLabelsTest, DoesNotKeepLabelsOfOtherOptions) {
  RunLabels(root(), options_).value();
  options_.label.spacing_m = 0.015;
  WriteFileAtomic(SparseLabelsPath(root(), 2), "damaged").value();
  const LabelRun run = RunLabels(root(), options_).value();
  EXPECT_THAT(run.written, IsEmpty());
  ASSERT_EQ(run.failed.size(), 3U);
  EXPECT_THAT(run.failed[0].second.what(), HasSubstr("other options"));
  EXPECT_THAT(run.failed[1].second.what(), HasSubstr("remove the file"));
}

TEST_F(RunLabelsTest, PrefersTheSignedDistancesOfTheModel) {
  const DatasetPaths paths{root()};
  const TriangleMesh box = BoxMesh(Vector3d(0.03, 0.05, 0.07));
  // The mesh alone has no inside.
  TriangleMesh open = box;
  open.triangles.resize(8);
  AddModel(paths, 0, open);
  EXPECT_EQ(RunLabels(root(), options_).value().failed.size(), 1U);
  WriteSdfText(paths.ModelSdf(0), SignedDistanceFromMesh(box).value()).value();
  EXPECT_THAT(RunLabels(root(), options_).value().written, ElementsAre(0));
}

TEST_F(RunLabelsTest, GraspPointsLieOnTheMeshOfAModelWithSignedDistances) {
  const DatasetPaths paths{root()};
  const TriangleMesh plate = BoxMesh(Vector3d(0.06, 0.08, 0.002));
  AddModel(paths, 0, plate);
  SignedDistanceOptions fine;
  fine.resolution_m = 0.0005;
  WriteSdfText(paths.ModelSdf(0), SignedDistanceFromMesh(plate, fine).value()).value();
  RunLabels(root(), options_).value();
  const ObjectLabels labels = ReadGraspLabels(SparseLabelsPath(root(), 0)).value();
  const TriangleMesh mesh = Dataset::Open(root()).value().ModelMesh(0).value();
  const SurfaceSamples samples =
      SampleSurface(mesh, options_.label.spacing_m, options_.label.seed).value();
  ASSERT_EQ(labels.points_O.size(), samples.points.size());
  bool has_upper = false, has_lower = false;
  for (std::size_t i = 0; i < samples.points.size(); ++i) {
    EXPECT_EQ(labels.points_O[i], RoundToFloat(samples.points[i]));
    has_upper = has_upper || std::abs(labels.points_O[i].z() - 0.001) < 1e-8;
    has_lower = has_lower || std::abs(labels.points_O[i].z() + 0.001) < 1e-8;
  }
  EXPECT_TRUE(has_upper && has_lower);
}

TEST_F(RunLabelsTest, DoesNotKeepLabelsOfAnotherModel) {
  const DatasetPaths paths{root()};
  const TriangleMesh sphere = SphereMesh(0.03, 24);
  const SignedDistanceGrid grid = SignedDistanceFromMesh(sphere).value();
  WriteSdfText(paths.ModelSdf(11), grid).value();
  EXPECT_EQ(RunLabels(root(), options_).value().written.size(), 3U);

  AddModel(paths, 2, CylinderMesh(0.02, 0.081, 24));
  SignedDistanceGrid changed = grid;
  changed.values_m[0] += 0.001F;
  WriteSdfText(paths.ModelSdf(11), changed).value();
  LabelRun run = RunLabels(root(), options_).value();
  EXPECT_THAT(run.skipped, ElementsAre(0));
  ASSERT_EQ(run.failed.size(), 2U);
  EXPECT_EQ(run.failed[0].first, 2);
  EXPECT_THAT(run.failed[0].second.what(), HasSubstr("002_sparse.npz: was made of another model"));
  EXPECT_THAT(run.failed[0].second.what(), HasSubstr("remove the file"));
  EXPECT_EQ(run.failed[1].first, 11);

  std::filesystem::remove(paths.ModelSdf(11));
  std::filesystem::remove(SparseLabelsPath(root(), 2));
  run = RunLabels(root(), options_).value();
  EXPECT_THAT(run.written, ElementsAre(2));
  ASSERT_EQ(run.failed.size(), 1U);
  EXPECT_THAT(run.failed[0].second.what(), HasSubstr("another model"));
  WriteSdfText(paths.ModelSdf(11), grid).value();
  EXPECT_THAT(RunLabels(root(), options_).value().skipped, ElementsAre(0, 2, 11));
}

TEST_F(RunLabelsTest, DenseLabelsAreTheDatasets) {
  RunLabels(root(), options_).value();
  const DatasetPaths paths{root()};
  const ObjectLabels labels = ReadGraspLabels(SparseLabelsPath(root(), 2)).value();
  WriteNpz(paths.GraspLabels(2), ToDenseLabels(labels).value()).value();
  const NpzArrays dense = Dataset::Open(root()).value().GraspLabels(2).value();
  const auto points = static_cast<std::int64_t>(labels.points_O.size());
  EXPECT_EQ(dense.at("scores").shape, (std::vector<std::int64_t>{points, 30, 12, 4}));
}

// In a child process, so that the flag does not reach the next test. The first object alone would
// take far longer.
[[noreturn]] void LabelUntilInterrupted(const std::string& root, LabelRunOptions options) {
  options.label.spacing_m = 0.05;
  options.label.views = 100000;
  options.label.angles = 1000;
  options.label.depths = 1;
  InstallInterruptHandler();
  std::thread([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    std::raise(SIGINT);
  }).detach();
  const Result<LabelRun> run = RunLabels(root, options);
  std::_Exit(!run.ok() && run.error().kind() == ErrorKind::kInterrupted ? 0 : 1);
}

using RunLabelsDeathTest = RunLabelsTest;

TEST_F(RunLabelsDeathTest, StopsWithinAnObject) {
  EXPECT_EXIT(LabelUntilInterrupted(root(), options_), ::testing::ExitedWithCode(0), "");
  EXPECT_TRUE(std::filesystem::is_empty(root() + "/grasp_label"));
}

TEST_F(RunLabelsTest, RefusesWhatIsNoDataset) {
  EXPECT_FALSE(RunLabels(folder_.File("missing"), options_).ok());
  std::filesystem::remove_all(root() + "/models");
  EXPECT_THAT(RunLabels(root(), options_).error().what(), HasSubstr("models"));
  options_.shard = 1;
  EXPECT_THROW((void)RunLabels(root(), options_), Error);
}

}  // namespace
}  // namespace palmist::grasp
