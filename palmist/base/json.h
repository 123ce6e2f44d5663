/// JSON from outside: bounded parsing, and typed reading with the path of whatever is wrong.
///
/// The one public header that shows nlohmann::json.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "palmist/base/result.h"
#include "palmist/base/units.h"

namespace palmist {

/// What is refused before anything is allocated for it.
struct JsonLimits {
  std::int64_t max_bytes = 64 * kMiB;
  int max_depth = 100;                  ///< Arrays and objects inside each other.
  std::int64_t max_values = 4'000'000;  ///< Of every kind; bounds the memory to some 500 MB.
};

/// Returns the value that `text` holds, or an input error with line and column.
///
/// Text must be UTF-8. Of equal keys in an object the last one counts. A number beyond the range of
/// a double is an error; an integer beyond 64 bits becomes a double.
Result<nlohmann::json> ParseJson(std::string_view text, const JsonLimits& limits = {});

/// Reads the members of one JSON object with their types, and knows its path in the document.
///
/// Every getter throws `Error(kInput)` with the path (`stages[1].micro_batch`), what was expected
/// and what came. A null member counts as absent; `Require…` throws for an absent one, `Optional…`
/// returns the default. Integers may be written 12 or 12.0. The JSON must outlive the reader.
class JsonReader {
 public:
  static constexpr std::int64_t kMinInt = std::numeric_limits<std::int64_t>::min();
  static constexpr std::int64_t kMaxInt = std::numeric_limits<std::int64_t>::max();
  static constexpr double kMaxDouble = std::numeric_limits<double>::max();

  /// @param path of `object` in its document; empty for the top.
  /// @throws Error where `object` is not a JSON object.
  explicit JsonReader(const nlohmann::json& object, std::string path = {});
  explicit JsonReader(nlohmann::json&&, std::string = {}) = delete;

  const nlohmann::json& json() const { return *json_; }
  const std::string& path() const { return path_; }

  /// Returns true where there is a member `name` that is not null.
  bool Has(const std::string& name) const { return Find(name) != nullptr; }

  std::int64_t RequireInt(const std::string& name,
                          std::int64_t min = kMinInt,
                          std::int64_t max = kMaxInt) const;
  std::int64_t OptionalInt(const std::string& name,
                           std::int64_t fallback,
                           std::int64_t min = kMinInt,
                           std::int64_t max = kMaxInt) const;
  double RequireDouble(const std::string& name,
                       double min = -kMaxDouble,
                       double max = kMaxDouble) const;
  double OptionalDouble(const std::string& name,
                        double fallback,
                        double min = -kMaxDouble,
                        double max = kMaxDouble) const;
  bool RequireBool(const std::string& name) const;
  bool OptionalBool(const std::string& name, bool fallback) const;
  std::string RequireString(const std::string& name) const;
  std::string OptionalString(const std::string& name, const std::string& fallback) const;

  /// Returns a reader of the object `name`.
  JsonReader Child(const std::string& name) const;
  std::optional<JsonReader> OptionalChild(const std::string& name) const;

  /// Returns a reader for each object in the array `name`.
  std::vector<JsonReader> Array(const std::string& name) const;
  std::vector<JsonReader> OptionalArray(const std::string& name) const;

  std::vector<std::int64_t> RequireInts(const std::string& name,
                                        std::int64_t min = kMinInt,
                                        std::int64_t max = kMaxInt) const;
  std::vector<double> RequireDoubles(const std::string& name,
                                     double min = -kMaxDouble,
                                     double max = kMaxDouble) const;
  std::vector<std::string> RequireStrings(const std::string& name) const;

  /// Throws for a member that is neither in `known` nor begins with "x_", with the nearest names.
  void RejectUnknown(std::span<const std::string> known) const;

  /// Returns the path of the member `name`, such as `stages[1].micro_batch`.
  std::string PathOf(const std::string& name) const;

  /// Throws an input error about the member `name`.
  [[noreturn]] void Fail(const std::string& name,
                         const std::string& message,
                         const std::string& hint = {}) const;

 private:
  const nlohmann::json* Find(const std::string& name) const;
  const nlohmann::json& Require(const std::string& name, const std::string& expected) const;
  const nlohmann::json& RequireArray(const std::string& name) const;

  const nlohmann::json* json_;
  std::string path_;
};

/// Returns what `json` is, for messages: "an array", "\"text\"", "12.5", "null".
std::string DescribeJson(const nlohmann::json& json);

}  // namespace palmist
