#include "palmist/grasp/formats/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "palmist/grasp/formats/mesh_file.h"
#include "palmist/grasp/formats/ply.h"
#include "palmist/grasp/formats/sdf_text.h"
#include "test_files.h"

namespace palmist::grasp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Dataset, SplitsScenesByNumber) {
  EXPECT_EQ(SplitOf(0), Split::kTrain);
  EXPECT_EQ(SplitOf(99), Split::kTrain);
  EXPECT_EQ(SplitOf(100), Split::kSeen);
  EXPECT_EQ(SplitOf(129), Split::kSeen);
  EXPECT_EQ(SplitOf(130), Split::kSimilar);
  EXPECT_EQ(SplitOf(159), Split::kSimilar);
  EXPECT_EQ(SplitOf(160), Split::kNovel);
  EXPECT_EQ(SplitOf(189), Split::kNovel);
  EXPECT_EQ(SplitOf(190), Split::kOther);
  EXPECT_EQ(SplitOf(-1), Split::kOther);
  EXPECT_STREQ(ToString(SplitOf(150)), "similar");
}

TEST(Dataset, NamesFilesAsGraspNetDoes) {
  const DatasetPaths paths{"/d"};
  const FrameId id{7, std::string(kKinect), 12};
  EXPECT_EQ(paths.ObjectIds(7), "/d/scenes/scene_0007/object_id_list.txt");
  EXPECT_EQ(paths.CameraK(7, kRealSense), "/d/scenes/scene_0007/realsense/camK.npy");
  EXPECT_EQ(paths.CameraPoses(7, kRealSense), "/d/scenes/scene_0007/realsense/camera_poses.npy");
  EXPECT_EQ(paths.Camera0WrtTable(7, kKinect), "/d/scenes/scene_0007/kinect/cam0_wrt_table.npy");
  EXPECT_EQ(paths.Rgb(id), "/d/scenes/scene_0007/kinect/rgb/0012.png");
  EXPECT_EQ(paths.Depth(id), "/d/scenes/scene_0007/kinect/depth/0012.png");
  EXPECT_EQ(paths.Label(id), "/d/scenes/scene_0007/kinect/label/0012.png");
  EXPECT_EQ(paths.Meta(id), "/d/scenes/scene_0007/kinect/meta/0012.mat");
  EXPECT_EQ(paths.Annotation(id), "/d/scenes/scene_0007/kinect/annotations/0012.xml");
  EXPECT_EQ(paths.Rect(id), "/d/scenes/scene_0007/kinect/rect/0012.npy");
  EXPECT_EQ(paths.ModelPly(5), "/d/models/005/nontextured.ply");
  EXPECT_EQ(paths.ModelObj(5), "/d/models/005/textured.obj");
  EXPECT_EQ(paths.ModelSdf(5), "/d/models/005/textured.sdf");
  EXPECT_EQ(paths.GraspLabels(5), "/d/grasp_label/005_labels.npz");
  EXPECT_EQ(paths.CollisionLabels(7), "/d/collision_label/scene_0007/collision_labels.npz");
  EXPECT_EQ(DumpPath("out", id), "out/scene_0007/kinect/0012.npy");
}

