#include "palmist/grasp/formats/ply.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "palmist/base/text.h"
#include "palmist/base/units.h"
#include "palmist/grasp/formats/mesh_file.h"
#include "palmist/grasp/formats/parse_file.h"

namespace palmist::grasp {
namespace {

constexpr std::int64_t kMaxCloudFileBytes = 4 * kGiB;
constexpr std::int64_t kMaxElements = 100'000'000;

Error Bad(const std::string& message) { return InputError({}, "bad .ply file: " + message); }

enum class Type { kInt8, kUint8, kInt16, kUint16, kInt32, kUint32, kFloat32, kFloat64 };

struct TypeRow {
  std::string_view name, other_name;
  std::size_t bytes;
};

constexpr std::array<TypeRow, 8> kTypes = {{{"char", "int8", 1},
                                            {"uchar", "uint8", 1},
                                            {"short", "int16", 2},
                                            {"ushort", "uint16", 2},
                                            {"int", "int32", 4},
                                            {"uint", "uint32", 4},
                                            {"float", "float32", 4},
                                            {"double", "float64", 8}}};

std::size_t ByteSize(Type type) { return kTypes.at(static_cast<std::size_t>(type)).bytes; }

Result<Type> ParseType(std::string_view word) {
  const auto row = std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeRow& r) {
    return word == r.name || word == r.other_name;
  });
  if (row == kTypes.end()) return Bad("unknown type " + Quote(word));
  return static_cast<Type>(row - kTypes.begin());
}

struct Property {
  std::string_view name;
  Type type = Type::kFloat32;
  std::optional<Type> list_size_type;  // Of a list: what its number of values is written in.
};

struct Element {
  std::string_view name;
  std::int64_t count = 0;
  std::vector<Property> properties;

  std::optional<std::size_t> Find(std::string_view property) const {
    const auto found = std::find_if(properties.begin(), properties.end(), [&](const Property& p) {
      return p.name == property;
    });
    if (found == properties.end()) return std::nullopt;
    return static_cast<std::size_t>(found - properties.begin());
  }
};

struct Header {
  bool is_ascii = false;
  std::vector<Element> elements;
};

/// Reads the header and leaves the data in `rest`.
Result<Header> ParseHeader(std::string_view& rest) {
  Header header;
  if (TakeWord(rest) != "ply") return Bad("it does not begin with \"ply\"");
  TakeLine(rest);
  bool has_format = false;
  while (true) {
    if (rest.empty()) return Bad("it ends before end_header");
    std::string_view line = TakeLine(rest);
    const std::string_view key = TakeWord(line);
    if (key == "end_header") break;
    if (key == "format") {
      const std::string_view format = TakeWord(line);
      if (format != "ascii" && format != "binary_little_endian") {
        return Bad("expected the format ascii or binary_little_endian, got " + Quote(format));
      }
      header.is_ascii = format == "ascii";
      has_format = true;
    } else if (key == "element") {
      Element element{TakeWord(line), 0, {}};
      const std::string_view count = TakeWord(line);
      const auto [end, status] =
          std::from_chars(count.data(), count.data() + count.size(), element.count);
      if (status != std::errc() || end != count.data() + count.size() || element.count < 0 ||
          element.count > kMaxElements) {
        return Bad(fmt::format("expected 0 to {} of element {}, got {}",
                               kMaxElements,
                               Quote(element.name),
                               Quote(count)));
      }
      header.elements.push_back(std::move(element));
    } else if (key == "property") {
      if (header.elements.empty()) return Bad("a property before the first element");
      Property property;
      std::string_view type = TakeWord(line);
      if (type == "list") {
        PALMIST_ASSIGN_OR_RETURN(property.list_size_type, ParseType(TakeWord(line)));
        type = TakeWord(line);
      }
      PALMIST_ASSIGN_OR_RETURN(property.type, ParseType(type));
      property.name = TakeWord(line);
      header.elements.back().properties.push_back(property);
    } else if (key != "comment" && key != "obj_info") {
      return Bad("unknown line " + Quote(key));
    }
  }
  if (!has_format) return Bad("its header has no line \"format\"");
  return header;
}

/// Reads numbers one by one, ascii or binary.
class NumberReader {
 public:
  NumberReader(std::string_view data, bool is_ascii) : rest_(data), is_ascii_(is_ascii) {}

  /// Returns the fewest bytes that `element` takes.
  std::int64_t MinBytes(const Element& element) const {
    std::size_t bytes = 0;
    for (const Property& property : element.properties) {
      // A digit and a separator, or the value, or a list's length.
      bytes += is_ascii_ ? 2 : ByteSize(property.list_size_type.value_or(property.type));
    }
    return static_cast<std::int64_t>(bytes);
  }

