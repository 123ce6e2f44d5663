/// The calls behind `palmist_call`, on parsed requests.
#pragma once

#include <nlohmann/json.hpp>

#include "palmist/base/json.h"
#include "palmist/model/config.h"

namespace palmist::bindings {

/// Reads the model whose configuration is the object `config`.
/// @throws Error(kInput) with a path below `config`
model::Model ReadConfig(const JsonReader& request);

/// Searches the fastest plan for a cluster.
/// @throws Error; kInfeasible where nothing fits.
nlohmann::ordered_json Plan(const JsonReader& request);

/// Prices a plan.
/// @throws Error
nlohmann::ordered_json Predict(const JsonReader& request);

/// Chooses operators and recomputation layer by layer for one device.
/// @throws Error
nlohmann::ordered_json ChooseOperators(const JsonReader& request);

}  // namespace palmist::bindings
