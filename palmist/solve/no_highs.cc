// Stands in for highs/milp.cc where the build has no HiGHS.
#include "palmist/solve/milp.h"

namespace palmist::solve {
namespace {

class NoMilp final : public MilpSolver {
 public:
  std::string_view name() const override { return "highs"; }
  bool available() const override { return false; }
  Result<PipelineSolution> Solve(const PipelineProblem&, const MilpOptions&) const override {
    return Error(ErrorKind::kUnavailable,
                 "expected a build with HiGHS, this one has none",
                 "solver",
                 "use the label search, or run tools/setup.sh build and build with "
                 "-DPALMIST_WITH_HIGHS=ON");
  }
};

}  // namespace

std::unique_ptr<MilpSolver> MakeMilpSolver() { return std::make_unique<NoMilp>(); }

}  // namespace palmist::solve
