#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

#include "palmist/cli/test/run_program.h"
#include "palmist/grasp/core/mesh.h"
#include "palmist/grasp/formats/mesh_file.h"

namespace palmist::cli {
namespace {

using test::Call;
using test::Ran;
using test::With;
using ::testing::HasSubstr;

/// A box of 4 x 6 x 12 cm, and calls that must fail.
class GraspLabelCliTest : public ::testing::Test {
 protected:
  GraspLabelCliTest() { WriteBox(grasp::Vector3d::Zero()); }

  void WriteBox(const grasp::Vector3d& middle) const {
    const grasp::Vector3d half(0.02, 0.03, 0.06);
    grasp::WriteObj(mesh(), grasp::BoxMesh({middle - half, middle + half})).value();
  }

  std::string mesh() const { return folder_.File("box.obj"); }
  std::string output() const { return folder_.File("box.npz"); }

  std::vector<std::string> OfMesh(std::initializer_list<std::string> more) const {
    return With({"grasp", "label", "--mesh", mesh(), "-o", output()}, more);
  }
  std::vector<std::string> OfData(std::initializer_list<std::string> more) const {
    return With({"grasp", "label", "--data", folder_.path().string()}, more);
  }

  /// Returns what the call printed as its error.
  std::string Fails(const std::vector<std::string>& arguments) const {
    const Ran ran = Call(arguments);
    EXPECT_EQ(ran.code, 2) << ran.out << ran.err;
    EXPECT_FALSE(std::filesystem::exists(output()));
    return ran.err;
  }

  test::Folder folder_;
};

TEST_F(GraspLabelCliTest, OptionsOfOneObjectAreRefusedForADataset) {
  EXPECT_THAT(Fails(OfData({"--scale", "0.001"})), HasSubstr("--scale: goes with --mesh"));
  EXPECT_THAT(Fails(OfData({"-o", output()})), HasSubstr("--output: goes with --mesh"));
  EXPECT_THAT(Fails(OfData({"--dense"})), HasSubstr("--dense: goes with --mesh"));
}

TEST_F(GraspLabelCliTest, OptionsOfADatasetAreRefusedForOneObject) {
  EXPECT_THAT(Fails(OfMesh({"--shard", "1/1"})), HasSubstr("--shard: goes with --data"));
  EXPECT_THAT(Fails(OfMesh({"--stage", "all"})), HasSubstr("--stage: goes with --data"));
}

TEST_F(GraspLabelCliTest, NumbersOutOfRangeNameTheOptionAndItsUnit) {
  EXPECT_THAT(Fails(OfMesh({"--scale", "nan"})), HasSubstr("--scale: expected"));
  EXPECT_THAT(Fails(OfMesh({"--scale", "0"})), HasSubstr("--scale: expected"));
  for (const char* spacing : {"0.09", "1001", "nan"}) {
    EXPECT_THAT(Fails(OfMesh({"--spacing", spacing})),
                HasSubstr("--spacing: expected 0.1 to 1000 mm"));
  }
}

TEST_F(GraspLabelCliTest, AMeshThatCannotBeLabelledIsNamed) {
  const std::string huge = Fails(OfMesh({"--scale", "1000"}));
  EXPECT_THAT(huge, HasSubstr(mesh()));
  EXPECT_THAT(huge, HasSubstr("a model is in metres; --scale 0.001 for millimetres"));
  WriteBox({1e6, 0, 0});
  const std::string far = Fails(OfMesh({}));
  EXPECT_THAT(far, HasSubstr(mesh()));
  EXPECT_THAT(far, HasSubstr("centre"));
}

// Without a check on the way the work would take far longer.
TEST_F(GraspLabelCliTest, ASignalStopsWithinTheObject) {
  EXPECT_EXIT(
      test::CallUntilInterrupted(
          OfMesh({"--spacing", "50", "--views", "100000", "--angles", "1000", "--depths", "1"}),
          std::chrono::milliseconds(500)),
      ::testing::ExitedWithCode(130),
      "");
  EXPECT_FALSE(std::filesystem::exists(output()));
}

}  // namespace
}  // namespace palmist::cli
