#include "palmist/grasp/formats/ply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "palmist/grasp/formats/parse_file.h"
#include "test_files.h"

namespace palmist::grasp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kAscii =
    "ply\nformat ascii 1.0\ncomment made by hand\nelement vertex 5\nproperty float x\n"
    "property double y\nproperty uchar red\nproperty uchar green\nproperty uchar blue\n"
    "property float32 z\nelement edge 1\nproperty int from\nproperty list uchar int others\n"
    "element face 2\nproperty list uchar int vertex_indices\nproperty float quality\nend_header\n"
    "0 0 255 0 1 0\n1 0 2 3 4 0\n1 1 0 0 0 0\n0 1 0 0 0 0\n0 0 0 0 0 1\n"
    "7 2 8 9\n"
    "4 0 1 2 3 0.5\n3 0 1 4 0.25\n";

std::string Replaced(const std::string& from, const std::string& to) {
  std::string text(kAscii);
  return text.replace(text.find(from), from.size(), to);
}

TEST(Ply, ReadsAsciiClouds) {
  const auto cloud = ParsePlyCloud(kAscii);
  ASSERT_TRUE(cloud.ok()) << Message(cloud);
  EXPECT_THAT(cloud->points,
              ElementsAre(Vector3d(0, 0, 0),
                          Vector3d(1, 0, 0),
                          Vector3d(1, 1, 0),
                          Vector3d(0, 1, 0),
                          Vector3d(0, 0, 1)));
  EXPECT_THAT(cloud->colors[0], ElementsAre(255, 0, 1));
  EXPECT_THAT(cloud->colors[1], ElementsAre(2, 3, 4));
}

TEST(Ply, ReadsMeshesAndCutsPolygons) {
  const auto mesh = ParsePlyMesh(kAscii);
  ASSERT_TRUE(mesh.ok()) << Message(mesh);
  EXPECT_EQ(mesh->vertices.size(), 5U);
  EXPECT_THAT(mesh->triangles,
              ElementsAre(ElementsAre(0, 1, 2), ElementsAre(0, 2, 3), ElementsAre(0, 1, 4)));
}

TEST(Ply, LeavesOutPointsThatAreNotFinite) {
  const std::string bytes = Replaced("1 0 2 3 4 0\n", "nan 0 2 3 4 0\n");
  const auto cloud = ParsePlyCloud(bytes);
  ASSERT_TRUE(cloud.ok()) << Message(cloud);
  EXPECT_EQ(cloud->size(), 4U);
  EXPECT_EQ(cloud->colors.size(), 4U);
  EXPECT_THAT(Message(ParsePlyMesh(bytes)), HasSubstr("vertex 1 has coordinates"));
}

TEST(Ply, SaysWhatIsWrong) {
  EXPECT_THAT(Message(ParsePlyCloud("")), HasSubstr("begin with \"ply\""));
  EXPECT_THAT(Message(ParsePlyCloud("ply\nformat ascii 1.0\n")), HasSubstr("before end_header"));
  EXPECT_THAT(Message(ParsePlyCloud("ply\nend_header\n")), HasSubstr("no line \"format\""));
  EXPECT_THAT(Message(ParsePlyCloud(Replaced("ascii", "binary_big_endian"))),
              HasSubstr("binary_big_endian"));
  EXPECT_THAT(Message(ParsePlyCloud(Replaced("float32 z", "half z"))), HasSubstr("\"half\""));
  EXPECT_THAT(Message(ParsePlyCloud(Replaced("float32 z", "float32 w"))), HasSubstr("x, y and z"));
  EXPECT_THAT(Message(ParsePlyCloud(Replaced("0 0 255 0 1 0", "0 0 256 0 1 0"))),
              HasSubstr("a colour of 256"));
  EXPECT_THAT(Message(ParsePlyMesh(Replaced("3 0 1 4 ", "3 0 1 5 "))),
              HasSubstr("a face of vertex 5, expected an index below 5"));
  EXPECT_THAT(Message(ParsePlyMesh(Replaced("3 0 1 4 ", "3 0 1 -1 "))), HasSubstr("vertex -1"));
  EXPECT_THAT(Message(ParsePlyMesh(Replaced("3 0 1 4 ", "3 0 1 0.5 "))), HasSubstr("vertex 0.5"));
  EXPECT_THAT(Message(ParsePlyMesh(Replaced("3 0 1 4 ", "5 0 1 4 "))), HasSubstr("ends early"));
  EXPECT_THAT(Message(ParsePlyMesh(Replaced("element face", "element fan"))),
              HasSubstr("no faces"));
  EXPECT_THAT(Message(ReadPlyCloud("/nowhere/a.ply")), HasSubstr("/nowhere/a.ply"));
}

