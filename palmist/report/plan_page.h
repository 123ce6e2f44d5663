/// The page of a plan: what it is, what it needs, where its time goes, and how good it is proven.
#pragma once

#include <string>
#include <vector>

#include "palmist/plan/plan.h"
#include "palmist/report/page.h"

namespace palmist::report {

/// What others know about a plan, in sentences.
struct PlanPageText {
  std::string what_binds;          ///< what keeps the plan from being faster; may be empty
  std::vector<std::string> notes;  ///< such as plan::Notes; may be empty
};

/// Returns the page of `plan`. Parts whose numbers the plan does not hold are left out.
/// @param alternatives other plans for the same model and cluster, best first.
Page PlanPage(const plan::Plan& plan,
              const std::vector<plan::Plan>& alternatives = {},
              const PlanPageText& text = {});

}  // namespace palmist::report
