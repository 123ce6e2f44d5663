#include "palmist/model/families/reader.h"

#include <limits>
#include <utility>

#include "palmist/base/text.h"

namespace palmist::model {
namespace {

constexpr std::int64_t kLargestSize = std::numeric_limits<std::int32_t>::max();

constexpr std::pair<std::string_view, ActivationKind> kActivations[] = {
    {"gelu", ActivationKind::kGelu},
    {"gelu_fast", ActivationKind::kGeluTanh},
    {"gelu_new", ActivationKind::kGeluTanh},
    {"gelu_python", ActivationKind::kGelu},
    {"gelu_pytorch_tanh", ActivationKind::kGeluTanh},
    {"relu", ActivationKind::kRelu},
    {"silu", ActivationKind::kSilu},
    {"swish", ActivationKind::kSilu},
    {"tanh", ActivationKind::kTanh},
};

}  // namespace

std::optional<ActivationKind> ParseActivation(std::string_view name) {
  for (const auto& [known, kind] : kActivations) {
    if (name == known) return kind;
  }
  return std::nullopt;
}

ConfigReader::Field ConfigReader::Find(Names names) const {
  for (const JsonReader* reader : {&reader_, defaults_ ? &*defaults_ : nullptr}) {
    if (reader == nullptr) continue;
    for (const char* name : names) {
      if (reader->Has(name)) return {*reader, name};
    }
  }
  return {reader_, *names.begin()};
}

bool ConfigReader::Has(Names names) const {
  const Field field = Find(names);
  return field.reader.Has(field.name);
}

bool ConfigReader::IsNull(const char* name) const {
  const auto it = reader_.json().find(name);
  return it != reader_.json().end() && it->is_null();
}

bool ConfigReader::IsNumber(const char* name) const {
  const auto it = reader_.json().find(name);
  return it != reader_.json().end() && it->is_number();
}

std::int64_t ConfigReader::Size(Names names) const {
  const Field field = Find(names);
  return field.reader.RequireInt(field.name, 1, kLargestSize);
}

std::int64_t ConfigReader::Size(Names names, std::int64_t fallback) const {
  const Field field = Find(names);
  return field.reader.OptionalInt(field.name, fallback, 1, kLargestSize);
}

std::int64_t ConfigReader::Count(Names names, std::int64_t fallback) const {
  const Field field = Find(names);
  return field.reader.OptionalInt(field.name, fallback, 0, kLargestSize);
}

std::int64_t ConfigReader::CountUnlessNull(const char* name, std::int64_t fallback) const {
  return IsNull(name) ? 0 : Count({name}, fallback);
}

bool ConfigReader::Flag(Names names, bool fallback) const {
  const Field field = Find(names);
  return field.reader.OptionalBool(field.name, fallback);
}

double ConfigReader::Dropout(Names names, double fallback) const {
  constexpr double kBelowOne = 1 - std::numeric_limits<double>::epsilon();
  const Field field = Find(names);
  return field.reader.OptionalDouble(field.name, fallback, 0, kBelowOne);
}

std::string ConfigReader::Text(Names names, const std::string& fallback) const {
  const Field field = Find(names);
  return field.reader.OptionalString(field.name, fallback);
}

ActivationKind ConfigReader::Activation(Names names, ActivationKind fallback) const {
  const Field field = Find(names);
  if (!field.reader.Has(field.name)) return fallback;
  const std::string name = field.reader.RequireString(field.name);
  if (const auto kind = ParseActivation(name)) return *kind;
  std::string known;
  for (const auto& entry : kActivations) {
    known += (known.empty() ? "" : ", ") + std::string(entry.first);
  }
  Fail(field.name, "expected an activation function, got " + Quote(name), "known are " + known);
}

std::vector<std::string> ConfigReader::Texts(const char* name) const {
  if (!reader_.Has(name)) return {};
  return reader_.RequireStrings(name);
}

std::vector<std::int64_t> ConfigReader::Sizes(const char* name, std::int64_t least) const {
  if (!reader_.Has(name)) return {};
  return reader_.RequireInts(name, least, kLargestSize);
}

std::optional<ConfigReader> ConfigReader::Child(const char* name) const {
  auto child = reader_.OptionalChild(name);
  if (!child) return std::nullopt;
  return ConfigReader(*std::move(child));
}

ConfigReader ConfigReader::WithDefaults(const nlohmann::json& defaults) const {
  ConfigReader reader = *this;
  reader.defaults_ = JsonReader(defaults);
  return reader;
}

void ConfigReader::Refuse(const char* name, const std::string& what) const {
  if (Flag({name}, false)) Fail(name, what + " is not modelled", "only false is supported");
}

void ConfigReader::Fail(const std::string& name,
                        const std::string& message,
                        const std::string& hint) const {
  reader_.Fail(name, message, hint);
}

}  // namespace palmist::model
