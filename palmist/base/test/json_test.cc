#include "palmist/base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace palmist {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ParseMessage(std::string_view text, const JsonLimits& limits = {}) {
  const auto result = ParseJson(text, limits);
  return result.ok() ? "parsed" : result.error().message();
}

TEST(ParseJson, ReadsValues) {
  const auto json = ParseJson(R"({"a": [1, -2.5, "é\n", true, null], "b": {}})");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json->at("a").size(), 5U);
  EXPECT_EQ(json->at("a")[2], "é\n");
}

TEST(ParseJson, LastOfEqualKeysCounts) { EXPECT_EQ(ParseJson(R"({"a":1,"a":2})")->at("a"), 2); }

TEST(ParseJson, ErrorHasLineAndColumn) {
  EXPECT_THAT(ParseMessage("{\n  \"a\": 1,\n  \"b\": }\n"), HasSubstr("line 3, column 8"));
  EXPECT_THAT(ParseMessage("{"), HasSubstr("line 1, column"));
  EXPECT_THAT(ParseMessage(""), HasSubstr("line 1, column 1"));
  EXPECT_THAT(ParseMessage("nan"), HasSubstr("line 1"));
  EXPECT_THAT(ParseMessage("[1] 2"), HasSubstr("line 1, column 5"));
}

TEST(ParseJson, ErrorDoesNotShowParserInternals) {
  EXPECT_EQ(ParseMessage("{x}").find("json.exception"), std::string::npos);
  EXPECT_EQ(ParseMessage("1e999").find("json.exception"), std::string::npos);
}

TEST(ParseJson, RefusesNumberBeyondDouble) { EXPECT_NE(ParseMessage("[1e999]"), "parsed"); }

TEST(ParseJson, RefusesInvalidUtf8) {
  EXPECT_THAT(ParseMessage("[\"\xff\"]"), HasSubstr("UTF-8"));
  EXPECT_THAT(ParseMessage("[\"\xed\xa0\x80\"]"), HasSubstr("UTF-8"));
}

