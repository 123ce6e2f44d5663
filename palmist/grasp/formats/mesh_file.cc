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
#include <map>
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

Result<void> CheckTriangleCount(std::size_t count) {
  if (static_cast<std::int64_t>(count) <= kMaxTriangles) return {};
  return Bad(fmt::format("expected at most {} triangles", kMaxTriangles));
}

/// Checks, joins vertices, and leaves out triangles without area.
Result<TriangleMesh> Finish(const TriangleMesh& raw) {
  PALMIST_RETURN_IF_ERROR(CheckTriangleCount(raw.triangles.size()));
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

/// In all copies of meshes but the first of each.
constexpr std::int64_t kMaxCopiedTriangles = 1'000'000;

/// Elements nested more deeply are refused: assimp calls itself for each.
constexpr int kMaxDaeDepth = 100;

/// Ends the walk where elements are nested too deeply.
struct DepthChecker : pugi::xml_tree_walker {
  bool for_each(pugi::xml_node& /*node*/) override { return depth() < kMaxDaeDepth; }
};

/// Counts the nodes that assimp makes of a scene: it copies a node, with all below it, for each
/// <instance_node> that refers to it.
class DaeNodeCounter {
 public:
  explicit DaeNodeCounter(const pugi::xml_document& document) {
    // In the order of the file, as assimp does: of two nodes with one id the last counts.
    for (const pugi::xml_node part : document.child("COLLADA").children()) {
      const std::string_view name = part.name();
      if (name == "library_nodes") AddToLibrary(part, "node");
      if (name == "library_visual_scenes") AddToLibrary(part, "visual_scene");
      if (name == "scene" && !root_) root_ = FindInLibrary(part.child("instance_visual_scene"));
    }
    if (root_) AddToScene(root_);
    const pugi::xpath_query parts(
        "descendant::*[self::triangles or self::trifans or self::tristrips or self::polygons or "
        "self::polylist or self::lines or self::linestrips]");
    for (const pugi::xpath_node& geometry : document.select_nodes("//geometry")) {
      largest_mesh_ = std::max(largest_mesh_,
                               static_cast<std::int64_t>(parts.evaluate_node_set(geometry).size()));
    }
  }

  /// Returns an error that names the element where nodes refer to themselves, lie too deep or are
  /// too many.
  Result<void> Check() {
    if (!root_) return {};
    PALMIST_ASSIGN_OR_RETURN(const Extent all, Measure(root_, 1));
    // Each instance of a mesh gets a list of its parts, most of which have a triangle.
    if (all.nodes * largest_mesh_ <= kMaxTriangles) return {};
    return Bad(fmt::format("its {} nodes, instances included, hold meshes of up to {} parts",
                           all.nodes,
                           largest_mesh_));
  }

 private:
  /// Of a node with all below it, instances included.
  struct Extent {
    std::int64_t nodes = 1;  // And what they refer to: meshes, lights, cameras.
    int depth = 1;
  };

  void AddToLibrary(const pugi::xml_node& library, const char* element) {
    for (const pugi::xml_node node : library.children(element)) {
      library_[node.attribute("id").value()] = node;
    }
  }

  void AddToScene(const pugi::xml_node& node) {
    const char* default_name = node.name() == std::string_view("visual_scene") ? "Scene" : "";
    scene_.emplace(node.attribute("name").as_string(default_name), node);
    scene_.emplace(node.attribute("id").value(), node);
    for (const pugi::xml_node child : node.children("node")) AddToScene(child);
  }

  /// Returns what the url of `instance` refers to, or nothing.
  pugi::xml_node FindInLibrary(const pugi::xml_node& instance) const {
    const std::string_view url = instance.attribute("url").value();
    const auto found = url.starts_with('#') ? library_.find(url.substr(1)) : library_.end();
    return found == library_.end() ? pugi::xml_node() : found->second;
  }

  /// As FindInLibrary, else the first node of the scene with that id or name: assimp does so.
  pugi::xml_node FindNode(const pugi::xml_node& instance) const {
    if (const pugi::xml_node node = FindInLibrary(instance)) return node;
    const std::string_view url = instance.attribute("url").value();
    const auto found = url.starts_with('#') ? scene_.find(url.substr(1)) : scene_.end();
    return found == scene_.end() ? pugi::xml_node() : found->second;
  }

  Result<Extent> Measure(const pugi::xml_node& node, int depth) {
    const auto [known, is_new] = extents_.try_emplace(node);
    const auto bad = [&](std::string_view what) {
      return Bad(
          fmt::format("<{} id={}> {}", node.name(), Quote(node.attribute("id").value()), what));
    };
    if (!is_new && !known->second) return bad("holds itself by an <instance_node>");
    const Extent start = known->second.value_or(Extent());
    if (depth + start.depth > kMaxDaeDepth) return bad("is nested too deeply");
    if (!is_new) return start;
    Extent extent;
    for (const pugi::xml_node child : node.children()) {
      const std::string_view name = child.name();
      pugi::xml_node below;
      if (name == "node") below = child;
      if (name == "instance_node") below = FindNode(child);
      if (below) {
        PALMIST_ASSIGN_OR_RETURN(const Extent added, Measure(below, depth + 1));
        extent.nodes += added.nodes;
        extent.depth = std::max(extent.depth, added.depth + 1);
      } else if (name.starts_with("instance_")) {
        ++extent.nodes;
      }
      constexpr std::int64_t kMaxNodes = 100'000;
      if (extent.nodes > kMaxNodes) {
        return bad(fmt::format("holds more than {} nodes, instances included", kMaxNodes));
      }
    }
    known->second = extent;
    return extent;
  }

  std::map<std::string_view, pugi::xml_node> library_;  // By id.
  std::map<std::string_view, pugi::xml_node> scene_;    // By id and by name.
  pugi::xml_node root_;
  std::int64_t largest_mesh_ = 0;                            // In parts.
  std::map<pugi::xml_node, std::optional<Extent>> extents_;  // Nothing while it is measured.
};

std::int64_t CountWords(std::string_view text) {
  std::int64_t count = 0;
  while (!TakeWord(text).empty()) ++count;
  return count;
}

/// Checks what assimp trusts: that each accessor stays within its own array of numbers, and that
/// <instance_node> makes no endless or huge tree.
Result<void> CheckDae(std::string_view bytes) {
  pugi::xml_document document;
  if (const auto parsed = document.load_buffer(bytes.data(), bytes.size()); !parsed) {
    return Bad(fmt::format("{} at byte {}", parsed.description(), parsed.offset));
  }
  DepthChecker checker;
  if (!document.traverse(checker)) return Bad("its elements are nested too deeply");
  PALMIST_RETURN_IF_ERROR(DaeNodeCounter(document).Check());
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
  // One mesh may belong to many nodes.
  PALMIST_RETURN_IF_ERROR(CheckTriangleCount(mesh.triangles.size() + source.mNumFaces));
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
  // A few words make a copy of a mesh, however large it is: copies have a bound of their own.
  std::vector<bool> is_placed(scene->mNumMeshes, false);
  std::int64_t copied = 0;
  std::vector<std::pair<const aiNode*, aiMatrix4x4>> nodes = {{scene->mRootNode, aiMatrix4x4()}};
  while (!nodes.empty()) {
    const auto [node, parent] = nodes.back();
    nodes.pop_back();
    const aiMatrix4x4 transform = parent * node->mTransformation;
    for (unsigned i = 0; i < node->mNumMeshes; ++i) {
      const unsigned number = node->mMeshes[i];
      const aiMesh& part = *scene->mMeshes[number];
      if (is_placed[number]) copied += std::max(part.mNumFaces, part.mNumVertices / 3);
      is_placed[number] = true;
      if (copied > kMaxCopiedTriangles) {
        return Bad(fmt::format("expected at most {} triangles in copies of its meshes",
                               kMaxCopiedTriangles));
      }
      PALMIST_RETURN_IF_ERROR(AddMesh(part, transform, mesh));
    }
    for (unsigned i = node->mNumChildren; i-- > 0;) {
      nodes.emplace_back(node->mChildren[i], transform);
    }
  }
  return Finish(mesh);
}

}  // namespace

Result<TriangleMesh> ParseMesh(std::string_view bytes, const std::string& ending) {
  if (bytes.starts_with("ply\n") || bytes.starts_with("ply\r")) {
    PALMIST_ASSIGN_OR_RETURN(const TriangleMesh mesh, ParsePlyMesh(bytes));
    return Finish(mesh);
  }
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
