#include "palmist/base/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace palmist {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::string Repeat(std::string_view text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

TEST(YamlTest, ReadsScalarsByTheirForm) {
  const auto value = ParseYaml(
      "{a: 12, b: -3, c: 2.5, d: 1e3, e: true, f: false, g: null, h: ~, i: , j: text, k: \"12\", "
      "l: '', m: +4, n: .5}");
  ASSERT_TRUE(value.ok()) << value.error().what();
  EXPECT_EQ(*value,
            json::parse(R"({"a":12,"b":-3,"c":2.5,"d":1000.0,"e":true,"f":false,"g":null,"h":null,
                            "i":null,"j":"text","k":"12","l":"","m":4,"n":0.5})"));
}

TEST(YamlTest, ThingsThatAreNotNumbersStayText) {
  for (const char* text : {".inf",
                           "-.inf",
                           ".nan",
                           "nan",
                           "inf",
                           "0x10",
                           "1_000",
                           "1e999",
                           "1.2.3",
                           "--1",
                           "+",
                           "e",
                           "infinity",
                           "12h"}) {
    const auto value = ParseYaml("a: " + std::string(text));
    ASSERT_TRUE(value.ok()) << text << value.error().what();
    EXPECT_EQ((*value)["a"], json(text));
  }
}

TEST(YamlTest, JsonIsYaml) {
  const std::string text = R"({"a":[1,2,{"b":"x\ny"}],"c":{}})";
  const auto value = ParseYaml(text);
  ASSERT_TRUE(value.ok()) << value.error().what();
  EXPECT_EQ(*value, json::parse(text));
}

struct Refusal {
  const char* name;
  std::string text;
  std::string message;
};

TEST(YamlTest, RefusesWithWhatAndWhere) {
  const std::string bomb =
      "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b]\n";
  const Refusal refusals[] = {
      {"anchor", bomb, "anchor or alias"},
      {"merge key", "a: {<<: *b}", "expected"},
      {"tag", "a: !!python/object:os.system x", "the tag"},
      {"own tag", "a: !mine {b: 1}", "the tag"},
      {"repeated key", "a: 1\nb: 2\na: 3\n", "\"a\" again, at line 3"},
      {"list as key", "? [1, 2]\n: 3\n", "a scalar as key"},
      {"second document", "a: 1\n---\nb: 2\n", "one YAML document"},
      {"empty", "", "empty file"},
      {"not UTF-8", "a: \xff\xfe", "UTF-8"},
      {"overlong", "a: \xc0\x80", "UTF-8"},
      {"NUL", std::string("a: \0 1", 6), "control characters"},
      {"escape", "a: \x1b[31m", "control characters"},
      {"broken flow", "a: [1, 2", "expected YAML"},
      {"broken map", "a: b: c", "expected YAML"},
      {"tab", "a:\n\t- b", "expected YAML"},
      {"flow depth", Repeat("[", 20000) + Repeat("]", 20000), "inside each other"},
      {"open flow", Repeat("[", 20000), "expected"},
      {"flow maps", Repeat("{a: ", 20000) + Repeat("}", 20000), "inside each other"},
      {"block depth", Repeat("- ", 20000), "inside each other"},
      {"too long", std::string(1 << 20, '#') + "#", "at most 1 MiB"},
  };
  for (const Refusal& refusal : refusals) {
    const auto value = ParseYaml(refusal.text);
    ASSERT_FALSE(value.ok()) << refusal.name;
    EXPECT_EQ(value.error().kind(), ErrorKind::kInput) << refusal.name;
    EXPECT_THAT(value.error().what(), HasSubstr(refusal.message)) << refusal.name;
  }
}

TEST(YamlTest, CountsValues) {
  YamlLimits limits;
  limits.max_values = 100;
  EXPECT_TRUE(ParseYaml("[" + Repeat("1,", 99) + "]", limits).ok());
  const auto value = ParseYaml("[" + Repeat("1,", 100) + "]", limits);
  ASSERT_FALSE(value.ok());
  EXPECT_THAT(value.error().what(), HasSubstr("at most 100 values"));
}

TEST(YamlTest, LongHostileTextsEndSoon) {
  constexpr int kMany = 50'000;
  for (const char* unit :
       {"? ", ": ",    "[]", "{}",   "\"", "'",  "a:\n ", "!",      "&",   "*",  "|\n",
        "%",  "---\n", "[{", "- - ", "#",  "\\", ",",     "a: |\n", "{? ", "[? "}) {
    const auto value = ParseYaml(Repeat(unit, kMany).substr(0, 1 << 20));
    EXPECT_TRUE(value.ok() || value.error().kind() == ErrorKind::kInput) << unit;
  }
}

TEST(YamlTest, WritesWhatItReads) {
  const auto value = nlohmann::ordered_json::parse(R"({
    "z": 1, "a": {"b": [1, 2.5, "x", {"k": "v", "l": [[1], []]}], "e": {}},
    "s": ["true", "null", "1e5", "a b", "", "é", "-", "#", "y", "quote\"", "line\nbreak", "a: b"],
    "list": [{"a": {"b": 1}}, {}, null, true]})");
  const auto again = ParseYaml(ToYamlText(value));
  ASSERT_TRUE(again.ok()) << again.error().what() << "\n" << ToYamlText(value);
  EXPECT_EQ(*again, json::parse(value.dump()));
}

}  // namespace
}  // namespace palmist
