#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "palmist/base/file.h"
#include "palmist/plan/plan.h"
#include "palmist/plan/test/example_plans.h"

namespace palmist::plan {
namespace {

using nlohmann::ordered_json;
using test::EvenPlan;
using test::Parts;
using testing::HasSubstr;

ordered_json Document() { return ToJson(EvenPlan(Parts(test::Gpt2Config()), 2, 4, 1)); }

/// Returns the error for the document after `change`.
Error ErrorAfter(const std::function<void(ordered_json&)>& change) {
  ordered_json document = Document();
  change(document);
  const auto plan = FromJson(document.dump());
  EXPECT_FALSE(plan.ok());
  return plan.ok() ? InputError("", "") : plan.error();
}

TEST(PlanJson, RandomPlansComeBackEqual) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Plan plan = test::RandomPlan(seed);
    const std::string text = ToJson(plan).dump();
    const auto read = FromJson(text);
    ASSERT_TRUE(read.ok()) << "seed " << seed << ": " << read.error().what();
    EXPECT_EQ(read->stages, plan.stages) << "seed " << seed;
    EXPECT_TRUE(*read == plan) << "seed " << seed;
    EXPECT_EQ(ToJson(*read).dump(), text) << "seed " << seed;
  }
}

TEST(PlanJson, KeysAreInTheDocumentedOrder) {
  Plan plan = EvenPlan(Parts(test::Gpt2Config()), 1, 1, 1);
  plan.predicted.emplace();
  plan.search.emplace();
  plan.stages[0].predicted.emplace();
  plan.provenance = {{"calibration", "none"}, {"created", "now"}, {"palmist", "0.1.0"}};
  const ordered_json document = ToJson(plan);
  const auto keys = [](const ordered_json& object) {
    std::string joined;
    for (const auto& [key, value] : object.items()) joined += key + " ";
    return joined;
  };
  EXPECT_EQ(keys(document),
            "palmist_plan model cluster training stages predicted search provenance ");
  EXPECT_EQ(keys(document["model"]), "name config seq_len params ");
  EXPECT_EQ(keys(document["training"]),
            "global_batch micro_batches schedule dtype grad_dtype grad_clip trainable optimizer ");
  EXPECT_EQ(
      keys(document["stages"][0]),
      "devices first_layer last_layer embedding head micro_batch dp tp sp cp cp_kind ep chunks "
      "replicas zero zero_shard recompute ops offload predicted ");
  EXPECT_EQ(keys(document["stages"][0]["predicted"]["memory_bytes"]),
            "weights grads optimizer activations transient buffers logits communicators context "
            "allocated_peak reserved_peak limit ");
  EXPECT_EQ(keys(document["predicted"]),
            "fits iteration_time_s tokens_per_s cost_usd_per_1e9_tokens model_flops_utilization "
            "bubble_fraction compute_s exposed_s ");
  EXPECT_EQ(keys(document["provenance"]), "palmist calibration created ");
}

TEST(PlanJson, WhatMayBeLeftOutHasDefaults) {
  ordered_json document = Document();
  document["model"].erase("params");
  document["cluster"].erase("name");
  for (const char* key : {"predicted", "search", "provenance"}) document.erase(key);
  document["training"] = {{"global_batch", 16}, {"micro_batches", 4}};
  for (ordered_json& stage : document["stages"]) {
    stage = {{"devices", stage["devices"]},
             {"first_layer", stage["first_layer"]},
             {"last_layer", stage["last_layer"]},
             {"micro_batch", 1},
             {"dp", 4}};
  }
  const auto plan = FromJson(document.dump());
  ASSERT_TRUE(plan.ok()) << plan.error().what();
  EXPECT_TRUE(*plan == EvenPlan(Parts(test::Gpt2Config()), 2, 4, 1));
}

TEST(PlanJson, UnknownKeysAreKeptWithAPrefix) {
  ordered_json document = Document();
  document["note"] = "hello";
  document["x_mine"] = {1, 2};
  document["stages"][1]["color/of~it"] = nullptr;
  document["training"]["optimizer"]["beta"] = 0.9;
  document["stages"][0]["offload"]["x_disk"] = 0.5;
  const auto plan = FromJson(document.dump());
  ASSERT_TRUE(plan.ok()) << plan.error().what();
  const ordered_json written = ToJson(*plan);
  EXPECT_EQ(written["x_note"], "hello");
  EXPECT_FALSE(written.contains("note"));
  EXPECT_EQ(written["x_mine"], ordered_json({1, 2}));
  EXPECT_TRUE(written["stages"][1].contains("x_color/of~it"));
  EXPECT_EQ(written["training"]["optimizer"]["x_beta"], 0.9);
  EXPECT_EQ(written["stages"][0]["offload"]["x_disk"], 0.5);
  const auto again = FromJson(written.dump());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(ToJson(*again).dump(), written.dump());
}

