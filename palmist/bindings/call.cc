#include "palmist/bindings/call.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "palmist/base/text.h"
#include "palmist/base/version.h"
#include "palmist/bindings/palmist.h"

namespace palmist::bindings {

model::Model ReadConfig(const JsonReader& request) {
  Result<model::Model> model = model::ParseConfig(request.Child("config").json().dump(), "config");
  if (!model.ok()) throw model.error().WithFieldPrefix("config");
  return std::move(model).value();
}

namespace {

struct Call {
  std::string_view name;
  nlohmann::ordered_json (*answer)(const JsonReader&);
};

constexpr std::array<Call, 3> kCalls = {{
    {"choose_operators", ChooseOperators},
    {"plan", Plan},
    {"predict", Predict},
}};

nlohmann::ordered_json Answer(const char* text) {
  if (text == nullptr) {
    throw InputError(
        {}, "expected a request, got a null pointer", R"(pass a JSON object with "call")");
  }
  const nlohmann::json json = ParseJson(text).value();
  const JsonReader request(json);
  const std::string name = request.RequireString("call");
  std::string known;
  for (const Call& call : kCalls) {
    if (call.name == name) return call.answer(request);
    known += (known.empty() ? "" : ", ") + std::string(call.name);
  }
  request.Fail("call", "expected the name of a call, got " + Quote(name), "use one of " + known);
}

nlohmann::ordered_json ErrorJson(const Error& error) {
  return {
      {"error",
       {{"kind", ToString(error.kind())}, {"message", error.what()}, {"field", error.field()}}}};
}

/// Returns a copy for C, or null where memory ran out.
char* Copy(std::string_view text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) return nullptr;
  std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  return copy;
}

std::string Dump(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

char* AnswerText(const char* text) {
  try {
    return Copy(Dump(Answer(text)));
  } catch (const Error& error) {
    return Copy(Dump(ErrorJson(error)));
  } catch (const std::bad_alloc&) {
    return Copy(R"({"error": {"kind": "runtime", "message": "expected enough memory for the )"
                R"(request, got none; make the request smaller", "field": ""}})");
  } catch (const std::exception& error) {
    return Copy(Dump(ErrorJson(Error(ErrorKind::kInternal, error.what()))));
  }
}

}  // namespace
}  // namespace palmist::bindings

char* palmist_call(const char* request_json) {
  try {
    return palmist::bindings::AnswerText(request_json);
  } catch (...) {
    // Only where memory ran out a second time, for the message.
    return nullptr;
  }
}

void palmist_free(char* text) { std::free(text); }

const char* palmist_version() { return palmist::Version(); }
