/// What the readers of this folder share: paths in errors, and numbers out of bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "palmist/base/file.h"
#include "palmist/base/result.h"

namespace palmist::grasp {

/// Returns what `parse` makes of the file's bytes; its errors get the path.
template <typename Parse>
auto ParseFile(const std::string& path, std::int64_t max_bytes, Parse&& parse)
    -> decltype(parse(std::string_view())) {
  PALMIST_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, max_bytes));
  auto result = std::forward<Parse>(parse)(std::string_view(bytes));
  if (!result.ok()) return result.error().WithPath(path);
  return result;
}

inline constexpr std::string_view kWhiteSpace = " \t\r\n";

/// Takes the first line off `rest`; it is returned without its end.
inline std::string_view TakeLine(std::string_view& rest) {
  const std::size_t end = std::min(rest.find('\n'), rest.size());
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return line;
}

/// Takes the first word off `rest`; it is empty where there is none.
inline std::string_view TakeWord(std::string_view& rest) {
  rest.remove_prefix(std::min(rest.find_first_not_of(kWhiteSpace), rest.size()));
  const std::string_view word = rest.substr(0, rest.find_first_of(kWhiteSpace));
  rest.remove_prefix(word.size());
  return word;
}

/// Returns the T whose bytes begin at `bytes`, aligned or not; the machine is little-endian.
template <typename T>
T LoadAs(const void* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

/// Appends the bytes of `value`, little-endian.
template <typename T>
void AppendBytes(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

}  // namespace palmist::grasp
