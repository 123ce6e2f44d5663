#include "palmist/grasp/formats/annotation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "palmist/base/json.h"
#include "palmist/base/npy.h"
#include "test_files.h"
#include "tests/support/grasp_golden.h"

namespace palmist::grasp {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kObject =
    "<scene><obj><obj_id>5</obj_id><obj_name>005.ply</obj_name><obj_path>models/005/a.ply</"
    "obj_path>"
    "<pos_in_world>-0.0075 0.0262 0.4492</pos_in_world>"
    "<ori_in_world>0.4271 -0.5536 -0.4161 0.5813</ori_in_world></obj></scene>";

std::string Replaced(const std::string& from, const std::string& to) {
  std::string xml(kObject);
  return xml.replace(xml.find(from), from.size(), to);
}

TEST(Annotation, ReadsAnObject) {
  const auto objects = ParseAnnotation(kObject);
  ASSERT_TRUE(objects.ok()) << Message(objects);
  ASSERT_EQ(objects->size(), 1U);
  EXPECT_EQ(objects->front().id, 5);
  EXPECT_EQ(objects->front().name, "005.ply");
  EXPECT_EQ(objects->front().path, "models/005/a.ply");
  EXPECT_EQ(objects->front().p_CO, Vector3d(-0.0075, 0.0262, 0.4492));
  EXPECT_THAT(objects->front().quaternion_wxyz, ElementsAre(0.4271, -0.5536, -0.4161, 0.5813));
}

TEST(Annotation, QuaternionIsWxyz) {
  AnnotatedObject object;
  object.quaternion_wxyz = {1, 0, 0, 1};  // A quarter turn about z, of length √2.
  object.p_CO = {1, 2, 3};
  Eigen::Matrix4f expected;
  expected << 0, -1, 0, 1, 1, 0, 0, 2, 0, 0, 1, 3, 0, 0, 0, 1;
  EXPECT_TRUE(object.Pose().isApprox(expected, 1e-7F)) << object.Pose();
}

TEST(Annotation, SaysWhatIsWrong) {
  EXPECT_THAT(Message(ParseAnnotation("<scene><obj>")), HasSubstr("bad XML at byte"));
  EXPECT_THAT(Message(ParseAnnotation("<other/>")), HasSubstr("scene"));
  EXPECT_THAT(Message(ParseAnnotation(Replaced("<obj_id>5</obj_id>", ""))),
              HasSubstr("scene.obj[0].obj_id: expected 1 finite numbers, got \"\""));
  EXPECT_THAT(Message(ParseAnnotation(Replaced("0.4492", "nan"))), HasSubstr("pos_in_world"));
  EXPECT_THAT(Message(ParseAnnotation(Replaced("0.4492", ""))), HasSubstr("pos_in_world"));
  EXPECT_THAT(Message(ParseAnnotation(Replaced("0.5813", "0.5813 1"))), HasSubstr("ori_in_world"));
  EXPECT_THAT(Message(ParseAnnotation(Replaced("0.4271 -0.5536 -0.4161 0.5813", "0 0 0 0"))),
              HasSubstr("expected a quaternion of length 1, got length 0"));
  EXPECT_THAT(Message(ParseAnnotation(Replaced(">5<", ">5.5<"))), HasSubstr("expected an integer"));
  EXPECT_THAT(Message(ReadAnnotation("/nowhere/0000.xml")), HasSubstr("/nowhere/0000.xml"));
}

RC_GTEST_PROP(Annotation, SurvivesWritingAndReading, ()) {
  const auto number = [] { return *rc::gen::inRange(-1'000'000, 1'000'000) / 1e6 + 1e-9; };
  const Eigen::Quaterniond q =
      Eigen::Quaterniond(number(), number(), number(), number()).normalized();
  const AnnotatedObject object =
      MakeAnnotatedObject(*rc::gen::inRange(0, 1000),
                          Eigen::Translation3d(number(), number(), number()) * Isometry3d(q));
  const Folder folder;
  WriteAnnotation(folder.File("a.xml"), std::span(&object, 1)).value();
  const std::vector<AnnotatedObject> again = ReadAnnotation(folder.File("a.xml")).value();
  RC_ASSERT(again.size() == 1U);
  RC_ASSERT(again[0].id == object.id);
  RC_ASSERT(again[0].path == object.path);
  RC_ASSERT(again[0].p_CO == object.p_CO);
  RC_ASSERT(again[0].quaternion_wxyz == object.quaternion_wxyz);
  RC_ASSERT((again[0].Pose().topLeftCorner<3, 3>().cast<double>() - q.toRotationMatrix()).norm() <
            1e-6);
}

TEST(Annotation, PosesEqualGraspNetsToTheLastBit) {
  const std::string golden = test::GraspGolden();
  int compared = 0;
  for (const char* scene : {"scene_0100", "scene_0101", "scene_0102"}) {
    const std::string folder = golden + "/scenes/" + scene;
    const auto json = ParseJson(ReadFile(folder + "/scene.json").value()).value();
    const NpyArray array = ParseNpy(ReadFile(folder + "/object_poses_f32.npy").value()).value();
    const auto expected = array.As<float>();
    std::size_t next = 0;
    for (const auto& frame : json["pose_text"]) {
      std::string xml = "<scene>";
      for (const auto& pose : frame) {
        xml += "<obj><obj_id>0</obj_id><pos_in_world>" + pose["position"].get<std::string>() +
               "</pos_in_world><ori_in_world>" + pose["quaternion_wxyz"].get<std::string>() +
               "</ori_in_world></obj>";
      }
      const auto objects = ParseAnnotation(xml + "</scene>");
      ASSERT_TRUE(objects.ok()) << Message(objects);
      for (const AnnotatedObject& object : *objects) {
        const Eigen::Matrix4f X_CO = object.Pose();
        for (int row = 0; row < 4; ++row) {
          for (int column = 0; column < 4; ++column) {
            EXPECT_EQ(X_CO(row, column), expected[next++]) << scene;
            ++compared;
          }
        }
      }
    }
    EXPECT_EQ(next, expected.size());
  }
  EXPECT_EQ(compared, 3 * 4 * 4 * 16);  // 2 + 4 + 6 objects in 4 frames.
}

TEST(Annotation, ReadsTheSample) {
  const std::string path = test::GraspGolden("samples/annotation_scene_0101_frame_0000.xml");
  const auto objects = ReadAnnotation(path);
  ASSERT_TRUE(objects.ok()) << Message(objects);
  ASSERT_EQ(objects->size(), 4U);
  EXPECT_EQ(objects->at(1).name, "001.ply");
  EXPECT_EQ(objects->at(3).id, 2);
}

}  // namespace
}  // namespace palmist::grasp
