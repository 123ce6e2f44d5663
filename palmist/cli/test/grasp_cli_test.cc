#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "palmist/base/file.h"
#include "palmist/base/npy.h"
#include "palmist/cli/test/run_program.h"
#include "palmist/grasp/core/analytic_scene.h"
#include "palmist/grasp/formats/image.h"
#include "palmist/grasp/pipeline/analytic_dataset.h"
#include "tests/support/grasp_golden.h"

namespace palmist::cli {
namespace {

using test::Call;
using test::Ran;
using test::With;
using ::testing::HasSubstr;

/// A box, a cylinder and a sphere on a table, as files.
class GraspCliTest : public ::testing::Test {
 protected:
  void SetUp() override {
    using grasp::ShapeKind;
    const grasp::AnalyticScene scene = {
        {grasp::Standing(ShapeKind::kBox, {0.04, 0.12, 0.08}, -0.12, 0, 0.4),
         grasp::Standing(ShapeKind::kCylinder, {0.05, 0, 0.12}, 0.05, 0.05),
         grasp::Standing(ShapeKind::kSphere, {0.06, 0, 0}, 0.12, -0.1)}};
    const grasp::Intrinsics camera{500, 500, 319.5, 239.5, 640, 480};
    depth_ = grasp::Render(scene, camera, grasp::LookAt({0.1, -0.4, 0.5}, {0, 0, 0})).depth;
    ASSERT_TRUE(grasp::WriteDepthPng(Path("depth.png"), depth_).ok());
    ASSERT_TRUE(
        WriteFileAtomic(Path("depth.npy"),
                        WriteNpy(MakeNpyArray<float>({depth_.height, depth_.width}, depth_.z_m)))
            .ok());
    ASSERT_TRUE(
        WriteFileAtomic(Path("camera.json"), R"({"fx":500,"fy":500,"cx":319.5,"cy":239.5})").ok());
  }

  std::string Path(const std::string& name) const { return folder_.File(name); }

