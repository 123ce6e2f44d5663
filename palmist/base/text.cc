#include "palmist/base/text.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>

namespace palmist {
namespace {

/// Returns the length of the well-formed UTF-8 sequence at the start of `bytes`, or 0.
std::size_t SequenceLength(std::string_view bytes) {
  const auto at = [&](std::size_t i) { return static_cast<std::uint8_t>(bytes[i]); };
  const std::uint8_t first = at(0);
  if (first < 0x80) return 1;
  std::size_t length = 0;
  // Bounds of the second byte; the later ones are all continuation bytes.
  std::uint8_t low = 0x80;
  std::uint8_t high = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  }
  if (length == 0 || bytes.size() < length) return 0;
  if (at(1) < low || at(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

bool IsControl(std::string_view sequence) {
  const auto first = static_cast<std::uint8_t>(sequence[0]);
  if (first < 0x20 || first == 0x7F) return true;
  // U+0080 to U+009F are the C1 controls.
  return sequence.size() == 2 && first == 0xC2 && static_cast<std::uint8_t>(sequence[1]) < 0xA0;
}

void Append(std::string_view text, std::string_view kept, std::size_t max_bytes, std::string& out) {
  const std::size_t start = out.size();
  while (!text.empty()) {
    if (out.size() - start >= max_bytes) {
      out += "…";
      return;
    }
    const std::size_t length = SequenceLength(text);
    const std::string_view sequence = text.substr(0, length == 0 ? 1 : length);
    text.remove_prefix(sequence.size());
    const bool keep = kept.find(sequence) != std::string_view::npos;
    if (length > 0 && (keep || !IsControl(sequence))) {
      out += sequence;
      continue;
    }
    for (const char byte : sequence) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<std::uint8_t>(byte));
    }
  }
}

}  // namespace

bool IsValidUtf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t length = SequenceLength(bytes);
    if (length == 0) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

std::string AsciiLower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string Printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  Append(text, "\n\t", std::string::npos, out);
  return out;
}

std::string Quote(std::string_view text, std::size_t max_bytes) {
  std::string out = "\"";
  Append(text, {}, max_bytes, out);
  return out + "\"";
}

}  // namespace palmist
