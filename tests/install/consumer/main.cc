// Uses the installed libraries as any other project would.
#include <cstdio>
#include <string>

#include "palmist/base/json.h"
#include "palmist/base/log.h"
#include "palmist/base/units.h"
#include "palmist/base/version.h"

int main() {
  const palmist::Result<std::int64_t> bytes = palmist::ParseBytes("80GiB");
  const palmist::Result<nlohmann::json> json = palmist::ParseJson(R"({"stages": [1, 2]})");
  if (!bytes.ok() || *bytes != std::int64_t{80} << 30) return 1;
  if (!json.ok() || json->at("stages").size() != 2) return 1;
  palmist::LogInfo("{} and {} stages", palmist::FormatBytes(*bytes), json->at("stages").size());
  std::printf("palmist %s\n", palmist::Version());
  return 0;
}