/// A dataset of two scenes, of which scene 130 has two frames and an object.
class SmallDataset : public ::testing::Test {
 protected:
  void SetUp() override {
    namespace fs = std::filesystem;
    fs::create_directories(paths_.Scene(2));
    for (const char* kind : {"rgb", "depth", "label", "meta", "annotations"}) {
      fs::create_directories(paths_.Camera(130, kRealSense) + "/" + kind);
    }
    fs::create_directories(paths_.root + "/scenes/notes");
    fs::create_directories(paths_.Model(4));
    fs::create_directories(paths_.root + "/grasp_label");
    fs::create_directories(paths_.root + "/collision_label/scene_0130");
    Write(paths_.ObjectIds(130), "4\n");
    const AnnotatedObject object = MakeAnnotatedObject(4, Isometry3d::Identity());
    for (const int frame : {0, 10}) {
      WriteAnnotation(paths_.Annotation({130, "realsense", frame}), {&object, 1}).value();
    }
    WriteColorPng(paths_.Rgb(id_), {1, 1, {1, 2, 3}}).value();
    WriteDepthPng(paths_.Depth(id_), {1, 1, {0.5F}}).value();
    WriteLabelsPng(paths_.Label(id_), {1, 1, {5}}).value();
    WriteFrameMeta(paths_.Meta(id_),
                   {Matrix3d::Identity(), 1000, {5}, {Eigen::Matrix<double, 3, 4>::Identity()}})
        .value();

    std::vector<double> numbers(32);
    for (int i = 0; i < 32; ++i) numbers[static_cast<std::size_t>(i)] = i;
    const std::span all(numbers);
    Write(paths_.CameraK(130, kRealSense), WriteNpy(MakeNpyArray<double>({3, 3}, all.first(9))));
    Write(paths_.CameraPoses(130, kRealSense), WriteNpy(MakeNpyArray<double>({2, 4, 4}, all)));
    const std::vector<float> floats(numbers.begin(), numbers.begin() + 16);
    Write(paths_.Camera0WrtTable(130, kRealSense), WriteNpy(MakeNpyArray<float>({4, 4}, floats)));

    const PointCloud cloud{{{0, 0, 0}, {1, 0, 0}, {0, 1, 0}}, {}};
    const std::array<std::uint32_t, 3> triangle = {0, 1, 2};
    WritePly(paths_.ModelPly(4), cloud, {&triangle, 1}).value();
    WriteSdfText(paths_.ModelSdf(4), {{2, 2, 2}, Vector3d::Zero(), 1, std::vector<float>(8, 1)})
        .value();
    labels_ = {{"points", MakeNpyArray<double>({1, 3}, all.first(3))},
               {"offsets", MakeNpyArray<double>({1, 1, 1, 2, 3}, all.first(6))},
               {"collision", MakeNpyArray<bool>({1, 1, 1, 2}, std::array{true, false})},
               {"scores", MakeNpyArray<double>({1, 1, 1, 2}, all.first(2))}};
    WriteNpz(paths_.GraspLabels(4), labels_).value();
    WriteNpz(paths_.CollisionLabels(130), {{"arr_0", labels_.at("collision")}}).value();
  }

  static void Write(const std::string& path, std::string_view content) {
    WriteFileAtomic(path, content).value();
  }

  Folder folder_;
  DatasetPaths paths_{folder_.path()};
  FrameId id_{130, "realsense", 10};
  NpzArrays labels_;
};

TEST_F(SmallDataset, ListsWhatIsThere) {
  const Dataset dataset = Dataset::Open(folder_.path()).value();
  EXPECT_THAT(dataset.scenes(), ElementsAre(2, 130));
  EXPECT_THAT(dataset.ScenesOf(Split::kSimilar), ElementsAre(130));
  EXPECT_THAT(dataset.ScenesOf(Split::kSeen), ElementsAre());
  EXPECT_THAT(dataset.Cameras(130).value(), ElementsAre("realsense"));
  EXPECT_THAT(dataset.Frames(130, kRealSense).value(), ElementsAre(0, 10));
}

TEST_F(SmallDataset, ReadsEveryFile) {
  const Dataset dataset = Dataset::Open(folder_.path()).value();
  EXPECT_THAT(dataset.ObjectIds(130).value(), ElementsAre(4));
  EXPECT_EQ(dataset.CameraK(130, kRealSense).value()(0, 2), 2);
  EXPECT_EQ(dataset.CameraPoses(130, kRealSense).value().at(1)(0, 3), 19);
  EXPECT_EQ(dataset.Camera0WrtTable(130, kRealSense).value()(1, 0), 4);
  EXPECT_THAT(dataset.Rgb(id_).value().rgb, ElementsAre(1, 2, 3));
  EXPECT_THAT(dataset.Depth(id_).value().values, ElementsAre(500));
  EXPECT_EQ(dataset.Label(id_).value().at(0, 0), 5);
  EXPECT_THAT(dataset.Meta(id_).value().cls_indexes, ElementsAre(5));
  EXPECT_EQ(dataset.Annotation(id_).value().at(0).id, 4);
  EXPECT_EQ(dataset.ModelCloud(4).value().size(), 3U);
  EXPECT_EQ(dataset.ModelMesh(4).value().triangles.size(), 1U);
  EXPECT_EQ(dataset.ModelSdf(4).value().at(1, 1, 1), 1.0F);
  EXPECT_THAT(dataset.GraspLabels(4).value().at("scores").As<double>(), ElementsAre(0, 1));
  EXPECT_THAT(dataset.CollisionLabels(130).value().at(0).As<bool>(), ElementsAre(true, false));
}

