/// Measured collectives, as cluster and calibration files write them.
#pragma once

#include <string>
#include <vector>

#include "palmist/base/json.h"
#include "palmist/cluster/cluster.h"

namespace palmist::cluster {

/// Returns the list `key` of `reader`, empty where it is absent. @throws Error
std::vector<CollectiveFit> ReadCollectives(const JsonReader& reader, const std::string& key);

/// Returns what `ReadCollectives` reads back.
nlohmann::ordered_json CollectivesJson(const std::vector<CollectiveFit>& collectives);

}  // namespace palmist::cluster
