// Parses any bytes, and reads what comes out with every getter.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "palmist/base/json.h"

namespace {

void ReadEverything(const palmist::JsonReader& reader) {
  (void)reader.OptionalInt("count", 0, -10, 10);
  (void)reader.OptionalDouble("ratio", 0.0, 0.0, 1.0);
  (void)reader.OptionalString("name", "");
  (void)reader.OptionalBool("flag", false);
  if (reader.Has("ints")) (void)reader.RequireInts("ints");
  for (const palmist::JsonReader& item : reader.OptionalArray("items")) ReadEverything(item);
  if (const auto child = reader.OptionalChild("child")) ReadEverything(*child);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const palmist::Result<nlohmann::json> json = palmist::ParseJson(text);
  if (!json.ok()) return 0;
  try {
    ReadEverything(palmist::JsonReader(*json));
  } catch (const palmist::Error& error) {
    if (error.kind() != palmist::ErrorKind::kInput) __builtin_trap();
  }
  return 0;
}
