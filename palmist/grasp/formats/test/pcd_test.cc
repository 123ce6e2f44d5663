#include "palmist/grasp/formats/pcd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "test_files.h"

namespace palmist::grasp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kAscii =
    "# comment\nVERSION .7\nFIELDS x y z intensity rgb\nSIZE 4 4 8 1 4\nTYPE F F F I U\n"
    "COUNT 1 1 1 2 1\nWIDTH 2\nHEIGHT 2\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS 4\nDATA ascii\n"
    "1 2 3 7 7 16711935\nnan nan nan 0 0 0\n-1 0 0.5 0 0 255\r\n4 5 -6 0 0 4278190081\n";

std::string Replaced(const std::string& from, const std::string& to) {
  std::string text(kAscii);
  return text.replace(text.find(from), from.size(), to);
}

TEST(Pcd, ReadsAscii) {
  const auto pcd = ParsePcd(kAscii);
  ASSERT_TRUE(pcd.ok()) << Message(pcd);
  EXPECT_EQ(pcd->width, 2);
  EXPECT_EQ(pcd->height, 2);
  EXPECT_THAT(pcd->cloud.points,
              ElementsAre(Vector3d(1, 2, 3), Vector3d(-1, 0, 0.5), Vector3d(4, 5, -6)));
  EXPECT_THAT(pcd->cloud.colors,
              ElementsAre(ElementsAre(255, 0, 255), ElementsAre(0, 0, 255), ElementsAre(0, 0, 1)));
  EXPECT_EQ(pcd->depth.width, 2);
  EXPECT_EQ(pcd->depth.height, 2);
  // Behind the camera there is no depth.
  EXPECT_THAT(pcd->depth.z_m, ElementsAre(3.0F, 0.0F, 0.5F, 0.0F));
}

TEST(Pcd, ReadsColoursPackedAsFloats) {
  const auto pcd = ParsePcd(
      "FIELDS x y z rgb\nSIZE 4 4 4 4\nTYPE F F F F\nWIDTH 1\nHEIGHT 1\nDATA ascii\n"
      "0 0 1 9.25536616e-39\n");  // The float whose bits are 0x0064c832.
  ASSERT_TRUE(pcd.ok()) << Message(pcd);
  EXPECT_THAT(pcd->cloud.colors, ElementsAre(ElementsAre(100, 200, 50)));
  EXPECT_TRUE(pcd->depth.z_m.empty());
}

TEST(Pcd, SaysWhatIsWrong) {
  EXPECT_THAT(Message(ParsePcd("")), HasSubstr("it ends before the line DATA"));
  EXPECT_THAT(Message(ParsePcd(Replaced("FIELDS x", "FIELDS w"))), HasSubstr("x, y and z"));
  EXPECT_THAT(Message(ParsePcd(Replaced("WIDTH 2", "WIDTH 3"))), HasSubstr("is not POINTS 4"));
  EXPECT_THAT(Message(ParsePcd(Replaced("WIDTH 2", "WIDTH -2"))), HasSubstr("WIDTH of 0 to"));
  EXPECT_THAT(Message(ParsePcd(Replaced("TYPE F F F I U", "TYPE F F F I"))), HasSubstr("TYPE"));
  EXPECT_THAT(Message(ParsePcd(Replaced("TYPE F", "TYPE Q"))), HasSubstr("unknown type Q"));
  EXPECT_THAT(Message(ParsePcd(Replaced("DATA ascii", "DATA morse"))), HasSubstr("morse"));
  EXPECT_THAT(Message(ParsePcd(Replaced("4 5 -6 0 0 4278190081\n", ""))), HasSubstr("point 4"));
  EXPECT_THAT(Message(ParsePcd(Replaced("0.5", "a"))), HasSubstr("point 3 holds \"a\", no number"));
  EXPECT_THAT(Message(ParsePcd(Replaced("DATA ascii", "DATA binary"))), HasSubstr("bytes of data"));
  EXPECT_THAT(Message(ReadPcd("/nowhere/a.pcd")), HasSubstr("/nowhere/a.pcd"));
}

