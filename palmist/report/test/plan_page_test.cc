#include "palmist/report/plan_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "palmist/report/test/example_page.h"

namespace palmist::report {
namespace {

using test::ExamplePage;
using test::ExamplePlan;
using testing::HasSubstr;
using testing::Not;

/// Returns the page without the script of Plotly.
std::string Body(const Page& page) {
  const std::string html = page.Html();
  return html.substr(0, html.find("</main>"));
}

nlohmann::json ChartJson(const std::string& html, const std::string& id) {
  const std::string open = "id=\"" + id + "-json\">";
  const std::size_t begin = html.find(open);
  if (begin == std::string::npos) return {};
  const std::size_t from = begin + open.size();
  return nlohmann::json::parse(html.substr(from, html.find("</script>", from) - from));
}

TEST(PlanPage, SaysWhatThePlanIs) {
  const std::string html = Body(ExamplePage("gpt2-xl"));
  EXPECT_THAT(html, HasSubstr("<h1>gpt2-xl on l4-2x8</h1>"));
  EXPECT_THAT(html, HasSubstr("This plan fits into memory."));
  EXPECT_THAT(html, HasSubstr("<dt>one iteration</dt><dd>5.73 s</dd>"));
  EXPECT_THAT(html, HasSubstr("16 of 16 devices, 4 stages"));
  EXPECT_THAT(html, HasSubstr("Memory of stage 0 binds"));
  EXPECT_THAT(html, HasSubstr("<td>0–11 (12)</td>"));
  EXPECT_THAT(html, HasSubstr("<td>4–7</td>"));
  EXPECT_THAT(html, HasSubstr("<td>8 layers</td>"));
  EXPECT_THAT(html, HasSubstr("<td>optimizer 50%</td>"));
  EXPECT_THAT(html, HasSubstr("<td>16.60 of 21.60 GiB (77%)</td>"));
  EXPECT_THAT(html, HasSubstr("within 0.7% of that bound (status: optimal)"));
  EXPECT_THAT(html, HasSubstr("48,123,456"));
  EXPECT_THAT(html, HasSubstr("l4, 2026-11-02"));
}

TEST(PlanPage, ComparesAlternatives) {
  const std::string html = Body(ExamplePage("gpt2-xl"));
  EXPECT_THAT(html, HasSubstr("<th scope=\"row\">this plan</th><td class=\"number\">5.73 s</td>"));
  EXPECT_THAT(html, HasSubstr("<td class=\"number\">+5.1%</td>"));
  EXPECT_THAT(html, HasSubstr("5.41 s, does not fit"));
  EXPECT_THAT(html, HasSubstr("<td>1 / 2 / 1 / 2</td>"));
}

TEST(PlanPage, StacksMemoryAgainstTheLimit) {
  if (PlotlyScript().empty()) GTEST_SKIP() << "this build has no charts";
  const auto chart = ChartJson(ExamplePage("gpt2-xl").Html(), "memory");
  ASSERT_EQ(chart["data"].size(), 10u);
  double sum = 0;
  for (const auto& trace : chart["data"]) sum += trace["y"][0].get<double>();
  const double needed =
      ExamplePlan("x").stages[0].predicted->memory.needed() / (1024.0 * 1024 * 1024);
  EXPECT_NEAR(sum, needed, 1e-3);
  EXPECT_EQ(chart["layout"]["barmode"], "stack");
  EXPECT_EQ(chart["layout"]["shapes"].size(), 4u);
  EXPECT_DOUBLE_EQ(chart["layout"]["shapes"][0]["y0"].get<double>(), 21.6);
}

TEST(PlanPage, SplitsTheTimeWithoutARemainder) {
  if (PlotlyScript().empty()) GTEST_SKIP() << "this build has no charts";
  const auto chart = ChartJson(ExamplePage("gpt2-xl").Html(), "time");
  double sum = 0;
  for (const auto& seconds : chart["data"][0]["x"]) sum += seconds.get<double>();
  EXPECT_NEAR(sum, 5.73, 0.006 * 5.73);
  EXPECT_EQ(chart["data"][0]["y"][0], "compute");
}

TEST(PlanPage, ANameIsNeverMarkup) {
  const std::string html = Body(ExamplePage("<script>alert(1)</script>"));
  EXPECT_THAT(html, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(html, HasSubstr("&lt;script&gt;alert(1)&lt;/script&gt; on l4-2x8"));
}

TEST(PlanPage, LeavesOutWhatThePlanDoesNotHold) {
  plan::Plan plan = ExamplePlan("bare");
  plan.predicted.reset();
  plan.search.reset();
  plan.provenance.clear();
  plan.stages[2].predicted.reset();
  const std::string html = PlanPage(plan).Html();
  EXPECT_THAT(html, HasSubstr("This plan holds no prediction."));
  for (const char* heading : {"Memory", "Time", "What binds", "Alternatives", "How good is it"}) {
    EXPECT_THAT(html, Not(HasSubstr(std::string("<h2>") + heading))) << heading;
  }
  EXPECT_THAT(html, HasSubstr("<h2>Stages</h2>"));
}

TEST(PlanPage, ShowsTheClosestMiss) {
  plan::Plan plan = ExamplePlan("big");
  plan.predicted->fits = false;
  plan.closest = {{1, 3.5 * 1024 * 1024 * 1024, "offload the optimizer"}};
  const std::string html = Body(PlanPage(plan));
  EXPECT_THAT(html, HasSubstr("This plan does not fit into memory."));
  EXPECT_THAT(html, HasSubstr("3.5 GiB"));
  EXPECT_THAT(html, HasSubstr("offload the optimizer"));
}

TEST(PlanPage, ShowsReplicasChunksAndExperts) {
  plan::Plan plan = ExamplePlan("odd");
  plan.stages[0].replicas = {{{0, 1}, 2, 3}, {{2}, 1, 2}};
  plan.stages[1].chunks = {{12, 14}, {30, 31}};
  plan.stages[2].ep = 4;
  plan.stages[3].cp = 2;
  plan.stages[3].ops.norm = model::Variant::kLean;
  plan.stages[3].devices = {15, 12, 13};
  const std::string html = Body(PlanPage(plan));
  EXPECT_THAT(html, HasSubstr("3 + 2"));
  EXPECT_THAT(html, HasSubstr("2 + 1"));
  EXPECT_THAT(html, HasSubstr("12–14, 30–31 (5)"));
  EXPECT_THAT(html, HasSubstr(">ep</th>"));
  EXPECT_THAT(html, HasSubstr("2 (ring)"));
  EXPECT_THAT(html, HasSubstr("norm lean"));
  EXPECT_THAT(html, HasSubstr("12–13, 15"));
}

}  // namespace
}  // namespace palmist::report
