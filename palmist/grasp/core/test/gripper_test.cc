#include "palmist/grasp/core/gripper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "palmist/base/file.h"

namespace palmist::grasp {
namespace {

using testing::HasSubstr;

using Keys = std::map<std::string, std::string>;

/// Returns the message for a good file in which some keys have other values, or none where "".
std::string ErrorWith(const Keys& changes) {
  Keys keys = {{"palmist_gripper", "1"},
               {"name", "mine"},
               {"finger_length_m", "0.05"},
               {"finger_thickness_m", "0.01"},
               {"height_m", "0.02"},
               {"max_opening_m", "0.1"},
               {"palm_depth_m", "0.01"}};
  for (const auto& [key, value] : changes) keys[key] = value;
  std::string yaml;
  for (const auto& [key, value] : keys) {
    if (!value.empty()) yaml += key + ": " + value + "\n";
  }
  const Result<Gripper> gripper = ParseGripper(yaml);
  return gripper.ok() ? "" : gripper.error().what();
}

TEST(GripperTest, PresetsAreReadAndNamed) {
  EXPECT_THAT(
      GripperPresets(),
      testing::ElementsAre("graspnet", "panda", "robotiq-2f-85", "robotiq-2f-140", "wsg-50"));
  const std::map<std::string, double> openings = {{"graspnet", 0.1},
                                                  {"panda", 0.08},
                                                  {"robotiq-2f-85", 0.085},
                                                  {"robotiq-2f-140", 0.14},
                                                  {"wsg-50", 0.11}};
  for (const std::string& name : GripperPresets()) {
    const Gripper gripper = LoadGripper(name).value();
    EXPECT_EQ(gripper.name, name);
    EXPECT_EQ(gripper.max_opening_m, openings.at(name));
    EXPECT_EQ(gripper.min_opening_m, 0);
  }
}

TEST(GripperTest, TheGraspNetPresetIsTheDefault) {
  const Gripper preset = LoadGripper("graspnet").value();
  const Gripper expected;
  EXPECT_EQ(preset.finger_length_m, expected.finger_length_m);
  EXPECT_EQ(preset.finger_thickness_m, expected.finger_thickness_m);
  EXPECT_EQ(preset.height_m, expected.height_m);
  EXPECT_EQ(preset.min_opening_m, expected.min_opening_m);
  EXPECT_EQ(preset.max_opening_m, expected.max_opening_m);
  EXPECT_EQ(preset.palm_depth_m, expected.palm_depth_m);
  EXPECT_EQ(preset.sweep_m, expected.sweep_m);
  EXPECT_EQ(preset.grasp_point_m, expected.grasp_point_m);
}

TEST(GripperTest, ReadsAllKeys) {
  const Gripper gripper = ParseGripper(
                              "palmist_gripper: 1\nname: mine\nfinger_length_m: 0.1\n"
                              "finger_thickness_m: 0.2\nheight_m: 0.3\nmin_opening_m: 0.4\n"
                              "max_opening_m: 0.5\npalm_depth_m: 0.6\nsweep_m: 0.7\n"
                              "grasp_point_m: 0.05\nx_note: ours\n")
                              .value();
  EXPECT_EQ(gripper.name, "mine");
  EXPECT_EQ(gripper.finger_length_m, 0.1);
  EXPECT_EQ(gripper.finger_thickness_m, 0.2);
  EXPECT_EQ(gripper.height_m, 0.3);
  EXPECT_EQ(gripper.min_opening_m, 0.4);
  EXPECT_EQ(gripper.max_opening_m, 0.5);
  EXPECT_EQ(gripper.palm_depth_m, 0.6);
  EXPECT_EQ(gripper.sweep_m, 0.7);
  EXPECT_EQ(gripper.grasp_point_m, 0.05);
}

TEST(GripperTest, ErrorsNameTheKey) {
  EXPECT_EQ(ErrorWith({}), "");
  EXPECT_THAT(ErrorWith({{"palmist_gripper", "2"}}), HasSubstr("palmist_gripper"));
  EXPECT_THAT(ErrorWith({{"palmist_gripper", ""}}), HasSubstr("palmist_gripper"));
  EXPECT_THAT(ErrorWith({{"finger_lenght_m", "0.1"}}),
              testing::AllOf(HasSubstr("finger_lenght_m"), HasSubstr("finger_length_m")));
  for (const std::string key : {"finger_length_m",
                                "finger_thickness_m",
                                "height_m",
                                "max_opening_m",
                                "palm_depth_m",
                                "min_opening_m",
                                "sweep_m",
                                "grasp_point_m"}) {
    for (const std::string value : {"-0.01", "1.5", ".inf", ".nan", "1e999", "wide", "[0.1]"})
      EXPECT_THAT(ErrorWith({{key, value}}), HasSubstr(key)) << value;
  }
  for (const std::string key : {"name",
                                "finger_length_m",
                                "finger_thickness_m",
                                "height_m",
                                "max_opening_m",
                                "palm_depth_m"}) {
    EXPECT_THAT(ErrorWith({{key, ""}}), HasSubstr(key)) << "missing";
  }
  for (const std::string key : {"finger_length_m", "finger_thickness_m", "height_m"})
    EXPECT_THAT(ErrorWith({{key, "0"}}), HasSubstr(key));
  EXPECT_THAT(ErrorWith({{"min_opening_m", "0.1"}}), HasSubstr("min_opening_m"));
  EXPECT_THAT(ErrorWith({{"grasp_point_m", "0.06"}}), HasSubstr("grasp_point_m"));
}

TEST(GripperTest, RefusesWhatIsNoMapping) {
  EXPECT_FALSE(ParseGripper("").ok());
  EXPECT_FALSE(ParseGripper("- 1").ok());
  EXPECT_FALSE(ParseGripper("{").ok());
}

TEST(GripperTest, LoadsFilesAndErrorsNameThem) {
  const std::string path =
      (std::filesystem::path(testing::TempDir()) / "palmist_gripper_test.yaml").string();
  ASSERT_TRUE(WriteFileAtomic(path,
                              "palmist_gripper: 1\nname: mine\nfinger_length_m: 0.05\n"
                              "finger_thickness_m: 0.01\nheight_m: 0.02\nmax_opening_m: 0.1\n"
                              "palm_depth_m: 0.01\n")
                  .ok());
  EXPECT_EQ(LoadGripper(path).value().name, "mine");
  ASSERT_TRUE(WriteFileAtomic(path, "palmist_gripper: 1\nname: 5\n").ok());
  EXPECT_THAT(LoadGripper(path).error().what(), HasSubstr("palmist_gripper_test.yaml.name"));
  std::filesystem::remove(path);
  EXPECT_THAT(LoadGripper(path).error().what(), HasSubstr("robotiq-2f-85"));
  EXPECT_THAT(LoadGripper("pandas").error().what(), HasSubstr("did you mean panda"));
}

TEST(GripperTest, BoxesAreThoseOfTheHeader) {
  Gripper gripper;
  gripper.finger_length_m = 0.05;
  gripper.finger_thickness_m = 0.01;
  gripper.height_m = 0.02;
  gripper.palm_depth_m = 0.03;
  const auto [left, right, palm] = GripperBoxes(gripper, 0.06, 0.04);
  EXPECT_TRUE(left.lower_m.isApprox(Vector3d(-0.01, -0.04, -0.01)));
  EXPECT_TRUE(left.upper_m.isApprox(Vector3d(0.04, -0.03, 0.01)));
  EXPECT_TRUE(right.lower_m.isApprox(Vector3d(-0.01, 0.03, -0.01)));
  EXPECT_TRUE(right.upper_m.isApprox(Vector3d(0.04, 0.04, 0.01)));
  EXPECT_TRUE(palm.lower_m.isApprox(Vector3d(-0.04, -0.04, -0.01)));
  EXPECT_TRUE(palm.upper_m.isApprox(Vector3d(-0.01, 0.04, 0.01)));
}

TEST(GripperTest, TheMeshEnclosesItsBoxes) {
  Grasp grasp;
  grasp.width_m = 0.06;
  grasp.depth_m = 0.04;
  grasp.R_CG = Eigen::AngleAxisd(0.7, Vector3d(1, 2, 3).normalized()).toRotationMatrix();
  grasp.p_CG = Vector3d(0.1, -0.2, 0.6);
  const Gripper gripper;
  const MeshReport report = Inspect(GripperMesh(gripper, grasp));
  EXPECT_EQ(report.boundary_edges, 0u);  // fingers and palm share edges, which are crowded
  double volume = 0;
  for (const Box& box : GripperBoxes(gripper, grasp.width_m, grasp.depth_m)) {
    volume += (box.upper_m - box.lower_m).prod();
  }
  EXPECT_NEAR(report.volume_m3, volume, 1e-9);
}

}  // namespace
}  // namespace palmist::grasp
