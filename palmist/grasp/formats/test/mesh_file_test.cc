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

constexpr const char* kDae = R"(<?xml version="1.0"?>
<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
 <asset><up_axis>Y_UP</up_axis></asset>
 <library_geometries><geometry id="g"><mesh>
  <source id="p"><float_array id="a" count="9">0 0 0 1 0 0 0 1 0</float_array><technique_common>
   <accessor source="#a" count="3" stride="3"><param name="X" type="float"/>
    <param name="Y" type="float"/><param name="Z" type="float"/></accessor></technique_common></source>
  <vertices id="v"><input semantic="POSITION" source="#p"/></vertices>
  <triangles count="1"><input semantic="VERTEX" source="#v" offset="0"/><p>0 1 2</p></triangles>
 </mesh></geometry></library_geometries>
 <library_visual_scenes><visual_scene id="s">
  <node id="outer"><translate>10 0 0</translate>
   <node id="inner"><scale>2 2 2</scale><instance_geometry url="#g"/></node></node>
 </visual_scene></library_visual_scenes>
 <scene><instance_visual_scene url="#s"/></scene>
</COLLADA>)";

TEST(MeshFile, AppliesTheTransformsOfNodes) {
  const auto mesh = ParseMesh(kDae, ".dae");
  ASSERT_TRUE(mesh.ok()) << Message(mesh);
  const MeshReport report = Inspect(*mesh);
  EXPECT_TRUE(report.lower_m.isApprox(Vector3d(10, 0, 0), 1e-6)) << report.lower_m;
  EXPECT_TRUE(report.upper_m.isApprox(Vector3d(12, 2, 0), 1e-6)) << report.upper_m;
}

