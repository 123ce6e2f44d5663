#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "palmist/base/file.h"
#include "palmist/grasp/contact/signed_distance.h"
#include "palmist/grasp/core/mesh_shapes.h"
#include "palmist/grasp/formats/test/test_files.h"
#include "palmist/grasp/label/label_file.h"
#include "palmist/grasp/label/run_labels.h"
#include "palmist/grasp/label/scene_collisions.h"
#include "palmist/grasp/label/test/label_dataset.h"

namespace palmist::grasp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Three boxes, the objects 0, 1 and 2, of which the scenes 4, 5 and 7 have two each.
class RunSceneLabelsTest : public ::testing::Test {
 protected:
  RunSceneLabelsTest() {
    options_.label.spacing_m = 0.02;
    options_.label.views = 30;
    for (int i = 0; i < 3; ++i) AddModel(paths_, i, BoxMesh(Vector3d(0.03, 0.05, 0.04 + 0.01 * i)));
    Place(4, {0, 1});
    Place(5, {1, 2});
    Place(7, {2, 0});
    RunLabels(root(), options_).value();
  }

  /// Puts two objects on the table, `apart_m` from each other; the camera looks at them askew.
  void Place(int scene, const std::vector<int>& ids, double apart_m = 0.06) {
    std::vector<AnnotatedObject> objects;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      Isometry3d X_TO(Eigen::AngleAxisd(0.4 + static_cast<double>(i), Vector3d::UnitZ()));
      X_TO.pretranslate(
          Vector3d(apart_m * static_cast<double>(i), 0, 0.02 + 0.005 * ids[i] + table_m_));
      objects.push_back(MakeAnnotatedObject(ids[i], X_TC().inverse() * X_TO));
    }
    AddScene(paths_, scene, X_TC(), objects);
  }

  static Isometry3d X_TC() {
    Isometry3d X(Eigen::AngleAxisd(2.5, Vector3d(1, 0.2, -0.1).normalized()));
    X.pretranslate(Vector3d(0.05, -0.3, 0.5));
    return X;
  }

  LabelRun Run() const { return RunSceneLabels(root(), options_).value(); }
  const std::string& root() const { return paths_.root; }
  std::string Bytes(int scene) const { return ReadFile(SceneLabelsPath(root(), scene)).value(); }

  /// Expects that only scene 5 failed, because its file is of something else.
  void ExpectStale(const LabelRun& run) const {
    EXPECT_THAT(run.skipped, ElementsAre(4, 7));
    EXPECT_THAT(run.written, IsEmpty());
    ASSERT_EQ(run.failed.size(), 1U);
    EXPECT_EQ(run.failed[0].first, 5);
    EXPECT_THAT(run.failed[0].second.what(),
                HasSubstr("scene_0005/sparse.npz: is of other labels"));
    EXPECT_THAT(run.failed[0].second.what(), HasSubstr("remove the file"));
  }

  Folder folder_;
  DatasetPaths paths_{folder_.File("data")};
  LabelRunOptions options_;
  double table_m_ = 0.001;  ///< of objects above the table
};

TEST_F(RunSceneLabelsTest, WritesTheFlagsOfAllScenes) {
  const LabelRun run = Run();
  EXPECT_THAT(run.written, ElementsAre(4, 5, 7));
  EXPECT_THAT(run.skipped, IsEmpty());
  EXPECT_THAT(run.failed, IsEmpty());

  const SceneLabels scene = ReadSceneLabels(SceneLabelsPath(root(), 5)).value();
  EXPECT_THAT(scene.objects, ElementsAre(1, 2));
  EXPECT_NE(scene.key, 0);
  const Dataset dataset = Dataset::Open(root()).value();
  const auto annotated = dataset.Annotation({5, std::string(kRealSense), 0}).value();
  std::vector<ObjectLabels> labels;
  std::vector<std::vector<Vector3d>> clouds;
  for (const AnnotatedObject& object : annotated) {
    labels.push_back(ReadGraspLabels(SparseLabelsPath(root(), object.id)).value());
    const TriangleMesh mesh = dataset.ModelMesh(object.id).value();
    clouds.push_back(
        SampleSurface(mesh, options_.label.cloud_spacing_m, options_.label.seed).value().points);
  }
  std::vector<PlacedObject> placed;
  for (std::size_t i = 0; i < annotated.size(); ++i) {
    const Isometry3d X_CO = PoseFromMatrix(annotated[i].Pose().cast<double>(), "pose").value();
    placed.push_back({annotated[i].id, &labels[i], clouds[i], X_CO});
  }
  const Vector3d normal_C = X_TC().linear().transpose() * Vector3d::UnitZ();
  const Plane table_C{normal_C, normal_C.dot(X_TC().inverse().translation())};
  const auto expected = SceneCollisions(placed, table_C, 1).value();
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(scene.collides[i].size(), expected[i].size());
    std::size_t differ = 0;
    for (std::size_t k = 0; k < expected[i].size(); ++k) {
      differ += scene.collides[i][k] != expected[i][k];
    }
    EXPECT_LE(differ, expected[i].size() / 1000);
    const auto collide = std::count(expected[i].begin(), expected[i].end(), 1);
    EXPECT_TRUE(collide > 0 && collide < std::ssize(expected[i]));
  }
}

