/// The built-in models: the data files of `zoo/`, embedded in the program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "palmist/base/result.h"

namespace palmist::model {

/// Returns the names of all built-in models, sorted.
std::vector<std::string> ZooNames();

/// Returns the configuration of a built-in model; an unknown name lists the nearest ones.
Result<std::string_view> ZooConfig(std::string_view name);

}  // namespace palmist::model
