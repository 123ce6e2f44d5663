#include "palmist/model/zoo.h"

#include <algorithm>

#include "palmist/base/error.h"
#include "palmist/base/nearest.h"
#include "palmist/base/text.h"
#include "palmist/model/zoo_files.h"

namespace palmist::model {
namespace {

std::string_view NameOf(const EmbeddedFile& file) {
  constexpr std::string_view kExtension = ".json";
  return file.name.substr(0, file.name.size() - kExtension.size());
}

}  // namespace

std::vector<std::string> ZooNames() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : kZooFiles) names.emplace_back(NameOf(file));
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::string_view> ZooConfig(std::string_view name) {
  for (const EmbeddedFile& file : kZooFiles) {
    if (NameOf(file) == name) return file.content;
  }
  const std::string nearest = DidYouMean(name, ZooNames());
  return UsageError("",
                    "expected the name of a built-in model, got " + Quote(name),
                    nearest.empty() ? "`palmist models` lists them" : nearest);
}

}  // namespace palmist::model