TEST(Ply, AllocatesNothingForWhatTheHeaderClaims) {
  EXPECT_THAT(Message(ParsePlyMesh(Replaced("face 2", "face 1000000000"))),
              HasSubstr("expected 0 to 100000000 of element \"face\""));
  EXPECT_THAT(Message(ParsePlyMesh(Replaced("face 2", "face 100000000"))),
              HasSubstr("cannot hold 100000000 of element \"face\""));
  EXPECT_THAT(Message(ParsePlyMesh(Replaced("3 0 1 4 ", "4000000000 0 1 4 "))),
              HasSubstr("cannot hold a list of 4000000000 of element \"face\""));
  EXPECT_THAT(Message(ParsePlyMesh(Replaced("3 0 1 4 ", "nan 0 1 4 "))),
              HasSubstr("cannot hold a list of nan"));
  EXPECT_THAT(Message(ParsePlyCloud("ply\nformat ascii 1.0\nelement nothing 5\nend_header\n")),
              HasSubstr("cannot hold 5"));
}

TEST(Ply, AllocatesNothingForWhatAListClaims) {
  // "0 1 4 0.25\n" are 11 bytes: at most 6 values.
  EXPECT_THAT(Message(ParsePlyMesh(Replaced("3 0 1 4 ", "7 0 1 4 "))),
              HasSubstr("cannot hold a list of 7"));
  std::string binary =
      "ply\nformat binary_little_endian 1.0\nelement data 1\n"
      "property list uchar double values\nend_header\n\x03";
  binary.append(23, '\0');
  EXPECT_THAT(Message(ParsePlyCloud(binary)),
              HasSubstr("23 bytes cannot hold a list of 3 of element \"data\""));
  EXPECT_TRUE(ParsePlyCloud(binary + '\0').ok());
}

TEST(Ply, CloudsMayHaveAnyNumberOfFaces) {
  // One face of two corners more than there may be triangles.
  constexpr std::uint32_t kCorners = 10'000'003;
  std::string bytes =
      "ply\nformat binary_little_endian 1.0\nelement vertex 1\nproperty uchar x\n"
      "property uchar y\nproperty uchar z\nelement face 1\n"
      "property list uint uchar vertex_indices\nend_header\n\x01\x02\x03";
  AppendBytes(bytes, kCorners);
  bytes.append(kCorners, '\0');
  EXPECT_THAT(Message(ParsePlyMesh(bytes)), HasSubstr("at most 10000000 triangles"));
  const auto cloud = ParsePlyCloud(bytes);
  ASSERT_TRUE(cloud.ok()) << Message(cloud);
  EXPECT_THAT(cloud->points, ElementsAre(Vector3d(1, 2, 3)));
}

TEST(Ply, SurvivesWritingAndReading) {
  PointCloud cloud;
  for (int i = 0; i < 50; ++i) {
    cloud.points.emplace_back(i * 0.5, -i, i * 0.25);
    cloud.colors.push_back({static_cast<std::uint8_t>(i), 200, 7});
  }
  const std::vector<std::array<std::uint32_t, 3>> triangles = {{0, 1, 2}, {47, 48, 49}};
  const Folder folder;
  ASSERT_TRUE(WritePly(folder.File("a.ply"), cloud, triangles).ok());
  const auto again = ReadPlyCloud(folder.File("a.ply"));
  ASSERT_TRUE(again.ok()) << Message(again);
  EXPECT_EQ(again->points, cloud.points);
  EXPECT_EQ(again->colors, cloud.colors);
  const std::string bytes = ReadFile(folder.File("a.ply")).value();
  EXPECT_EQ(ParsePlyMesh(bytes).value().triangles, triangles);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(ParsePlyMesh(bytes.substr(0, size)).ok()) << size;
  }
  cloud.colors.clear();
  ASSERT_TRUE(WritePly(folder.File("a.ply"), cloud).ok());
  EXPECT_TRUE(ReadPlyCloud(folder.File("a.ply")).value().colors.empty());
}

}  // namespace
}  // namespace palmist::grasp