TEST(PlanJson, AnUnknownKeyNeverReplacesAnother) {
  ordered_json document = Document();
  document["note"] = 1;
  document["x_note"] = 2;
  const ordered_json written = ToJson(FromJson(document.dump()).value());
  EXPECT_EQ(written["x_note"], 2);
  EXPECT_EQ(written["x_x_note"], 1);
}

TEST(PlanJson, UnknownKeysOfAStageThatIsGoneAreLeftOut) {
  ordered_json document = Document();
  document["stages"][1]["note"] = 1;
  Plan plan = FromJson(document.dump()).value();
  plan.stages.pop_back();
  EXPECT_EQ(ToJson(plan)["stages"].size(), 1);
}

TEST(PlanJson, TooManyUnknownKeysAreRefused) {
  const Error error = ErrorAfter([](ordered_json& document) {
    for (int i = 0; i < 1001; ++i) document["stages"][0]["k" + std::to_string(i)] = i;
  });
  EXPECT_THAT(error.what(), HasSubstr("at most 1000 unknown keys"));
}

TEST(PlanJson, AnUnknownVersionIsRefused) {
  const Error error = ErrorAfter([](ordered_json& document) { document["palmist_plan"] = 2; });
  EXPECT_EQ(error.field(), "palmist_plan");
  EXPECT_THAT(error.what(), HasSubstr("expected version 1 of the plan file, got 2"));
  EXPECT_THAT(error.hint(), HasSubstr("update"));
}

struct BadValue {
  const char* name;
  std::function<void(ordered_json&)> change;
  const char* expected;
};

TEST(PlanJson, BadValuesNameTheirPath) {
  const BadValue cases[] = {
      {"zero",
       [](ordered_json& d) { d["stages"][1]["micro_batch"] = 0; },
       "stages[1].micro_batch: expected a positive integer, got 0"},
      {"fraction",
       [](ordered_json& d) { d["stages"][1]["dp"] = 1.5; },
       "stages[1].dp: expected an integer, got 1.5"},
      {"huge",
       [](ordered_json& d) { d["stages"][0]["tp"] = 1 << 21; },
       "stages[0].tp: expected at most 1048576, got 2097152"},
      {"missing",
       [](ordered_json& d) { d["stages"][0].erase("micro_batch"); },
       "stages[0].micro_batch: expected an integer, got nothing"},
      {"no_stages",
       [](ordered_json& d) { d["stages"] = ordered_json::array(); },
       "stages: expected 1 to 10000 stages, got 0"},
      {"device",
       [](ordered_json& d) { d["stages"][0]["devices"][1] = "a"; },
       "stages[0].devices[1]: expected an integer from 0 to 1048575, got \"a\""},
      {"mode",
       [](ordered_json& d) {
         d["stages"][0]["recompute"] = {{{"first_layer", 0}, {"last_layer", 1}, {"mode", "some"}}};
       },
       "stages[0].recompute[0].mode: expected full or selective, got \"some\""},
      {"ops",
       [](ordered_json& d) { d["stages"][0]["ops"]["norm"] = "fast"; },
       "stages[0].ops.norm"},
      {"offload",
       [](ordered_json& d) { d["stages"][0]["offload"]["grads"] = 1.25; },
       "stages[0].offload.grads: expected a number from 0 to 1, got 1.25"},
      {"zero_level",
       [](ordered_json& d) { d["stages"][0]["zero"] = 4; },
       "stages[0].zero: expected an integer from 0 to 3, got 4"},
      {"replica",
       [](ordered_json& d) {
         d["stages"][0]["replicas"] = {{{"devices", {0}}, {"tp", 1}}};
       },
       "stages[0].replicas[0].micro_batch: expected an integer, got nothing"},
      {"memory",
       [](ordered_json& d) { d["stages"][0]["predicted"]["memory_bytes"]["weights"] = -1; },
       "stages[0].predicted.memory_bytes.weights"},
      {"status",
       [](ordered_json& d) {
         d["search"] = {{"status", "best"}};
       },
       "search.status: expected one of optimal, feasible, time_limit, interrupted, got \"best\""},
      {"fits",
       [](ordered_json& d) { d["predicted"] = ordered_json::object(); },
       "predicted.fits: expected true or false, got nothing"},
      {"provenance",
       [](ordered_json& d) {
         d["provenance"] = {{"created", 3}};
       },
       "provenance.created: expected a string, got 3"},
      {"config",
       [](ordered_json& d) { d["model"]["config"]["n_layer"] = -1; },
       "model.config.n_layer"},
      {"cluster",
       [](ordered_json& d) { d["cluster"]["spec"]["groups"][0]["nodes"] = 0; },
       "cluster.spec.groups[0].nodes"},
  };
  for (const BadValue& bad : cases) {
    const Error error = ErrorAfter(bad.change);
    EXPECT_EQ(error.kind(), ErrorKind::kInput) << bad.name;
    EXPECT_THAT(error.what(), testing::StartsWith(bad.expected)) << bad.name;
  }
}

