#include "palmist/base/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>

#include "palmist/base/text.h"
#include "palmist/base/units.h"

namespace palmist {
namespace {

static_assert(std::endian::native == std::endian::little, "data is copied as it is in memory");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxHeaderBytes = 1 << 16;
constexpr std::size_t kMaxRank = 32;
constexpr std::size_t kAlignment = 64;

struct TypeRow {
  NpyType type;
  const char* name;
  std::size_t size;
};

constexpr std::array<TypeRow, 7> kTypes = {{{NpyType::kFloat32, "<f4", 4},
                                            {NpyType::kFloat64, "<f8", 8},
                                            {NpyType::kInt32, "<i4", 4},
                                            {NpyType::kInt64, "<i8", 8},
                                            {NpyType::kUint8, "|u1", 1},
                                            {NpyType::kUint16, "<u2", 2},
                                            {NpyType::kBool, "|b1", 1}}};

const TypeRow& Row(NpyType type) { return kTypes.at(static_cast<std::size_t>(type)); }

Error Bad(const std::string& message) { return InputError({}, "bad .npy file: " + message); }

struct Header {
  std::string_view type;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::int64_t>> shape;
};

/// Reads the header's Python dictionary, of which only strings, booleans and a tuple occur.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : rest_(text) {}

  Result<Header> Parse() {
    Header header;
    if (!Take('{')) return Unexpected("'{'");
    while (!Take('}')) {
      PALMIST_ASSIGN_OR_RETURN(const std::string_view key, ParseString());
      if (!Take(':')) return Unexpected("':'");
      if (key == "descr") {
        PALMIST_ASSIGN_OR_RETURN(header.type, ParseString());
      } else if (key == "fortran_order") {
        PALMIST_ASSIGN_OR_RETURN(header.fortran_order, ParseBool());
      } else if (key == "shape") {
        PALMIST_ASSIGN_OR_RETURN(header.shape, ParseShape());
      } else {
        return Bad("expected the keys descr, fortran_order and shape, got " + Quote(key));
      }
      if (!Take(',') && !Peek('}')) return Unexpected("',' or '}'");
    }
    SkipSpace();
    if (!rest_.empty()) return Unexpected("the end of the header");
    return header;
  }

 private:
  void SkipSpace() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\n"), rest_.size()));
  }

  bool Peek(char c) {
    SkipSpace();
    return !rest_.empty() && rest_.front() == c;
  }

