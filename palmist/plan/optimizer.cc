#include "palmist/plan/optimizer.h"

#include "palmist/base/text.h"

namespace palmist::plan {
namespace {

struct Kind {
  const char* name;
  double state_bytes;  // a parameter, without the copy in fp32
};
constexpr double kScaleBytes = 4.0 / 256;
constexpr Kind kKinds[] = {
    {"adamw", 8}, {"adamw-bf16", 4}, {"adamw-8bit", 2 * (1 + kScaleBytes)}, {"sgd", 4}};

}  // namespace

Result<Optimizer> NamedOptimizer(std::string_view name, std::string_view dtype) {
  constexpr double kMasterBytes = 4;
  for (const Kind& kind : kKinds) {
    if (kind.name != name) continue;
    return Optimizer{kind.name, kind.state_bytes + (dtype == "fp32" ? 0 : kMasterBytes)};
  }
  std::string names;
  for (const std::string& known : OptimizerNames()) names += (names.empty() ? "" : ", ") + known;
  return UsageError("", "expected one of " + names + ", got " + Quote(name), "use adamw");
}

std::vector<std::string> OptimizerNames() {
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) names.emplace_back(kind.name);
  return names;
}

}  // namespace palmist::plan
