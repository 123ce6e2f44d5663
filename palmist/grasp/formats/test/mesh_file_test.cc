#include "palmist/grasp/formats/mesh_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "palmist/grasp/formats/parse_file.h"
#include "test_files.h"

namespace palmist::grasp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// A tetrahedron: the origin and a point on each axis; volume 2 · 3 · 4 / 6.
TriangleMesh Tetrahedron() {
  return {{{0, 0, 0}, {2, 0, 0}, {0, 3, 0}, {0, 0, 4}},
          {{{0, 2, 1}}, {{0, 1, 3}}, {{0, 3, 2}}, {{1, 2, 3}}}};
}

TEST(MeshFile, ObjSurvivesWritingAndReading) {
  TriangleMesh mesh = Tetrahedron();
  mesh.vertices[1].x() = 7.0 / 3;  // No float32.
  const Folder folder;
  ASSERT_TRUE(WriteObj(folder.File("a.obj"), mesh).ok());
  const auto again = ReadMesh(folder.File("a.obj"));
  ASSERT_TRUE(again.ok()) << Message(again);
  EXPECT_EQ(again->triangles.size(), 4U);
  EXPECT_TRUE(Inspect(*again).closed());
  EXPECT_EQ(again->vertices, mesh.vertices);
  EXPECT_EQ(again->triangles, mesh.triangles);
}

TEST(MeshFile, CutsPolygonsIntoTriangles) {
  const std::string cube =
      "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nv 0 0 1\nv 1 0 1\nv 1 1 1\nv 0 1 1\n"
      "f 1 4 3 2\nf 5 6 7 8\nf 1 2 6 5\nf 2 3 7 6\nf 3 4 8 7\nf 4 1 5 8\nl 1 2\n";
  const auto mesh = ParseMesh(cube, ".obj");
  ASSERT_TRUE(mesh.ok()) << Message(mesh);
  EXPECT_EQ(mesh->vertices.size(), 8U);
  EXPECT_EQ(mesh->triangles.size(), 12U);
  EXPECT_NEAR(Inspect(*mesh).volume_m3, 1, 1e-9);
}

TEST(MeshFile, ReadsBinaryStlAndJoinsVertices) {
  const TriangleMesh mesh = Tetrahedron();
  std::string stl(80, ' ');
  AppendBytes(stl, static_cast<std::uint32_t>(mesh.triangles.size()));
  for (const auto& triangle : mesh.triangles) {
    stl.append(12, '\0');  // Its normal.
    for (const std::uint32_t corner : triangle) {
      for (const double x : mesh.vertices[corner]) AppendBytes(stl, static_cast<float>(x));
    }
    stl.append(2, '\0');
  }
  const auto again = ParseMesh(stl, ".stl");
  ASSERT_TRUE(again.ok()) << Message(again);
  EXPECT_EQ(again->vertices.size(), 4U);
  EXPECT_NEAR(Inspect(*again).volume_m3, 4, 1e-9);
  // A header that claims a billion triangles.
  stl[83] = '\x3f';
  EXPECT_THAT(Message(ParseMesh(stl, ".stl")), HasSubstr("triangles do not make 284 bytes"));
}

TEST(MeshFile, ReadsAsciiStl) {
  std::string stl = "solid tetrahedron\n";
  const TriangleMesh mesh = Tetrahedron();
  for (const auto& triangle : mesh.triangles) {
    stl += " facet normal 0 0 0\n  outer loop\n";
    for (const std::uint32_t corner : triangle) {
      const Vector3d& p = mesh.vertices[corner];
      stl += fmt::format("   vertex {:e} {:e} {:e}\r\n", p.x(), p.y(), p.z());
    }
    stl += "  endloop\n endfacet\n";
  }
  const auto again = ParseMesh(stl + "endsolid\n", ".stl");
  ASSERT_TRUE(again.ok()) << Message(again);
  EXPECT_TRUE(Inspect(*again).closed());
  EXPECT_NEAR(Inspect(*again).volume_m3, 4, 1e-9);
  const std::size_t last = stl.rfind("vertex");
  EXPECT_THAT(Message(ParseMesh(stl.substr(0, last), ".stl")), HasSubstr("not complete"));
}

