#include "palmist/accuracy/validate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "palmist/accuracy/test/sample_runs.h"

namespace palmist::accuracy {
namespace {

ValidationReport Score(const std::string& text, const ValidateOptions& options = {}) {
  return Validate(ReadRuns(text).value(), nullptr, options).value();
}

Row Public(std::initializer_list<std::pair<const char*, const char*>> changes) {
  Row row = PublicRow();
  for (const auto& [column, cell] : changes) row[column] = cell;
  return row;
}

TEST(ValidateTest, SummarizesErrors) {
  const ErrorStatistics statistics = Summarize({{11, 10}, {8, 10}, {10, 10}});
  EXPECT_EQ(statistics.n, 3);
  EXPECT_NEAR(statistics.mean_absolute, 0.1, 1e-12);
  EXPECT_NEAR(statistics.bias, -0.1 / 3, 1e-12);
  EXPECT_NEAR(statistics.worst, 0.2, 1e-12) << "of either sign";
  EXPECT_EQ(Summarize({}).n, 0);
}

TEST(ValidateTest, ScoresEverySchema) {
  for (const std::string& text : {ToCsv({PublicRow()}), MistRun(), AcesoRun()}) {
    const ValidationReport report = Score(text);
    ASSERT_EQ(report.rows.size(), 1u) << report.schema;
    EXPECT_TRUE(report.skipped.empty());
    const RunScore& row = report.rows[0];
    ASSERT_TRUE(row.seconds.has_value());
    EXPECT_GT(row.seconds->predicted, 0);
    ASSERT_FALSE(row.memory.empty());
    for (const MemoryScore& score : row.memory) {
      EXPECT_GT(score.bytes.predicted, 0);
      EXPECT_LT(score.bytes.predicted, 1e12);
    }
    EXPECT_EQ(report.all.runs, 1);
    EXPECT_EQ(report.all.seconds.n, 1);
    EXPECT_GT(report.all.memory.n, 0);
  }
}

TEST(ValidateTest, PredictionsDoNotSeeTheMeasurement) {
  const RunScore before = Score(MistRun()).rows[0];
  std::vector<Row> rows = {MistRow(0, 0, 5), MistRow(1, 5, 3)};
  for (Row& row : rows) {
    row["iter_time_s"] = "77";
    row["peak_allocated_mib"] = "1";
    row["peak_reserved_mib"] = "2";
  }
  const RunScore after = Score(ToCsv(rows)).rows[0];
  EXPECT_EQ(before.predicted_s, after.predicted_s);
  EXPECT_EQ(before.predicted_fits, after.predicted_fits);
  ASSERT_EQ(before.memory.size(), after.memory.size());
  for (std::size_t i = 0; i < before.memory.size(); ++i) {
    EXPECT_EQ(before.memory[i].bytes.predicted, after.memory[i].bytes.predicted);
    EXPECT_NE(before.memory[i].bytes.measured, after.memory[i].bytes.measured);
  }
}

TEST(ValidateTest, TheFirstKindOfMemoryIsScored) {
  const ValidationReport report = Score(MistRun());
  EXPECT_EQ(report.all.memory.n, 2) << "one figure a stage";
  EXPECT_EQ(report.all.memory_by_kind.at(MemoryKind::kAllocated).n, 2);
  EXPECT_EQ(report.all.memory_by_kind.at(MemoryKind::kReserved).n, 2);
  EXPECT_EQ(report.all.memory_by_kind.at(MemoryKind::kNvidiaSmi).n, 0);
  EXPECT_EQ(report.all.memory.mean_absolute,
            report.all.memory_by_kind.at(MemoryKind::kAllocated).mean_absolute);
}

TEST(ValidateTest, TheFullestStageIsComparedWhereNoneIsNamed) {
  const ValidationReport whole = Score(ToCsv({Public({{"mem_gb", "9"}})}));
  const ValidationReport staged = Score(ToCsv({Public({{"mem_gb", "9|9"}})}));
  ASSERT_EQ(whole.rows[0].memory.size(), 1u);
  ASSERT_EQ(staged.rows[0].memory.size(), 2u);
  EXPECT_EQ(whole.rows[0].memory[0].stage, kFullestStage);
  EXPECT_EQ(
      whole.rows[0].memory[0].bytes.predicted,
      std::max(staged.rows[0].memory[0].bytes.predicted, staged.rows[0].memory[1].bytes.predicted));
}

TEST(ValidateTest, CountsFalseFitsAndMisfits) {
  // A small model that is said not to have fitted; one that ran where it cannot have.
  const Row fits = Public({{"iter_time_s", ""}, {"mem_gb", ""}, {"notes", "INFEASIBLE"}});
  const Row misfits = Public({{"layers", "96"},
                              {"hidden", "16384"},
                              {"ffn", "65536"},
                              {"mem_gb", ""},
                              {"recompute", "none"}});
  const Row above = Public({{"mem_gb", "500"}});
  const ValidationReport report = Score(ToCsv({fits, misfits, above}));
  ASSERT_EQ(report.rows.size(), 3u);
  EXPECT_TRUE(report.rows[0].false_fit());
  EXPECT_FALSE(report.rows[1].false_fit());
  EXPECT_TRUE(report.rows[1].false_misfit());
  EXPECT_TRUE(report.rows[2].false_fit()) << "measured above what the device has";
  EXPECT_EQ(report.all.false_fits, 2);
  EXPECT_EQ(report.all.false_misfits, 1);
  EXPECT_EQ(report.all.seconds.n, 2) << "what ran out of memory has no time";
}

TEST(ValidateTest, Groups) {
  const std::string text = ToCsv(
      {Public({}), Public({{"gpu", "L4-24GB"}}), Public({{"gpu", "L4-24GB"}, {"model", "GPT-b"}})});
  const ValidationReport report = Score(text, {.group_by = {"gpu"}});
  ASSERT_EQ(report.groups.size(), 2u);
  EXPECT_EQ(report.groups[0].key.at("gpu"), "A100-SXM4-80GB");
  EXPECT_EQ(report.groups[0].runs, 1);
  EXPECT_EQ(report.groups[1].runs, 2);
  EXPECT_EQ(report.groups[1].seconds.n, 2);
  EXPECT_EQ(Score(text, {.group_by = {"gpu", "model"}}).groups.size(), 3u);
  const auto bad = Validate(ReadRuns(text).value(), nullptr, {.group_by = {"colour"}});
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().kind(), ErrorKind::kUsage);
}

TEST(ValidateTest, InvalidPlansAreSkipped) {
  const ValidationReport report =
      Score(ToCsv({Public({{"tp", "2"}, {"sp", "1"}, {"seq", "2047"}})}));
  EXPECT_TRUE(report.rows.empty());
  EXPECT_EQ(report.skipped.at("plan not valid: sp"), 1);
}

TEST(ValidateTest, UsesTheCalibration) {
  const RunsFile file = ReadRuns(MistRun()).value();
  cluster::Calibration calibration = cluster::DefaultCalibration(file.runs[0].plan.cluster);
  calibration.name = "larger allocator";
  constexpr double kMore = 1e9;
  for (auto& [name, device] : calibration.devices) device.memory.allocator_bytes += kMore;
  const ValidationReport defaults = Validate(file).value();
  const ValidationReport larger = Validate(file, &calibration).value();
  EXPECT_NEAR(larger.rows[0].memory[0].bytes.predicted,
              defaults.rows[0].memory[0].bytes.predicted + kMore,
              1);
  EXPECT_EQ(larger.calibration, "larger allocator");
}

TEST(ValidateTest, JsonHasTheDocumentedKeys) {
  ValidationReport report = Score(MistRun(), {.group_by = {"system"}});
  report.skipped["missing shape"] = 3;
  const nlohmann::ordered_json json = ToJson(report);
  for (const char* key : {"n", "mape_percent", "bias_percent", "worst_percent"}) {
    EXPECT_TRUE(json["time"].contains(key)) << key;
    EXPECT_TRUE(json["memory"].contains(key)) << key;
  }
  EXPECT_EQ(json["memory"]["false_fits"], 0);
  EXPECT_EQ(json["memory_by_kind"].size(), 3u);
  EXPECT_EQ(json["memory_by_kind"]["nvidia_smi"]["n"], 0);
  EXPECT_TRUE(json["memory_by_kind"]["nvidia_smi"]["mape_percent"].is_null());
  ASSERT_EQ(json["groups"].size(), 1u);
  EXPECT_EQ(json["groups"][0]["key"]["system"], "Mist");
  EXPECT_TRUE(json["groups"][0].contains("time") && json["groups"][0].contains("memory"));
  ASSERT_EQ(json["rows"].size(), 1u);
  const auto& row = json["rows"][0];
  EXPECT_EQ(row["id"], "mist-1");
  EXPECT_EQ(row["time"]["measured_s"], 2.5);
  EXPECT_EQ(row["memory"].size(), 4u);
  EXPECT_EQ(row["memory"][0]["kind"], "allocated");
  EXPECT_EQ(json["skipped"]["missing shape"], 3);
  const double error = row["time"]["error_percent"].get<double>();
  EXPECT_NEAR(std::abs(error), json["time"]["mape_percent"].get<double>(), 1e-9);
}

TEST(ValidateTest, TextNamesRunsGroupsAndReasons) {
  ValidationReport report = Score(ToCsv({PublicRow()}), {.group_by = {"gpu"}});
  report.skipped["missing shape"] = 3;
  const std::string text = FormatReport(report);
  for (const char* part : {"GPT on 8 x A100-80GB",
                           "All (1 run)",
                           "gpu A100-SXM4-80GB (1 run)",
                           "fullest",
                           "missing shape",
                           "false fits"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

}  // namespace
}  // namespace palmist::accuracy