TEST(Pcd, AllocatesNothingForWhatTheHeaderClaims) {
  const std::string header =
      "FIELDS x y z\nSIZE 8 8 8\nTYPE F F F\nWIDTH 100000000\nHEIGHT 1\nPOINTS 100000000\nDATA ";
  EXPECT_THAT(Message(ParsePcd(header + "ascii\n1 2 3\n")), HasSubstr("cannot hold"));
  EXPECT_THAT(Message(ParsePcd(header + "binary\n1234")), HasSubstr("expected 2400000000 bytes"));
  EXPECT_THAT(Message(ParsePcd(header + "binary_compressed\n" +
                               std::string("\4\0\0\0\0\x18\x0d\x8f", 8) + "1234")),
              HasSubstr("cannot hold"));
}

TEST(Pcd, SurvivesWritingAndReading) {
  PointCloud cloud;
  for (int i = 0; i < 100; ++i) {
    cloud.points.emplace_back(i * 0.25, -i, 1.0 / (i + 1));
    cloud.colors.push_back({static_cast<std::uint8_t>(i), 255, static_cast<std::uint8_t>(2 * i)});
  }
  const Folder folder;
  ASSERT_TRUE(WritePcd(folder.File("a.pcd"), cloud).ok());
  const auto again = ReadPcd(folder.File("a.pcd"));
  ASSERT_TRUE(again.ok()) << Message(again);
  EXPECT_EQ(again->cloud.colors, cloud.colors);
  ASSERT_EQ(again->cloud.size(), cloud.size());
  for (std::size_t i = 0; i < cloud.size(); ++i) {
    EXPECT_EQ(again->cloud.points[i], cloud.points[i].cast<float>().cast<double>());
  }
  cloud.colors.clear();
  ASSERT_TRUE(WritePcd(folder.File("a.pcd"), cloud).ok());
  EXPECT_TRUE(ReadPcd(folder.File("a.pcd")).value().cloud.colors.empty());
}

TEST(Pcd, ReadsACompressedCloudOfARealCamera) {
  const std::string path = SharedData("frames/milk_cartoon_all_small_clorox.pcd");
  PALMIST_SKIP_WITHOUT(path);
  const auto pcd = ReadPcd(path);
  ASSERT_TRUE(pcd.ok()) << Message(pcd);
  EXPECT_EQ(pcd->width, 640);
  EXPECT_EQ(pcd->height, 480);
  EXPECT_EQ(pcd->cloud.colors.size(), pcd->cloud.size());
  EXPECT_NEAR(static_cast<double>(pcd->cloud.size()) / (640 * 480), 0.786, 0.0005);
  const auto [nearest, farthest] = std::minmax_element(
      pcd->cloud.points.begin(), pcd->cloud.points.end(), [](const Vector3d& a, const Vector3d& b) {
        return a.z() < b.z();
      });
  EXPECT_NEAR(nearest->z(), 0.50, 0.005);
  EXPECT_NEAR(farthest->z(), 2.06, 0.005);
  // Each point lies on the ray of its pixel, so that coordinates and depth belong together.
  std::size_t next = 0;
  for (int v = 0; v < 480; ++v) {
    for (int u = 0; u < 640; ++u) {
      if (pcd->depth.at(u, v) == 0) continue;
      const Vector3d& p = pcd->cloud.points.at(next++);
      ASSERT_EQ(static_cast<float>(p.z()), pcd->depth.at(u, v));
      ASSERT_NEAR(525 * p.x() / p.z() + 319.5, u, 1e-3);
      ASSERT_NEAR(525 * p.y() / p.z() + 239.5, v, 1e-3);
    }
  }
  EXPECT_EQ(next, pcd->cloud.size());
}

}  // namespace
}  // namespace palmist::grasp
