#include <array>
#include <charconv>
#include <functional>
#include <utility>

#include "palmist/planner/request.h"

namespace palmist::planner {
namespace {

Error BadValue(const std::string& key, const std::string& expected, std::string_view got) {
  return UsageError("--fix " + key,
                    "expected " + expected + ", got '" + std::string(got) + "'",
                    "write --fix " + key + "=VALUE");
}

template <typename T>
Result<void> Set(std::optional<T>& field, T value, const std::string& key) {
  if (field.has_value() && *field != value) {
    return UsageError(
        "--fix " + key, "it is fixed twice, to different values", "keep one --fix " + key);
  }
  field = value;
  return {};
}

using Setter = std::function<Result<void>(const std::string& key, std::string_view, Fixed&)>;

Setter Integer(std::optional<int> Fixed::*field, int low) {
  return [=](const std::string& key, std::string_view text, Fixed& fixed) -> Result<void> {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < low ||
        value > 1'048'576) {
      return BadValue(key, "a whole number from " + std::to_string(low) + " to 1048576", text);
    }
    return Set(fixed.*field, value, key);
  };
}

Setter Choice(std::optional<std::string> Fixed::*field, const std::vector<std::string>& choices) {
  return [=](const std::string& key, std::string_view text, Fixed& fixed) -> Result<void> {
    std::string listed;
    for (const std::string& choice : choices) {
      if (choice == text) return Set(fixed.*field, choice, key);
      listed += (listed.empty() ? "" : ", ") + choice;
    }
    return BadValue(key, "one of " + listed, text);
  };
}

Setter Ops(std::optional<model::Variant> Fixed::*field) {
  return [=](const std::string& key, std::string_view text, Fixed& fixed) -> Result<void> {
    PALMIST_ASSIGN_OR_RETURN(const model::Variant variant, model::ParseVariant(text));
    return Set(fixed.*field, variant, key);
  };
}

Setter Ratio(double plan::OffloadRatios::*field) {
  return [=](const std::string& key, std::string_view text, Fixed& fixed) -> Result<void> {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !(value >= 0 && value <= 1)) {
      return BadValue(key, "a share from 0 to 1", text);
    }
    std::optional<double> before;  // 0 is what is not fixed
    if (fixed.offload.*field > 0) before = fixed.offload.*field;
    PALMIST_RETURN_IF_ERROR(Set(before, value, key));
    fixed.offload.*field = value;
    return {};
  };
}

Result<void> SetSequenceParallel(const std::string& key, std::string_view text, Fixed& fixed) {
  if (text == "1" || text == "true" || text == "on") return Set(fixed.sp, true, key);
  if (text == "0" || text == "false" || text == "off") return Set(fixed.sp, false, key);
  return BadValue(key, "true or false", text);
}

const std::vector<std::pair<std::string, Setter>>& Setters() {
  static const std::vector<std::pair<std::string, Setter>> setters = {
      {"pp", Integer(&Fixed::pp, 1)},
      {"dp", Integer(&Fixed::dp, 1)},
      {"tp", Integer(&Fixed::tp, 1)},
      {"sp", SetSequenceParallel},
      {"cp", Integer(&Fixed::cp, 1)},
      {"ep", Integer(&Fixed::ep, 1)},
      {"zero", Integer(&Fixed::zero, 0)},
      {"micro_batch", Integer(&Fixed::micro_batch, 1)},
      {"micro_batches", Integer(&Fixed::micro_batches, 1)},
      {"recompute", Choice(&Fixed::recompute, {"none", "full"})},
      {"schedule", Choice(&Fixed::schedule, {"1f1b", "gpipe"})},
      {"ops.attention", Ops(&Fixed::attention)},
      {"ops.norm", Ops(&Fixed::norm)},
      {"ops.activation", Ops(&Fixed::activation)},
      {"ops.dropout", Ops(&Fixed::dropout)},
      {"ops.loss", Ops(&Fixed::loss)},
      {"offload.weights", Ratio(&plan::OffloadRatios::weights)},
      {"offload.grads", Ratio(&plan::OffloadRatios::grads)},
      {"offload.optimizer", Ratio(&plan::OffloadRatios::optimizer)},
      {"offload.activations", Ratio(&plan::OffloadRatios::activations)},
  };
  return setters;
}

}  // namespace

std::vector<std::string> FixKeys() {
  std::vector<std::string> keys;
  for (const auto& [key, setter] : Setters()) keys.push_back(key);
  return keys;
}

Result<void> ParseFix(std::string_view key_value, Fixed& fixed) {
  const std::size_t equals = key_value.find('=');
  if (equals == std::string_view::npos) {
    return UsageError("--fix",
                      "expected key=value, got '" + std::string(key_value) + "'",
                      "for example --fix tp=4");
  }
  const std::string key(key_value.substr(0, equals));
  const std::string_view value = key_value.substr(equals + 1);
  for (const auto& [known, setter] : Setters()) {
    if (known != key) continue;
    PALMIST_RETURN_IF_ERROR(setter(key, value, fixed));
    if (key == "zero" && *fixed.zero > 3) {
      return BadValue(key, "a whole number from 0 to 3", value);
    }
    return {};
  }
  std::string listed;
  for (const std::string& name : FixKeys()) listed += (listed.empty() ? "" : ", ") + name;
  return UsageError("--fix", "unknown key '" + key + "'", "the keys are " + listed);
}

}  // namespace palmist::planner
