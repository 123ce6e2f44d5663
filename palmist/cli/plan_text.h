/// A plan as one screen of text.
#pragma once

#include <string>
#include <vector>

#include "palmist/plan/plan.h"

namespace palmist::cli {

/// Returns the screen: the plan by stage, memory by category against the limit, the split of the
/// iteration, and, where given, alternatives with what each costs, the constraint that binds, and
/// notes. About 40 lines; long pipelines are abridged.
/// @pre plan.predicted and each stage's
std::string FormatPlan(const plan::Plan& plan,
                       const std::vector<plan::Plan>& alternatives = {},
                       const std::string& binding = {},
                       const std::vector<std::string>& notes = {});

/// Returns two predictions of one model beside each other, a row for each number that differs or
/// that everybody asks for. @pre both plans are predicted
std::string FormatComparison(const plan::Plan& before, const plan::Plan& after);

/// Returns advice that follows from the prediction alone: memory near the limit, a network that
/// takes much of the time, padded vocabulary, replicated key-value heads.
std::vector<std::string> Advice(const plan::Plan& plan);

}  // namespace palmist::cli
