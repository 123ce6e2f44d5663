#include "palmist/grasp/formats/mat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <matio.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "test_files.h"

namespace palmist::grasp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Mat, ReadsScipysFiles) {
  for (const char* name : {"files/plain.mat", "files/compressed.mat", "files/one_object.mat"}) {
    const auto meta = ReadFrameMeta(TestData(name));
    ASSERT_TRUE(meta.ok()) << Message(meta);
    Matrix3d K;
    K << 927.17, 0, 651.32, 0, 927.37, 349.62, 0, 0, 1;
    EXPECT_EQ(meta->intrinsic_matrix, K);
    EXPECT_EQ(meta->factor_depth, 1000);
    // Pose i is [:, :, i] of numpy.arange(24).reshape(3, 4, 2).
    Eigen::Matrix<double, 3, 4> pose;
    pose << 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22;
    EXPECT_EQ(meta->poses.at(0), pose);
    EXPECT_EQ(meta->cls_indexes.at(0), 6);
    if (meta->poses.size() == 1) continue;
    EXPECT_EQ(meta->poses.at(1), (pose.array() + 1).matrix());
    EXPECT_THAT(meta->cls_indexes, ElementsAre(6, 2));
  }
  EXPECT_EQ(ReadFrameMeta(TestData("files/one_object.mat"))->poses.size(), 1U);
}

FrameMeta Example() {
  FrameMeta meta;
  meta.intrinsic_matrix << 631.55, 0, 638.43, 0, 631.21, 366.5, 0, 0, 1;
  meta.factor_depth = 4000;
  meta.cls_indexes = {1, 20, 88};
  for (int i = 0; i < 3; ++i) {
    meta.poses.emplace_back(Eigen::Matrix<double, 3, 4>::Constant(i + 1.0 / 3));
    meta.poses.back()(1, 2) = -i;
  }
  return meta;
}

TEST(Mat, SurvivesWritingAndReading) {
  const Folder folder;
  for (const std::size_t objects : {0, 1, 3}) {
    FrameMeta meta = Example();
    meta.cls_indexes.resize(objects);
    meta.poses.resize(objects);
    ASSERT_TRUE(WriteFrameMeta(folder.File("a.mat"), meta).ok());
    const auto again = ReadFrameMeta(folder.File("a.mat"));
    ASSERT_TRUE(again.ok()) << Message(again);
    EXPECT_EQ(again->intrinsic_matrix, meta.intrinsic_matrix);
    EXPECT_EQ(again->factor_depth, meta.factor_depth);
    EXPECT_EQ(again->cls_indexes, meta.cls_indexes);
    EXPECT_EQ(again->poses, meta.poses);
  }
}

TEST(Mat, MatioReadsWhatWeWrite) {
  const Folder folder;
  const FrameMeta meta = Example();
  ASSERT_TRUE(WriteFrameMeta(folder.File("a.mat"), meta).ok());
  const std::unique_ptr<mat_t, int (*)(mat_t*)> file(
      Mat_Open((folder.File("a.mat")).c_str(), MAT_ACC_RDONLY), Mat_Close);
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(Mat_GetVersion(file.get()), MAT_FT_MAT5);
  const std::unique_ptr<matvar_t, void (*)(matvar_t*)> poses(Mat_VarRead(file.get(), "poses"),
                                                             Mat_VarFree);
  ASSERT_NE(poses, nullptr);
  ASSERT_EQ(poses->class_type, MAT_C_DOUBLE);
  ASSERT_EQ(poses->rank, 3);
  EXPECT_THAT(std::vector<std::size_t>(poses->dims, poses->dims + 3), ElementsAre(3, 4, 3));
  const auto* values = static_cast<const double*>(poses->data);
  EXPECT_EQ(values[2 * 12 + 2 * 3 + 1], meta.poses[2](1, 2));
  const std::unique_ptr<matvar_t, void (*)(matvar_t*)> factor(
      Mat_VarRead(file.get(), "factor_depth"), Mat_VarFree);
  ASSERT_NE(factor, nullptr);
  EXPECT_EQ(*static_cast<const double*>(factor->data), 4000);
}

std::string Written() {
  const Folder folder;
  WriteFrameMeta(folder.File("a.mat"), Example()).value();
  return ReadFile(folder.File("a.mat")).value();
}

TEST(Mat, SaysWhatIsWrong) {
  EXPECT_THAT(Message(ParseFrameMeta("")), HasSubstr("level 5"));
  std::string bytes = Written();
  bytes[125] = 2;  // Version 7.3 is HDF5.
  EXPECT_THAT(Message(ParseFrameMeta(bytes)), HasSubstr("level 5"));
  bytes = Written();
  bytes[bytes.find("poses")] = 'q';
  EXPECT_THAT(Message(ParseFrameMeta(bytes)), HasSubstr("poses: is missing"));
  bytes = Written();
  const std::size_t matrix = bytes.find("intrinsic_matrix");
  const double infinity = std::numeric_limits<double>::infinity();
  std::memcpy(bytes.data() + matrix + 16 + 8, &infinity, sizeof(infinity));
  EXPECT_THAT(Message(ParseFrameMeta(bytes)), HasSubstr("intrinsic_matrix: expected finite"));
  bytes = Written();
  bytes[matrix - 16] = 9;  // The first size: 9 x 3.
  EXPECT_THAT(Message(ParseFrameMeta(bytes)), HasSubstr("expected 27 values for its shape, got 9"));
  EXPECT_THAT(Message(ReadFrameMeta("/nowhere/a.mat")), HasSubstr("/nowhere/a.mat"));
}

TEST(Mat, EveryTruncationIsAnError) {
  for (const std::string& bytes : {Written(), ReadFile(TestData("files/compressed.mat")).value()}) {
    // The last variable of the compressed file is not one of ours.
    const std::size_t needed = bytes.size() - (bytes == Written() ? 0 : 100);
    for (std::size_t size = 0; size < needed; ++size) {
      EXPECT_FALSE(ParseFrameMeta(bytes.substr(0, size)).ok()) << size;
    }
  }
}

}  // namespace
}  // namespace palmist::grasp
