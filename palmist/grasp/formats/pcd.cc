#include "palmist/grasp/formats/pcd.h"

#include <fmt/format.h>
#include <lzf.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "palmist/base/text.h"
#include "palmist/base/units.h"
#include "palmist/grasp/formats/parse_file.h"

namespace palmist::grasp {
namespace {

constexpr std::int64_t kMaxPoints = 100'000'000;
constexpr std::int64_t kMaxPointBytes = 4096;
constexpr std::int64_t kMaxFileBytes = 4 * kGiB;
/// LZF encodes at most 264 bytes in three.
constexpr std::int64_t kMaxCompression = 88;

Error Bad(const std::string& message) { return InputError({}, "bad .pcd file: " + message); }

struct Field {
  std::string_view name;
  std::int64_t size = 4;
  char type = 'F';  // I, U or F
  std::int64_t count = 1;
  std::int64_t offset = 0;  // In bytes, of binary data; in words, of ascii.
};

struct Header {
  std::vector<Field> fields;
  std::int64_t width = 0, height = 1, points = -1;
  std::string_view encoding;
  std::int64_t point_bytes = 0;
};

std::vector<std::string_view> SplitWords(std::string_view line) {
  std::vector<std::string_view> words;
  while (true) {
    const std::string_view word = TakeWord(line);
    if (word.empty()) return words;
    words.push_back(word);
  }
}

Result<std::int64_t> ParseCount(std::string_view word, std::string_view what, std::int64_t max) {
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (status != std::errc() || end != word.data() + word.size() || value < 0 || value > max) {
    return Bad(fmt::format("expected {} of 0 to {}, got {}", what, max, Quote(word)));
  }
  return value;
}

/// Reads the header and leaves the data in `rest`.
Result<Header> ParseHeader(std::string_view& rest) {
  Header header;
  while (header.encoding.empty()) {
    if (rest.empty()) return Bad("it ends before the line DATA");
    const std::vector<std::string_view> words = SplitWords(TakeLine(rest));
    if (words.empty() || words[0].starts_with('#')) continue;
    const std::string_view key = words[0];
    const std::size_t values = words.size() - 1;
    if (key == "VERSION" || key == "VIEWPOINT") continue;
    if (key == "FIELDS") {
      header.fields.resize(values);
      for (std::size_t i = 0; i < values; ++i) header.fields[i].name = words[i + 1];
    } else if (key == "SIZE" || key == "TYPE" || key == "COUNT") {
      if (values != header.fields.size()) {
        return Bad(
            fmt::format("{} has {} values for {} fields", key, values, header.fields.size()));
      }
      for (std::size_t i = 0; i < values; ++i) {
        Field& field = header.fields[i];
        if (key == "TYPE") {
          field.type = words[i + 1].size() == 1 ? words[i + 1][0] : '?';
        } else {
          PALMIST_ASSIGN_OR_RETURN((key == "SIZE" ? field.size : field.count),
                                   ParseCount(words[i + 1], key, kMaxPointBytes));
        }
      }
    } else if (key == "WIDTH" || key == "HEIGHT" || key == "POINTS") {
      if (values != 1) return Bad(fmt::format("{} has {} values", key, values));
      PALMIST_ASSIGN_OR_RETURN((key == "WIDTH"    ? header.width
                                : key == "HEIGHT" ? header.height
                                                  : header.points),
                               ParseCount(words[1], key, kMaxPoints));
    } else if (key == "DATA" && values == 1) {
      header.encoding = words[1];
    } else {
      return Bad("unknown line " + Quote(key));
    }
  }
  if (header.points < 0) header.points = std::min(header.width * header.height, kMaxPoints + 1);
  if (header.points > kMaxPoints || header.width * header.height != header.points) {
    return Bad(fmt::format("WIDTH {} times HEIGHT {} is not POINTS {}, or above {}",
                           header.width,
                           header.height,
                           header.points,
                           kMaxPoints));
  }
  const bool is_ascii = header.encoding == "ascii";
  for (Field& field : header.fields) {
    const bool is_known = field.type == 'F' ? field.size == 4 || field.size == 8
                                            : (field.type == 'I' || field.type == 'U') &&
                                                  (field.size == 1 || field.size == 2 ||
                                                   field.size == 4 || field.size == 8);
    if (!is_known) {
      return Bad(fmt::format("field {} has the unknown type {} of {} bytes",
                             Quote(field.name),
                             field.type,
                             field.size));
    }
    field.offset = header.point_bytes;
    header.point_bytes += field.count * (is_ascii ? 1 : field.size);
    if (header.point_bytes > kMaxPointBytes) return Bad("a point is larger than 4096 bytes");
  }
  return header;
}

/// Where the coordinates and the colour are among the fields.
struct Layout {
  std::array<const Field*, 3> xyz = {};
  const Field* color = nullptr;
};

Result<Layout> FindFields(const Header& header) {
  Layout layout;
  for (const Field& field : header.fields) {
    if (field.count != 1) continue;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      if (field.name == std::string_view("xyz").substr(axis, 1)) layout.xyz[axis] = &field;
    }
    if ((field.name == "rgb" || field.name == "rgba") && field.size == 4) layout.color = &field;
  }
  if (std::find(layout.xyz.begin(), layout.xyz.end(), nullptr) != layout.xyz.end()) {
    return Bad("expected the fields x, y and z");
  }
  return layout;
}

double LoadNumber(const Field& field, const char* bytes) {
  const auto load = [&]<typename I1, typename I2, typename I4, typename I8>() -> double {
    switch (field.size) {
      case 1:
        return LoadAs<I1>(bytes);
      case 2:
        return LoadAs<I2>(bytes);
      case 4:
        return LoadAs<I4>(bytes);
      default:
        return static_cast<double>(LoadAs<I8>(bytes));
    }
  };
  if (field.type == 'F') return field.size == 4 ? LoadAs<float>(bytes) : LoadAs<double>(bytes);
  if (field.type == 'I') {
    return load.template operator()<std::int8_t, std::int16_t, std::int32_t, std::int64_t>();
  }
  return load.template operator()<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>();
}

/// Collects points in the file's order.
class Collector {
 public:
  Collector(const Header& header, bool has_colors) : has_colors_(has_colors) {
    result_.width = static_cast<int>(header.width);
    result_.height = static_cast<int>(header.height);
    if (header.height > 1) {
      result_.depth = {result_.width, result_.height, {}};
      result_.depth.z_m.reserve(static_cast<std::size_t>(header.points));
    }
  }

