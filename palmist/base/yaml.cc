#include "palmist/base/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <istream>
#include <streambuf>
#include <utility>
#include <vector>

#include "palmist/base/text.h"

namespace palmist {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

std::string Position(const YAML::Mark& mark) {
  return fmt::format("line {}, column {}", mark.line + 1, mark.column + 1);
}

Error YamlError(const YAML::Mark& mark, const std::string& message) {
  return InputError({}, fmt::format("{}, at {}", message, Position(mark)));
}

/// Returns true if `text` has the form of a decimal number; `from_chars` alone takes inf and nan.
bool LooksLikeNumber(std::string_view text) {
  return text.find_first_not_of("0123456789+-.eE") == std::string_view::npos &&
         text.find_first_of("0123456789") != std::string_view::npos;
}

/// Returns the value of a plain scalar.
json PlainScalar(const std::string& text) {
  if (text.empty() || text == "~" || text == "null") return nullptr;
  if (text == "true") return true;
  if (text == "false") return false;
  if (!LooksLikeNumber(text)) return text;
  const char* first = text.data() + (text.front() == '+' ? 1 : 0);
  const char* last = text.data() + text.size();
  std::int64_t integer = 0;
  if (const auto read = std::from_chars(first, last, integer);
      read.ptr == last && read.ec == std::errc()) {
    return integer;
  }
  double number = 0.0;
  const auto read = std::from_chars(first, last, number);
  if (read.ptr == last && read.ec == std::errc() && std::isfinite(number)) return number;
  return text;
}

/// Builds the value from the parser's events, and stops at the first thing that is refused.
class Builder : public YAML::EventHandler {
 public:
  explicit Builder(const YamlLimits& limits) : limits_(limits) {}

  json TakeValue() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { RefuseAlias(mark); }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    OnScalar(mark, "?", anchor, {});
  }

  void OnScalar(const YAML::Mark& mark,
                const std::string& tag,
                YAML::anchor_t anchor,
                const std::string& text) override {
    Check(mark, tag, anchor);
    if (!stack_.empty() && stack_.back().value.is_object() && !stack_.back().has_key) {
      Frame& frame = stack_.back();
      if (frame.value.contains(text)) {
        throw YamlError(mark, "expected each key once, got " + Quote(text) + " again");
      }
      frame.key = text;
      frame.has_key = true;
      return;
    }
    Add(tag == "!" ? json(text) : PlainScalar(text));
  }

  void OnSequenceStart(const YAML::Mark& mark,
                       const std::string& tag,
                       YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, json::array());
  }
  void OnSequenceEnd() override { Close(); }

  void OnMapStart(const YAML::Mark& mark,
                  const std::string& tag,
                  YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, json::object());
  }
  void OnMapEnd() override { Close(); }

 private:
  struct Frame {
    json value;
    std::string key;
    bool has_key = false;
  };

  [[noreturn]] static void RefuseAlias(const YAML::Mark& mark) {
    throw YamlError(mark, "expected plain YAML, got an anchor or alias; write the value out");
  }

  void Check(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) RefuseAlias(mark);
    if (!tag.empty() && tag != "?" && tag != "!") {
      throw YamlError(mark, "expected plain YAML, got the tag " + Quote(tag));
    }
    if (++values_ > limits_.max_values) {
      throw YamlError(mark,
                      fmt::format("expected at most {} values, got more", limits_.max_values));
    }
  }

  void Open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, json empty) {
    Check(mark, tag, anchor);
    if (!stack_.empty() && stack_.back().value.is_object() && !stack_.back().has_key) {
      throw YamlError(mark, "expected a scalar as key, got a list or mapping");
    }
    if (static_cast<int>(stack_.size()) >= limits_.max_depth) {
      throw YamlError(mark,
                      fmt::format("expected at most {} lists and mappings inside each other, got "
                                  "more",
                                  limits_.max_depth));
    }
    stack_.push_back({.value = std::move(empty), .key = {}, .has_key = false});
  }

  void Close() {
    json value = std::move(stack_.back().value);
    stack_.pop_back();
    Add(std::move(value));
  }

  void Add(json value) {
    if (stack_.empty()) {
      root_ = std::move(value);
      return;
    }
    Frame& frame = stack_.back();
    if (frame.value.is_array()) {
      frame.value.push_back(std::move(value));
    } else {
      frame.value[frame.key] = std::move(value);
      frame.has_key = false;
    }
  }

  YamlLimits limits_;
  json root_;
  std::vector<Frame> stack_;
  std::int64_t values_ = 0;
};