TEST(MeshFile, RefusesColladaThatLies) {
  const auto message = [](const std::string& from, const std::string& to) {
    std::string dae = kDae;
    return Message(ParseMesh(dae.replace(dae.find(from), from.size(), to), ".dae"));
  };
  EXPECT_THAT(message("count=\"3\" stride", "count=\"4000000\" stride"),
              HasSubstr("the source \"p\""));
  EXPECT_THAT(message("count=\"9\"", "count=\"4000000000\""), HasSubstr("the source \"p\""));
  EXPECT_THAT(message("stride=\"3\"", "stride=\"2\""), HasSubstr("the source \"p\""));
  EXPECT_THAT(message("source=\"#a\"", "source=\"#b\""), HasSubstr("the source \"p\""));
  EXPECT_THAT(message("<p>0 1 2</p>", "<p>0 1 3</p>"), HasSubstr("bad mesh"));
  std::string nested;
  for (int i = 0; i < 100'000; ++i) nested += "<node>";
  for (int i = 0; i < 100'000; ++i) nested += "</node>";
  EXPECT_THAT(message("<scale>2 2 2</scale>", nested), HasSubstr("nested too deeply"));
}

/// Returns kDae with other nodes in its scene.
std::string DaeOf(const std::string& nodes) {
  std::string dae = kDae;
  const std::size_t begin = dae.find("  <node id=\"outer\"");
  return dae.replace(begin, dae.find(" </visual_scene>") - begin, nodes);
}

/// Returns nodes of which each holds the next one `copies` times, the last one the mesh.
std::string Chain(int levels, int copies) {
  std::string nodes;
  for (int level = 0; level < levels; ++level) {
    nodes += fmt::format("<node id=\"n{}\">", level);
    for (int copy = 0; copy < copies; ++copy) {
      nodes += level + 1 < levels ? fmt::format("<instance_node url=\"#n{}\"/>", level + 1)
                                  : "<instance_geometry url=\"#g\"/>";
    }
    nodes += "</node>";
  }
  return nodes;
}

TEST(MeshFile, FollowsInstancesOfNodes) {
  // The library comes first, so that the node of the scene with that name is not meant.
  std::string dae = DaeOf(
      "<node name=\"part\"><translate>1 0 0</translate><instance_node url=\"#part\"/></node>"
      "<node id=\"twin\"><translate>5 0 0</translate><instance_node url=\"#part\"/></node>"
      "<node><translate>0 7 0</translate><instance_node url=\"#twin\"/></node>");
  dae.insert(dae.find(" <library_visual_scenes>"),
             "<library_nodes><node id=\"part\"><scale>2 2 2</scale>"
             "<instance_geometry url=\"#g\"/></node></library_nodes>");
  const auto mesh = ParseMesh(dae, ".dae");
  ASSERT_TRUE(mesh.ok()) << Message(mesh);
  EXPECT_EQ(mesh->triangles.size(), 3U);
  const MeshReport report = Inspect(*mesh);
  EXPECT_TRUE(report.lower_m.isApprox(Vector3d(1, 0, 0), 1e-6)) << report.lower_m;
  EXPECT_TRUE(report.upper_m.isApprox(Vector3d(7, 9, 0), 1e-6)) << report.upper_m;
  // 31 nodes of the chain, and 16 instances.
  EXPECT_TRUE(ParseMesh(DaeOf("<node>" + Chain(5, 2) + "</node>"), ".dae").ok());
}

TEST(MeshFile, RefusesEndlessAndHugeInstancesOfNodes) {
  const auto message = [](const std::string& nodes) {
    return Message(ParseMesh(DaeOf(nodes), ".dae"));
  };
  EXPECT_THAT(message("<node id=\"a\"><instance_node url=\"#a\"/></node>"),
              HasSubstr("<node id=\"a\"> holds itself by an <instance_node>"));
  EXPECT_THAT(message("<node id=\"a\"><instance_node url=\"#b\"/></node>"
                      "<node name=\"b\"><node><instance_node url=\"#a\"/></node></node>"),
              HasSubstr("<node id=\"a\"> holds itself"));
  EXPECT_THAT(message("<node><instance_node url=\"#s\"/></node>"),
              HasSubstr("<visual_scene id=\"s\"> holds itself"));
  // The name that assimp gives to a scene without one.
  EXPECT_THAT(message("<node><instance_node url=\"#Scene\"/></node>"),
              HasSubstr("<visual_scene id=\"s\"> holds itself"));
  EXPECT_THAT(message("<node name=\"n\"><instance_node url=\"#\"/></node>"),
              HasSubstr("holds itself"));
  EXPECT_THAT(message(Chain(40, 2)), HasSubstr("holds more than 100000 nodes"));
  EXPECT_THAT(message(Chain(100'000, 1)), HasSubstr("is nested too deeply"));
}

TEST(MeshFile, RefusesHugeMeshesOfManyInstances) {
  // 2^14 instances of a mesh of 1 + 1000 triangles.
  std::string dae = DaeOf("<node><instance_node url=\"#n0\"/></node>");
  const std::string library = "<library_nodes>" + Chain(14, 2) + "</library_nodes>";
  dae.insert(dae.find(" <library_visual_scenes>"), library);
  const std::string part =
      "<triangles count=\"1\"><input semantic=\"VERTEX\" source=\"#v\" offset=\"0\"/>"
      "<p>0 1 2</p></triangles>";
  std::string parts, corners;
  for (int i = 0; i < 1000; ++i) {
    parts += part;
    corners += " 0 1 2";
  }
  std::string many_parts = dae;
  many_parts.insert(many_parts.find("<triangles"), parts);
  EXPECT_THAT(Message(ParseMesh(many_parts, ".dae")), HasSubstr("meshes of up to 1001 parts"));
  std::string one_part = dae;
  one_part.replace(one_part.find("<triangles count=\"1\""), 20, "<triangles count=\"1001\"");
  one_part.insert(one_part.find("</p>"), corners);
  EXPECT_THAT(Message(ParseMesh(one_part, ".dae")),
              HasSubstr("at most 1000000 triangles in copies"));
}

TEST(MeshFile, JoinsVerticesAcrossTheMeshesOfCollada) {
  const auto mesh =
      ParseMesh(DaeOf("<node><instance_geometry url=\"#g\"/></node>"
                      "<node><translate>1 0 0</translate><instance_geometry url=\"#g\"/></node>"),
                ".dae");
  ASSERT_TRUE(mesh.ok()) << Message(mesh);
  EXPECT_EQ(mesh->triangles.size(), 2U);
  EXPECT_EQ(mesh->vertices.size(), 5U);
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
  EXPECT_THAT(message("a.dae", "x"), HasSubstr("bad mesh"));
  EXPECT_THAT(message("a.obj", "v 0 0 nan\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"),
              HasSubstr("expected three finite numbers in line 1"));
  EXPECT_THAT(message("a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 9\n"),
              HasSubstr("line 4 has the vertex \"9\", expected one of the 3 before it"));
  EXPECT_THAT(message("a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 0\n"), HasSubstr("\"0\""));
  EXPECT_THAT(message("a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 -4 2\n"), HasSubstr("\"-4\""));
  EXPECT_THAT(message("a.md5mesh", "x"),
              AllOf(HasSubstr(".ply, .obj, .stl or .dae"), HasSubstr(".md5mesh")));
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