  bool Take(char c) {
    if (!Peek(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  Result<std::string_view> ParseString() {
    const char quote = Peek('"') ? '"' : '\'';
    if (!Take(quote)) return Unexpected("a string");
    const std::size_t end = rest_.find(quote);
    if (end == std::string_view::npos) return Unexpected("a closing quote");
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return text;
  }

  Result<bool> ParseBool() {
    SkipSpace();
    for (const auto& [word, value] : {std::pair("True", true), std::pair("False", false)}) {
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(std::strlen(word));
      return value;
    }
    return Unexpected("True or False");
  }

  Result<std::vector<std::int64_t>> ParseShape() {
    if (!Take('(')) return Unexpected("'('");
    std::vector<std::int64_t> shape;
    while (!Take(')')) {
      SkipSpace();
      std::int64_t size = 0;
      const auto [end, status] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
      if (status != std::errc() || size < 0) return Unexpected("a size of at least 0");
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      shape.push_back(size);
      if (shape.size() > kMaxRank) return Bad(fmt::format("more than {} dimensions", kMaxRank));
      if (!Take(',') && !Peek(')')) return Unexpected("',' or ')'");
    }
    return shape;
  }

  Error Unexpected(std::string_view expected) const {
    return Bad(fmt::format("the header holds {} where {} was expected", Quote(rest_), expected));
  }

  std::string_view rest_;
};

/// Returns the number of bytes of an array, or an error where it is beyond 64 bits.
Result<std::int64_t> ByteCount(const std::vector<std::int64_t>& shape, std::size_t item_size) {
  // A zero anywhere makes the array empty, whatever the other sizes are.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return std::int64_t{0};
  auto count = static_cast<std::int64_t>(item_size);
  for (const std::int64_t size : shape) {
    PALMIST_ASSIGN_OR_RETURN(count, CheckedMul(count, size));
  }
  return count;
}

std::size_t ReadLittleEndian(std::string_view bytes) {
  std::size_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    value = value << 8 | static_cast<std::uint8_t>(bytes[i]);
  }
  return value;
}

/// Splits `bytes` into the text of the header and the data.
Result<std::pair<std::string_view, std::string_view>> SplitHeader(std::string_view bytes) {
  constexpr std::size_t kVersionEnd = kMagic.size() + 2;
  if (!bytes.starts_with(kMagic) || bytes.size() < kVersionEnd) {
    return Bad("it does not begin with the mark of the format");
  }
  const int major = static_cast<std::uint8_t>(bytes[kMagic.size()]);
  if (major != 1 && major != 2) return Bad(fmt::format("expected version 1 or 2, got {}", major));
  bytes.remove_prefix(kVersionEnd);
  const std::size_t length_size = major == 1 ? 2 : 4;
  if (bytes.size() < length_size) return Bad("it ends inside the header");
  const std::size_t length = ReadLittleEndian(bytes.substr(0, length_size));
  bytes.remove_prefix(length_size);
  if (length > kMaxHeaderBytes) return Bad(fmt::format("a header of {} bytes", length));
  if (bytes.size() < length) return Bad("it ends inside the header");
  return std::pair(bytes.substr(0, length), bytes.substr(length));
}

/// What a file's header says.
struct Layout {
  NpyType type = NpyType::kFloat32;
  std::vector<std::int64_t> shape;
  std::size_t data_offset = 0;
  std::int64_t data_bytes = 0;
};

Result<Layout> ReadLayout(std::string_view bytes) {
  PALMIST_ASSIGN_OR_RETURN(const auto parts, SplitHeader(bytes));
  PALMIST_ASSIGN_OR_RETURN(Header header, HeaderParser(parts.first).Parse());
  if (header.type.empty() || !header.fortran_order || !header.shape) {
    return Bad("the header lacks one of descr, fortran_order and shape");
  }
  const auto row = std::find_if(
      kTypes.begin(), kTypes.end(), [&](const TypeRow& r) { return header.type == r.name; });
  if (row == kTypes.end()) {
    return Bad("expected one of the types <f4 <f8 <i4 <i8 |u1 <u2 |b1, got " + Quote(header.type));
  }
  if (*header.fortran_order) {
    return Bad("it is in Fortran order; save numpy.ascontiguousarray(array) instead");
  }
  const Result<std::int64_t> size = ByteCount(*header.shape, row->size);
  if (!size.ok()) {
    return Bad(fmt::format("its shape needs more than 2^63 bytes of data, it has {}",
                           parts.second.size()));
  }
  return Layout{row->type, *std::move(header.shape), bytes.size() - parts.second.size(), *size};
}

}  // namespace

std::size_t NpyItemSize(NpyType type) { return Row(type).size; }

const char* ToString(NpyType type) { return Row(type).name; }

void NpyArray::RequireType(NpyType expected) const {
  if (type == expected) return;
  throw InputError(
      {}, fmt::format("expected an array of type {}, got {}", ToString(expected), ToString(type)));
}

Result<std::uint64_t> NpyFileBytes(std::string_view start) {
  PALMIST_ASSIGN_OR_RETURN(const Layout layout, ReadLayout(start));
  return layout.data_offset + static_cast<std::uint64_t>(layout.data_bytes);
}

Result<NpyArray> ParseNpy(std::string_view bytes) {
  PALMIST_ASSIGN_OR_RETURN(Layout layout, ReadLayout(bytes));
  const std::string_view data = bytes.substr(layout.data_offset);
  if (layout.data_bytes != static_cast<std::int64_t>(data.size())) {
    return Bad(
        fmt::format("its shape needs {} bytes of data, it has {}", layout.data_bytes, data.size()));
  }
  const auto is_boolean = [](char c) { return c == 0 || c == 1; };
  if (layout.type == NpyType::kBool && !std::all_of(data.begin(), data.end(), is_boolean)) {
    return Bad("expected booleans to be 0 or 1");
  }
  const auto raw = std::as_bytes(std::span(data));
  return NpyArray{layout.type, std::move(layout.shape), {raw.begin(), raw.end()}};
}

std::string WriteNpy(const NpyArray& array) {
  const Result<std::int64_t> size = ByteCount(array.shape, NpyItemSize(array.type));
  PALMIST_ASSERT(size.ok() && *size == static_cast<std::int64_t>(array.data.size()));
  PALMIST_ASSERT(array.shape.size() <= kMaxRank);
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': (", ToString(array.type));
  for (const std::int64_t extent : array.shape) header += fmt::format("{},", extent);
  header += "), }";
  constexpr std::size_t kPreambleBytes = kMagic.size() + 4;
  const std::size_t unpadded = kPreambleBytes + header.size() + 1;
  header.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  header += '\n';

  std::string file(kMagic);
  file += {'\x01',
           '\x00',
           static_cast<char>(header.size() & 0xFFU),
           static_cast<char>(header.size() >> 8)};
  file += header;
  file.append(reinterpret_cast<const char*>(array.data.data()), array.data.size());
  return file;
}

}  // namespace palmist