  void Add(const Vector3d& point, std::uint32_t packed_color) {
    const bool is_valid = point.allFinite();
    if (result_.height > 1) {
      const auto z_m = static_cast<float>(point.z());
      result_.depth.z_m.push_back(is_valid && z_m > 0 ? z_m : 0.0F);
    }
    if (!is_valid) return;
    result_.cloud.points.push_back(point);
    if (has_colors_) {
      result_.cloud.colors.push_back({static_cast<std::uint8_t>(packed_color >> 16),
                                      static_cast<std::uint8_t>(packed_color >> 8),
                                      static_cast<std::uint8_t>(packed_color)});
    }
  }

  PcdCloud Take() && { return std::move(result_); }

 private:
  PcdCloud result_;
  bool has_colors_;
};

/// Reads binary data: field f of point i lies at offset(f) + i * stride(f).
template <typename Offset, typename Stride>
PcdCloud CollectBinary(const Header& header,
                       const Layout& layout,
                       std::string_view data,
                       Offset offset,
                       Stride stride) {
  Collector collector(header, layout.color != nullptr);
  const auto place = [&](const Field& field, std::int64_t point) {
    return data.data() + offset(field) + point * stride(field);
  };
  for (std::int64_t i = 0; i < header.points; ++i) {
    Vector3d point;
    for (int axis = 0; axis < 3; ++axis) {
      const Field& field = *layout.xyz[static_cast<std::size_t>(axis)];
      point[axis] = LoadNumber(field, place(field, i));
    }
    collector.Add(point,
                  layout.color == nullptr ? 0 : LoadAs<std::uint32_t>(place(*layout.color, i)));
  }
  return std::move(collector).Take();
}

Result<PcdCloud> ParseBinary(const Header& header, const Layout& layout, std::string_view data) {
  if (static_cast<std::int64_t>(data.size()) < header.points * header.point_bytes) {
    return Bad(fmt::format(
        "expected {} bytes of data, got {}", header.points * header.point_bytes, data.size()));
  }
  return CollectBinary(
      header,
      layout,
      data,
      [](const Field& field) { return field.offset; },
      [&](const Field&) { return header.point_bytes; });
}

/// Compressed data holds all of one field, then all of the next.
Result<PcdCloud> ParseCompressed(const Header& header,
                                 const Layout& layout,
                                 std::string_view data) {
  if (data.size() < 8) return Bad("it ends before the sizes of the compressed data");
  const auto compressed = LoadAs<std::uint32_t>(data.data());
  const auto uncompressed = LoadAs<std::uint32_t>(data.data() + 4);
  data.remove_prefix(8);
  if (compressed > data.size()) {
    return Bad(fmt::format("expected {} compressed bytes, got {}", compressed, data.size()));
  }
  if (uncompressed != header.points * header.point_bytes ||
      uncompressed > compressed * kMaxCompression) {
    return Bad(fmt::format("{} compressed bytes cannot hold {} points of {} bytes in {} bytes",
                           compressed,
                           header.points,
                           header.point_bytes,
                           uncompressed));
  }
  std::string plain(uncompressed, '\0');
  if (uncompressed > 0 &&
      lzf_decompress(data.data(), compressed, plain.data(), uncompressed) != uncompressed) {
    return Bad("its compressed data is damaged");
  }
  return CollectBinary(
      header,
      layout,
      plain,
      [&](const Field& field) { return field.offset * header.points; },
      [](const Field& field) { return field.size; });
}

std::optional<double> ParseNumber(std::string_view word) {
  double value = 0;
  const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (status != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

/// An ascii colour is an integer, or the float that has the integer's bits.
std::optional<std::uint32_t> ParseAsciiColor(const Field& field, std::string_view word) {
  if (field.type == 'F') {
    float value = 0;
    const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (status != std::errc() || end != word.data() + word.size()) return std::nullopt;
    return LoadAs<std::uint32_t>(&value);
  }
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (status != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return static_cast<std::uint32_t>(value);
}

Result<PcdCloud> ParseAscii(const Header& header, const Layout& layout, std::string_view rest) {
  // A point takes at least a digit and a separator for each of its words.
  if (header.points * header.point_bytes > static_cast<std::int64_t>(rest.size() / 2 + 1)) {
    return Bad(fmt::format("{} bytes cannot hold {} points", rest.size(), header.points));
  }
  Collector collector(header, layout.color != nullptr);
  for (std::int64_t i = 0; i < header.points; ++i) {
    const std::vector<std::string_view> words = SplitWords(TakeLine(rest));
    if (static_cast<std::int64_t>(words.size()) != header.point_bytes) {
      return Bad(fmt::format(
          "point {} has {} values, expected {}", i + 1, words.size(), header.point_bytes));
    }
    Vector3d point;
    std::uint32_t color = 0;
    for (int axis = 0; axis < 3; ++axis) {
      const std::string_view word =
          words[static_cast<std::size_t>(layout.xyz[static_cast<std::size_t>(axis)]->offset)];
      const std::optional<double> value = ParseNumber(word);
      if (!value) return Bad(fmt::format("point {} holds {}, no number", i + 1, Quote(word)));
      point[axis] = *value;
    }
    if (layout.color != nullptr) {
      const std::string_view word = words[static_cast<std::size_t>(layout.color->offset)];
      const std::optional<std::uint32_t> value = ParseAsciiColor(*layout.color, word);
      if (!value) return Bad(fmt::format("point {} holds {}, no colour", i + 1, Quote(word)));
      color = *value;
    }
    collector.Add(point, color);
  }
  return std::move(collector).Take();
}

}  // namespace

Result<PcdCloud> ParsePcd(std::string_view bytes) {
  PALMIST_ASSIGN_OR_RETURN(const Header header, ParseHeader(bytes));
  PALMIST_ASSIGN_OR_RETURN(const Layout layout, FindFields(header));
  if (header.encoding == "ascii") return ParseAscii(header, layout, bytes);
  if (header.encoding == "binary") return ParseBinary(header, layout, bytes);
  if (header.encoding == "binary_compressed") return ParseCompressed(header, layout, bytes);
  return Bad("expected DATA ascii, binary or binary_compressed, got " + Quote(header.encoding));
}

Result<PcdCloud> ReadPcd(const std::string& path) {
  return ParseFile(path, kMaxFileBytes, ParsePcd);
}

Result<void> WritePcd(const std::string& path, const PointCloud& cloud) {
  const bool has_colors = !cloud.colors.empty();
  PALMIST_ASSERT(!has_colors || cloud.colors.size() == cloud.size());
  std::string file = fmt::format(
      "# .PCD v0.7 - Point Cloud Data file format\nVERSION 0.7\nFIELDS x y z{0}\nSIZE 4 4 4{1}\n"
      "TYPE F F F{2}\nCOUNT 1 1 1{3}\nWIDTH {4}\nHEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS {4}\n"
      "DATA binary\n",
      has_colors ? " rgb" : "",
      has_colors ? " 4" : "",
      has_colors ? " U" : "",
      has_colors ? " 1" : "",
      cloud.size());
  for (std::size_t i = 0; i < cloud.size(); ++i) {
    for (const double coordinate_m : cloud.points[i]) {
      AppendBytes(file, static_cast<float>(coordinate_m));
    }
    if (!has_colors) continue;
    const auto& [red, green, blue] = cloud.colors[i];
    AppendBytes(file, static_cast<std::uint32_t>(red << 16 | green << 8 | blue));
  }
  return WriteFileAtomic(path, file);
}

}  // namespace palmist::grasp