/// Lets the parser read `text` in place.
class ViewBuffer : public std::streambuf {
 public:
  explicit ViewBuffer(std::string_view text) {
    char* begin = const_cast<char*>(text.data());
    setg(begin, begin, begin + text.size());
  }
};

bool HasControlCharacter(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\n' && c != '\r' && c != '\t') || byte == 0x7f;
  });
}

std::string ScalarText(const ordered_json& value) {
  if (!value.is_string()) return value.dump();
  const auto& text = value.get_ref<const std::string&>();
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  constexpr std::array<std::string_view, 9> kReserved = {
      "true", "false", "null", "yes", "no", "on", "off", "y", "n"};
  const bool plain = !text.empty() && std::isalpha(static_cast<unsigned char>(text[0])) != 0 &&
                     text.find_first_not_of(kPlain) == std::string::npos &&
                     std::find(kReserved.begin(), kReserved.end(), text) == kReserved.end();
  return plain ? text : value.dump();
}

void Write(const ordered_json& value, const std::string& indent, std::string& out);

/// Writes what follows "key:" or "-".
void WriteValue(const ordered_json& value, const std::string& indent, std::string& out) {
  if (value.is_structured() && !value.empty()) {
    out += '\n';
    Write(value, indent + "  ", out);
  } else {
    out += ' ' + ScalarText(value) + '\n';
  }
}

void Write(const ordered_json& value, const std::string& indent, std::string& out) {
  if (value.is_object()) {
    for (const auto& [key, member] : value.items()) {
      out += indent + ScalarText(key) + ':';
      WriteValue(member, indent, out);
    }
    return;
  }
  for (const ordered_json& element : value) {
    if (element.is_object() && !element.empty()) {
      std::string lines;
      Write(element, indent + "  ", lines);
      lines[indent.size()] = '-';
      out += lines;
    } else {
      out += indent + '-';
      WriteValue(element, indent, out);
    }
  }
}

}  // namespace

Result<json> ParseYaml(std::string_view text, const YamlLimits& limits) {
  if (static_cast<std::int64_t>(text.size()) > limits.max_bytes) {
    return InputError({},
                      fmt::format("expected YAML of at most {}, got {}",
                                  FormatBytes(static_cast<double>(limits.max_bytes)),
                                  FormatBytes(static_cast<double>(text.size()))));
  }
  if (!IsValidUtf8(text)) return InputError({}, "expected YAML in UTF-8, got other bytes");
  if (HasControlCharacter(text)) {
    return InputError({}, "expected YAML text, got control characters");
  }
  try {
    ViewBuffer buffer(text);
    std::istream stream(&buffer);
    YAML::Parser parser(stream);
    Builder builder(limits);
    if (!parser.HandleNextDocument(builder)) {
      return InputError({}, "expected a YAML document, got an empty file");
    }
    Builder rest(limits);
    if (parser.HandleNextDocument(rest)) {
      return InputError({}, "expected one YAML document, got more", "remove what follows `---`");
    }
    return builder.TakeValue();
  } catch (const Error& error) {
    return error;
  } catch (const YAML::Exception& failure) {
    return YamlError(failure.mark, "expected YAML: " + Printable(failure.msg));
  }
}

std::string ToYamlText(const ordered_json& json) {
  std::string out;
  Write(json, "", out);
  return out;
}

}  // namespace palmist
