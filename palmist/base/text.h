/// Text from outside: is it UTF-8, and how to show it safely.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace palmist {

/// Returns true if `bytes` is well-formed UTF-8 (Unicode 15, table 3-7: no overlong forms, no
/// surrogates, nothing above U+10FFFF). Linear time.
bool IsValidUtf8(std::string_view bytes);

/// Returns `text` with A to Z in lower case, whatever the locale.
std::string AsciiLower(std::string_view text);

/// Returns `text` with control characters and bytes that are not UTF-8 written as `\xNN`, so that a
/// hostile file cannot steer the terminal; newlines and tabs stay.
std::string Printable(std::string_view text);

/// Returns `text` printable, in double quotes and on one line, cut with "…" after about
/// `max_bytes` bytes.
std::string Quote(std::string_view text, std::size_t max_bytes = 60);

}  // namespace palmist
