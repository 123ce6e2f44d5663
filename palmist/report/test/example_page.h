/// A plan with predictions, to show on pages in tests.
#pragma once

#include <string>
#include <vector>

#include "palmist/plan/plan.h"
#include "palmist/report/page.h"

namespace palmist::report::test {

/// Returns a plan of `stages` stages of two layers each on four devices, with predictions.
plan::Plan ExamplePlan(const std::string& model_name, int stages = 4);

/// Returns its page with two alternatives and notes.
Page ExamplePage(const std::string& model_name, int stages = 4);

}  // namespace palmist::report::test
