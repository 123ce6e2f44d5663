#include "palmist/grasp/label/label_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numbers>

#include "palmist/base/file.h"
#include "palmist/grasp/core/mesh_shapes.h"
#include "palmist/grasp/formats/test/test_files.h"

namespace palmist::grasp {
namespace {

using ::testing::HasSubstr;

/// Two points, two views, three angles, two depths: 24 candidates.
ObjectLabels SmallLabels() {
  ObjectLabels labels;
  labels.options.views = 2;
  labels.options.angles = 3;
  labels.options.depths = 2;
  labels.options.seed = 5;
  labels.options.rule = ContactRule::kCompat;
  labels.points_O = {Vector3d(0.25, -0.5, 1), Vector3d(0, 0, 0.125)};
  labels.grasps = {{3, 4, 1}, {15, 20, 0}, {23, 1, 10}};
  labels.key = -0x123456789abcdef;
  return labels;
}

TEST(LabelFile, ReadsWhatWasWritten) {
  const Folder folder;
  const std::string path = folder.File("labels.npz");
  const ObjectLabels labels = SmallLabels();
  WriteGraspLabels(path, labels).value();
  const ObjectLabels read = ReadGraspLabels(path).value();
  EXPECT_TRUE(MakeSameLabels(read.options, labels.options));
  EXPECT_EQ(read.points_O, labels.points_O);
  EXPECT_EQ(read.grasps, labels.grasps);
  EXPECT_EQ(read.key, labels.key);
}

TEST(LabelFile, KeepsLabelsOfAnObject) {
  const Folder folder;
  LabelOptions options;
  options.spacing_m = 0.02;
  options.views = 20;
  const ObjectLabels labels = LabelObject(BoxMesh(Vector3d(0.04, 0.06, 0.05)), options).value();
  ASSERT_FALSE(labels.grasps.empty());
  WriteGraspLabels(folder.File("labels.npz"), labels).value();
  const ObjectLabels read = ReadGraspLabels(folder.File("labels.npz")).value();
  EXPECT_EQ(read.points_O, labels.points_O);
  EXPECT_EQ(read.grasps, labels.grasps);
}

TEST(LabelFile, NamesWhatIsWrong) {
  const Folder folder;
  const std::string path = folder.File("labels.npz");
  const auto error_of = [&](const ObjectLabels& labels) -> std::string {
    WriteGraspLabels(path, labels).value();
    const auto read = ReadGraspLabels(path);
    return read.ok() ? "none" : read.error().what();
  };
  EXPECT_EQ(error_of(SmallLabels()), "none");
  ObjectLabels labels = SmallLabels();
  labels.grasps[1].cell = 3;
  EXPECT_THAT(error_of(labels), HasSubstr("labels.npz: cell[1]"));
  labels = SmallLabels();
  labels.grasps[2].cell = 24;
  EXPECT_THAT(error_of(labels), HasSubstr("cell[2]"));
  labels = SmallLabels();
  labels.grasps[0].cell = -1;
  EXPECT_THAT(error_of(labels), HasSubstr("cell[0]"));
  labels = SmallLabels();
  labels.grasps[0].width_steps = 21;
  EXPECT_THAT(error_of(labels), HasSubstr("width_steps[0]"));
  labels = SmallLabels();
  labels.grasps[0].friction_class = 11;
  EXPECT_THAT(error_of(labels), HasSubstr("friction_class[0]"));
  labels = SmallLabels();
  labels.points_O[1].y() = std::numeric_limits<double>::infinity();
  EXPECT_THAT(error_of(labels), HasSubstr("points[1]"));
  labels = SmallLabels();
  labels.options.spacing_m = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(error_of(labels), HasSubstr("spacing_m"));
  labels = SmallLabels();
  labels.options.depths = 9;
  EXPECT_THAT(error_of(labels), HasSubstr("depths"));
  labels = SmallLabels();
  labels.options.views = 100000;
  labels.options.angles = 1000;
  labels.options.depths = 8;
  labels.points_O.resize(3, Vector3d::Zero());
  EXPECT_THAT(error_of(labels), HasSubstr("2^31"));
}

TEST(LabelFile, RefusesOtherArrays) {
  const Folder folder;
  const std::string path = folder.File("labels.npz");
  WriteGraspLabels(path, SmallLabels()).value();
  const NpzArrays arrays = ReadNpz(path).value();
  for (const auto& [name, array] : arrays) {
    NpzArrays changed = arrays;
    changed.erase(name);
    WriteNpz(path, changed).value();
    EXPECT_THAT(ReadGraspLabels(path).error().what(), HasSubstr(name));
    changed[name] = {NpyType::kUint16, {1}, {std::byte{0}, std::byte{0}}};
    WriteNpz(path, changed).value();
    EXPECT_THAT(ReadGraspLabels(path).error().what(), HasSubstr(name));
  }
  NpzArrays changed = arrays;
  changed["width_steps"] = {NpyType::kUint8, {1}, {std::byte{1}}};
  WriteNpz(path, changed).value();
  EXPECT_THAT(ReadGraspLabels(path).error().what(), HasSubstr("1 width_steps"));
  changed = arrays;
  const std::vector<std::int64_t> two = {1, 2};
  changed["key"] = MakeNpyArray<std::int64_t>({2}, two);
  WriteNpz(path, changed).value();
  EXPECT_THAT(ReadGraspLabels(path).error().what(), HasSubstr("key: expected 1, got 2"));
  EXPECT_FALSE(ReadGraspLabels(folder.File("missing.npz")).ok());
}

TEST(LabelFile, RefusesTheVersionWithoutAKey) {
  const Folder folder;
  const std::string path = folder.File("labels.npz");
  WriteGraspLabels(path, SmallLabels()).value();
  NpzArrays arrays = ReadNpz(path).value();
  arrays.erase("key");
  const auto options = arrays["options"].As<double>();
  std::vector<double> numbers(options.begin(), options.end());
  numbers[0] = 1;
  arrays["options"] = MakeNpyArray<double>({std::ssize(numbers)}, numbers);
  WriteNpz(path, arrays).value();
  EXPECT_THAT(ReadGraspLabels(path).error().what(), HasSubstr("version 2"));
}

TEST(LabelFile, SeedsOfTheFuzzerAreOfThisVersion) {
  const std::string folder = PALMIST_SOURCE_DIR "/palmist/grasp/label/testdata/fuzz/grasp_label/";
  for (const char* name : {"stored", "deflated", "empty"}) {
    EXPECT_EQ(Message(ReadGraspLabels(folder + name + ".npz")), "ok");
  }
  EXPECT_THAT(Message(ReadGraspLabels(folder + "beyond.npz")), HasSubstr("cell["));
}

TEST(ToDenseLabels, HasThePublicLayout) {
  const NpzArrays dense = ToDenseLabels(SmallLabels()).value();
  const std::vector<std::int64_t> shape = {2, 2, 3, 2};
  EXPECT_EQ(dense.at("points").shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(dense.at("offsets").shape, (std::vector<std::int64_t>{2, 2, 3, 2, 3}));
  EXPECT_EQ(dense.at("collision").shape, shape);
  EXPECT_EQ(dense.at("scores").shape, shape);
  const auto offsets = dense.at("offsets").As<float>();
  const auto scores = dense.at("scores").As<float>();
  const auto& collision = dense.at("collision").data;
  const std::vector<float> of_3(offsets.begin() + 9, offsets.begin() + 12);
  EXPECT_EQ(of_3, (std::vector<float>{static_cast<float>(std::numbers::pi / 3), 0.02F, 0.02F}));
  EXPECT_EQ(scores[3], 0.1F);
  EXPECT_EQ(scores[15], -1);
  EXPECT_EQ(scores[23], 1.0F);
  EXPECT_EQ(offsets[15 * 3 + 2], 0.1F);
  for (std::size_t cell = 0; cell < 24; ++cell) {
    const bool is_listed = cell == 3 || cell == 15 || cell == 23;
    EXPECT_EQ(collision[cell], is_listed ? std::byte{0} : std::byte{1});
    if (!is_listed) {
      EXPECT_EQ(scores[cell], -1);
      EXPECT_EQ(offsets[3 * cell + 2], 0);
    }
  }
}

TEST(ToDenseLabels, RefusesWhatIsTooLarge) {
  ObjectLabels labels = SmallLabels();
  labels.options.views = 100000;
  labels.options.angles = 1000;
  EXPECT_THAT(ToDenseLabels(labels).error().what(), HasSubstr("sparse"));
}

}  // namespace
}  // namespace palmist::grasp