  /// Returns the most values of `type` that the bytes left can hold.
  std::int64_t MaxValues(Type type) const {
    // A digit and a separator each.
    return is_ascii_ ? room() / 2 : (room() - 1) / static_cast<std::int64_t>(ByteSize(type));
  }

  /// The bytes that are left, with one more for the separator that the last number may lack.
  std::int64_t room() const { return static_cast<std::int64_t>(rest_.size()) + 1; }

  /// Returns false where the data ends or holds no number.
  bool Read(Type type, double& value) {
    if (is_ascii_) {
      const std::string_view word = TakeWord(rest_);
      const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), value);
      return status == std::errc() && end == word.data() + word.size();
    }
    const std::size_t bytes = ByteSize(type);
    if (rest_.size() < bytes) return false;
    value = Load(type);
    rest_.remove_prefix(bytes);
    return true;
  }

 private:
  double Load(Type type) const {
    switch (type) {
      case Type::kInt8:
        return LoadAs<std::int8_t>(rest_.data());
      case Type::kUint8:
        return LoadAs<std::uint8_t>(rest_.data());
      case Type::kInt16:
        return LoadAs<std::int16_t>(rest_.data());
      case Type::kUint16:
        return LoadAs<std::uint16_t>(rest_.data());
      case Type::kInt32:
        return LoadAs<std::int32_t>(rest_.data());
      case Type::kUint32:
        return LoadAs<std::uint32_t>(rest_.data());
      case Type::kFloat32:
        return LoadAs<float>(rest_.data());
      case Type::kFloat64:
        break;
    }
    return LoadAs<double>(rest_.data());
  }

  std::string_view rest_;
  bool is_ascii_;
};

/// What we take from a file.
struct Content {
  PointCloud cloud;  // Points that are not finite included.
  std::vector<std::array<double, 3>> triangles;
};

/// Reads one element of `kind`: its scalars into `scalars`, by property, and its lists through
/// `on_list(property, values)`.
template <typename OnList>
Result<void> ReadElement(NumberReader& reader,
                         const Element& kind,
                         std::vector<double>& scalars,
                         std::vector<double>& list,
                         OnList on_list) {
  const auto bad = [&] {
    return Bad(
        fmt::format("the data of element {} ends early or holds no number", Quote(kind.name)));
  };
  for (std::size_t i = 0; i < kind.properties.size(); ++i) {
    const Property& property = kind.properties[i];
    if (!reader.Read(property.list_size_type.value_or(property.type), scalars[i])) return bad();
    if (!property.list_size_type) continue;
    // Written so that NaN is refused, too.
    if (!(scalars[i] >= 0 && scalars[i] <= static_cast<double>(reader.MaxValues(property.type)))) {
      return Bad(fmt::format("{} bytes cannot hold a list of {} of element {}",
                             reader.room() - 1,
                             scalars[i],
                             Quote(kind.name)));
    }
    list.resize(static_cast<std::size_t>(scalars[i]));
    for (double& value : list) {
      if (!reader.Read(property.type, value)) return bad();
    }
    PALMIST_RETURN_IF_ERROR(on_list(property, list));
  }
  return {};
}