TEST(ParseJson, DepthLimitIsInclusive) {
  JsonLimits limits;
  limits.max_depth = 3;
  EXPECT_EQ(ParseMessage("[[[1]]]", limits), "parsed");
  EXPECT_THAT(ParseMessage("[[\n[[1]]]]", limits), HasSubstr("line 2, column 2"));
  EXPECT_EQ(ParseMessage(R"(["[[[[[", "\"[[[["])", limits), "parsed");
  EXPECT_EQ(ParseMessage("[[],[],[],[],[]]", limits), "parsed");
}

TEST(ParseJson, MuchNestingFailsAtOnce) {
  JsonLimits limits;
  limits.max_bytes = 200 * kMiB;
  const std::string text(100'000'000, '[');
  EXPECT_THAT(ParseMessage(text, limits), HasSubstr("column 101"));
}

TEST(ParseJson, LimitsBytesAndValues) {
  JsonLimits limits;
  limits.max_bytes = 7;
  limits.max_values = 4;
  EXPECT_EQ(ParseMessage("[1,2,3]", limits), "parsed");
  EXPECT_THAT(ParseMessage("[1,2,31]", limits), HasSubstr("at most 7 B"));
  limits.max_values = 3;
  EXPECT_THAT(ParseMessage("[1,2,3]", limits), HasSubstr("at most 3 values"));
}

class JsonReaderTest : public ::testing::Test {
 protected:
  /// Returns what the getter throws.
  template <typename Getter>
  std::string Message(const Getter& getter) const {
    try {
      getter(reader_);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      return error.what();
    }
    return "nothing was thrown";
  }

  const nlohmann::json json_ = nlohmann::json::parse(R"({
    "int": 12, "whole": 12.0, "part": 12.5, "big": 9223372036854775808, "huge": 1e300,
    "text": "hi", "yes": true, "none": null, "numbers": [1, 2.0, 3], "mixed": [1, "x"],
    "words": ["a", "b"], "child": {"int": 3},
    "stages": [{"micro_batch": 1}, {"micro_batch": 0}], "x_note": 1
  })");
  const JsonReader reader_{json_};
};

TEST_F(JsonReaderTest, ReadsEachType) {
  EXPECT_EQ(reader_.RequireInt("int"), 12);
  EXPECT_EQ(reader_.RequireInt("whole", 12, 12), 12);
  EXPECT_EQ(reader_.RequireDouble("part"), 12.5);
  EXPECT_EQ(reader_.RequireDouble("int"), 12.0);
  EXPECT_EQ(reader_.RequireString("text"), "hi");
  EXPECT_TRUE(reader_.RequireBool("yes"));
  EXPECT_EQ(reader_.Child("child").RequireInt("int"), 3);
  EXPECT_THAT(reader_.RequireInts("numbers"), ElementsAre(1, 2, 3));
  EXPECT_THAT(reader_.RequireDoubles("numbers"), ElementsAre(1.0, 2.0, 3.0));
  EXPECT_THAT(reader_.RequireStrings("words"), ElementsAre("a", "b"));
}

TEST_F(JsonReaderTest, NullCountsAsAbsent) {
  EXPECT_FALSE(reader_.Has("none"));
  EXPECT_EQ(reader_.OptionalInt("none", 7), 7);
  EXPECT_EQ(reader_.OptionalDouble("absent", 0.5), 0.5);
  EXPECT_EQ(reader_.OptionalString("none", "d"), "d");
  EXPECT_TRUE(reader_.OptionalBool("none", true));
  EXPECT_FALSE(reader_.OptionalChild("none").has_value());
  EXPECT_TRUE(reader_.OptionalArray("none").empty());
  EXPECT_EQ(Message([](const JsonReader& r) { (void)r.RequireInt("none"); }),
            "none: expected an integer, got null (add this key)");
  EXPECT_EQ(Message([](const JsonReader& r) { (void)r.RequireString("absent"); }),
            "absent: expected a string, got nothing (add this key)");
}

TEST_F(JsonReaderTest, SaysWhatWasExpectedAndWhatCame) {
  EXPECT_EQ(Message([](const JsonReader& r) { (void)r.RequireInt("part"); }),
            "part: expected an integer, got 12.5");
  EXPECT_EQ(Message([](const JsonReader& r) { (void)r.RequireInt("int", 1, 8); }),
            "int: expected an integer from 1 to 8, got 12");
  EXPECT_EQ(Message([](const JsonReader& r) { (void)r.OptionalInt("int", 1, 13); }),
            "int: expected an integer of at least 13, got 12");
  EXPECT_EQ(Message([](const JsonReader& r) { (void)r.RequireInt("text"); }),
            "text: expected an integer, got \"hi\"");
  EXPECT_EQ(Message([](const JsonReader& r) { (void)r.RequireString("numbers"); }),
            "numbers: expected a string, got an array");
  EXPECT_EQ(Message([](const JsonReader& r) { (void)r.OptionalDouble("part", 1.0, 0.0, 1.0); }),
            "part: expected a number from 0 to 1, got 12.5");
  EXPECT_EQ(Message([](const JsonReader& r) { (void)r.RequireBool("int"); }),
            "int: expected true or false, got 12");
  EXPECT_EQ(Message([](const JsonReader& r) { (void)r.RequireInts("mixed"); }),
            "mixed[1]: expected an integer, got \"x\"");
}

TEST_F(JsonReaderTest, RefusesIntegersBeyond64Bits) {
  EXPECT_THAT(Message([](const JsonReader& r) { (void)r.RequireInt("big"); }),
              HasSubstr("expected an integer"));
  EXPECT_THAT(Message([](const JsonReader& r) { (void)r.RequireInt("huge"); }),
              HasSubstr("expected an integer"));
}

TEST_F(JsonReaderTest, PathNamesArrayElements) {
  const std::vector<JsonReader> stages = reader_.Array("stages");
  ASSERT_EQ(stages.size(), 2U);
  EXPECT_EQ(stages[0].RequireInt("micro_batch", 1), 1);
  EXPECT_EQ(stages[1].PathOf("micro_batch"), "stages[1].micro_batch");
  EXPECT_EQ(Message([&](const JsonReader&) { (void)stages[1].RequireInt("micro_batch", 1); }),
            "stages[1].micro_batch: expected an integer of at least 1, got 0");
  EXPECT_EQ(Message([](const JsonReader& r) { (void)r.Array("numbers"); }),
            "numbers[0]: expected an object, got 1");
}

TEST_F(JsonReaderTest, RejectsUnknownKeysWithAHint) {
  const nlohmann::json json = {{"micro_batsh", 1}, {"x_note", 2}};
  const std::vector<std::string> known = {"micro_batch", "micro_batches"};
  const JsonReader reader(json, "stages[0]");
  EXPECT_EQ(Message([&](const JsonReader&) { reader.RejectUnknown(known); }),
            "stages[0].micro_batsh: this key is not known (did you mean micro_batch or "
            "micro_batches?)");
  const nlohmann::json good = {{"micro_batch", 1}, {"x_note", 2}};
  EXPECT_NO_THROW(JsonReader(good).RejectUnknown(known));
}

TEST_F(JsonReaderTest, TopMustBeAnObject) {
  const nlohmann::json array = nlohmann::json::array();
  EXPECT_EQ(Message([&](const JsonReader&) { JsonReader reader(array); }),
            "expected an object, got an array");
}

}  // namespace
}  // namespace palmist
