#include "palmist/grasp/formats/sdf_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "palmist/base/text.h"
#include "palmist/grasp/formats/parse_file.h"

namespace palmist::grasp {
namespace {

constexpr int kMaxNodes = 100'000;  // Along one axis.

/// Reads numbers between white space.
class NumberReader {
 public:
  explicit NumberReader(std::string_view text)
      : begin_(text.data()), next_(text.data()), end_(text.data() + text.size()) {}

  /// Returns false at the end, and where there is no finite number.
  template <typename T>
  bool Read(T& value) {
    SkipSpace();
    // from_chars takes no plus sign, some writers print one.
    if (end_ - next_ > 1 && *next_ == '+' && next_[1] != '-') ++next_;
    const auto [after, status] = std::from_chars(next_, end_, value);
    if (status != std::errc() || (after != end_ && !IsSpace(*after)) ||
        !std::isfinite(static_cast<double>(value))) {
      return false;
    }
    next_ = after;
    return true;
  }

  bool AtEnd() {
    SkipSpace();
    return next_ == end_;
  }

  std::size_t bytes_left() const { return static_cast<std::size_t>(end_ - next_); }

  /// Names the place and what is there.
  std::string Describe() {
    if (AtEnd()) return "the end of the file";
    const char* word_end = std::find_if(next_, end_, IsSpace);
    return fmt::format("{} in line {}",
                       Quote(std::string_view(next_, static_cast<std::size_t>(word_end - next_))),
                       1 + std::count(begin_, next_, '\n'));
  }

 private:
  static bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
  void SkipSpace() {
    while (next_ != end_ && IsSpace(*next_)) ++next_;
  }

  const char* begin_;
  const char* next_;
  const char* end_;
};

}  // namespace

Result<SignedDistanceGrid> ParseSdfText(std::string_view text) {
  NumberReader reader(text);
  const auto bad = [&](const std::string& expected) {
    return InputError(
        {}, fmt::format("bad .sdf file: expected {}, got {}", expected, reader.Describe()));
  };
  SignedDistanceGrid grid;
  std::int64_t nodes = 1;
  for (int& size : grid.dims) {
    if (!reader.Read(size)) return bad("three sizes, as integers");
    if (size < 2 || size > kMaxNodes) {
      return InputError(
          {}, fmt::format("bad .sdf file: expected sizes of 2 to {}, got {}", kMaxNodes, size));
    }
    nodes *= size;
  }
  for (double& coordinate_m : grid.origin_m) {
    if (!reader.Read(coordinate_m)) return bad("the three coordinates of the origin");
  }
  if (!reader.Read(grid.resolution_m)) return bad("the resolution");
  if (grid.resolution_m <= 0) {
    return InputError(
        {}, fmt::format("bad .sdf file: expected a resolution above 0, got {}", grid.resolution_m));
  }
  // A value takes a digit and a separator at least.
  if (nodes > static_cast<std::int64_t>(reader.bytes_left() / 2 + 1)) {
    return InputError({},
                      fmt::format("bad .sdf file: {} x {} x {} values do not fit into {} bytes",
                                  grid.dims[0],
                                  grid.dims[1],
                                  grid.dims[2],
                                  reader.bytes_left()));
  }
  grid.values_m.resize(static_cast<std::size_t>(nodes));
  for (int z = 0; z < grid.dims[2]; ++z) {
    for (int y = 0; y < grid.dims[1]; ++y) {
      for (int x = 0; x < grid.dims[0]; ++x) {
        if (!reader.Read(grid.values_m[grid.Index(x, y, z)])) {
          return bad(fmt::format("{} distances", nodes));
        }
      }
    }
  }
  if (!reader.AtEnd()) return bad(fmt::format("the end after {} distances", nodes));
  return grid;
}

Result<SignedDistanceGrid> ReadSdfText(const std::string& path) {
  return ParseFile(path, kMaxSdfFileBytes, ParseSdfText);
}

std::string FormatSdfText(const SignedDistanceGrid& grid, int significant_digits) {
  PALMIST_ASSERT(significant_digits >= 1);
  PALMIST_ASSERT(grid.values_m.size() == grid.Index(grid.dims[0], 0, 0));
  std::string text = fmt::format("{} {} {}\n{} {} {}\n{}\n",
                                 grid.dims[0],
                                 grid.dims[1],
                                 grid.dims[2],
                                 grid.origin_m.x(),
                                 grid.origin_m.y(),
                                 grid.origin_m.z(),
                                 grid.resolution_m);
  for (int z = 0; z < grid.dims[2]; ++z) {
    for (int y = 0; y < grid.dims[1]; ++y) {
      for (int x = 0; x < grid.dims[0]; ++x) {
        fmt::format_to(std::back_inserter(text), "{:.{}g}\n", grid.at(x, y, z), significant_digits);
      }
    }
  }
  return text;
}

Result<void> WriteSdfText(const std::string& path,
                          const SignedDistanceGrid& grid,
                          int significant_digits) {
  return WriteFileAtomic(path, FormatSdfText(grid, significant_digits));
}

}  // namespace palmist::grasp