  std::vector<std::string> Detect(const std::string& depth, std::vector<std::string> more) const {
    std::vector<std::string> arguments = {"grasp",
                                          "detect",
                                          "--depth",
                                          Path(depth),
                                          "--camera",
                                          Path("camera.json"),
                                          "--orientation",
                                          "topdown,antipodal"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  grasp::DepthImage depth_;

 private:
  test::Folder folder_;
};

TEST_F(GraspCliTest, MetresAndMillimetresAgree) {
  const Ran metres = Call(Detect("depth.npy", {"--json"}));
  const Ran millimetres = Call(Detect("depth.png", {"--json"}));
  ASSERT_EQ(metres.code, 0) << metres.err;
  ASSERT_EQ(millimetres.code, 0) << millimetres.err;
  const auto a = nlohmann::json::parse(metres.out), b = nlohmann::json::parse(millimetres.out);
  ASSERT_FALSE(a["grasps"].empty());
  EXPECT_EQ(a["frame"], "camera");
  const auto& first = a["grasps"][0];
  EXPECT_EQ(first["rotation"].size(), 9u);
  // Rounding to millimetres moves points, but not to another object.
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(first["translation_m"][i].get<double>(),
                b["grasps"][0]["translation_m"][i].get<double>(),
                0.02);
  }
}

TEST_F(GraspCliTest, AWrongScaleNamesTheOption) {
  const Ran outcome = Call(Detect("depth.png", {"--depth-scale", "1"}));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--depth-scale"));
}

TEST_F(GraspCliTest, HandEyeMovesGraspsToTheBase) {
  ASSERT_TRUE(WriteFileAtomic(Path("pose.txt"), "1 0 0 1\n0 1 0 2\n0 0 1 3\n0 0 0 1\n").ok());
  const auto camera = nlohmann::json::parse(Call(Detect("depth.npy", {"--json"})).out);
  const Ran outcome = Call(Detect("depth.npy", {"--json", "--hand-eye", Path("pose.txt")}));
  ASSERT_EQ(outcome.code, 0) << outcome.err << outcome.out;
  const auto base = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(base["frame"], "base");
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(base["grasps"][0]["translation_m"][i].get<double>(),
                camera["grasps"][0]["translation_m"][i].get<double>() + i + 1,
                1e-9);
  }
}

TEST_F(GraspCliTest, WritesWhatIsAskedFor) {
  const Ran outcome = Call(
      Detect("depth.png", {"-o", Path("grasps.npy"), "--view", Path("view.html"), "--top", "5"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto grasps = ParseNpy(ReadFile(Path("grasps.npy")).value()).value();
  EXPECT_EQ(grasps.shape, (std::vector<std::int64_t>{5, 17}));
  EXPECT_THAT(ReadFile(Path("view.html")).value(), HasSubstr("mesh3d"));
  ASSERT_EQ(Call(Detect("depth.png", {"-o", Path("scene.ply")})).code, 0);
  EXPECT_THAT(ReadFile(Path("scene.ply")).value(), HasSubstr("element face"));
}

TEST_F(GraspCliTest, BadInputSaysHowToMendIt) {
  const auto expect = [](const std::vector<std::string>& arguments, int code, const char* text) {
    const Ran outcome = Call(arguments);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(text));
    EXPECT_EQ(outcome.out, "");
  };
  expect({"grasp", "detect", "--depth", Path("depth.png"), "--camera", Path("camera.json")},
         5,
         "--orientation");
  expect(Detect("none.png", {}), 2, "none.png");
  expect(Detect("camera.json", {}), 2, "camera.json");
  expect(Detect("depth.png", {"--gripper", "nonesuch"}), 2, "nonesuch");
  expect(Detect("depth.png", {"--view", "/nonesuch/view.html"}), 2, "/nonesuch");
  ASSERT_TRUE(grasp::WriteColorPng(Path("small.png"), {2, 1, std::vector<std::uint8_t>(6)}).ok());
  expect(Detect("depth.png", {"--rgb", Path("small.png")}), 2, "640 x 480");
  expect(Detect("depth.png", {"--workspace", Path("small.png")}), 2, "small.png");
  expect({"grasp", "eval"}, 2, "--golden");
  expect({"grasp", "evil"}, 2, "grasp");
  expect({"grasp", "detect", "--dpeth", "x"}, 2, "--depth");
}

TEST_F(GraspCliTest, NumbersOutOfRangeNameTheOption) {
  const auto expect = [](const std::vector<std::string>& arguments, const std::string& option) {
    const Ran outcome = Call(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_THAT(outcome.err, HasSubstr(option));
    EXPECT_THAT(outcome.err, HasSubstr("expected a whole number from"));
  };
  const std::vector<std::string> eval = {"grasp", "eval", "--data", "x", "--dump", "y"};
  const std::vector<std::string> label = {"grasp", "label", "--data", "x"};
  for (const char* seed : {"-1", "9223372036854775808", "99999999999999999999999", "1e3", "0.5"}) {
    expect(With(eval, {"--seed", seed}), "--seed");
    expect(Detect("depth.png", {"--seed", seed}), "--seed");
  }
  for (const char* threads : {"0", "-1", "1025", "4294967297"}) {
    expect(With(eval, {"--jobs", threads}), "--jobs");
    expect(With(label, {"--threads", threads}), "--threads");
    expect(Detect("depth.png", {"--threads", threads}), "--threads");
  }
  EXPECT_EQ(Call(Detect("depth.png", {"--seed", "9223372036854775807", "--threads", "2"})).code, 0);
}

TEST_F(GraspCliTest, OutputsDoNotReplaceInputs) {
  const auto fails_with = [&](std::vector<std::string> more, const std::string& text) {
    const Ran ran = Call(Detect("depth.npy", std::move(more)));
    EXPECT_EQ(ran.code, 2);
    EXPECT_THAT(ran.err, HasSubstr(text));
  };
  fails_with({"-o", Path("grasps.txt")}, ".npy, .json or .ply");
  fails_with({"-o", Path("depth.npy")}, "is an input");
  fails_with({"--view", Path("camera.json")}, "is an input");
  fails_with({"-o", Path("a.json"), "--view", Path("a.json")}, "--view");
}

TEST(GraspDetectCliTest, TheBuiltinSceneNeedsNoFile) {
  const Ran ran =
      Call({"grasp", "detect", "--depth", "builtin", "--orientation", "topdown", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_GE(ran.json()["grasps"].size(), 10u);
}

TEST(GraspEvalCliTest, GoldenVectorsAreEqual) {
  const Ran outcome = Call({"grasp", "eval", "--golden", palmist::test::GraspGolden(), "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err << outcome.out.substr(0, 2000);
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_GT(json["checked"], 40000);
  EXPECT_EQ(json["mismatches"], 0);
}

TEST(GraspLabelCliTest, ABoxIsHeldAcrossItsNarrowSides) {
  const test::Folder folder;
  // 4 x 6 x 12 cm.
  const std::string mesh = folder.Write("box.obj",
                                        "v -0.02 -0.03 -0.06\nv 0.02 -0.03 -0.06\n"
                                        "v -0.02 0.03 -0.06\nv 0.02 0.03 -0.06\n"
                                        "v -0.02 -0.03 0.06\nv 0.02 -0.03 0.06\n"
                                        "v -0.02 0.03 0.06\nv 0.02 0.03 0.06\n"
                                        "f 1 3 4 2\nf 5 6 8 7\nf 1 2 6 5\nf 3 7 8 4\n"
                                        "f 1 5 7 3\nf 2 4 8 6\n");
  const std::vector<std::string> label = {"grasp",
                                          "label",
                                          "--mesh",
                                          mesh,
                                          "--spacing",
                                          "15",
                                          "--views",
                                          "40",
                                          "--angles",
                                          "4",
                                          "--json"};
  const Ran ran = Call(With(label, {"-o", folder.File("box.npz")}));
  ASSERT_EQ(ran.code, 0) << ran.out << ran.err;
  EXPECT_GT(ran.json()["closed_grasps"], 10);
  EXPECT_GE(ran.json()["free_grasps"], ran.json()["closed_grasps"]);
  EXPECT_GT(std::filesystem::file_size(folder.File("box.npz")), 100u);
  // In metres where millimetres were meant: nothing fits between the fingers.
  const Ran huge = Call(With(label, {"-o", folder.File("huge.npz"), "--scale", "1000"}));
  EXPECT_NE(huge.code, 0);
  EXPECT_EQ(Call(label).code, 2);
  EXPECT_EQ(Call({"grasp", "label"}).code, 2);
  EXPECT_EQ(Call(With(label, {"-o", folder.File("x.npz"), "--views", "0"})).code, 2);
  EXPECT_EQ(Call({"grasp", "label", "--data", folder.path().string(), "--shard", "3/2"}).code, 2);
}

/// A dataset of one rendered table with coarse labels.
class GraspDatasetCliTest : public ::testing::Test {
 protected:
  GraspDatasetCliTest() {
    grasp::AnalyticDatasetOptions options;
    options.frames = 2;
    options.camera = grasp::LoadIntrinsics("realsense", 640, 360).value();
    grasp::AnalyticScene scene = grasp::SmallTable(1);
    scene.solids.resize(3);
    grasp::WriteAnalyticDataset(data(), std::span(&scene, 1), options).value();
  }

  std::string data() const { return folder_.File("data"); }

  std::vector<std::string> Detect(std::vector<std::string> more) const {
    std::vector<std::string> arguments = {"grasp", "detect", "--data", data(), "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  test::Folder folder_;
};

TEST_F(GraspDatasetCliTest, LabelsDetectsAndEvaluates) {
  const Ran labels = Call({"grasp", "label", "--data", data(), "--views", "60", "--spacing", "15"});
  ASSERT_EQ(labels.code, 0) << labels.err << labels.out;
  EXPECT_THAT(labels.out, HasSubstr("3 objects labelled"));
  EXPECT_THAT(labels.out, HasSubstr("1 scene labelled"));

  const Ran oracle = Call(Detect({"--scene", "100", "--orientation", "oracle", "--json"}));
  ASSERT_EQ(oracle.code, 0) << oracle.err;
  EXPECT_FALSE(oracle.json()["grasps"].empty());

  const std::string dump = folder_.File("dump");
  const Ran run = Call(Detect({"--orientation", "topdown", "--dump", dump, "--json"}));
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.json()["frames"], 2);
  const Ran eval = Call({"grasp", "eval", "--data", data(), "--dump", dump, "--json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_GT(eval.json()["strict"]["AP"].get<double>(), 0.1);
}

TEST_F(GraspDatasetCliTest, BadInputSaysHowToMendIt) {
  const auto fails_with = [&](std::vector<std::string> more, const std::string& text) {
    const Ran outcome = Call(Detect(std::move(more)));
    EXPECT_NE(outcome.code, 0);
    EXPECT_THAT(outcome.err, HasSubstr(text));
  };
  fails_with({"--scene", "100", "--orientation", "oracle"}, "palmist grasp label --data");
  fails_with({"--orientation", "topdown"}, "--scene");
  fails_with({"--scene", "7", "--orientation", "topdown"}, "scene_0007");
  fails_with({"--scene", "100", "--frame", "9", "--orientation", "topdown"}, "0009.png");
  fails_with({"--scene", "100", "--depth-scale", "1", "--orientation", "topdown"}, "--depth-scale");
  fails_with({"--dump", folder_.File("d"), "-o", folder_.File("o.npy"), "--orientation", "topdown"},
             "leave out --dump");
  const Ran shard = Call({"grasp", "label", "--data", data(), "--shard", "1/2"});
  EXPECT_NE(shard.code, 0);
  EXPECT_THAT(shard.err, HasSubstr("--stage objects"));
}

TEST(GraspBenchCliTest, PrintsItsFigures) {
  const Ran outcome = Call({"grasp", "bench", "--quick", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_GT(json["fas"]["dense_ratio"], 1);
  EXPECT_GT(json["fas"]["one_core_ms_600"], 0);
  EXPECT_GT(json["detect"]["grasps"], 0);
}

}  // namespace
}  // namespace palmist::cli
