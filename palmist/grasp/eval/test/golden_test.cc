#include "palmist/grasp/eval/golden.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <vector>

#include "palmist/base/file.h"
#include "palmist/base/npy.h"
#include "tests/support/grasp_golden.h"

namespace palmist::grasp {
namespace {

namespace fs = std::filesystem;

TEST(GoldenTest, EveryVectorIsEqual) {
  const GoldenReport report = CheckGolden(test::GraspGolden()).value();
  EXPECT_GT(report.checked, 50'000);
  EXPECT_EQ(report.mismatches, 0);
  for (const std::string& failure : report.failures) ADD_FAILURE() << failure;
}

/// Adds `delta` to the first element of a file of doubles.
void Alter(const fs::path& path, double delta) {
  NpyArray array = ParseNpy(ReadFile(path.string()).value()).value();
  double value = array.As<double>()[0];
  value += delta;
  std::memcpy(array.data.data(), &value, sizeof(value));
  WriteFileAtomic(path.string(), WriteNpy(array)).value();
}

TEST(GoldenTest, AnAlteredVectorIsNoticed) {
  const fs::path copy = fs::path(testing::TempDir()) / "altered_golden";
  fs::remove_all(copy);
  fs::copy(test::GraspGolden(), copy, fs::copy_options::recursive);
  for (const auto& entry : fs::recursive_directory_iterator(copy)) {
    fs::permissions(entry, fs::perms::owner_all, fs::perm_options::add);
  }
  fs::permissions(copy, fs::perms::owner_all, fs::perm_options::add);
  const std::vector<fs::path> altered = {"unit/closure_score.npy",
                                         "scenes/scene_0100/frame_0000/score.npy",
                                         "scenes/scene_0101/accuracy.npy"};
  for (const fs::path& file : altered) Alter(copy / file, 0.1);
  const GoldenReport report = CheckGolden(copy.string()).value();
  EXPECT_EQ(report.mismatches, 3);
  ASSERT_EQ(report.failures.size(), 3u);
  EXPECT_EQ(report.failures[0].rfind("unit/closure_score, row 0: got ", 0), 0u)
      << report.failures[0];

  fs::remove(copy / "unit" / "closure_score.npy");
  const auto without = CheckGolden(copy.string());
  ASSERT_FALSE(without.ok());
  EXPECT_NE(std::string(without.error().what()).find("closure_score.npy"), std::string::npos);
  fs::remove_all(copy);
}

TEST(GoldenErrorsTest, AMissingFolderIsNamed) {
  for (const bool is_ok : {CheckGolden("/nowhere").ok(), ReadGoldenScenes("/nowhere").ok()}) {
    EXPECT_FALSE(is_ok);
  }
  EXPECT_NE(std::string(CheckGolden("/nowhere").error().what()).find("/nowhere"),
            std::string::npos);
}

}  // namespace
}  // namespace palmist::grasp
