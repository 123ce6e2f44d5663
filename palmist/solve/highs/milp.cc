// The MILP of milp.h through HiGHS's C interface, whose binary interface does not depend on the
// C++ library. Times are divided by one that the iteration cannot be shorter than, so that the
// solver's absolute tolerances mean the same for all problems.
#include "palmist/solve/milp.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "interfaces/highs_c_api.h"
#include "palmist/base/error.h"

namespace palmist::solve {
namespace {

/// A column: stage `stage` runs layers first..last with `option`.
struct Choice {
  int stage, first, last;
  StageOption option;
  double total_s, extra_s;
};

/// What HiGHS calls back with.
struct Interrupt {
  const std::function<bool()>* stop;
  std::mutex mutex;
  std::exception_ptr thrown;
  bool asked = false;
};

void OnInterrupt(int, const char*, const HighsCallbackDataOut*, HighsCallbackDataIn* in, void* p) {
  auto& interrupt = *static_cast<Interrupt*>(p);
  const std::lock_guard lock(interrupt.mutex);
  if (!interrupt.asked) {
    try {
      interrupt.asked = (*interrupt.stop)();
    } catch (...) {
      interrupt.thrown = std::current_exception();
      interrupt.asked = true;
    }
  }
  if (interrupt.asked && in != nullptr) in->user_interrupt = 1;
}

/// The solver failed; `Solve` catches it.
struct Failure {
  std::string message;
};

/// An instance of HiGHS. Its scheduler belongs to the calling thread and keeps the number of
/// threads that it was made with, so that it goes too.
class Highs {
 public:
  Highs() : highs_(Highs_create()) {}
  ~Highs() {
    Highs_destroy(highs_);
    Highs_resetGlobalScheduler(1);
  }
  Highs(const Highs&) = delete;
  Highs& operator=(const Highs&) = delete;

  void* get() const { return highs_; }
  void Set(const char* name, bool value) {
    Check(Highs_setBoolOptionValue(highs_, name, value ? 1 : 0), name);
  }
  void Set(const char* name, int value) {
    Check(Highs_setIntOptionValue(highs_, name, value), name);
  }
  void Set(const char* name, double value) {
    Check(Highs_setDoubleOptionValue(highs_, name, value), name);
  }
  double Info(const char* name) const {
    double value = 0;
    Check(Highs_getDoubleInfoValue(highs_, name, &value), name);
    return value;
  }
  bool HasSolution() const {
    HighsInt status = 0;
    Check(Highs_getIntInfoValue(highs_, "primal_solution_status", &status), "solution status");
    return status == kHighsSolutionStatusFeasible;
  }

  static void Check(HighsInt status, const char* what) {
    if (status == kHighsStatusError) throw Failure{std::string("HiGHS failed: ") + what};
  }

 private:
  void* highs_;
};

/// The columns and rows of the problem, times in units of `scale_s`.
class Model {
 public:
  Model(const PipelineProblem& problem, const std::vector<Choice>& choices, double scale_s)
      : problem_(problem), scale_s_(scale_s) {
    const int stages = problem.stages;
    // Rows: the flow into each stage at each boundary (of the first at 0), then for each stage its
    // t, d and tail, then the cut-off.
    const int flows = 1 + (stages - 1) * (problem.layers + 1);
    t_row_ = flows;
    d_row_ = t_row_ + stages;
    tail_row_ = d_row_ + stages;
    cutoff_row_ = tail_row_ + stages;
    const double infinity = std::numeric_limits<double>::infinity();
    row_lower_.assign(static_cast<std::size_t>(cutoff_row_) + 1, 0);
    row_upper_.assign(row_lower_.size(), infinity);
    for (int i = 0; i < flows; ++i) row_upper_[static_cast<std::size_t>(i)] = 0;
    row_lower_[0] = row_upper_[0] = 1;
    row_lower_.back() = -infinity;
    row_upper_.back() = problem.cutoff_s * (1 + kTolerance) / scale_s;

    for (const Choice& choice : choices) {
      const double t = choice.total_s / scale_s;
      Entry(FlowRow(choice.stage, choice.first), 1);
      if (choice.stage + 1 < stages) Entry(FlowRow(choice.stage + 1, choice.last + 1), -1);
      Entry(t_row_ + choice.stage, -t);
      Entry(d_row_ + choice.stage, -choice.extra_s / scale_s);
      for (int behind = choice.stage + 1; behind < stages; ++behind) Entry(d_row_ + behind, t);
      Entry(tail_row_ + choice.stage, -choice.option.tail_s / scale_s);
      Column(t, 1, kHighsVarTypeInteger);
    }
    for (int i = 0; i < stages; ++i) Entry(t_row_ + i, 1);
    Column(problem.micro_batches - 1, infinity, kHighsVarTypeContinuous);
    for (int i = 0; i < stages; ++i) Entry(d_row_ + i, 1);
    Column(1, infinity, kHighsVarTypeContinuous);
    for (int i = 0; i < stages; ++i) Entry(tail_row_ + i, 1);
    Column(1, infinity, kHighsVarTypeContinuous);
  }