TEST(MeshFile, ReadsEveryWayToWriteACorner) {
  const auto mesh = ParseMesh(
      "v 0 0 0\nv 1 0 0\nvt 0 0\nvn 0 0 1\nv 0 1 0\nv 0 0 1\nf 1/1 2//1 3/1/1\nf -1 -3 -4\n",
      ".obj");
  ASSERT_TRUE(mesh.ok()) << Message(mesh);
  EXPECT_EQ(mesh->triangles, (std::vector<std::array<std::uint32_t, 3>>{{0, 1, 2}, {3, 1, 0}}));
}

TEST(MeshFile, SaysWhatIsWrongAndWhere) {
  const Folder folder;
  const auto message = [&](const std::string& name, const std::string& content) {
    EXPECT_TRUE(WriteFileAtomic(folder.File(name), content).ok());
    const std::string text = Message(ReadMesh(folder.File(name)));
    EXPECT_THAT(text, HasSubstr(folder.File(name)));
    return text;
  };
  EXPECT_THAT(message("a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\n"), HasSubstr("no faces"));
  EXPECT_THAT(message("a.obj", ""), HasSubstr("no faces"));
  EXPECT_THAT(message("a.obj", "v 0 0 nan\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"),
              HasSubstr("expected three finite numbers in line 1"));
  EXPECT_THAT(message("a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 9\n"),
              HasSubstr("line 4 has the vertex \"9\", expected one of the 3 before it"));
  EXPECT_THAT(message("a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 0\n"), HasSubstr("\"0\""));
  EXPECT_THAT(message("a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 -4 2\n"), HasSubstr("\"-4\""));
  EXPECT_THAT(message("a.dae", "x"), AllOf(HasSubstr(".ply, .obj or .stl"), HasSubstr(".dae")));
  EXPECT_THAT(message("flat.obj", "v 0 0 0\nv 1 0 0\nv 2 0 0\nf 1 2 3\n"), HasSubstr("no faces"));
  EXPECT_THAT(Message(ReadMesh("/nowhere/a.obj")), HasSubstr("/nowhere/a.obj"));
}

TEST(MeshFile, PlyIsToldByItsFirstBytes) {
  const std::string ply =
      "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\n"
      "property float z\nelement face 1\nproperty list uchar int vertex_indices\nend_header\n"
      "0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n";
  EXPECT_EQ(ParseMesh(ply, ".txt").value().triangles.size(), 1U);
}

TEST(MeshFile, JoinsVerticesOfPlyAndLeavesOutFlatTriangles) {
  const std::string ply =
      "ply\nformat ascii 1.0\nelement vertex 6\nproperty float x\nproperty float y\n"
      "property float z\nelement face 3\nproperty list uchar int vertex_indices\nend_header\n"
      "0 0 0\n1 0 0\n0 1 0\n1 0 0\n0 1 0\n1 1 0\n3 0 1 2\n3 3 5 4\n3 0 1 3\n";
  const auto mesh = ParseMesh(ply, ".ply");
  ASSERT_TRUE(mesh.ok()) << Message(mesh);
  EXPECT_EQ(mesh->vertices.size(), 4U);
  EXPECT_EQ(mesh->triangles, (std::vector<std::array<std::uint32_t, 3>>{{0, 1, 2}, {1, 3, 2}}));
  const std::string flat = ply.substr(0, ply.find("3 0 1 2\n")) + "3 0 1 3\n3 1 1 2\n3 2 4 0\n";
  EXPECT_THAT(Message(ParseMesh(flat, ".ply")), HasSubstr("no faces"));
}

}  // namespace
}  // namespace palmist::grasp
