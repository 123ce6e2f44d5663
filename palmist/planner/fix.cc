#include <array>
#include <charconv>
#include <functional>
#include <utility>

#include "palmist/planner/request.h"

namespace palmist::planner {
namespace {

/// What is read, for its errors.
struct Entry {
  const std::string& option;
  const std::string& key;
  std::string_view text;
};

Error BadValue(const Entry& entry, const std::string& expected) {
  return UsageError(entry.option + " " + entry.key,
                    "expected " + expected + ", got '" + std::string(entry.text) + "'",
                    "write " + entry.option + " " + entry.key + "=VALUE");
}

template <typename T>
Result<void> Set(std::optional<T>& field, T value, const Entry& entry) {
  if (field.has_value() && *field != value) {
    return UsageError(entry.option + " " + entry.key,
                      "it is fixed twice, to different values",
                      "keep one " + entry.option + " " + entry.key);
  }
  field = value;
  return {};
}

using Setter = std::function<Result<void>(const Entry&, Fixed&)>;

Setter Integer(std::optional<int> Fixed::*field, int low, int high = 1'048'576) {
  return [=](const Entry& entry, Fixed& fixed) -> Result<void> {
    int value = 0;
    const std::string_view text = entry.text;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
      return BadValue(entry,
                      "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
    }
    return Set(fixed.*field, value, entry);
  };
}

Setter Choice(std::optional<std::string> Fixed::*field, const std::vector<std::string>& choices) {
  return [=](const Entry& entry, Fixed& fixed) -> Result<void> {
    std::string listed;
    for (const std::string& choice : choices) {
      if (choice == entry.text) return Set(fixed.*field, choice, entry);
      listed += (listed.empty() ? "" : ", ") + choice;
    }
    return BadValue(entry, "one of " + listed);
  };
}

Setter Ops(std::optional<model::Variant> Fixed::*field) {
  return [=](const Entry& entry, Fixed& fixed) -> Result<void> {
    PALMIST_ASSIGN_OR_RETURN(const model::Variant variant, model::ParseVariant(entry.text));
    return Set(fixed.*field, variant, entry);
  };
}

Setter Ratio(std::optional<double> Fixed::*field) {
  return [=](const Entry& entry, Fixed& fixed) -> Result<void> {
    double value = 0;
    const std::string_view text = entry.text;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !(value >= 0 && value <= 1)) {
      return BadValue(entry, "a share from 0 to 1");
    }
    return Set(fixed.*field, value, entry);
  };
}

Result<void> SetSequenceParallel(const Entry& entry, Fixed& fixed) {
  const std::string_view text = entry.text;
  if (text == "1" || text == "true" || text == "on") return Set(fixed.sp, true, entry);
  if (text == "0" || text == "false" || text == "off") return Set(fixed.sp, false, entry);
  return BadValue(entry, "true or false");
}

const std::vector<std::pair<std::string, Setter>>& Setters() {
  static const std::vector<std::pair<std::string, Setter>> setters = {
      {"pp", Integer(&Fixed::pp, 1)},
      {"dp", Integer(&Fixed::dp, 1)},
      {"tp", Integer(&Fixed::tp, 1)},
      {"sp", SetSequenceParallel},
      {"cp", Integer(&Fixed::cp, 1)},
      {"ep", Integer(&Fixed::ep, 1)},
      {"zero", Integer(&Fixed::zero, 0, 3)},
      {"micro_batch", Integer(&Fixed::micro_batch, 1)},
      {"micro_batches", Integer(&Fixed::micro_batches, 1)},
      {"chunks", Integer(&Fixed::chunks, 2)},
      {"recompute", Choice(&Fixed::recompute, {"none", "full"})},
      {"schedule", Choice(&Fixed::schedule, {"1f1b", "gpipe", "interleaved", "zb-h1"})},
      {"ops.attention", Ops(&Fixed::attention)},
      {"ops.norm", Ops(&Fixed::norm)},
      {"ops.activation", Ops(&Fixed::activation)},
      {"ops.dropout", Ops(&Fixed::dropout)},
      {"ops.loss", Ops(&Fixed::loss)},
      {"offload.weights", Ratio(&Fixed::offload_weights)},
      {"offload.grads", Ratio(&Fixed::offload_grads)},
      {"offload.optimizer", Ratio(&Fixed::offload_optimizer)},
      {"offload.activations", Ratio(&Fixed::offload_activations)},
  };
  return setters;
}

}  // namespace

std::vector<std::string> FixKeys() {
  std::vector<std::string> keys;
  for (const auto& [key, setter] : Setters()) keys.push_back(key);
  return keys;
}

plan::OffloadRatios Fixed::OffloadOver(const plan::OffloadRatios& others) const {
  return {.weights = offload_weights.value_or(others.weights),
          .grads = offload_grads.value_or(others.grads),
          .optimizer = offload_optimizer.value_or(others.optimizer),
          .activations = offload_activations.value_or(others.activations)};
}

model::OpVariants Fixed::OpsOver(const model::OpVariants& others) const {
  model::OpVariants ops = others;
  ops.attention = attention.value_or(ops.attention);
  ops.norm = norm.value_or(ops.norm);
  ops.activation = activation.value_or(ops.activation);
  ops.dropout = dropout.value_or(ops.dropout);
  ops.loss = loss.value_or(ops.loss);
  return ops;
}

void Fixed::FixOps(const model::OpVariants& ops) {
  attention = ops.attention;
  norm = ops.norm;
  activation = ops.activation;
  dropout = ops.dropout;
  loss = ops.loss;
}

Result<void> ParseFix(std::string_view key_value, Fixed& fixed, const std::string& option) {
  const std::size_t equals = key_value.find('=');
  if (equals == std::string_view::npos) {
    return UsageError(option,
                      "expected key=value, got '" + std::string(key_value) + "'",
                      "for example " + option + " tp=4");
  }
  const std::string key(key_value.substr(0, equals));
  for (const auto& [known, setter] : Setters()) {
    if (known == key) return setter({option, key, key_value.substr(equals + 1)}, fixed);
  }
  std::string listed;
  for (const std::string& name : FixKeys()) listed += (listed.empty() ? "" : ", ") + name;
  return UsageError(option, "unknown key '" + key + "'", "the keys are " + listed);
}

}  // namespace palmist::planner