TEST_F(SmallDataset, PrefersTheTexturedMesh) {
  const TriangleMesh two = {{{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, {{0, 1, 2}, {0, 1, 3}}};
  WriteObj(paths_.ModelObj(4), two).value();
  EXPECT_EQ(Dataset::Open(folder_.path())->ModelMesh(4).value().triangles.size(), 2U);
}

TEST_F(SmallDataset, ErrorsNameTheFile) {
  const Dataset dataset = Dataset::Open(folder_.path()).value();
  const FrameId missing{2, "kinect", 3};
  EXPECT_THAT(Message(dataset.ObjectIds(2)), HasSubstr("scene_0002/object_id_list.txt"));
  EXPECT_THAT(Message(dataset.Frames(2, kKinect)), HasSubstr("scene_0002/kinect/annotations"));
  EXPECT_THAT(Message(dataset.CameraK(2, kKinect)), HasSubstr("scene_0002/kinect/camK.npy"));
  EXPECT_THAT(Message(dataset.Rgb(missing)), HasSubstr("kinect/rgb/0003.png"));
  EXPECT_THAT(Message(dataset.Depth(missing)), HasSubstr("kinect/depth/0003.png"));
  EXPECT_THAT(Message(dataset.Label(missing)), HasSubstr("kinect/label/0003.png"));
  EXPECT_THAT(Message(dataset.Meta(missing)), HasSubstr("kinect/meta/0003.mat"));
  EXPECT_THAT(Message(dataset.Annotation(missing)), HasSubstr("kinect/annotations/0003.xml"));
  EXPECT_THAT(Message(dataset.ModelCloud(9)), HasSubstr("models/009/nontextured.ply"));
  EXPECT_THAT(Message(dataset.ModelMesh(9)), HasSubstr("models/009/nontextured.ply"));
  EXPECT_THAT(Message(dataset.ModelSdf(9)), HasSubstr("models/009/textured.sdf"));
  EXPECT_THAT(Message(dataset.GraspLabels(9)), HasSubstr("grasp_label/009_labels.npz"));
  EXPECT_THAT(Message(dataset.CollisionLabels(2)), HasSubstr("scene_0002/collision_labels.npz"));

  Write(paths_.ObjectIds(130), "4 x\n");
  EXPECT_THAT(Message(dataset.ObjectIds(130)), HasSubstr("got \"x\""));
  Write(paths_.CameraK(130, kRealSense),
        WriteNpy(MakeNpyArray<double>({2}, std::vector<double>{1, 2})));
  EXPECT_THAT(Message(dataset.CameraK(130, kRealSense)), HasSubstr("the shape (3, 3), got (2)"));
  labels_.erase("offsets");
  WriteNpz(paths_.GraspLabels(4), labels_).value();
  EXPECT_THAT(Message(dataset.GraspLabels(4)), HasSubstr("offsets: is missing"));
  labels_["offsets"] = labels_["points"];
  WriteNpz(paths_.GraspLabels(4), labels_).value();
  EXPECT_THAT(Message(dataset.GraspLabels(4)), HasSubstr("the shapes differ"));
  WriteNpz(paths_.CollisionLabels(130), {{"arr_1", labels_.at("collision")}}).value();
  EXPECT_THAT(Message(dataset.CollisionLabels(130)), HasSubstr("arr_0: is missing"));
}

TEST(Dataset, OpenSaysWhatAFolderLacks) {
  const Folder folder;
  EXPECT_THAT(Message(Dataset::Open(folder.path())), HasSubstr(folder.File("scenes")));
  std::filesystem::create_directories(folder.File("scenes"));
  EXPECT_THAT(Message(Dataset::Open(folder.path())), HasSubstr("entries such as scene_0000"));
}

}  // namespace
}  // namespace palmist::grasp