TEST(PlanJson, OnlyObjectsArePlans) {
  for (const char* text : {"", "[]", "3", "null", "{\"palmist_plan\": 1", "{}"}) {
    EXPECT_FALSE(FromJson(text).ok()) << text;
  }
}

std::string ReadCheckoutFile(const std::string& name) {
  return ReadFile(std::string(PALMIST_SOURCE_DIR) + "/" + name).value();
}

TEST(PlanJson, TheGuidesExampleIsValid) {
  const std::string guide = ReadCheckoutFile("docs/guide/plan-files.md");
  const std::size_t begin = guide.find("```json") + 7;
  const auto plan = FromJson(guide.substr(begin, guide.find("```", begin) - begin));
  ASSERT_TRUE(plan.ok()) << plan.error().what();
  EXPECT_EQ(plan->params, 124439808);
  EXPECT_TRUE(plan->stages[0].head);
}

/// Checks that `schema` describes the keys of `value`, and those alone, in objects of fixed keys.
void ExpectSameKeys(const ordered_json& value,
                    const ordered_json& schema,
                    const ordered_json& root,
                    const std::string& path) {
  if (schema.contains("$ref")) {
    const std::string reference = schema["$ref"];  // "#/$defs/x"
    return ExpectSameKeys(
        value, root.at(ordered_json::json_pointer(reference.substr(1))), root, path);
  }
  if (value.is_array() && !value.empty() && schema.contains("items")) {
    return ExpectSameKeys(value[0], schema["items"], root, path + "[0]");
  }
  if (!value.is_object() || !schema.contains("properties")) return;
  std::vector<std::string> written, described;
  for (const auto& [key, member] : value.items()) {
    written.push_back(key);
    ASSERT_TRUE(schema["properties"].contains(key)) << path << "." << key;
    ExpectSameKeys(member, schema["properties"][key], root, path + "." + key);
  }
  for (const auto& [key, member] : schema["properties"].items()) described.push_back(key);
  EXPECT_EQ(written, described) << path;
}

TEST(PlanJson, TheSchemaHasTheKeysThatAreWritten) {
  Plan plan = EvenPlan(Parts(test::Gpt2Config()), 1, 1, 1);
  plan.predicted.emplace();
  plan.closest.emplace_back();
  plan.search.emplace();
  plan.provenance = {{"palmist", ""}, {"calibration", ""}, {"created", ""}};
  Stage& stage = plan.stages[0];
  stage.predicted.emplace();
  stage.chunks.emplace_back();
  stage.replicas.emplace_back();
  stage.recompute.emplace_back();
  const auto schema = ordered_json::parse(ReadCheckoutFile("docs/schemas/plan.schema.json"));
  ExpectSameKeys(ToJson(plan), schema, schema, "");
}

TEST(PlanJson, FilesAreWrittenAndRead) {
  const Plan plan = test::RandomPlan(7);
  const std::string path = testing::TempDir() + "palmist_plan_json_test.json";
  ASSERT_TRUE(SavePlan(plan, path).ok());
  EXPECT_TRUE(LoadPlan(path).value() == plan);
  std::filesystem::remove(path);
  EXPECT_THAT(LoadPlan(path).error().what(), HasSubstr(path));
}

}  // namespace
}  // namespace palmist::plan
