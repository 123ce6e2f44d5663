#include "palmist/base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "palmist/base/nearest.h"
#include "palmist/base/text.h"

namespace palmist {
namespace {

using Json = nlohmann::json;

/// Returns "line 3, column 7" of the byte at `offset`; columns count bytes.
std::string Position(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t newline = before.rfind('\n');
  const std::size_t column = newline == std::string_view::npos ? offset + 1 : offset - newline;
  return fmt::format("line {}, column {}", line, column);
}

/// Refuses text whose nesting or number of values would cost too much to parse.
Result<void> CheckShape(std::string_view text, const JsonLimits& limits) {
  int depth = 0;
  std::int64_t values = 1;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      ++values;
      if (++depth > limits.max_depth) {
        return InputError({},
                          fmt::format("expected at most {} arrays and objects inside each other, "
                                      "got more at {}",
                                      limits.max_depth,
                                      Position(text, i)));
      }
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',') {
      ++values;
    }
    if (values > limits.max_values) {
      return InputError({}, fmt::format("expected at most {} values, got more", limits.max_values));
    }
  }
  return {};
}

/// Returns the part of nlohmann's message that follows its identifier and position.
std::string ParserMessage(const Json::exception& failure) {
  std::string_view message = failure.what();
  if (const std::size_t id = message.find("] "); id != std::string_view::npos) {
    message.remove_prefix(id + 2);
  }
  if (message.starts_with("parse error")) {
    const std::size_t colon = message.find(": ");
    if (colon != std::string_view::npos) message.remove_prefix(colon + 2);
  }
  constexpr std::size_t kMaxBytes = 200;
  return Printable(message.substr(0, kMaxBytes));
}

std::string Range(const char* what, std::int64_t min, std::int64_t max) {
  const bool has_min = min != JsonReader::kMinInt;
  const bool has_max = max != JsonReader::kMaxInt;
  if (has_min && has_max) return fmt::format("{} from {} to {}", what, min, max);
  if (has_min) return fmt::format("{} of at least {}", what, min);
  if (has_max) return fmt::format("{} of at most {}", what, max);
  return what;
}

std::string Range(const char* what, double min, double max) {
  const bool has_min = min != -JsonReader::kMaxDouble;
  const bool has_max = max != JsonReader::kMaxDouble;
  if (has_min && has_max) return fmt::format("{} from {} to {}", what, min, max);
  if (has_min) return fmt::format("{} of at least {}", what, min);
  if (has_max) return fmt::format("{} of at most {}", what, max);
  return what;
}

[[noreturn]] void ThrowUnexpected(const std::string& path,
                                  const std::string& expected,
                                  const Json& got) {
  throw InputError(path, "expected " + expected + ", got " + DescribeJson(got));
}

/// Returns the integer that `value` holds exactly, if any.
std::optional<std::int64_t> ExactInt(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(JsonReader::kMaxInt)) return std::nullopt;
    return static_cast<std::int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const auto number = value.get<double>();
  constexpr double kEnd = 0x1p63;
  if (!(number >= -kEnd && number < kEnd) || number != std::floor(number)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

std::int64_t ToInt(const Json& value, const std::string& path, std::int64_t min, std::int64_t max) {
  const auto number = ExactInt(value);
  if (!number || *number < min || *number > max) {
    ThrowUnexpected(path, Range("an integer", min, max), value);
  }
  return *number;
}

double ToDouble(const Json& value, const std::string& path, double min, double max) {
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  if (!(number >= min && number <= max)) ThrowUnexpected(path, Range("a number", min, max), value);
  return number;
}

bool ToBool(const Json& value, const std::string& path) {
  if (!value.is_boolean()) ThrowUnexpected(path, "true or false", value);
  return value.get<bool>();
}

std::string ToString(const Json& value, const std::string& path) {
  if (!value.is_string()) ThrowUnexpected(path, "a string", value);
  return value.get<std::string>();
}

std::string ElementPath(const std::string& array, std::size_t i) {
  return array + "[" + std::to_string(i) + "]";
}

}  // namespace

std::string DescribeJson(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  if (value.is_string()) return Quote(value.get_ref<const std::string&>());
  return value.dump();
}

Result<Json> ParseJson(std::string_view text, const JsonLimits& limits) {
  if (static_cast<std::int64_t>(text.size()) > limits.max_bytes) {
    return InputError({},
                      fmt::format("expected JSON of at most {}, got {}",
                                  FormatBytes(static_cast<double>(limits.max_bytes)),
                                  FormatBytes(static_cast<double>(text.size()))));
  }
  PALMIST_RETURN_IF_ERROR(CheckShape(text, limits));
  if (!IsValidUtf8(text)) return InputError({}, "expected JSON in UTF-8, got other bytes");
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& failure) {
    // `byte` is the count of bytes read, the offending one included.
    const std::size_t offset = std::min(failure.byte == 0 ? 0 : failure.byte - 1, text.size());
    return InputError(
        {}, "expected JSON, at " + Position(text, offset) + ": " + ParserMessage(failure));
  } catch (const Json::exception& failure) {
    return InputError({}, "expected JSON: " + ParserMessage(failure));
  }
}