  /// How far beyond the cut-off, as a share, counts as within.
  static constexpr double kTolerance = 1e-9;

  void PassTo(Highs& highs) const {
    if (value_.size() > static_cast<std::size_t>(std::numeric_limits<HighsInt>::max())) {
      throw Failure{"the program is too large for HiGHS"};
    }
    Highs::Check(Highs_passMip(highs.get(),
                               static_cast<HighsInt>(cost_.size()),
                               static_cast<HighsInt>(row_lower_.size()),
                               static_cast<HighsInt>(value_.size()),
                               kHighsMatrixFormatColwise,
                               kHighsObjSenseMinimize,
                               0,
                               cost_.data(),
                               lower_.data(),
                               upper_.data(),
                               row_lower_.data(),
                               row_upper_.data(),
                               start_.data(),
                               index_.data(),
                               value_.data(),
                               integrality_.data()),
                 "the model was refused");
  }

 private:
  int FlowRow(int stage, int boundary) const {
    return stage == 0 ? 0 : 1 + (stage - 1) * (problem_.layers + 1) + boundary;
  }
  void Entry(int row, double value) {
    if (value == 0) return;
    index_.push_back(row);
    value_.push_back(value);
  }
  /// Ends the column whose entries came before.
  void Column(double cost, double upper, HighsInt type) {
    if (std::isfinite(problem_.cutoff_s)) Entry(cutoff_row_, cost);
    cost_.push_back(cost);
    lower_.push_back(0);
    upper_.push_back(upper);
    integrality_.push_back(type);
    start_.push_back(static_cast<HighsInt>(index_.size()));
  }

  const PipelineProblem& problem_;
  double scale_s_;
  int t_row_, d_row_, tail_row_, cutoff_row_;
  std::vector<double> cost_, lower_, upper_, row_lower_, row_upper_, value_;
  std::vector<HighsInt> start_{0}, index_, integrality_;
};

class HighsMilp final : public MilpSolver {
 public:
  std::string_view name() const override { return "highs"; }
  bool available() const override { return true; }

  Result<PipelineSolution> Solve(const PipelineProblem& problem,
                                 const MilpOptions& options) const override {
    PALMIST_ASSERT(problem.stages >= 1 && problem.layers >= problem.stages);
    PALMIST_RETURN_IF_ERROR(CheckArguments(problem, options));
    const auto start = std::chrono::steady_clock::now();
    const auto left_s = [&] {
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
      return options.time_limit_s - elapsed.count();
    };
    PipelineSolution solution;
    std::vector<Choice> choices;
    for (int i = 0; i < problem.stages; ++i) {
      const int lowest = i == 0 ? 0 : i, highest = i == 0 ? 0 : problem.layers - problem.stages + i;
      for (int first = lowest; first <= highest; ++first) {
        if (problem.stop && problem.stop()) {
          solution.stopped = true;
          solution.outcome = Outcome::kInterrupted;
          return solution;
        }
        if (left_s() <= 0) {
          solution.outcome = Outcome::kTimeLimit;
          return solution;
        }
        PALMIST_RETURN_IF_ERROR(AddChoices(problem, i, first, choices));
      }
    }
    // Each stage takes at least its shortest option, G times over.
    double least_s = 0;
    for (int i = 0; i < problem.stages; ++i) {
      double shortest = std::numeric_limits<double>::infinity();
      for (const Choice& choice : choices) {
        if (choice.stage == i) shortest = std::min(shortest, choice.total_s);
      }
      least_s = std::max(least_s, shortest);
    }
    if (!std::isfinite(least_s)) {
      solution.lower_bound_s = problem.cutoff_s;
      return solution;
    }
    try {
      return Run(problem, options, choices, least_s > 0 ? least_s : 1, left_s());
    } catch (const Failure& failure) {
      return Error(ErrorKind::kRuntime, failure.message, "solver", "use the label search");
    }
  }

 private:
  static Result<void> CheckArguments(const PipelineProblem& problem, const MilpOptions& options) {
    if (problem.objective != Objective::kMist) {
      return UsageError("objective", "the MILP has Mist's objective only", "use the label search");
    }
    if (!(options.time_limit_s >= 0)) {
      return UsageError("time_limit_s", "expected a time limit of at least 0 s");
    }
    if (options.threads < 1) return UsageError("threads", "expected at least one thread");
    if (!(options.gap >= 0)) return UsageError("gap", "expected a gap of at least 0");
    return {};
  }

