// Scores the measured runs that lie beside the checkout: in $PALMIST_SHARED_DATA, else in
// ../shared/data. Without them the tests are skipped.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "palmist/accuracy/validate.h"
#include "palmist/base/file.h"
#include "palmist/cost/predict.h"
#include "palmist/planner/explain.h"

namespace palmist::accuracy {
namespace {

std::filesystem::path DataFolder() {
  if (const char* folder = std::getenv("PALMIST_SHARED_DATA")) return folder;
  return std::filesystem::path(PALMIST_SOURCE_DIR).parent_path() / "shared" / "data";
}

/// Returns the scores of a file; fails the test where it is there and cannot be read.
ValidationReport Score(const std::filesystem::path& path) {
  const RunsFile file = ReadRuns(ReadFile(path.string()).value()).value();
  return Validate(file).value();
}

class SharedDataTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(DataFolder() / "public_runs.csv")) {
      GTEST_SKIP() << "no measured runs in " << DataFolder()
                   << "; set PALMIST_SHARED_DATA to the folder that holds public_runs.csv";
    }
  }
};

TEST_F(SharedDataTest, MemoryOfMistsRunsIsWithinTheBar) {
  const ValidationReport report = Score(DataFolder() / "mist" / "l4_measured_runs.csv");
  EXPECT_EQ(report.all.runs, 8);
  EXPECT_TRUE(report.skipped.empty());
  EXPECT_EQ(report.all.seconds.n, 8);
  const ErrorStatistics& memory = report.all.memory_by_kind.at(MemoryKind::kAllocated);
  EXPECT_EQ(memory.n, 17);
  EXPECT_LE(memory.mean_absolute, 0.015);
  EXPECT_LE(memory.worst, 0.035);
  EXPECT_EQ(report.all.false_fits, 0);
}

TEST_F(SharedDataTest, MistsPlansAreNoBetterThanThoseFoundInMistsSpace) {
  const RunsFile file =
      ReadRuns(ReadFile((DataFolder() / "mist" / "l4_measured_runs.csv").string()).value()).value();
  for (const MeasuredRun& run : file.runs) {
    const cluster::Calibration calibration = cluster::DefaultCalibration(run.plan.cluster);
    plan::Plan theirs = run.plan;
    cost::Predict(theirs, run.model->graph, calibration);
    const model::Model model = model::ParseConfig(run.model->config_json, run.model->name).value();
    planner::PlanRequest request = planner::RequestOf(theirs, model, calibration);
    request.space = planner::RulesOf("mist");
    request.fixed.FixOps(theirs.stages.front().ops);
    request.top = 1;
    request.gap = 0.001;
    const planner::PlanResult ours = planner::FindPlan(request);
    ASSERT_FALSE(ours.plans.empty()) << run.id;
    EXPECT_TRUE(theirs.predicted->fits) << run.id;
    EXPECT_LE(ours.plans.front().predicted->iteration_time_s,
              theirs.predicted->iteration_time_s * (1 + 1e-9))
        << run.id;
  }
}

TEST_F(SharedDataTest, ReadsTheRunsOfAceso) {
  const ValidationReport report = Score(DataFolder() / "mist" / "aceso_measured_runs.csv");
  EXPECT_EQ(report.all.runs, 23);
  EXPECT_EQ(report.skipped.at("repeats disagree"), 1);
  EXPECT_EQ(report.all.memory_by_kind.at(MemoryKind::kAllocated).n, 104);
  EXPECT_EQ(report.all.false_fits, 0);
}

TEST_F(SharedDataTest, ReadsPublicRuns) {
  const ValidationReport report = Score(DataFolder() / "public_runs.csv");
  EXPECT_GE(report.all.runs, 280);
  EXPECT_GE(report.all.seconds.n, 270);
  EXPECT_GE(report.all.memory.n, 50);
  EXPECT_EQ(report.all.false_fits, 0);
  int runs = report.all.runs;
  for (const auto& [reason, count] : report.skipped) runs += count;
  EXPECT_EQ(runs, 608) << "every row is scored or counted with its reason";
}

TEST_F(SharedDataTest, ReadsRunsWithFurtherColumns) {
  for (const auto& [folder, rows] : {std::pair("sailor", 55), std::pair("moe", 48)}) {
    const ValidationReport report = Score(DataFolder() / folder / "measured_runs.csv");
    int runs = report.all.runs;
    for (const auto& [reason, count] : report.skipped) runs += count;
    EXPECT_EQ(runs, rows) << folder;
  }
  EXPECT_EQ(Score(DataFolder() / "moe" / "measured_runs.csv").all.seconds.n, 12)
      << "the rows of Megatron-Core";
}

}  // namespace
}  // namespace palmist::accuracy
