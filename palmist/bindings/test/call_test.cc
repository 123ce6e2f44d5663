#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "palmist/base/rng.h"
#include "palmist/bindings/palmist.h"

namespace palmist::bindings {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

/// Calls through the functions of C, and takes any answer for an object.
json CallText(const char* text) {
  const std::unique_ptr<char, void (*)(char*)> answer(palmist_call(text), palmist_free);
  EXPECT_NE(answer, nullptr);
  json parsed = json::parse(answer.get(), nullptr, /*allow_exceptions=*/false);
  EXPECT_TRUE(parsed.is_object()) << answer.get();
  return parsed;
}

json Call(const json& request) { return CallText(request.dump().c_str()); }

std::string KindOf(const json& answer) {
  return answer.contains("error") ? answer["error"]["kind"].get<std::string>() : "none";
}

std::string MessageOf(const json& answer) {
  return answer.contains("error") ? answer["error"]["message"].get<std::string>() : "none";
}

json SmallGpt2() {
  return {{"model_type", "gpt2"},
          {"n_layer", 4},
          {"n_embd", 128},
          {"n_head", 4},
          {"n_positions", 256},
          {"vocab_size", 1000}};
}

json ChooseRequest() {
  return {{"call", "choose_operators"},
          {"config", SmallGpt2()},
          {"seq", 256},
          {"batch", 4},
          {"budget_bytes", 40'000'000}};
}

TEST(PalmistCallTest, ChoosesOperators) {
  const json answer = Call(ChooseRequest());
  ASSERT_EQ(KindOf(answer), "none") << answer;
  EXPECT_EQ(answer["fits"], true);
  EXPECT_LE(answer["peak_bytes"], 40'000'000);
  EXPECT_GT(answer["baseline"]["peak_bytes"], 40'000'000);
  EXPECT_LE(answer["min_peak_bytes"], answer["peak_bytes"]);
  EXPECT_GE(answer["largest_batch"], 4);
  EXPECT_LT(answer["baseline"]["largest_batch"], 4);
  EXPECT_EQ(answer["missing_bytes"], 0);
  std::int64_t sum = 0;
  for (const auto& [name, bytes] : answer["breakdown"].items()) sum += bytes.get<std::int64_t>();
  EXPECT_NEAR(static_cast<double>(sum), answer["peak_bytes"].get<double>(), 8);
  ASSERT_EQ(answer["layers"].size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    const json& layer = answer["layers"][i];
    EXPECT_EQ(layer["layer"], i);
    for (const char* family : {"attention", "norm", "activation", "dropout"}) {
      EXPECT_THAT(layer[family].get<std::string>(), testing::AnyOf("sdpa", "eager", "lean"));
    }
    EXPECT_TRUE(layer["recompute"].is_boolean());
  }
  EXPECT_EQ(Call(ChooseRequest()), answer);
}

TEST(PalmistCallTest, SaysWhatIsMissing) {
  json request = ChooseRequest();
  request["budget_bytes"] = 1000;
  const json answer = Call(request);
  EXPECT_EQ(answer["fits"], false);
  EXPECT_EQ(answer["missing_bytes"].get<std::int64_t>() + 1000, answer["min_peak_bytes"]);
  EXPECT_EQ(answer["layers"], answer["min_peak"]["layers"]);
  EXPECT_EQ(answer["largest_batch"], 0);
}

TEST(PalmistCallTest, FieldsOfAChoiceCount) {
  const auto with = [](const char* field, const json& value) {
    json request = ChooseRequest();
    request[field] = value;
    return Call(request);
  };
  const json plain = Call(ChooseRequest());
  const auto baseline = [](const json& answer) {
    return answer["baseline"]["peak_bytes"].get<std::int64_t>();
  };
  EXPECT_LT(baseline(with("dtype", "bf16")), baseline(plain));
  EXPECT_GT(baseline(with("optimizer_bytes_per_param", 12)), baseline(plain));
  EXPECT_LT(baseline(with("grad_bytes_per_param", 2)), baseline(plain));
  // Fused attention on a GPU drops without keeping scores.
  const json on_gpu = with("device", "a100-sxm4-80gb");
  EXPECT_LT(on_gpu["baseline"]["step_time_s"], plain["baseline"]["step_time_s"]);
  EXPECT_LT(on_gpu["breakdown"]["activations"], baseline(plain));
  EXPECT_EQ(with("baseline_attention", "eager")["baseline"]["peak_bytes"], baseline(plain));
  const json loss_only = with("techniques", {"loss"});
  EXPECT_EQ(loss_only["min_peak"]["loss"], "lean");
  EXPECT_EQ(loss_only["min_peak"]["layers"][0]["attention"], "sdpa");
  EXPECT_EQ(loss_only["min_peak"]["layers"][0]["recompute"], false);
  EXPECT_THAT(with("allow_tempo", true).dump(), HasSubstr("\"tempo\""));
  EXPECT_THAT(plain.dump(), testing::Not(HasSubstr("\"tempo\"")));
}

TEST(PalmistCallTest, ErrorsSayWhatWasExpected) {
  EXPECT_EQ(KindOf(CallText(nullptr)), "input");
  EXPECT_EQ(KindOf(CallText("")), "input");
  EXPECT_EQ(KindOf(CallText("{")), "input");
  EXPECT_EQ(KindOf(CallText("[1, 2]")), "input");
  EXPECT_EQ(KindOf(CallText("null")), "input");
  EXPECT_EQ(KindOf(CallText("{\"call\": \"\xff\xfe\"}")), "input");
  EXPECT_EQ(KindOf(CallText("{}")), "input");
  EXPECT_EQ(KindOf(CallText(R"({"call": 7})")), "input");
  const json unknown = CallText(R"({"call": "fly"})");
  EXPECT_THAT(MessageOf(unknown), HasSubstr("choose_operators, plan, predict"));
  EXPECT_EQ(unknown["error"]["field"], "call");
  EXPECT_EQ(KindOf(CallText(std::string(100'000, '[').c_str())), "input");
  EXPECT_EQ(KindOf(CallText(std::string(70 << 20, ' ').c_str())), "input");

  const auto message = [](const char* field, const json& value) {
    json request = ChooseRequest();
    request[field] = value;
    const json answer = Call(request);
    EXPECT_THAT(KindOf(answer), testing::AnyOf("input", "usage"));
    return MessageOf(answer);
  };
  const json unknown_model = {{"model_type", "mamba"}};
  EXPECT_THAT(message("config", unknown_model), HasSubstr("known are"));
  EXPECT_THAT(message("config", unknown_model), HasSubstr("llama"));
  EXPECT_THAT(message("config", unknown_model), HasSubstr("config.model_type"));
  EXPECT_THAT(message("config", "gpt2"), HasSubstr("config"));
  EXPECT_THAT(message("config", nullptr), HasSubstr("config"));
  EXPECT_THAT(message("batch", 0), HasSubstr("expected 1 to"));
  EXPECT_THAT(message("batch", -1), HasSubstr("expected 1 to"));
  EXPECT_THAT(message("batch", 1.5), HasSubstr("batch"));
  EXPECT_THAT(message("batch", 1e300), HasSubstr("batch"));
  EXPECT_THAT(message("seq", 257), HasSubstr("256 learned positions"));
  EXPECT_THAT(message("dtype", "fp64"), HasSubstr("fp32, bf16 or fp16"));
  EXPECT_THAT(message("device", "abacus"), HasSubstr("abacus"));
  EXPECT_THAT(message("device", "cpu-1x1"), HasSubstr("cpu-1x1"));
  EXPECT_THAT(message("budget_bytes", "4 GiB"), HasSubstr("budget_bytes"));
  EXPECT_THAT(message("budget_bytes", nullptr), HasSubstr("budget_bytes"));
  EXPECT_THAT(message("budget_bytes", -5), HasSubstr("not negative"));
  EXPECT_THAT(message("techniques", {"magic"}), HasSubstr("attention, norm"));
  EXPECT_THAT(message("techniques", 3), HasSubstr("techniques"));
  EXPECT_THAT(message("allow_tempo", "yes"), HasSubstr("allow_tempo"));
  EXPECT_THAT(message("baseline_attention", "lean"), HasSubstr("eager or sdpa"));
  EXPECT_THAT(message("baseline_attention", "flash"), HasSubstr("eager"));
  EXPECT_THAT(message("budget", 1), HasSubstr("budget_bytes"));
}

TEST(PalmistCallTest, PlansAndPredicts) {
  const json request = {{"call", "plan"},
                        {"config", SmallGpt2()},
                        {"cluster", "l4-1x2"},
                        {"seq", 256},
                        {"global_batch", 8},
                        {"threads", 1}};
  const json answer = Call(request);
  ASSERT_EQ(KindOf(answer), "none") << answer;
  EXPECT_EQ(answer["plan"]["predicted"]["fits"], true);
  EXPECT_TRUE(answer["binding"].is_string());
  const json again = Call({{"call", "predict"}, {"plan", answer["plan"]}});
  ASSERT_EQ(KindOf(again), "none") << again;
  EXPECT_EQ(again["plan"]["predicted"], answer["plan"]["predicted"]);

  json too_large = request;
  too_large.erase("config");
  too_large["model"] = "gpt3-175b";
  too_large["global_batch"] = 2;
  const json nothing = Call(too_large);
  EXPECT_EQ(KindOf(nothing), "infeasible");
  EXPECT_THAT(MessageOf(nothing), HasSubstr("short of"));
}

TEST(PalmistCallTest, PlanErrors) {
  json request = {{"call", "plan"},
                  {"model", "gpt2"},
                  {"cluster", "l4-1x1"},
                  {"seq", 256},
                  {"global_batch", 2}};
  const auto message = [&](const char* field, const json& value) {
    json spoiled = request;
    spoiled[field] = value;
    return MessageOf(Call(spoiled));
  };
  EXPECT_THAT(message("model", "gpt-9"), HasSubstr("gpt-9"));
  EXPECT_THAT(message("cluster", "l4"), HasSubstr("l4"));
  EXPECT_THAT(message("seq", 0), HasSubstr("seq"));
  EXPECT_THAT(message("seq", 2048), HasSubstr("1024"));
  EXPECT_THAT(message("global_batch", -2), HasSubstr("global_batch"));
  EXPECT_THAT(message("dtype", "int4"), HasSubstr("bf16, fp16, fp32"));
  EXPECT_THAT(message("ops", "magic"), HasSubstr("auto, eager"));
  EXPECT_THAT(message("memory_limit", 0), HasSubstr("memory_limit"));
  EXPECT_THAT(message("fix", {"tp"}), HasSubstr("tp"));
  EXPECT_THAT(MessageOf(Call({{"call", "predict"}, {"plan", json::object()}})),
              HasSubstr("expected"));
  EXPECT_EQ(KindOf(Call({{"call", "predict"}})), "input");
}

TEST(PalmistCallTest, SurvivesBrokenText) {
  Rng rng(5, 0);
  const std::string whole = ChooseRequest().dump();
  const std::string alphabet = "{}[]\",:0123456789eE.+-truefalsn\\u\x01\x7f\xc3\x28\xf0";
  int errors = 0;
  for (int trial = 0; trial < 1500; ++trial) {
    std::string text = whole;
    for (auto changes = rng.Integer(4) + 1; changes > 0 && !text.empty(); --changes) {
      const std::size_t at = rng.Integer(text.size());
      switch (rng.Integer(4)) {
        case 0:
          text[at] = alphabet[rng.Integer(alphabet.size())];
          break;
        case 1:
          text.insert(at, 1, alphabet[rng.Integer(alphabet.size())]);
          break;
        case 2:
          text.erase(at, 1 + rng.Integer(3));
          break;
        default:
          text.resize(at + 1);
      }
    }
    const json answer = CallText(text.c_str());
    ASSERT_NE(KindOf(answer), "internal") << text << '\n' << answer;
    errors += answer.contains("error");
  }
  EXPECT_GT(errors, 1000);
}

TEST(PalmistCallTest, AnswersSeveralThreads) {
  const json expected = Call(ChooseRequest());
  std::vector<json> answers(4);
  {
    std::vector<std::jthread> threads;
    for (json& answer : answers) {
      threads.emplace_back([&answer] { answer = Call(ChooseRequest()); });
    }
  }
  for (const json& answer : answers) EXPECT_EQ(answer, expected);
}

TEST(PalmistCallTest, FreesNothingAndKnowsItsVersion) {
  palmist_free(nullptr);
  EXPECT_THAT(palmist_version(), testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+.*"));
}

}  // namespace
}  // namespace palmist::bindings
