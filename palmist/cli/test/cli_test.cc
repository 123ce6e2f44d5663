#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>

#include "palmist/base/json.h"
#include "palmist/cli/test/run_program.h"
#include "palmist/plan/plan.h"

namespace palmist::cli {
namespace {

using test::Call;
using test::Folder;
using test::Ran;
using test::With;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

const std::vector<std::string> kPlan = {
    "plan", "gpt2", "--cluster", "l4-1x4", "--seq", "512", "--global-batch", "16"};
/// Needs 7 B parameters' states on two devices of 24 GB.
const std::vector<std::string> kTooLarge = {
    "plan", "llama-2-70b", "--cluster", "l4-1x2", "--seq", "2048", "--global-batch", "2"};

/// Expects an error with `code` that says `message`, as text and as JSON; returns the JSON.
nlohmann::json ExpectError(const std::vector<std::string>& arguments,
                           int code,
                           const std::string& message) {
  const Ran text = Call(arguments);
  EXPECT_EQ(text.code, code);
  EXPECT_THAT(text.out, IsEmpty());
  EXPECT_THAT(text.err, AllOf(StartsWith("palmist: "), HasSubstr(message)));
  const Ran json = Call(With(arguments, {"--json"}));
  EXPECT_EQ(json.code, code);
  EXPECT_THAT(json.err, IsEmpty());
  const nlohmann::json error = json.json().at("error");
  for (const char* key : {"kind", "message", "field", "hint"}) {
    EXPECT_TRUE(error.at(key).is_string()) << key;
  }
  EXPECT_THAT(error.dump(), HasSubstr(nlohmann::json(message).dump().substr(1, message.size())));
  return error;
}

// ------------------------------------------------------------------- the program

TEST(CliTest, VersionNamesBuildSolverAndLibtorch) {
  const Ran ran = Call({"--version"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, AllOf(StartsWith("palmist "), HasSubstr("solvers"), HasSubstr("libtorch")));
  EXPECT_THAT(ran.err, IsEmpty());
}

TEST(CliTest, HelpOfEveryCommandHasAnExample) {
  EXPECT_EQ(Call({"--help"}).code, 0);
  for (const char* command : {"plan", "predict", "models", "clusters", "validate", "doctor"}) {
    const Ran ran = Call({command, "--help"});
    EXPECT_EQ(ran.code, 0) << command;
    EXPECT_THAT(ran.out,
                AllOf(HasSubstr("Example"),
                      HasSubstr("palmist " + std::string(command)),
                      HasSubstr("--json")));
  }
}

TEST(CliTest, NoCommandShowsTheHelp) {
  const Ran ran = Call({});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.out, IsEmpty());
  EXPECT_THAT(ran.err, HasSubstr("Subcommands"));
}

TEST(CliTest, UnknownCommandNamesTheNearest) {
  const nlohmann::json error = ExpectError({"plam", "gpt2"}, 2, "plam");
  EXPECT_EQ(error.at("kind"), "usage");
  EXPECT_THAT(error.at("hint").get<std::string>(), HasSubstr("plan"));
}

TEST(CliTest, UnknownOptionNamesTheNearest) {
  const nlohmann::json error = ExpectError(With(kPlan, {"--gapp", "0.1"}), 2, "--gapp");
  EXPECT_THAT(error.at("hint").get<std::string>(), HasSubstr("--gap"));
  EXPECT_THAT(ExpectError({"models", "--quite"}, 2, "--quite").at("hint").get<std::string>(),
              HasSubstr("--quiet"));
}

// The slip explains why the option that is needed is missing.
TEST(CliTest, MisspeltNeededOptionNamesTheNearest) {
  const nlohmann::json error =
      ExpectError({"plan", "gpt2", "--cluser", "l4-1x4", "--seq", "512", "--global-batch", "16"},
                  2,
                  "--cluser");
  EXPECT_THAT(error.at("hint").get<std::string>(), HasSubstr("--cluster"));
}

TEST(CliTest, MissingOptionsAreNamed) {
  ExpectError({"plan", "gpt2", "--cluster", "l4-1x4"}, 2, "--global-batch");
  ExpectError({"plan", "--cluster", "l4-1x4", "--global-batch", "4"}, 2, "MODEL");
}

// ------------------------------------------------------------------- lists

TEST(CliTest, ModelsAsJson) {
  const nlohmann::json models = Call({"models", "--json"}).json().at("models");
  EXPECT_GT(models.size(), 100u);
  for (const auto& model : models) {
    EXPECT_TRUE(model.at("name").is_string());
    EXPECT_TRUE(model.at("family").is_string());
    EXPECT_GT(model.at("params").get<std::int64_t>(), 0);
    EXPECT_LE(model.at("active_params"), model.at("params"));
    EXPECT_GT(model.at("layers").get<int>(), 0);
  }
  const nlohmann::json one = Call({"models", "gpt2-xl", "--json"}).json().at("models").at(0);
  EXPECT_EQ(one.at("params"), 1'557'611'200);
  EXPECT_EQ(one.at("config").at("model_type"), "gpt2");
}

TEST(CliTest, UnknownModelNamesTheNearest) {
  const nlohmann::json error = ExpectError({"models", "gpt2-xll"}, 2, "gpt2-xll");
  EXPECT_THAT(error.at("hint").get<std::string>(), HasSubstr("gpt2-xl"));
}

TEST(CliTest, ClustersAsJson) {
  const nlohmann::json clusters = Call({"clusters", "--json"}).json().at("clusters");
  EXPECT_GT(clusters.size(), 10u);
  EXPECT_TRUE(Call({"clusters", "h100-4x8", "--json"}).json().at("clusters").is_array());
  const Ran yaml = Call({"clusters", "l4-1x8"});
  EXPECT_EQ(yaml.code, 0);
  EXPECT_THAT(yaml.out, HasSubstr("palmist_cluster: 1"));
}

TEST(CliTest, DoctorAnswers) {
  EXPECT_EQ(Call({"doctor"}).code, 0);
  EXPECT_TRUE(Call({"doctor", "--json"}).json().is_object());
}

// ------------------------------------------------------------------- plan and predict

TEST(CliTest, PlanAsTextNamesWhatAUserNeeds) {
  const Ran ran = Call(kPlan);
  EXPECT_EQ(ran.code, 0);
  for (const char* part : {"gpt2",
                           "l4-1x4",
                           "an iteration",
                           "tokens/s",
                           "memory of stage",
                           "activations",
                           "alternatives",
                           "binding: ",
                           "optimal"}) {
    EXPECT_THAT(ran.out, HasSubstr(part));
  }
}

TEST(CliTest, PlanFileIsWhatJsonPrintsAndPredictsTheSame) {
  const Folder folder;
  const std::string file = folder.File("plan.json");
  const Ran ran = Call(With(kPlan, {"--json", "-o", file}));
  ASSERT_EQ(ran.code, 0);
  const std::string written = ReadFile(file).value();
  EXPECT_EQ(ran.out, written);
  const Result<plan::Plan> plan = plan::FromJson(written);
  ASSERT_TRUE(plan.ok()) << plan.error().what();
  EXPECT_TRUE(plan->predicted->fits);
  EXPECT_EQ(plan->search->status, "optimal");
  EXPECT_THAT(plan->provenance.at("created"), HasSubstr("T"));
  EXPECT_THAT(folder.Files(), ElementsAre("plan.json"));

  const Ran again = Call({"predict", file, "--json"});
  ASSERT_EQ(again.code, 0);
  const Result<plan::Plan> predicted = plan::FromJson(again.out);
  ASSERT_TRUE(predicted.ok());
  EXPECT_EQ(predicted->predicted, plan->predicted);
  EXPECT_EQ(predicted->stages, plan->stages);
  EXPECT_THAT(Call({"predict", file}).out, HasSubstr("an iteration"));
}

TEST(CliTest, PredictOfAPlanThatDoesNotFitSaysHowFar) {
  const Folder folder;
  nlohmann::json plan = Call(With(kPlan, {"--json"})).json();
  plan["cluster"]["spec"]["groups"][0]["device"]["memory_gib"] = 1.0;
  const Ran ran = Call({"predict", folder.Write("plan.json", plan.dump()), "--json"});
  ASSERT_EQ(ran.code, 0);
  const nlohmann::json predicted = ran.json();
  EXPECT_FALSE(predicted.at("predicted").at("fits").get<bool>());
  ASSERT_FALSE(predicted.at("closest").empty());
  EXPECT_GT(predicted.at("closest").at(0).at("short_bytes").get<double>(), 0);
  EXPECT_FALSE(predicted.at("closest").at(0).at("change").get<std::string>().empty());
}

TEST(CliTest, ReportIsAPage) {
  const Folder folder;
  const std::string page = folder.File("plan.html");
  const Ran ran = Call(With(kPlan, {"--report", page}));
  ASSERT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, HasSubstr("wrote " + page));
  EXPECT_THAT(ReadFile(page).value(), AllOf(HasSubstr("<html"), HasSubstr("gpt2")));
}

TEST(CliTest, ConvolutionalModelsPlanWithoutASequence) {
  const Ran ran = Call({"plan", "resnet-50", "--cluster", "l4-1x4", "--global-batch", "64"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, HasSubstr("samples/s"));
  ExpectError({"plan", "resnet-50", "--cluster", "l4-1x4", "--global-batch", "64", "--seq", "128"},
              2,
              "a convolutional model has no sequence");
}

TEST(CliTest, SequenceLengthIsNeededAndLimited) {
  ExpectError({"plan", "gpt2", "--cluster", "l4-1x4", "--global-batch", "16"}, 2, "--seq");
  ExpectError(
      {"plan", "gpt2", "--cluster", "l4-1x4", "--global-batch", "16", "--seq", "1025"}, 2, "1024");
}

TEST(CliTest, SizesBeyondSixtyFourBitsAreRefused) {
  const auto plan = [](const std::string& seq, const std::string& batch) {
    return std::vector<std::string>{
        "plan", "llama-2-7b", "--cluster", "l4-1x4", "--seq", seq, "--global-batch", batch};
  };
  ExpectError(plan("9223372036854775808", "4"), 2, "--seq");
  ExpectError(plan("1e30", "4"), 2, "--seq");
  ExpectError(plan("9223372036854775807", "4"), 2, "--seq");
  ExpectError(plan("128", "9223372036854775808"), 2, "--global-batch");
  ExpectError(plan("128", "9e18"), 2, "--global-batch");
  ExpectError(plan("128", "0"), 2, "--global-batch");
  ExpectError(plan("128", "-1"), 2, "--global-batch");
  const Folder folder;
  const std::string model = folder.Write(
      "config.json",
      R"({"model_type": "llama", "num_hidden_layers": 2147483647, "hidden_size": 2147483647,
          "num_attention_heads": 1, "intermediate_size": 2147483647, "vocab_size": 2147483647})");
  const Ran ran =
      Call({"plan", model, "--cluster", "l4-1x4", "--seq", "128", "--global-batch", "4"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, StartsWith("palmist: "));
}

TEST(CliTest, ClustersThatDoNotExist) {
  const auto plan = [](const std::string& cluster) {
    return std::vector<std::string>{
        "plan", "gpt2", "--cluster", cluster, "--seq", "512", "--global-batch", "16"};
  };
  ExpectError(plan("l4-0x8"), 2, "l4-0x8");
  ExpectError(plan("l4-1x0"), 2, "l4-1x0");
  ExpectError(plan("l4-99999999999999999999x8"), 2, "l4-99999999999999999999x8");
  const nlohmann::json error = ExpectError(plan("h10-1x8"), 2, "h10");
  EXPECT_THAT(error.at("hint").get<std::string>(), HasSubstr("h100"));
  ExpectError(plan("./nowhere.yaml"), 2, "./nowhere.yaml");
}

TEST(CliTest, BatchThatNoLayoutDivides) {
  ExpectError({"plan",
               "gpt2",
               "--cluster",
               "l4-1x4",
               "--seq",
               "512",
               "--global-batch",
               "7",
               "--fix",
               "dp=4"},
              2,
              "global batch of 7");
}

TEST(CliTest, ContradictoryFixes) {
  ExpectError(With(kPlan, {"--fix", "tp=2", "--fix", "tp=4"}), 2, "fixed twice");
  ExpectError(With(kPlan, {"--fix", "pp=3", "--fix", "dp=4"}), 2, "fixed degrees");
  const nlohmann::json error = ExpectError(With(kPlan, {"--fix", "micro_bach=4"}), 2, "micro_bach");
  EXPECT_THAT(error.at("hint").get<std::string>(), HasSubstr("micro_batch"));
}

TEST(CliTest, OptimizersAreTheUsersChoice) {
  const auto states = [](const char* optimizer) {
    const nlohmann::json plan = Call(With(kPlan, {"--json", "--optimizer", optimizer})).json();
    return plan.at("training").at("optimizer").at("state_bytes_per_param").get<double>();
  };
  EXPECT_EQ(states("adamw"), 12);
  EXPECT_EQ(states("adamw-bf16"), 8);
  EXPECT_EQ(states("adamw-8bit"), 6.03125);
  EXPECT_EQ(states("sgd"), 8);
  const nlohmann::json plan = Call(With(kPlan, {"--json", "--grad-dtype", "fp32"})).json();
  EXPECT_EQ(plan.at("training").at("grad_dtype"), "fp32");
  ExpectError(With(kPlan, {"--optimizer", "lion"}), 2, "--optimizer");
  ExpectError(With(kPlan, {"--grad-dtype", "fp16"}), 2, "--grad-dtype");
}

TEST(CliTest, BadValuesOfOptions) {
  ExpectError(With(kPlan, {"--memory-limit", "0"}), 2, "--memory-limit");
  ExpectError(With(kPlan, {"--memory-limit", "lots"}), 2, "--memory-limit");
  ExpectError(With(kPlan, {"--gap", "1"}), 2, "--gap");
  ExpectError(With(kPlan, {"--gap", "nan"}), 2, "--gap");
  ExpectError(With(kPlan, {"--dtype", "bf17"}), 2, "bf16");
  ExpectError(With(kPlan, {"--ops", "leen"}), 2, "lean");
  ExpectError(With(kPlan, {"--target", "horovod"}), 2, "megatron");
  ExpectError(With(kPlan, {"--top", "0"}), 2, "--top");
  ExpectError(With(kPlan, {"--threads", "-1"}), 2, "--threads");
  ExpectError(With(kPlan, {"--slow", "device=9:0.5"}), 2, "--slow");
  ExpectError(With(kPlan, {"--expert-imbalance", "0.5"}), 2, "--expert-imbalance");
  ExpectError(With(kPlan, {"--price-per-gpu-hour", "A100=2"}), 2, "A100");
  ExpectError(With(kPlan, {"--time-limit", "soon"}), 2, "--time-limit");
  ExpectError(With(kPlan, {"--log-level", "loud"}), 2, "loud");
}

TEST(CliTest, WhatComesLaterSaysSo) {
  EXPECT_EQ(ExpectError(With(kPlan, {"--objective", "cost"}), 5, "cost").at("kind"), "unavailable");
  ExpectError(With(kPlan, {"--space", "all"}), 2, "full");
}

TEST(CliTest, NothingFitsGivesTheClosestMiss) {
  const Ran text = Call(kTooLarge);
  EXPECT_EQ(text.code, 3);
  EXPECT_THAT(text.out, IsEmpty());
  EXPECT_THAT(text.err,
              AllOf(HasSubstr("no plan fits"),
                    HasSubstr("GiB a device on stage 0"),
                    HasSubstr("what would fit: use")));
  const Ran json = Call(With(kTooLarge, {"--json"}));
  EXPECT_EQ(json.code, 3);
  const nlohmann::json answer = json.json();
  EXPECT_EQ(answer.at("error").at("kind"), "infeasible");
  ASSERT_FALSE(answer.at("closest").empty());
  for (const auto& miss : answer.at("closest")) {
    EXPECT_TRUE(miss.at("stage").is_number_integer());
    EXPECT_GT(miss.at("short_bytes").get<double>(), 0);
    EXPECT_THAT(miss.at("change").get<std::string>(), HasSubstr("devices"));
  }
}

TEST(CliTest, WithoutTimeAnEvenSplitThatFitsIsTheAnswer) {
  const nlohmann::json plan = Call(With(kPlan, {"--json", "--time-limit", "0"})).json();
  EXPECT_EQ(plan.at("search").at("status"), "time_limit");
  EXPECT_TRUE(plan.at("predicted").at("fits").get<bool>());
}

TEST(CliTest, SlowDevicesAndPricesCount) {
  const nlohmann::json even = Call(With(kPlan, {"--json", "--price-per-gpu-hour", "2"})).json();
  EXPECT_GT(even.at("predicted").at("cost_usd_per_1e9_tokens").get<double>(), 0);
  const nlohmann::json slow = Call(With(kPlan, {"--json", "--slow", "device=1:0.5"})).json();
  EXPECT_TRUE(slow.at("predicted").at("cost_usd_per_1e9_tokens").is_null());
  EXPECT_GT(slow.at("predicted").at("iteration_time_s"),
            even.at("predicted").at("iteration_time_s"));
}

TEST(CliTest, ThreadsChangeNothing) {
  const auto plan = [](const std::string& threads) {
    nlohmann::json json = Call(With(kPlan, {"--json", "--threads", threads})).json();
    json["search"].erase("seconds");
    json["provenance"].erase("created");
    return json;
  };
  EXPECT_EQ(plan("1"), plan("2"));
}

TEST(CliTest, ASignalEndsTheSearchWithTheBestSoFar) {
  const Folder folder;
  const std::string file = folder.File("plan.json");
  const std::vector<std::string> arguments = {"plan",
                                              "gpt-22b",
                                              "--cluster",
                                              "l4-4x8",
                                              "--seq",
                                              "2048",
                                              "--global-batch",
                                              "256",
                                              "--gap",
                                              "0",
                                              "--threads",
                                              "1",
                                              "-o",
                                              file};
  // The whole search takes many times as long.
  EXPECT_EXIT(test::CallUntilInterrupted(arguments, std::chrono::milliseconds(1500)),
              ::testing::ExitedWithCode(130),
              "");
  const plan::Plan plan = plan::LoadPlan(file).value();
  EXPECT_EQ(plan.search->status, "interrupted");
  EXPECT_TRUE(plan.predicted->fits);
  EXPECT_GT(plan.search->gap, 0);
  EXPECT_LE(plan.search->lower_bound_s, plan.predicted->iteration_time_s);
}

// ------------------------------------------------------------------- files

TEST(CliTest, BadPlanFilesNameTheValue) {
  const Folder folder;
  ExpectError({"predict", folder.File("none.json")}, 2, "none.json");
  ExpectError({"predict", folder.Write("empty.json", "")}, 2, "JSON");
  ExpectError({"predict", folder.path().string()}, 2, "folder");
  nlohmann::json plan = Call(With(kPlan, {"--json"})).json();
  nlohmann::json bad = plan;
  bad["palmist_plan"] = 99;
  ExpectError({"predict", folder.Write("version.json", bad.dump())}, 2, "99");
  bad = plan;
  bad["stages"][0]["micro_batch"] = 0;
  const nlohmann::json error =
      ExpectError({"predict", folder.Write("micro.json", bad.dump())}, 2, "stages[0].micro_batch");
  EXPECT_EQ(error.at("field"), "stages[0].micro_batch");
  EXPECT_EQ(error.at("kind"), "input");
}

TEST(CliTest, NothingIsWrittenOnFailure) {
  const Folder folder;
  EXPECT_EQ(
      Call(With(kTooLarge, {"-o", folder.File("plan.json"), "--report", folder.File("plan.html")}))
          .code,
      3);
  EXPECT_EQ(Call(With(kPlan, {"-o", folder.File("plan.json"), "--fix", "tp=5"})).code, 2);
  EXPECT_THAT(folder.Files(), IsEmpty());
}

TEST(CliTest, AFailureKeepsTheFileThatWasThere) {
  const Folder folder;
  const std::string file = folder.Write("plan.json", "mine");
  EXPECT_EQ(Call(With(kTooLarge, {"-o", file})).code, 3);
  EXPECT_EQ(ReadFile(file).value(), "mine");
}

TEST(CliTest, OutputWhereNothingCanBeWritten) {
  const Folder folder;
  ExpectError(With(kPlan, {"-o", folder.File("missing/plan.json")}), 2, "missing/plan.json");
  ExpectError(With(kPlan, {"-o", folder.path().string()}), 2, "folder");
  const std::string file = folder.Write("file", "x");
  ExpectError(With(kPlan, {"-o", file + "/plan.json"}), 2, "plan.json");
  // /proc takes no files from anybody, root included.
  ExpectError(With(kPlan, {"-o", "/proc/palmist-plan.json"}), 2, "palmist-plan.json");
  ExpectError(With(kPlan, {"--report", folder.File("missing/plan.html")}), 2, "plan.html");
  EXPECT_THAT(folder.Files(), ElementsAre("file"));
  EXPECT_EQ(ReadFile(file).value(), "x");
}

TEST(CliTest, PlanAndReportNeedTheirOwnFiles) {
  const Folder folder;
  const std::string file = folder.File("both");
  ExpectError(With(kPlan, {"-o", file, "--report", file}), 2, "--report");
  EXPECT_THAT(folder.Files(), IsEmpty());
}

TEST(CliTest, TraceIsTheSimulatedIteration) {
  const Folder folder;
  const std::string plan_file = folder.File("plan.json"), trace_file = folder.File("trace.json");
  ASSERT_EQ(Call(With(kPlan, {"-o", plan_file, "--trace", trace_file})).code, 0);
  const std::string trace = ReadFile(trace_file).value();
  const double simulated_s =
      ParseJson(trace).value().at("otherData").at("iteration_s").get<double>();
  const double predicted_s = plan::LoadPlan(plan_file).value().predicted->iteration_time_s;
  EXPECT_NEAR(simulated_s, predicted_s, 1e-9 * predicted_s);
  ASSERT_EQ(Call({"predict", plan_file, "--trace", trace_file}).code, 0);
  EXPECT_EQ(ReadFile(trace_file).value(), trace);
}

TEST(CliTest, OutputsDoNotReplaceInputs) {
  const Folder folder;
  const std::string file = folder.File("plan.json");
  ASSERT_EQ(Call(With(kPlan, {"-o", file})).code, 0);
  const std::string before = ReadFile(file).value();
  ExpectError({"predict", file, "--trace", folder.path().string() + "/./plan.json"}, 2, "--trace");
  ExpectError({"predict", file, "--report", file}, 2, "--report");
  EXPECT_EQ(ReadFile(file).value(), before);
}

TEST(CliTest, WhatIfShowsBothPredictions) {
  const Folder folder;
  const std::string file = folder.File("plan.json"), changed = folder.File("changed.json");
  ASSERT_EQ(Call(With(kPlan, {"-o", file})).code, 0);
  const Ran text = Call({"whatif", file, "--set", "recompute=full", "-o", changed});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("before"), HasSubstr("after"), HasSubstr("iteration")));
  const Ran ran = Call({"whatif", file, "--set", "recompute=full", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const nlohmann::json both = ParseJson(ran.out).value();
  EXPECT_LT(both.at("before").at("predicted").at("iteration_time_s"),
            both.at("after").at("predicted").at("iteration_time_s"));
  EXPECT_EQ(plan::FromJson(both.at("after").dump())->stages, plan::LoadPlan(changed)->stages);
  ExpectError({"whatif", file, "--set", "tp=5"}, 2, "--set");
  ExpectError({"whatif", file, "--set", "tp=2", "-o", file}, 2, "-o");
  ExpectError({"whatif", folder.File("none.json"), "--set", "tp=2"}, 2, "none.json");
}

TEST(CliTest, ExplainSaysWhatEachChoiceBuys) {
  const Folder folder;
  const std::string file = folder.File("plan.json");
  ASSERT_EQ(Call(With(kPlan, {"-o", file, "--fix", "tp=2", "--fix", "pp=1"})).code, 0);
  const Ran ran = Call({"explain", file, "--symbolic"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  for (const char* part : {"iteration = ",
                           "a search under the same conditions",
                           "tensor parallelism",
                           "without it",
                           "formulas of stage 0",
                           "b*s"}) {
    EXPECT_THAT(ran.out, HasSubstr(part));
  }
  const nlohmann::json json = ParseJson(Call({"explain", file, "--json"}).out).value();
  EXPECT_GT(json.at("choices").size(), 0U);
  EXPECT_FALSE(json.contains("formulas"));
  ExpectError({"explain", file, "--time-limit", "soon"}, 2, "--time-limit");
  ExpectError({"explain", folder.File("none.json")}, 2, "none.json");
}

TEST(CliTest, FullOutputIsARuntimeFailure) {
  std::ostringstream out, err;
  out.setstate(std::ios::badbit);
  const char* const argv[] = {"palmist", "models"};
  EXPECT_EQ(Main(2, argv, out, err), 4);
  EXPECT_THAT(err.str(), HasSubstr("standard output"));
}

TEST(CliTest, CalibrationFilesAreReadOrRefused) {
  const Folder folder;
  ExpectError(With(kPlan, {"--calibration", folder.File("none.json")}), 2, "none.json");
  ExpectError(
      With(kPlan, {"--calibration", folder.Write("bad.json", "{}")}), 2, "palmist_calibration");
}

TEST(CliTest, ValidateReportsFilesItCannotRead) {
  const Folder folder;
  ExpectError({"validate", folder.File("none.csv")}, 2, "none.csv");
  ExpectError({"validate", folder.Write("bad.csv", "a,b\n1,2\n")}, 2, "column");
}

}  // namespace
}  // namespace palmist::cli
