#include "palmist/report/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "palmist/base/file.h"

namespace palmist::report {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kHostile = "<script>alert('x')</script> & \"q\" \x01\xff";

Chart ExampleChart(const std::string& id) {
  Chart chart;
  chart.id = id;
  chart.caption = "A chart & its caption";
  chart.data = {{{"type", "bar"}, {"y", {1, 2}}}};
  chart.layout = {{"height", 300}};
  chart.table = {{"x", "y"}, {{"0", "1"}, {"1", "2"}}, "lr"};
  return chart;
}

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size())
    ++count;
  return count;
}

TEST(EscapeHtml, LeavesNoMarkupAndNoControlCharacters) {
  EXPECT_EQ(EscapeHtml(kHostile),
            "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;q&quot; \\x01\\xff");
  EXPECT_EQ(EscapeHtml("é–·"), "é–·");
}

TEST(ChartText, EscapesWhatPlotlyReadsAsMarkup) {
  EXPECT_EQ(ChartText("<a href='x'>&"), "&lt;a href='x'&gt;&amp;");
}

TEST(Page, EscapesTextEverywhere) {
  Page page(kHostile);
  page.AddHeading(kHostile);
  page.AddParagraph(kHostile);
  page.AddList({kHostile});
  page.AddCallout(CalloutKind::kBad, kHostile);
  page.AddKeyFigures({{kHostile, kHostile}});
  page.AddTable({{kHostile}, {{kHostile}}, ""}, kHostile);
  const std::string html = page.Html();
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, Not(HasSubstr("\"q\"")));
  EXPECT_EQ(Count(html, "&lt;script&gt;"), 11);  // the title stands in the head too
}

TEST(Page, HasTheOutlineOfAnAccessiblePage) {
  Page page("A title");
  page.AddHeading("Part");
  page.AddHeading("Detail", 3);
  page.AddTable({{"name", "value"}, {{"a", "1"}}, "lr"}, "Caption");
  const std::string html = page.Html();
  EXPECT_THAT(html, testing::StartsWith("<!DOCTYPE html>\n<html lang=\"en\">"));
  EXPECT_THAT(html, HasSubstr("<title>A title</title>"));
  EXPECT_THAT(html, HasSubstr("<meta name=\"viewport\""));
  EXPECT_EQ(Count(html, "<h1"), 1);
  EXPECT_THAT(html, HasSubstr("<h2>Part</h2>"));
  EXPECT_THAT(html, HasSubstr("<h3>Detail</h3>"));
  EXPECT_THAT(html, HasSubstr("<caption>Caption</caption>"));
  EXPECT_THAT(
      html, HasSubstr("<th scope=\"col\">name</th><th scope=\"col\" class=\"number\">value</th>"));
  EXPECT_THAT(html, HasSubstr("<tr><th scope=\"row\">a</th><td class=\"number\">1</td></tr>"));
}

TEST(Page, ForbidsEveryRequest) { EXPECT_THAT(Page("x").Html(), HasSubstr("default-src 'none'")); }

TEST(Page, CarriesPlotlyOnlyForCharts) {
  Page page("x");
  EXPECT_LT(page.Html().size(), 20'000u);
  page.AddChart(ExampleChart("one"));
  EXPECT_EQ(page.Html().size() > 1'000'000u, !PlotlyScript().empty());
}

TEST(Page, ChartsHaveTheirTableBesideThem) {
  Page page("x");
  page.AddChart(ExampleChart("one"));
  const std::string html = page.Html();
  EXPECT_THAT(html, HasSubstr("A chart &amp; its caption"));
  EXPECT_THAT(html, HasSubstr("<th scope=\"row\">1</th><td class=\"number\">2</td>"));
  if (PlotlyScript().empty()) {
    EXPECT_THAT(html, Not(HasSubstr("<figure>")));
    return;
  }
  EXPECT_THAT(html, HasSubstr("id=\"one\" role=\"img\" aria-label=\"A chart &amp; its caption\""));
}

TEST(Page, ChartDataCannotEndItsScript) {
  if (PlotlyScript().empty()) GTEST_SKIP() << "this build has no charts";
  Page page("x");
  Chart chart = ExampleChart("one");
  chart.data[0]["name"] = "</script><script>alert(1)</script>\xff";
  page.AddChart(chart);
  const std::string html = page.Html();
  EXPECT_THAT(html, Not(HasSubstr("<script>alert(1)")));
  const std::string open = "id=\"one-json\">";
  const std::size_t begin = html.find(open) + open.size();
  const auto read =
      nlohmann::json::parse(html.substr(begin, html.find("</script>", begin) - begin));
  EXPECT_EQ(read["data"][0]["name"], "</script><script>alert(1)</script>\xEF\xBF\xBD");
  EXPECT_EQ(read["layout"]["height"], 300);
}

TEST(Page, RefusesOurOwnMistakes) {
  Page page("x");
  EXPECT_THROW(page.AddTable({{"a", "b"}, {{"1"}}, ""}), Error);
  EXPECT_THROW(page.AddHeading("x", 1), Error);
  EXPECT_THROW(page.AddChart(ExampleChart("a b")), Error);
  EXPECT_THROW(page.AddChart(ExampleChart("")), Error);
  if (PlotlyScript().empty()) return;
  page.AddChart(ExampleChart("a"));
  EXPECT_THROW(page.AddChart(ExampleChart("a")), Error);
}

TEST(Page, IsWrittenAsItIs) {
  Page page("x");
  page.AddParagraph("text");
  const std::string path = testing::TempDir() + "palmist_page_test.html";
  ASSERT_TRUE(page.Write(path).ok());
  EXPECT_EQ(ReadFile(path).value(), page.Html());
  std::remove(path.c_str());
  EXPECT_FALSE(page.Write("/nowhere/page.html").ok());
}

}  // namespace
}  // namespace palmist::report
