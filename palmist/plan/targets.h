/// What each trainer can express of a plan.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "palmist/base/result.h"
#include "palmist/plan/plan.h"

namespace palmist::plan {

/// The trainers a plan can be made for. `kNone` and `kPalmist` express every plan.
enum class Target { kNone, kPalmist, kMegatron, kDeepSpeed, kTorchtitan, kAccelerate };

/// Returns the name used on the command line: "none", "palmist", "megatron", "deepspeed",
/// "torchtitan", "accelerate".
std::string_view ToString(Target target);

/// Reads a name of `ToString`; an unknown one lists the nearest.
Result<Target> ParseTarget(std::string_view name);

/// Something in a plan that a target cannot express.
struct Unsupported {
  std::string field;    ///< path in the plan, such as `stages[1].zero`
  std::string message;  ///< what the target cannot do
  std::string hint;     ///< what would do instead
  bool operator==(const Unsupported&) const = default;
};

/// Returns all that `target` cannot express, also where it needs a configuration file for each
/// stage's processes. Empty: the plan can be exported exactly.
/// @pre `plan` is valid.
std::vector<Unsupported> FindUnsupported(const Plan& plan, Target target);

/// Returns the first of `FindUnsupported` as an infeasible-kind error.
Result<void> CheckTarget(const Plan& plan, Target target);

}  // namespace palmist::plan