TEST_F(RunSceneLabelsTest, GoesOnWhereItStopped) {
  Run();
  const std::string bytes = Bytes(5);
  const auto time = std::filesystem::last_write_time(SceneLabelsPath(root(), 4));
  std::filesystem::remove(SceneLabelsPath(root(), 5));
  options_.label.threads = 2;
  const LabelRun run = Run();
  EXPECT_THAT(run.written, ElementsAre(5));
  EXPECT_THAT(run.skipped, ElementsAre(4, 7));
  EXPECT_EQ(Bytes(5), bytes);
  EXPECT_EQ(std::filesystem::last_write_time(SceneLabelsPath(root(), 4)), time);
}

TEST_F(RunSceneLabelsTest, ShardsAreApartAndTogetherAll) {
  options_.shards = 2;
  EXPECT_THAT(Run().written, ElementsAre(4, 7));
  options_.shard = 1;
  EXPECT_THAT(Run().written, ElementsAre(5));
  options_.shards = 1;
  EXPECT_THROW((void)RunSceneLabels(root(), options_), Error);
  options_.shard = 0;
  EXPECT_THAT(Run().skipped, ElementsAre(4, 5, 7));
}

TEST_F(RunSceneLabelsTest, NamesLabelsThatAreMissing) {
  std::filesystem::remove(SparseLabelsPath(root(), 1));
  const LabelRun run = Run();
  EXPECT_THAT(run.written, ElementsAre(7));
  ASSERT_EQ(run.failed.size(), 2U);
  EXPECT_EQ(run.failed[0].first, 4);
  EXPECT_THAT(run.failed[0].second.what(), HasSubstr("001_sparse.npz: is missing"));
  EXPECT_THAT(run.failed[0].second.what(), HasSubstr("label all objects first"));
  EXPECT_EQ(run.failed[1].first, 5);
  EXPECT_FALSE(std::filesystem::exists(SceneLabelsPath(root(), 4)));
}

TEST_F(RunSceneLabelsTest, DoesNotKeepFlagsOfOtherPoses) {
  Run();
  Place(5, {1, 2}, 0.061);
  ExpectStale(Run());
  Place(5, {1, 2});
  EXPECT_THAT(Run().skipped, ElementsAre(4, 5, 7));
  std::filesystem::remove(SceneLabelsPath(root(), 5));
  Place(5, {1, 2}, 0.061);
  EXPECT_THAT(Run().written, ElementsAre(5));
}

TEST_F(RunSceneLabelsTest, DoesNotKeepFlagsOfATurnedOrAnotherObject) {
  // Object 3 has the labels of object 2.
  std::filesystem::copy(paths_.Model(2), paths_.Model(3));
  RunLabels(root(), options_).value();
  Run();
  const std::string path = paths_.Annotation({5, std::string(kRealSense), 0});
  const std::vector<AnnotatedObject> annotated = ReadAnnotation(path).value();
  std::vector<AnnotatedObject> turned = annotated;
  turned[1].quaternion_wxyz[3] += 0.01;
  WriteAnnotation(path, turned).value();
  ExpectStale(Run());
  std::vector<AnnotatedObject> another = annotated;
  another[1].id = 3;
  WriteAnnotation(path, another).value();
  ExpectStale(Run());
}

TEST_F(RunSceneLabelsTest, DoesNotKeepFlagsOfAnotherTable) {
  Run();
  Isometry3d X_TC = this->X_TC();
  X_TC.pretranslate(Vector3d(0, 0, 0.001));
  WriteMatrix(paths_.Camera0WrtTable(5, kRealSense), {4, 4}, X_TC);
  ExpectStale(Run());
  WriteMatrix(paths_.Camera0WrtTable(5, kRealSense), {4, 4}, this->X_TC());
  Isometry3d X_C0C = Isometry3d::Identity();
  X_C0C.pretranslate(Vector3d(0, 0.001, 0));
  WriteMatrix(paths_.CameraPoses(5, kRealSense), {1, 4, 4}, X_C0C);
  ExpectStale(Run());
}

TEST_F(RunSceneLabelsTest, DoesNotKeepFlagsOfOtherLabels) {
  Run();
  // As many grasps of the same model.
  const std::string path = SparseLabelsPath(root(), 1);
  ObjectLabels labels = ReadGraspLabels(path).value();
  labels.grasps.front().friction_class ^= 1;
  WriteGraspLabels(path, labels).value();
  const LabelRun run = Run();
  EXPECT_THAT(run.skipped, ElementsAre(7));
  ASSERT_EQ(run.failed.size(), 2U);
  EXPECT_THAT(run.failed[0].second.what(), HasSubstr("is of other labels"));
}

TEST_F(RunSceneLabelsTest, DoesNotTakeLabelsOfAnotherModel) {
  AddModel(paths_, 1, BoxMesh(Vector3d(0.03, 0.05, 0.051)));
  const LabelRun run = Run();
  EXPECT_THAT(run.written, ElementsAre(7));
  ASSERT_EQ(run.failed.size(), 2U);
  EXPECT_THAT(run.failed[0].second.what(), HasSubstr("001_sparse.npz: was made of another model"));
}

TEST_F(RunSceneLabelsTest, SaysHowToMendADamagedFile) {
  Run();
  WriteFileAtomic(SceneLabelsPath(root(), 7), "damaged").value();
  const LabelRun run = Run();
  ASSERT_EQ(run.failed.size(), 1U);
  EXPECT_THAT(run.failed[0].second.what(), HasSubstr("remove the file"));
  options_.label.threads = 0;
  EXPECT_THROW((void)RunSceneLabels(root(), options_), Error);
}

}  // namespace
}  // namespace palmist::grasp
