// Any bytes: parsed, built, checked and counted, or refused with an error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "palmist/model/config.h"
#include "palmist/model/graph.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace palmist::model;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto model = ParseConfig(text, "fuzz");
  if (!model.ok()) {
    if (palmist::ExitCode(model.error().kind()) != 2) __builtin_trap();
    return 0;
  }
  // What parses can be built and counted.
  const Graph graph = BuildGraph(model->spec);
  if (!CheckGraph(graph).ok()) __builtin_trap();
  if (CountParameters(graph) < CountActiveParameters(graph)) __builtin_trap();
  if (CountActiveParameters(graph) <= 0) __builtin_trap();
  return 0;
}
