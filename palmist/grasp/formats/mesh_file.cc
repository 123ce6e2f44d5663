#include "palmist/grasp/formats/mesh_file.h"

#include <assimp/config.h>
#include <assimp/postprocess.h>
#include <assimp/scene.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <assimp/Importer.hpp>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <optional>
#include <pugixml.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "palmist/base/text.h"
#include "palmist/grasp/formats/parse_file.h"
#include "palmist/grasp/formats/ply.h"

namespace palmist::grasp {
namespace {

Error Bad(const std::string& message) { return InputError({}, "bad mesh: " + message); }

/// Reads three numbers; returns nothing where there are fewer, or one is not finite.
std::optional<Vector3d> ParsePoint(std::string_view line) {
  Vector3d point;
  for (double& coordinate_m : point) {
    const std::string_view word = TakeWord(line);
    const auto [end, status] =
        std::from_chars(word.data(), word.data() + word.size(), coordinate_m);
    if (status != std::errc() || end != word.data() + word.size()) return std::nullopt;
  }
  if (!point.allFinite()) return std::nullopt;
  return point;
}

/// Checks, joins vertices, and leaves out triangles without area.
Result<TriangleMesh> Finish(const TriangleMesh& raw) {
  if (static_cast<std::int64_t>(raw.triangles.size()) > kMaxTriangles) {
    return Bad(fmt::format("expected at most {} triangles", kMaxTriangles));
  }
  TriangleMesh mesh = WeldVertices(raw);
  if (mesh.triangles.empty()) return Bad("it has no faces");
  return mesh;
}

/// Source: the Wavefront .obj specification, of which positions (v) and faces (f) are read.
Result<TriangleMesh> ParseObj(std::string_view rest) {
  TriangleMesh mesh;
  for (std::int64_t number = 1; !rest.empty(); ++number) {
    std::string_view line = TakeLine(rest);
    const std::string_view key = TakeWord(line);
    if (key == "v") {
      const std::optional<Vector3d> point = ParsePoint(line);
      if (!point) return Bad(fmt::format("expected three finite numbers in line {}", number));
      mesh.vertices.push_back(*point);
    } else if (key == "f") {
      // A corner is "v", "v/t", "v//n" or "v/t/n"; a negative v counts back from the last vertex.
      std::array<std::uint32_t, 3> triangle = {};
      std::size_t corners = 0;
      const auto count = static_cast<std::int64_t>(mesh.vertices.size());
      for (std::string_view word = TakeWord(line); !word.empty(); word = TakeWord(line)) {
        std::int64_t index = 0;
        const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), index);
        const bool is_number =
            status == std::errc() && (end == word.data() + word.size() || *end == '/');
        if (index < 0) index += count + 1;
        if (!is_number || index < 1 || index > count) {
          return Bad(fmt::format("line {} has the vertex {}, expected one of the {} before it",
                                 number,
                                 Quote(word),
                                 count));
        }
        triangle[std::min<std::size_t>(corners, 2)] = static_cast<std::uint32_t>(index - 1);
        if (++corners < 3) continue;
        mesh.triangles.push_back(triangle);
        triangle[1] = triangle[2];
      }
    }
  }
  return Finish(mesh);
}

/// Source: the StereoLithography interface specification, 3D Systems, 1989.
Result<TriangleMesh> ParseStl(std::string_view bytes) {
  constexpr std::size_t kHeaderBytes = 84, kTriangleBytes = 50, kNormalBytes = 12;
  TriangleMesh mesh;
  const auto add_corner = [&](const Vector3d& point) {
    mesh.vertices.push_back(point);
    const auto count = static_cast<std::uint32_t>(mesh.vertices.size());
    if (count % 3 == 0) mesh.triangles.push_back({count - 3, count - 2, count - 1});
  };
  // Binary files may begin with "solid", too: their size tells.
  const std::size_t claimed =
      bytes.size() < kHeaderBytes ? 0 : LoadAs<std::uint32_t>(bytes.data() + 80);
  if (bytes.size() >= kHeaderBytes && bytes.size() - kHeaderBytes == claimed * kTriangleBytes) {
    for (std::size_t i = 0; i < claimed * 3; ++i) {
      const char* place = bytes.data() + kHeaderBytes + i / 3 * kTriangleBytes + kNormalBytes +
                          i % 3 * 3 * sizeof(float);
      const Vector3d point(
          LoadAs<float>(place), LoadAs<float>(place + 4), LoadAs<float>(place + 8));
      if (!point.allFinite()) {
        return Bad(fmt::format("triangle {} has coordinates that are not finite", i / 3));
      }
      add_corner(point);
    }
    return Finish(mesh);
  }
  if (!bytes.starts_with("solid")) {
    return Bad(fmt::format("{} triangles do not make {} bytes", claimed, bytes.size()));
  }
  for (std::int64_t number = 1; !bytes.empty(); ++number) {
    std::string_view line = TakeLine(bytes);
    if (TakeWord(line) != "vertex") continue;
    const std::optional<Vector3d> point = ParsePoint(line);
    if (!point) return Bad(fmt::format("expected three finite numbers in line {}", number));
    add_corner(*point);
  }
  if (mesh.vertices.size() % 3 != 0) return Bad("its last triangle is not complete");
  return Finish(mesh);
}

/// Ends the walk where elements are nested too deeply for assimp, which calls itself for each.
struct DepthChecker : pugi::xml_tree_walker {
  bool for_each(pugi::xml_node& /*node*/) override {
    constexpr int kMaxDepth = 100;
    return depth() < kMaxDepth;
  }
};

std::int64_t CountWords(std::string_view text) {
  std::int64_t count = 0;
  while (!TakeWord(text).empty()) ++count;
  return count;
}