Result<Content> Parse(std::string_view bytes, bool with_faces) {
  PALMIST_ASSIGN_OR_RETURN(const Header header, ParseHeader(bytes));
  NumberReader reader(bytes, header.is_ascii);
  Content content;
  for (const Element& kind : header.elements) {
    const std::int64_t min_bytes = reader.MinBytes(kind);
    if (kind.count > 0 && (min_bytes == 0 || kind.count > reader.room() / min_bytes)) {
      return Bad(fmt::format("{} bytes cannot hold {} of element {}",
                             reader.room() - 1,
                             kind.count,
                             Quote(kind.name)));
    }
    const bool is_vertex = kind.name == "vertex";
    const std::array xyz = {kind.Find("x"), kind.Find("y"), kind.Find("z")};
    const std::array rgb = {kind.Find("red"), kind.Find("green"), kind.Find("blue")};
    if (is_vertex && !(xyz[0] && xyz[1] && xyz[2])) return Bad("expected vertices with x, y and z");
    const bool has_colors = std::all_of(rgb.begin(), rgb.end(), [&](std::optional<std::size_t> i) {
      return i && kind.properties[*i].type == Type::kUint8 && !kind.properties[*i].list_size_type;
    });
    const auto add_face = [&](const Property& property,
                              const std::vector<double>& corners) -> Result<void> {
      if (!with_faces || kind.name != "face" ||
          (property.name != "vertex_indices" && property.name != "vertex_index")) {
        return {};
      }
      for (std::size_t i = 2; i < corners.size(); ++i) {
        content.triangles.push_back({corners[0], corners[i - 1], corners[i]});
      }
      if (static_cast<std::int64_t>(content.triangles.size()) > kMaxTriangles) {
        return Bad(fmt::format("expected at most {} triangles", kMaxTriangles));
      }
      return {};
    };
    std::vector<double> scalars(kind.properties.size());
    std::vector<double> list;
    for (std::int64_t n = 0; n < kind.count; ++n) {
      PALMIST_RETURN_IF_ERROR(ReadElement(reader, kind, scalars, list, add_face));
      if (!is_vertex) continue;
      content.cloud.points.emplace_back(scalars[*xyz[0]], scalars[*xyz[1]], scalars[*xyz[2]]);
      if (!has_colors) continue;
      auto& color = content.cloud.colors.emplace_back();
      for (std::size_t channel = 0; channel < 3; ++channel) {
        // Ascii may hold anything, NaN included.
        const double value = scalars[*rgb[channel]];
        if (!(value >= 0 && value <= 255)) return Bad(fmt::format("a colour of {}", value));
        color[channel] = static_cast<std::uint8_t>(value);
      }
    }
  }
  return content;
}

}  // namespace

Result<PointCloud> ParsePlyCloud(std::string_view bytes) {
  PALMIST_ASSIGN_OR_RETURN(Content content, Parse(bytes, false));
  PointCloud& all = content.cloud;
  if (!all.colors.empty() && all.colors.size() != all.size())
    return Bad("colours of some vertices");
  PointCloud cloud;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all.points[i].allFinite()) continue;
    cloud.points.push_back(all.points[i]);
    if (!all.colors.empty()) cloud.colors.push_back(all.colors[i]);
  }
  return cloud;
}

Result<PointCloud> ReadPlyCloud(const std::string& path) {
  return ParseFile(path, kMaxCloudFileBytes, ParsePlyCloud);
}

Result<TriangleMesh> ParsePlyMesh(std::string_view bytes) {
  PALMIST_ASSIGN_OR_RETURN(Content content, Parse(bytes, true));
  TriangleMesh mesh{std::move(content.cloud.points), {}};
  for (std::size_t i = 0; i < mesh.vertices.size(); ++i) {
    if (!mesh.vertices[i].allFinite()) {
      return Bad(fmt::format("vertex {} has coordinates that are not finite", i));
    }
  }
  const auto count = static_cast<double>(mesh.vertices.size());
  for (const std::array<double, 3>& corners : content.triangles) {
    auto& triangle = mesh.triangles.emplace_back();
    for (std::size_t i = 0; i < 3; ++i) {
      if (!(corners[i] >= 0 && corners[i] < count) || corners[i] != std::floor(corners[i])) {
        return Bad(
            fmt::format("a face of vertex {}, expected an index below {}", corners[i], count));
      }
      triangle[i] = static_cast<std::uint32_t>(corners[i]);
    }
  }
  if (mesh.triangles.empty()) return Bad("it has no faces");
  return mesh;
}

Result<void> WritePly(const std::string& path,
                      const PointCloud& cloud,
                      std::span<const std::array<std::uint32_t, 3>> triangles) {
  const bool has_colors = !cloud.colors.empty();
  PALMIST_ASSERT(!has_colors || cloud.colors.size() == cloud.size());
  std::string file = fmt::format(
      "ply\nformat binary_little_endian 1.0\nelement vertex {}\nproperty float x\nproperty float "
      "y\n"
      "property float z\n{}",
      cloud.size(),
      has_colors ? "property uchar red\nproperty uchar green\nproperty uchar blue\n" : "");
  if (!triangles.empty()) {
    file +=
        fmt::format("element face {}\nproperty list uchar int vertex_indices\n", triangles.size());
  }
  file += "end_header\n";
  for (std::size_t i = 0; i < cloud.size(); ++i) {
    for (const double coordinate_m : cloud.points[i]) {
      AppendBytes(file, static_cast<float>(coordinate_m));
    }
    if (has_colors) AppendBytes(file, cloud.colors[i]);
  }
  for (const std::array<std::uint32_t, 3>& triangle : triangles) {
    AppendBytes(file, std::uint8_t{3});
    AppendBytes(file, triangle);
  }
  return WriteFileAtomic(path, file);
}

}  // namespace palmist::grasp
