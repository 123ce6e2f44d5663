#include "palmist/base/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include "palmist/base/text.h"

namespace palmist {
namespace {

constexpr std::string_view kByteForms = "expected a size such as 4096, 2.5e9, 64Ki, 80GiB or 24 GB";
constexpr std::string_view kCountForms = "expected a whole number such as 64, 300e9, 1.5k or 7B";
constexpr std::string_view kLengthForms = "expected a length such as 2048, 2k or 1M (k = 1024)";
constexpr std::string_view kSecondForms =
    "expected a duration such as 150, 90s, 250ms, 5min, 12h or 30d";
constexpr std::string_view kRateForms = "expected a rate such as 300GB/s, 25GiB/s or 200Gb/s";
constexpr std::string_view kNumberForms = "expected a number of at least 0 such as 0.9 or 2.5e9";

/// 2^63, the first double above every int64.
constexpr double kInt64End = 9223372036854775808.0;

Error Rejected(std::string_view forms, std::string_view text) {
  return InputError({}, fmt::format("{}, got {}", forms, Quote(text)));
}

std::string_view Trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

struct Quantity {
  double number;
  std::string_view unit;
  std::optional<std::int64_t> exact;  // The number where it is a plain integer.
};

/// Splits `text` into a finite number of at least 0 and the unit behind it.
std::optional<Quantity> Split(std::string_view text) {
  text = Trim(text);
  const bool starts_well = !text.empty() && (text[0] == '.' || (text[0] >= '0' && text[0] <= '9'));
  if (!starts_well) return std::nullopt;
  Quantity quantity{};
  const char* const end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data(), end, quantity.number);
  if (status != std::errc() || !std::isfinite(quantity.number)) return std::nullopt;
  std::int64_t exact = 0;
  const auto [exact_rest, exact_status] = std::from_chars(text.data(), end, exact);
  if (exact_status == std::errc() && exact_rest == rest) quantity.exact = exact;
  quantity.unit = Trim({rest, static_cast<std::size_t>(end - rest)});
  return quantity;
}

/// Returns base^(1 + position of `letter` in `letters`), or nothing where it is not among them.
std::optional<double> Power(char letter, std::string_view letters, double base) {
  const std::size_t position = letters.find(letter);
  if (position == std::string_view::npos) return std::nullopt;
  return std::pow(base, static_cast<double>(position + 1));
}

/// Returns the scale of "", "k", "ki" and the like in lower case, with `base` for a lone letter.
std::optional<double> Prefix(std::string_view unit, std::string_view letters, double base) {
  if (unit.empty()) return 1.0;
  if (unit.size() == 1) return Power(unit[0], letters, base);
  if (unit.size() == 2 && unit[1] == 'i') return Power(unit[0], letters, 1024.0);
  return std::nullopt;
}

/// Returns number · scale as an integer; a part of a unit is refused unless `round`.
std::optional<std::int64_t> Whole(const Quantity& quantity, double scale, bool round) {
  if (quantity.exact && scale == 1.0) return quantity.exact;
  const double value = quantity.number * scale;
  const double whole = std::round(value);
  if (!(whole < kInt64End)) return std::nullopt;
  if (!round && std::abs(value - whole) > 1e-9 * whole) return std::nullopt;
  return static_cast<std::int64_t>(whole);
}

struct Unit {
  std::string_view name;
  double size;
};

/// Returns the three leading digits of `value`, without trailing zeros.
std::string Digits(double value) {
  const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  std::string text = fmt::format("{:.{}f}", value, decimals);
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

/// Prints `value` in the largest of the ascending `units` that keeps it at one or more.
std::string Format(double value, std::span<const Unit> units) {
  if (std::isnan(value)) return "nan";
  if (value < 0.0) return "-" + Format(-value, units);
  if (std::isinf(value)) return "inf";
  std::size_t i = 0;
  // The half keeps a value that rounds up to the next unit from showing as, say, "1000 ms".
  while (i + 1 < units.size() && value >= units[i + 1].size - 0.5 * units[i].size) ++i;
  const std::string digits = Digits(value / units[i].size);
  return units[i].name.empty() ? digits : digits + " " + std::string(units[i].name);
}

}  // namespace

Result<std::int64_t> ParseBytes(std::string_view text) {
  const auto quantity = Split(text);
  if (!quantity) return Rejected(kByteForms, text);
  std::string unit = AsciiLower(quantity->unit);
  if (!unit.empty() && unit.back() == 'b') unit.pop_back();
  const auto scale = Prefix(unit, "kmgtp", 1000.0);
  const auto bytes = scale ? Whole(*quantity, *scale, true) : std::nullopt;
  if (!bytes) return Rejected(kByteForms, text);
  return *bytes;
}

Result<std::int64_t> ParseCount(std::string_view text) {
  const auto quantity = Split(text);
  if (!quantity) return Rejected(kCountForms, text);
  std::string unit = AsciiLower(quantity->unit);
  if (unit == "b") unit = "g";
  const auto scale = Prefix(unit, "kmgt", 1000.0);
  const auto count = scale ? Whole(*quantity, *scale, false) : std::nullopt;
  if (!count) return Rejected(kCountForms, text);
  return *count;
}

Result<std::int64_t> ParseSequenceLength(std::string_view text) {
  const auto quantity = Split(text);
  if (!quantity) return Rejected(kLengthForms, text);
  const auto scale = Prefix(AsciiLower(quantity->unit), "km", 1024.0);
  const auto length = scale ? Whole(*quantity, *scale, false) : std::nullopt;
  if (!length) return Rejected(kLengthForms, text);
  return *length;
}

Result<double> ParseSeconds(std::string_view text) {
  constexpr std::array<Unit, 9> kUnits = {{{"", 1.0},
                                           {"us", 1e-6},
                                           {"ms", 1e-3},
                                           {"s", 1.0},
                                           {"m", 60.0},
                                           {"min", 60.0},
                                           {"h", 3600.0},
                                           {"d", 86400.0},
                                           {"w", 604800.0}}};
  if (const auto quantity = Split(text)) {
    for (const Unit& unit : kUnits) {
      const double seconds = quantity->number * unit.size;
      if (unit.name == quantity->unit && std::isfinite(seconds)) return seconds;
    }
  }
  return Rejected(kSecondForms, text);
}

Result<double> ParseBytesPerSecond(std::string_view text) {
  const auto quantity = Split(text);
  if (!quantity) return Rejected(kRateForms, text);
  std::string_view unit = quantity->unit;
  if (unit.ends_with("/s") || unit.ends_with("ps")) {
    unit.remove_suffix(2);
  } else if (!unit.empty()) {
    return Rejected(kRateForms, text);
  }
  double per_unit = 1.0;
  if (!unit.empty()) {
    if (unit.back() != 'B' && unit.back() != 'b') return Rejected(kRateForms, text);
    if (unit.back() == 'b') per_unit = 1.0 / 8.0;
    unit.remove_suffix(1);
  }
  const auto scale = Prefix(AsciiLower(unit), "kmgtp", 1000.0);
  if (!scale) return Rejected(kRateForms, text);
  const double rate = quantity->number * *scale * per_unit;
  if (!std::isfinite(rate)) return Rejected(kRateForms, text);
  return rate;
}

Result<double> ParseNumber(std::string_view text) {
  const auto quantity = Split(text);
  if (!quantity || !quantity->unit.empty()) return Rejected(kNumberForms, text);
  return quantity->number;
}

std::string FormatBytes(double bytes) {
  constexpr std::array<Unit, 6> kUnits = {{{"B", 1.0},
                                           {"KiB", 0x1p10},
                                           {"MiB", 0x1p20},
                                           {"GiB", 0x1p30},
                                           {"TiB", 0x1p40},
                                           {"PiB", 0x1p50}}};
  return Format(bytes, kUnits);
}

std::string FormatSeconds(double seconds) {
  constexpr std::array<Unit, 7> kUnits = {{{"ns", 1e-9},
                                           {"us", 1e-6},
                                           {"ms", 1e-3},
                                           {"s", 1.0},
                                           {"min", 60.0},
                                           {"h", 3600.0},
                                           {"d", 86400.0}}};
  return seconds == 0.0 ? "0 s" : Format(seconds, kUnits);
}

std::string FormatCount(double count) {
  constexpr std::array<Unit, 5> kUnits = {
      {{"", 1.0}, {"k", 1e3}, {"M", 1e6}, {"B", 1e9}, {"T", 1e12}}};
  return Format(count, kUnits);
}

std::string FormatBytesPerSecond(double rate) {
  constexpr std::array<Unit, 5> kUnits = {
      {{"B/s", 1.0}, {"kB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}, {"TB/s", 1e12}}};
  return Format(rate, kUnits);
}

std::string FormatPercent(double fraction) {
  constexpr std::array<Unit, 1> kUnits = {{{"", 1.0}}};
  return Format(100.0 * fraction, kUnits) + "%";
}

Result<std::int64_t> CheckedAdd(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    return InputError({}, fmt::format("{} + {} is beyond 64 bits", a, b), "use smaller values");
  }
  return sum;
}

Result<std::int64_t> CheckedMul(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    return InputError({}, fmt::format("{} x {} is beyond 64 bits", a, b), "use smaller values");
  }
  return product;
}

}  // namespace palmist