/// Checks what assimp trusts: that each accessor stays within its own array of numbers.
Result<void> CheckDae(std::string_view bytes) {
  pugi::xml_document document;
  if (const auto parsed = document.load_buffer(bytes.data(), bytes.size()); !parsed) {
    return Bad(fmt::format("{} at byte {}", parsed.description(), parsed.offset));
  }
  DepthChecker checker;
  if (!document.traverse(checker)) return Bad("its elements are nested too deeply");
  std::set<std::string_view> ids;
  for (const pugi::xpath_node& found : document.select_nodes("//accessor")) {
    const pugi::xml_node accessor = found.node();
    const pugi::xml_node array = accessor.parent().parent().child("float_array");
    const std::string_view id = array.attribute("id").value();
    const auto number = [&](const char* name, long long fallback) {
      // Small enough for products, large enough for any file.
      return std::clamp<std::int64_t>(
          accessor.attribute(name).as_llong(fallback), 0, std::int64_t{1} << 30);
    };
    const std::int64_t values = CountWords(array.child_value());
    const std::int64_t used = number("offset", 0) + number("count", 0) * number("stride", 1);
    const auto params = accessor.children("param");
    if (id.empty() || accessor.attribute("source").value() != "#" + std::string(id) ||
        !ids.insert(id).second || array.attribute("count").as_llong() != values || used > values ||
        std::distance(params.begin(), params.end()) > number("stride", 1)) {
      return Bad(fmt::format(
          "the source {} has no array of numbers of its own, or uses {} of {} numbers; export the "
          "mesh without animation",
          Quote(accessor.parent().parent().attribute("id").value()),
          used,
          values));
    }
  }
  return {};
}

/// Appends one mesh of a node; `offset` is added to its indices.
Result<void> AddMesh(const aiMesh& source, const aiMatrix4x4& transform, TriangleMesh& mesh) {
  const auto offset = static_cast<std::uint32_t>(mesh.vertices.size());
  for (unsigned i = 0; i < source.mNumVertices; ++i) {
    const aiVector3D p = transform * source.mVertices[i];
    mesh.vertices.emplace_back(p.x, p.y, p.z);
    if (!mesh.vertices.back().allFinite()) {
      return Bad(fmt::format("vertex {} has coordinates that are not finite", i));
    }
  }
  for (unsigned f = 0; f < source.mNumFaces; ++f) {
    const aiFace& face = source.mFaces[f];
    if (face.mNumIndices != 3) continue;  // Points and lines.
    std::array<std::uint32_t, 3> triangle = {};
    for (unsigned i = 0; i < 3; ++i) {
      if (face.mIndices[i] >= source.mNumVertices) {
        return Bad(fmt::format("a face of vertex {}, expected an index below {}",
                               face.mIndices[i],
                               source.mNumVertices));
      }
      triangle[i] = face.mIndices[i] + offset;
    }
    mesh.triangles.push_back(triangle);
  }
  return {};
}

Result<TriangleMesh> ParseDae(std::string_view bytes) {
  PALMIST_RETURN_IF_ERROR(CheckDae(bytes));
  Assimp::Importer importer;
  importer.SetPropertyInteger(AI_CONFIG_PP_SBP_REMOVE,
                              aiPrimitiveType_POINT | aiPrimitiveType_LINE);
  const aiScene* scene = importer.ReadFileFromMemory(
      bytes.data(), bytes.size(), aiProcess_Triangulate | aiProcess_SortByPType, "dae");
  if (scene == nullptr || scene->mRootNode == nullptr) {
    return Bad(Printable(importer.GetErrorString()));
  }
  TriangleMesh mesh;
  std::vector<std::pair<const aiNode*, aiMatrix4x4>> nodes = {{scene->mRootNode, aiMatrix4x4()}};
  while (!nodes.empty()) {
    const auto [node, parent] = nodes.back();
    nodes.pop_back();
    const aiMatrix4x4 transform = parent * node->mTransformation;
    for (unsigned i = 0; i < node->mNumMeshes; ++i) {
      PALMIST_RETURN_IF_ERROR(AddMesh(*scene->mMeshes[node->mMeshes[i]], transform, mesh));
    }
    for (unsigned i = node->mNumChildren; i-- > 0;) {
      nodes.emplace_back(node->mChildren[i], transform);
    }
  }
  return Finish(mesh);
}

}  // namespace

Result<TriangleMesh> ParseMesh(std::string_view bytes, const std::string& ending) {
  if (bytes.starts_with("ply\n") || bytes.starts_with("ply\r")) return ParsePlyMesh(bytes);
  if (ending == ".obj") return ParseObj(bytes);
  if (ending == ".stl") return ParseStl(bytes);
  if (ending == ".dae") return ParseDae(bytes);
  return InputError(
      {}, fmt::format("expected a mesh as .ply, .obj, .stl or .dae, got {}", Quote(ending)));
}

Result<TriangleMesh> ReadMesh(const std::string& path) {
  return ParseFile(path, kMaxMeshFileBytes, [&](std::string_view bytes) {
    return ParseMesh(bytes, AsciiLower(std::filesystem::path(path).extension().string()));
  });
}

Result<void> WriteObj(const std::string& path, const TriangleMesh& mesh) {
  std::string file;
  for (const Vector3d& p : mesh.vertices) file += fmt::format("v {} {} {}\n", p.x(), p.y(), p.z());
  // .obj counts from 1.
  for (const auto& [a, b, c] : mesh.triangles) {
    file += fmt::format("f {} {} {}\n", a + 1, b + 1, c + 1);
  }
  return WriteFileAtomic(path, file);
}

}  // namespace palmist::grasp