JsonReader::JsonReader(const Json& object, std::string path)
    : json_(&object), path_(std::move(path)) {
  if (!object.is_object()) ThrowUnexpected(path_, "an object", object);
}

const Json* JsonReader::Find(const std::string& name) const {
  const auto member = json_->find(name);
  return member == json_->end() || member->is_null() ? nullptr : &*member;
}

const Json& JsonReader::Require(const std::string& name, const std::string& expected) const {
  const Json* value = Find(name);
  if (value == nullptr) {
    Fail(name,
         "expected " + expected + ", got " + (json_->contains(name) ? "null" : "nothing"),
         "add this key");
  }
  return *value;
}

const Json& JsonReader::RequireArray(const std::string& name) const {
  const Json& value = Require(name, "an array");
  if (!value.is_array()) ThrowUnexpected(PathOf(name), "an array", value);
  return value;
}

std::int64_t JsonReader::RequireInt(const std::string& name,
                                    std::int64_t min,
                                    std::int64_t max) const {
  return ToInt(Require(name, Range("an integer", min, max)), PathOf(name), min, max);
}

std::int64_t JsonReader::OptionalInt(const std::string& name,
                                     std::int64_t fallback,
                                     std::int64_t min,
                                     std::int64_t max) const {
  return Has(name) ? RequireInt(name, min, max) : fallback;
}

double JsonReader::RequireDouble(const std::string& name, double min, double max) const {
  return ToDouble(Require(name, Range("a number", min, max)), PathOf(name), min, max);
}

double JsonReader::OptionalDouble(const std::string& name,
                                  double fallback,
                                  double min,
                                  double max) const {
  return Has(name) ? RequireDouble(name, min, max) : fallback;
}

bool JsonReader::RequireBool(const std::string& name) const {
  return ToBool(Require(name, "true or false"), PathOf(name));
}

bool JsonReader::OptionalBool(const std::string& name, bool fallback) const {
  return Has(name) ? RequireBool(name) : fallback;
}

std::string JsonReader::RequireString(const std::string& name) const {
  return ToString(Require(name, "a string"), PathOf(name));
}

std::string JsonReader::OptionalString(const std::string& name, const std::string& fallback) const {
  return Has(name) ? RequireString(name) : fallback;
}

JsonReader JsonReader::Child(const std::string& name) const {
  return JsonReader(Require(name, "an object"), PathOf(name));
}

std::optional<JsonReader> JsonReader::OptionalChild(const std::string& name) const {
  if (!Has(name)) return std::nullopt;
  return Child(name);
}

std::vector<JsonReader> JsonReader::Array(const std::string& name) const {
  const Json& array = RequireArray(name);
  std::vector<JsonReader> readers;
  readers.reserve(array.size());
  for (std::size_t i = 0; i < array.size(); ++i) {
    readers.emplace_back(array[i], ElementPath(PathOf(name), i));
  }
  return readers;
}

std::vector<JsonReader> JsonReader::OptionalArray(const std::string& name) const {
  if (!Has(name)) return {};
  return Array(name);
}

std::vector<std::int64_t> JsonReader::RequireInts(const std::string& name,
                                                  std::int64_t min,
                                                  std::int64_t max) const {
  const Json& array = RequireArray(name);
  std::vector<std::int64_t> values;
  values.reserve(array.size());
  for (std::size_t i = 0; i < array.size(); ++i) {
    values.push_back(ToInt(array[i], ElementPath(PathOf(name), i), min, max));
  }
  return values;
}

std::vector<double> JsonReader::RequireDoubles(const std::string& name,
                                               double min,
                                               double max) const {
  const Json& array = RequireArray(name);
  std::vector<double> values;
  values.reserve(array.size());
  for (std::size_t i = 0; i < array.size(); ++i) {
    values.push_back(ToDouble(array[i], ElementPath(PathOf(name), i), min, max));
  }
  return values;
}

std::vector<std::string> JsonReader::RequireStrings(const std::string& name) const {
  const Json& array = RequireArray(name);
  std::vector<std::string> values;
  values.reserve(array.size());
  for (std::size_t i = 0; i < array.size(); ++i) {
    values.push_back(ToString(array[i], ElementPath(PathOf(name), i)));
  }
  return values;
}

void JsonReader::RejectUnknown(std::span<const std::string> known) const {
  for (const auto& [name, value] : json_->items()) {
    if (name.starts_with("x_")) continue;
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    Fail(name, "this key is not known", DidYouMean(name, known));
  }
}

std::string JsonReader::PathOf(const std::string& name) const {
  constexpr std::size_t kMaxNameBytes = 200;
  const std::string shown = Printable(name.substr(0, kMaxNameBytes));
  return path_.empty() ? shown : path_ + "." + shown;
}

void JsonReader::Fail(const std::string& name,
                      const std::string& message,
                      const std::string& hint) const {
  throw InputError(PathOf(name), message, hint);
}

}  // namespace palmist
