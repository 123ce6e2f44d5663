#include "palmist/grasp/core/camera.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <numbers>

#include "palmist/base/file.h"
#include "palmist/base/npy.h"
#include "palmist/base/rng.h"
#include "palmist/grasp/core/test/random_rotation.h"

namespace palmist::grasp {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
const Intrinsics kCamera = {500, 510, 320, 240, 640, 480};

/// Returns the message, or "" where there is a value.
template <typename T>
std::string MessageOf(const Result<T>& result) {
  return result.ok() ? "" : result.error().what();
}

template <typename T>
std::string NpyBytes(std::vector<std::int64_t> shape, const std::vector<T>& values) {
  return WriteNpy(MakeNpyArray<T>(std::move(shape), values));
}

void ExpectIsCamera(const Result<Intrinsics>& camera) {
  ASSERT_EQ(MessageOf(camera), "");
  EXPECT_EQ(camera->fx, 500);
  EXPECT_EQ(camera->fy, 510);
  EXPECT_EQ(camera->cx, 320);
  EXPECT_EQ(camera->cy, 240);
  EXPECT_EQ(camera->width, 640);
  EXPECT_EQ(camera->height, 480);
}

TEST(CheckIntrinsicsTest, NamesTheField) {
  const auto message_with = [](double Intrinsics::*field, double value) {
    Intrinsics camera = kCamera;
    camera.*field = value;
    return MessageOf(CheckIntrinsics(camera, 640, 480));
  };
  EXPECT_EQ(message_with(&Intrinsics::fx, 1), "");
  for (const double bad : {0.0, -500.0, double{kNan}, double{kInfinity}}) {
    EXPECT_THAT(message_with(&Intrinsics::fx, bad), HasSubstr("fx: expected"));
    EXPECT_THAT(message_with(&Intrinsics::fy, bad), HasSubstr("fy: expected"));
  }
  for (const double bad : {-1.0, 640.0, double{kNan}, double{kInfinity}}) {
    EXPECT_THAT(message_with(&Intrinsics::cx, bad), HasSubstr("cx: expected"));
    EXPECT_THAT(message_with(&Intrinsics::cy, bad), HasSubstr("cy: expected"));
  }
  EXPECT_THAT(MessageOf(CheckIntrinsics(kCamera, 641, 480)), HasSubstr("width: expected"));
  EXPECT_THAT(MessageOf(CheckIntrinsics(kCamera, 640, 720)), HasSubstr("height: expected"));
  EXPECT_FALSE(CheckIntrinsics({1, 1, 0, 0, 0, 0}, 0, 0).ok());
  EXPECT_TRUE(CheckIntrinsics({1, 1, 0, 0, 1, 1}, 1, 1).ok());
}

TEST(CheckIntrinsicsTest, FindsSwappedNumbers) {
  // fx cx fy cy instead of fx fy cx cy, and cx cy fx fy.
  EXPECT_FALSE(CheckIntrinsics({927.17, 651.32, 927.37, 349.62, 1280, 720}, 900, 720).ok());
  EXPECT_THAT(MessageOf(CheckIntrinsics({651.32, 349.62, 927.17, 927.37, 1280, 720}, 1280, 720)),
              AllOf(HasSubstr("cy"), HasSubstr("in this order")));
}

TEST(LoadIntrinsicsTest, HasPresets) {
  const Intrinsics realsense = LoadIntrinsics("realsense", 1280, 720).value();
  EXPECT_EQ(realsense.fx, 927.17);
  EXPECT_EQ(realsense.fy, 927.37);
  EXPECT_EQ(realsense.cx, 651.32);
  EXPECT_EQ(realsense.cy, 349.62);
  const Intrinsics kinect = LoadIntrinsics("kinect", 1280, 720).value();
  EXPECT_EQ(kinect.fx, 631.55);
  EXPECT_EQ(kinect.fy, 631.21);
  EXPECT_EQ(kinect.cx, 638.43);
  EXPECT_EQ(kinect.cy, 366.50);
}

TEST(LoadIntrinsicsTest, ScalesPresetsSoThatRaysStay) {
  const Intrinsics full = LoadIntrinsics("realsense", 1280, 720).value();
  const Intrinsics half = LoadIntrinsics("realsense", 640, 360).value();
  EXPECT_EQ(half.width, 640);
  EXPECT_EQ(half.height, 360);
  EXPECT_NEAR(half.fx, full.fx / 2, 1e-12);
  // The border between the second and third pixel is that between the first and second one.
  EXPECT_NEAR((1.5 - full.cx) / full.fx, (0.5 - half.cx) / half.fx, 1e-12);
  EXPECT_NEAR((1.5 - full.cy) / full.fy, (0.5 - half.cy) / half.fy, 1e-12);
  EXPECT_TRUE(LoadIntrinsics("kinect", 1366, 768).ok()) << "16:9 but for rounding";
  EXPECT_THAT(MessageOf(LoadIntrinsics("realsense", 640, 480)), HasSubstr("640x480"));
}

TEST(ParseIntrinsicsTest, TakesEveryForm) {
  const auto parse = [](const std::string& bytes) { return ParseIntrinsics(bytes, 640, 480); };
  ExpectIsCamera(parse("fx: 500\nfy: 510\ncx: 320\ncy: 240\n"));
  ExpectIsCamera(parse(R"({"fx": 500, "fy": 510, "cx": 320, "cy": 240, "width": 640})"));
  ExpectIsCamera(parse("500 0 320\n0 510 240\n0 0 1\n"));
  ExpectIsCamera(parse("5e2, 0, 320, 0, 510, 240, 0, 0, 1"));
  ExpectIsCamera(parse("[[500, 0, 320], [0, 510, 240], [0, 0, 1]]"));
  ExpectIsCamera(parse("intrinsic_matrix: [[500, 0, 320], [0, 510, 240], [0, 0, 1]]"));
  ExpectIsCamera(parse(R"({"width": 640, "height": 480,
      "intrinsic_matrix": [500, 0, 0, 0, 510, 0, 320, 240, 1]})"));
  const std::vector<double> values = {500, 0, 320, 0, 510, 240, 0, 0, 1};
  ExpectIsCamera(parse(NpyBytes(std::vector<std::int64_t>{3, 3}, values)));
  ExpectIsCamera(parse(NpyBytes({3, 3}, std::vector<float>(values.begin(), values.end()))));
}

TEST(ParseIntrinsicsTest, SaysWhatIsWrong) {
  const auto message = [](const std::string& bytes) {
    return MessageOf(ParseIntrinsics(bytes, 640, 480));
  };
  EXPECT_THAT(message("fx: 500\nfy: 510\ncx: 320\n"), HasSubstr("cy"));
  EXPECT_THAT(message("fx: wide\nfy: 510\ncx: 320\ncy: 240\n"), HasSubstr("fx"));
  EXPECT_THAT(message("0 0 320 0 510 240 0 0 1"), HasSubstr("fx: expected a focal length"));
  EXPECT_THAT(message("0 0 0 0 0 0 0 0 0"), HasSubstr("0 0 1"));
  EXPECT_THAT(message("500 1 320 0 510 240 0 0 1"), HasSubstr("skew"));
  EXPECT_THAT(message("500 0 320 0 510 240 0 0 2"), HasSubstr("0 0 1"));
  EXPECT_THAT(message("500 0 nan 0 510 240 0 0 1"), HasSubstr("finite"));
  EXPECT_THAT(message("500 0 320"), HasSubstr("3x3"));
  EXPECT_THAT(message("[[500, 0], [0, 510]]"), HasSubstr("3x3"));
  EXPECT_THAT(message("intrinsic_matrix: none"), HasSubstr("intrinsic_matrix: expected a 3x3"));
  EXPECT_THAT(message("width: 1280\nfx: 500\nfy: 510\ncx: 320\ncy: 240\n"), HasSubstr("width"));
  EXPECT_THAT(message("width: 0\nfx: 500\nfy: 510\ncx: 320\ncy: 240\n"), HasSubstr("width"));
  EXPECT_THAT(message(NpyBytes<std::int32_t>({3, 3}, std::vector<int>(9))), HasSubstr("<i4"));
  EXPECT_NE(message(""), "");
  EXPECT_NE(message("{"), "");
  EXPECT_NE(message("5"), "");
  EXPECT_NE(message("\x93NUMPY"), "");
}

TEST(LoadIntrinsicsTest, ErrorsNameTheFileAndThePresets) {
  EXPECT_THAT(MessageOf(LoadIntrinsics("realsens", 1280, 720)),
              AllOf(HasSubstr("realsens"), HasSubstr("kinect")));
  const std::string path =
      (std::filesystem::path(testing::TempDir()) / "palmist_camera_test.txt").string();
  ASSERT_TRUE(WriteFileAtomic(path, "500 0 320 0 510 240 0 0 1").ok());
  ExpectIsCamera(LoadIntrinsics(path, 640, 480));
  EXPECT_THAT(MessageOf(LoadIntrinsics(path, 64, 48)), HasSubstr("palmist_camera_test.txt.cx"));
  std::filesystem::remove(path);
}

TEST(DepthFromValuesTest, MakesMetres) {
  const DepthImage depth = DepthFromValues(3, 1, {500, 0, 750}, 1000).value();
  EXPECT_EQ(depth.width, 3);
  EXPECT_EQ(depth.height, 1);
  EXPECT_THAT(depth.z_m, testing::ElementsAre(0.5F, 0, 0.75F));
  EXPECT_EQ(depth.at(2, 0), 0.75F);
}

TEST(DepthFromValuesTest, WhatIsNoDepthBecomesZero) {
  const DepthImage depth =
      DepthFromValues(2, 3, {kNan, kInfinity, -kInfinity, -1, 1, -0.0F}, 1).value();
  EXPECT_THAT(depth.z_m, testing::ElementsAre(0, 0, 0, 0, 1, 0));
  EXPECT_FALSE(std::signbit(depth.z_m[5]));
}

TEST(DepthFromValuesTest, TheMedianMustBePlausible) {
  EXPECT_TRUE(DepthFromValues(1, 1, {0.11F}, 1).ok());
  EXPECT_TRUE(DepthFromValues(1, 1, {4.9F}, 1).ok());
  EXPECT_THAT(MessageOf(DepthFromValues(1, 1, {0.09F}, 1)), HasSubstr("--depth-scale"));
  EXPECT_THAT(MessageOf(DepthFromValues(1, 1, {5.1F}, 1)), HasSubstr("--depth-scale"));
  EXPECT_TRUE(DepthFromValues(5, 1, {0.5F, 0.6F, 0.7F, 60, 0.01F}, 1).ok());
  EXPECT_TRUE(DepthFromValues(5, 1, {0, 0, 0, 0, 0.5F}, 1).ok()) << "pixels without depth";
  EXPECT_FALSE(DepthFromValues(5, 1, {0.5F, 0.6F, 60, 70, 80}, 1).ok());
}

TEST(DepthFromValuesTest, ErrorsNameTheOptionAndItsValue) {
  EXPECT_THAT(MessageOf(DepthFromValues(3, 1, {480, 500, 520}, 1)),
              AllOf(HasSubstr("got 500 m"), HasSubstr("--depth-scale 1000 would make it 0.5 m")));
  EXPECT_THAT(MessageOf(DepthFromValues(1, 1, {0.5F}, 1000)),
              HasSubstr("--depth-scale 1 would make it 0.5 m"));
  EXPECT_THAT(MessageOf(DepthFromValues(1, 1, {1e30F}, 1)), HasSubstr("--depth-scale"));
  EXPECT_THAT(MessageOf(DepthFromValues(2, 1, {0, kNan}, 1000)),
              AllOf(HasSubstr("no pixel"), HasSubstr("--depth-scale")));
  EXPECT_THAT(MessageOf(DepthFromValues(0, 0, {}, 1000)), HasSubstr("no pixel"));
  for (const double scale : {0.0, -1000.0, double{kNan}, double{kInfinity}})
    EXPECT_THAT(MessageOf(DepthFromValues(1, 1, {1}, scale)), HasSubstr("--depth-scale"));
  EXPECT_THAT(MessageOf(DepthFromValues(1, 1, {1}, 1e-300)), HasSubstr("--depth-scale"));
}

TEST(CloudFromDepthTest, ProjectsBackToItsPixels) {
  DepthImage depth{640, 480, std::vector<float>(640 * 480)};
  Rng rng(1);
  std::size_t with_depth = 0;
  for (float& z_m : depth.z_m) {
    z_m = rng.Uniform() < 0.5 ? 0 : static_cast<float>(0.3 + rng.Uniform());
    with_depth += z_m > 0;
  }
  const PointCloud cloud = CloudFromDepth(depth, kCamera);
  ASSERT_EQ(cloud.size(), with_depth);
  EXPECT_TRUE(cloud.colors.empty());
  std::size_t next = 0;
  for (int v = 0; v < 480; ++v) {
    for (int u = 0; u < 640; ++u) {
      if (depth.at(u, v) == 0) continue;
      const Vector3d& point = cloud.points[next++];
      ASSERT_EQ(point.z(), double{depth.at(u, v)});
      ASSERT_NEAR(kCamera.fx * point.x() / point.z() + kCamera.cx, u, 1e-9);
      ASSERT_NEAR(kCamera.fy * point.y() / point.z() + kCamera.cy, v, 1e-9);
    }
  }
}

TEST(CloudFromDepthTest, TakesColours) {
  const DepthImage depth{2, 1, {0, 1}};
  const ColorImage color{2, 1, {1, 2, 3, 4, 5, 6}};
  const PointCloud cloud = CloudFromDepth(depth, {1, 1, 0, 0, 2, 1}, &color);
  ASSERT_EQ(cloud.size(), 1U);
  EXPECT_EQ(cloud.points[0], Vector3d(1, 0, 1));
  EXPECT_EQ(cloud.colors, (std::vector<std::array<std::uint8_t, 3>>{{4, 5, 6}}));
  const ColorImage other{1, 1, {1, 2, 3}};
  EXPECT_THROW(CloudFromDepth(depth, kCamera, &other), Error);
}

TEST(CloudFromDepthTest, TakesSmallAndEmptyImages) {
  EXPECT_EQ(CloudFromDepth({1, 1, {0.5F}}, {1, 1, 0, 0, 1, 1}).points,
            (std::vector<Vector3d>{{0, 0, 0.5}}));
  EXPECT_EQ(CloudFromDepth({1, 1, {0}}, {1, 1, 0, 0, 1, 1}).size(), 0U);
  EXPECT_EQ(CloudFromDepth({}, {}).size(), 0U);
}

TEST(MedianDepthTest, CountsPixelsWithDepthOnly) {
  const DepthImage depth{3, 3, {0, 1, 2, 3, 0, 4, 5, 6, 7}};
  EXPECT_EQ(MedianDepth(depth, 1, 1, 0), 0);
  EXPECT_EQ(MedianDepth(depth, 1, 1, 1), 4);
  EXPECT_EQ(MedianDepth(depth, 0, 0, 1), 1) << "the nearer of 1 and 3";
  EXPECT_EQ(MedianDepth(depth, 2, 2, 0), 7);
  constexpr int kMax = std::numeric_limits<int>::max();
  EXPECT_EQ(MedianDepth(depth, 1, 1, kMax), 4);
  EXPECT_EQ(MedianDepth(depth, kMax, kMax, 5), 0);
  EXPECT_EQ(MedianDepth(depth, -kMax, -1, 1), 0);
  EXPECT_EQ(MedianDepth(depth, -1, -1, 2), 1);
  EXPECT_EQ(MedianDepth({}, 0, 0, 1), 0);
}

TEST(HandEyeTest, TakesEveryForm) {
  const Isometry3d expected = Eigen::Translation3d(0.1, 0.2, 0.3) *
                              Eigen::AngleAxisd(std::numbers::pi / 2, Vector3d::UnitZ());
  const std::string nested = "[[0, -1, 0, 0.1], [1, 0, 0, 0.2], [0, 0, 1, 0.3], [0, 0, 0, 1]]";
  std::string flat = nested;
  std::erase_if(flat, [](char c) { return c == '[' || c == ']'; });
  const std::vector<double> values = {0, -1, 0, 0.1, 1, 0, 0, 0.2, 0, 0, 1, 0.3, 0, 0, 0, 1};
  for (const std::string& bytes : {nested,
                                   flat,
                                   NpyBytes(std::vector<std::int64_t>{4, 4}, values),
                                   std::string("translation_m: [0.1, 0.2, 0.3]\n"
                                               "quaternion_wxyz: [0.70710678, 0, 0, 0.70710678]\n"),
                                   std::string(R"({"translation_m": [0.1, 0.2, 0.3],
                        "quaternion_wxyz": [0.7071, 0, 0, 0.7071]})")}) {
    const Result<Isometry3d> pose = ParseHandEye(bytes);
    ASSERT_EQ(MessageOf(pose), "");
    EXPECT_LT((pose->matrix() - expected.matrix()).norm(), 1e-15) << bytes;
  }
}

TEST(HandEyeTest, TheRotationIsExact) {
  Rng rng(1);
  const Matrix3d R = RandomRotation(rng);
  std::string text;
  for (int row = 0; row < 3; ++row)
    text += fmt::format("{:.4f} {:.4f} {:.4f} 0\n", R(row, 0), R(row, 1), R(row, 2));
  const Isometry3d pose = ParseHandEye(text + "0 0 0 1").value();
  EXPECT_TRUE(CheckRotation(pose.linear(), "R", 1e-14).ok());
  EXPECT_LT(RotationAngle(pose.linear(), R), 1e-3);
}

TEST(HandEyeTest, SaysWhatIsWrong) {
  const auto message = [](const std::string& bytes) { return MessageOf(ParseHandEye(bytes)); };
  EXPECT_THAT(message("translation_m: [0, 0]\nquaternion_wxyz: [1, 0, 0, 0]"),
              HasSubstr("translation_m: expected 3 numbers"));
  EXPECT_THAT(message("translation_m: [0, 0, 0]\nquaternion_wxyz: [1, 0, 0]"),
              HasSubstr("quaternion_wxyz: expected 4 numbers"));
  EXPECT_THAT(message("translation_m: [0, 0, 0]\nquaternion_wxyz: [2, 0, 0, 0]"),
              HasSubstr("quaternion_wxyz: expected a length of 1"));
  EXPECT_THAT(message("translation_m: [0, 0, 0]"), HasSubstr("quaternion_wxyz"));
  EXPECT_THAT(message("translation_m: [500, 0, 0]\nquaternion_wxyz: [1, 0, 0, 0]"),
              HasSubstr("metres"));
  EXPECT_THAT(message("1 0 0 0 0 1 0 0 0 0 1 0"), HasSubstr("4x4"));
  EXPECT_THAT(message("1 0 0 0 0 1 0 0 0 0 1 0 1 2 3 1"), HasSubstr("last row"));
  EXPECT_THAT(message("0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1"), HasSubstr("rotation"));
  EXPECT_NE(message(""), "");
}

TEST(HandEyeTest, ErrorsNameTheFile) {
  const std::string path =
      (std::filesystem::path(testing::TempDir()) / "palmist_hand_eye_test.txt").string();
  EXPECT_THAT(MessageOf(LoadHandEye(path)), HasSubstr("palmist_hand_eye_test.txt"));
  ASSERT_TRUE(WriteFileAtomic(path, "1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1").ok());
  EXPECT_EQ(LoadHandEye(path).value().matrix(), Matrix4d::Identity());
  ASSERT_TRUE(WriteFileAtomic(path, "1 2 3").ok());
  EXPECT_THAT(MessageOf(LoadHandEye(path)), HasSubstr("palmist_hand_eye_test.txt: expected"));
  std::filesystem::remove(path);
}

TEST(FitIntrinsicsTest, FindsTheCameraOfACloud) {
  const Intrinsics camera = {525, 530, 310.5, 250, 640, 480};
  DepthImage depth{640, 480, std::vector<float>(640 * 480, 0.0F)};
  Rng rng(1);
  for (int i = 0; i < 5000; ++i) {
    depth.z_m[rng.Integer(std::ssize(depth.z_m))] = static_cast<float>(0.5 + rng.Uniform());
  }
  std::vector<Vector3d> points = CloudFromDepth(depth, camera).points;
  const std::optional<Intrinsics> fit = FitIntrinsics(depth, points);
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->fx, camera.fx, 1e-3);
  EXPECT_NEAR(fit->fy, camera.fy, 1e-3);
  EXPECT_NEAR(fit->cx, camera.cx, 1e-3);
  EXPECT_NEAR(fit->cy, camera.cy, 1e-3);

  // A cloud in another frame has no such camera, nor one of another number of points.
  for (Vector3d& point : points) std::swap(point.x(), point.y());
  EXPECT_FALSE(FitIntrinsics(depth, points));
  points.pop_back();
  EXPECT_FALSE(FitIntrinsics(depth, points));
  EXPECT_FALSE(FitIntrinsics(DepthImage{2, 1, {1, 1}}, std::vector<Vector3d>(2)));
}

}  // namespace
}  // namespace palmist::grasp