  /// Adds the options of stage i from layer `first` that can be part of a split within the cut-off.
  static Result<void> AddChoices(const PipelineProblem& problem,
                                 int i,
                                 int first,
                                 std::vector<Choice>& choices) {
    const int stages = problem.stages;
    // Leave a layer for each stage behind; the last stage takes all that is left.
    const int highest = problem.layers - (stages - i);
    for (int last = i + 1 == stages ? highest : first; last <= highest; ++last) {
      for (const StageOption& option : problem.options(i, first, last)) {
        const schedule::StagePoint& point = option.point;
        for (const double time : {point.forward_s,
                                  point.backward_s,
                                  point.first_extra_s,
                                  point.last_extra_s,
                                  option.tail_s}) {
          if (!(time >= 0) || !std::isfinite(time)) {
            return InputError("stages[" + std::to_string(i) + "]",
                              "expected times of at least 0 s, got " + std::to_string(time));
          }
        }
        const double t = point.total_s();
        if (problem.micro_batches * t > problem.cutoff_s * (1 + Model::kTolerance)) continue;
        choices.push_back({i, first, last, option, t, point.first_extra_s + point.last_extra_s});
      }
    }
    return {};
  }

  static PipelineSolution Run(const PipelineProblem& problem,
                              const MilpOptions& options,
                              const std::vector<Choice>& choices,
                              double scale_s,
                              double time_limit_s) {
    PipelineSolution solution;
    Highs highs;
    highs.Set("output_flag", false);
    highs.Set("threads", options.threads);
    highs.Set("time_limit", std::max(0.0, time_limit_s));
    highs.Set("mip_rel_gap", options.gap);
    highs.Set("mip_abs_gap", 0.0);
    for (const char* name : {"primal_feasibility_tolerance",
                             "dual_feasibility_tolerance",
                             "mip_feasibility_tolerance"}) {
      highs.Set(name, 1e-10);
    }
    Model(problem, choices, scale_s).PassTo(highs);
    Interrupt interrupt{.stop = &problem.stop, .mutex = {}, .thrown = nullptr};
    if (problem.stop) {
      Highs::Check(Highs_setCallback(highs.get(), OnInterrupt, &interrupt), "callback");
      for (const HighsInt kind : {kHighsCallbackSimplexInterrupt,
                                  kHighsCallbackIpmInterrupt,
                                  kHighsCallbackMipInterrupt}) {
        Highs::Check(Highs_startCallback(highs.get(), kind), "callback");
      }
    }
    const HighsInt status = Highs_run(highs.get());
    if (interrupt.thrown) std::rethrow_exception(interrupt.thrown);
    const HighsInt model_status = Highs_getModelStatus(highs.get());
    switch (model_status) {
      case kHighsModelStatusOptimal:
        solution.outcome = Outcome::kOptimal;
        break;
      case kHighsModelStatusInfeasible:
      case kHighsModelStatusUnboundedOrInfeasible:  // times are not negative, so not unbounded
        solution.outcome = Outcome::kInfeasible;
        solution.lower_bound_s = problem.cutoff_s;
        return solution;
      case kHighsModelStatusTimeLimit:
        solution.outcome = Outcome::kTimeLimit;
        break;
      case kHighsModelStatusInterrupt:
        solution.outcome = Outcome::kInterrupted;
        solution.stopped = true;
        break;
      default:
        throw Failure{"HiGHS ended with status " + std::to_string(status) + ", model status " +
                      std::to_string(model_status)};
    }
    const double bound = highs.Info("mip_dual_bound") * scale_s;
    solution.lower_bound_s = std::isfinite(bound) ? std::max(0.0, bound) : 0;
    if (!highs.HasSolution()) {
      if (solution.outcome == Outcome::kOptimal) throw Failure{"HiGHS returned no solution"};
      return solution;
    }
    TakeSplit(problem, choices, highs, solution);
    solution.lower_bound_s = std::min(solution.lower_bound_s, solution.iteration_s);
    return solution;
  }

  /// Reads the split, and prices it anew: the solver's own sum is off by its tolerances.
  static void TakeSplit(const PipelineProblem& problem,
                        const std::vector<Choice>& choices,
                        const Highs& highs,
                        PipelineSolution& solution) {
    std::vector<double> value(static_cast<std::size_t>(Highs_getNumCol(highs.get())));
    std::vector<double> row(static_cast<std::size_t>(Highs_getNumRow(highs.get())));
    Highs::Check(Highs_getSolution(highs.get(), value.data(), nullptr, row.data(), nullptr),
                 "no solution");
    std::vector<StageOption> taken;
    int next = 0;
    // Choices lie in the order of their stages.
    for (std::size_t c = 0; c < choices.size(); ++c) {
      if (value[c] < 0.5) continue;
      const Choice& choice = choices[c];
      if (choice.stage != static_cast<int>(taken.size()) || choice.first != next) break;
      solution.first.push_back(choice.first);
      solution.tag.push_back(choice.option.tag);
      taken.push_back(choice.option);
      next = choice.last + 1;
    }
    if (static_cast<int>(taken.size()) != problem.stages || next != problem.layers) {
      throw Failure{"HiGHS returned stages with a hole"};
    }
    solution.found = true;
    solution.iteration_s = ObjectiveSeconds(problem, taken);
  }
};

}  // namespace

std::unique_ptr<MilpSolver> MakeMilpSolver() { return std::make_unique<HighsMilp>(); }

}  // namespace palmist::solve
