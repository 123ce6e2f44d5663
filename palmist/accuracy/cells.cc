#include "palmist/accuracy/cells.h"

#include <fmt/format.h>

#include <cmath>

#include "palmist/base/json.h"
#include "palmist/base/text.h"
#include "palmist/base/units.h"

namespace palmist::accuracy {

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

std::optional<std::int64_t> Cells::Whole(std::string_view column,
                                         std::int64_t min,
                                         std::int64_t max) const {
  if (!Has(column)) return std::nullopt;
  return ParseWhole(column, Text(column), min, max);
}

std::int64_t Cells::RequireWhole(std::string_view column,
                                 std::int64_t min,
                                 std::int64_t max) const {
  return ParseWhole(column, Text(column), min, max);
}

std::optional<double> Cells::Number(std::string_view column) const {
  if (!Has(column)) return std::nullopt;
  return ParseDouble(column, Text(column));
}

std::optional<double> Cells::Positive(std::string_view column) const {
  const std::optional<double> value = Number(column);
  if (value && *value <= 0)
    FailExpected(column, "a number above 0, or nothing where none is known");
  return value;
}

double Cells::Ratio(std::string_view column) const {
  const double value = Number(column).value_or(0);
  if (value > 1) FailExpected(column, "a number from 0 to 1");
  return value;
}

bool Cells::Flag(std::string_view column) const { return Whole(column, 0, 1).value_or(0) == 1; }

std::vector<std::int64_t> Cells::Wholes(std::string_view column,
                                        std::int64_t min,
                                        std::int64_t max) const {
  std::vector<std::int64_t> values;
  if (!Has(column)) return values;
  for (const std::string_view part : Split(Text(column), '|')) {
    values.push_back(ParseWhole(column, part, min, max));
  }
  return values;
}

std::vector<double> Cells::Numbers(std::string_view column) const {
  std::vector<double> values;
  if (!Has(column)) return values;
  for (const std::string_view part : Split(Text(column), '|')) {
    values.push_back(ParseDouble(column, part));
  }
  return values;
}

nlohmann::json Cells::Json(std::string_view column) const {
  Result<nlohmann::json> json = ParseJson(Text(column));
  if (!json.ok()) Fail(column, "expected JSON: " + std::string(json.error().what()));
  return std::move(json).value();
}

void Cells::Fail(std::string_view column, const std::string& message) const {
  throw InputError(Place(column), message);
}

void Cells::FailExpected(std::string_view column, const std::string& expected) const {
  Fail(column, "expected " + expected + ", got " + Quote(Text(column)));
}

std::string Cells::Place(std::string_view column) const {
  return fmt::format("line {}, {}", line(), column);
}

std::int64_t Cells::ParseWhole(std::string_view column,
                               std::string_view text,
                               std::int64_t min,
                               std::int64_t max) const {
  if (text.starts_with('~')) text.remove_prefix(1);
  const Result<double> value = ParseNumber(text);
  if (!value.ok() || *value != std::floor(*value) || *value < static_cast<double>(min) ||
      *value > static_cast<double>(max)) {
    FailExpected(column, fmt::format("a whole number from {} to {}", min, max));
  }
  return static_cast<std::int64_t>(*value);
}

double Cells::ParseDouble(std::string_view column, std::string_view text) const {
  const Result<double> value = ParseNumber(text);
  if (!value.ok()) FailExpected(column, "a finite number of at least 0");
  return *value;
}

}  // namespace palmist::accuracy
