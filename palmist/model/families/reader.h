/// Reads the fields of a `config.json`: several names for one field, checked sizes.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "palmist/base/json.h"
#include "palmist/model/spec.h"

namespace palmist::model {

/// The names one field goes by; the first is used in messages.
using Names = std::initializer_list<const char*>;

/// One JSON object of a configuration. A field that is null counts as absent. Every function throws
/// `Error` (kInput) with the path of the field when the value is not of the kind asked for.
class ConfigReader {
 public:
  explicit ConfigReader(JsonReader reader) : reader_(std::move(reader)) {}

  bool Has(Names names) const;
  /// Returns whether the field is written as null.
  bool IsNull(const char* name) const;
  bool IsNumber(const char* name) const;

  /// Returns a whole number in 1 ... 2^31 - 1; the field must be there.
  std::int64_t Size(Names names) const;
  /// The same, or `fallback` where the field is absent.
  std::int64_t Size(Names names, std::int64_t fallback) const;
  /// Returns a whole number in 0 ... 2^31 - 1, or `fallback`.
  std::int64_t Count(Names names, std::int64_t fallback) const;
  /// The same for a field that null switches off: 0 where it is null, `fallback` where absent.
  std::int64_t CountUnlessNull(const char* name, std::int64_t fallback) const;
  bool Flag(Names names, bool fallback) const;
  /// Returns a probability in [0, 1), or `fallback`.
  double Dropout(Names names, double fallback) const;
  std::string Text(Names names, const std::string& fallback) const;
  ActivationKind Activation(Names names, ActivationKind fallback) const;
  /// Returns a list of texts; empty where the field is absent.
  std::vector<std::string> Texts(const char* name) const;
  /// Returns a list of whole numbers in `least` ... 2^31 - 1; empty where the field is absent.
  std::vector<std::int64_t> Sizes(const char* name, std::int64_t least = 1) const;
  /// Returns the object under `name`, or nothing where it is absent.
  std::optional<ConfigReader> Child(const char* name) const;
  /// Returns a reader that takes what is absent here from `defaults`, which outlives it.
  ConfigReader WithDefaults(const nlohmann::json& defaults) const;

  /// Throws where the flag `name` is true: `what` is not modelled.
  void Refuse(const char* name, const std::string& what) const;
  /// Throws an input error about one field.
  [[noreturn]] void Fail(const std::string& name,
                         const std::string& message,
                         const std::string& hint = {}) const;

 private:
  struct Field {
    const JsonReader& reader;
    const char* name;
  };
  /// Returns where the first of `names` that is present stands; the first name if none is.
  Field Find(Names names) const;

  JsonReader reader_;
  std::optional<JsonReader> defaults_;
};

/// Returns the activation a configuration names ("gelu_new", "silu", …), or nothing.
std::optional<ActivationKind> ParseActivation(std::string_view name);

}  // namespace palmist::model
