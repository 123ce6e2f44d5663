#include "palmist/cost/formulas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "palmist/cluster/presets.h"
#include "palmist/cost/predict.h"
#include "palmist/cost/test/uniform_plan.h"

namespace palmist::cost {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

StageFormulas FormulasOf(const plan::Plan& plan, int stage) {
  const model::Model model = test::ModelOf(plan.model_config);
  return cost::FormulasOf(
      plan, model::BuildGraph(model.spec), cluster::DefaultCalibration(plan.cluster), stage);
}

double ValueOf(const LayerFormulas& layer, const std::string& name) {
  for (const Formula& formula : layer.formulas) {
    if (formula.name == name) return formula.value;
  }
  return 0;
}

TEST(FormulasTest, AddUpToWhatIsPredicted) {
  const plan::Plan plan = test::Predicted(
      test::MakePlan({.model = "gpt2", .layers = {5, 7}, .tp = 2, .micro_batch = 2}));
  const StageFormulas formulas = FormulasOf(plan, 0);
  ASSERT_EQ(formulas.layers.size(), 2U);  // the embedding, and layers that are alike
  EXPECT_EQ(formulas.layers[0].title, "embedding");
  EXPECT_EQ(formulas.layers[1].title, "5 layers");
  double forward_s = 0, parameters = 0;
  const int counts[] = {1, 5};
  for (int i = 0; i < 2; ++i) {
    const LayerFormulas& layer = formulas.layers[static_cast<std::size_t>(i)];
    forward_s += counts[i] * (ValueOf(layer, "forward") + ValueOf(layer, "tp in forward"));
    parameters += counts[i] * ValueOf(layer, "parameters");
  }
  EXPECT_EQ(parameters * 2, plan.stages[0].predicted->memory.weights);
  // The rest is what is sent to the next stage.
  EXPECT_GT(plan.stages[0].predicted->forward_s, forward_s);
  EXPECT_LT(plan.stages[0].predicted->forward_s, 1.2 * forward_s);
}

TEST(FormulasTest, DegreesAreNumbersAndBatchAndSequenceAreSymbols) {
  plan::Plan plan = test::MakePlan({.model = "gpt2", .tp = 2, .micro_batch = 3});
  test::Recompute(plan.stages[0], 4);
  const StageFormulas formulas = FormulasOf(plan, 0);
  ASSERT_EQ(formulas.layers.size(), 3U);
  EXPECT_EQ(formulas.layers[1].title, "12 layers, 4 of them recomputed");
  EXPECT_EQ(formulas.layers[2].title, "head");
  const std::map<std::string, double> symbols(formulas.symbols.begin(), formulas.symbols.end());
  EXPECT_EQ(symbols.at("b"), 3);
  EXPECT_EQ(symbols.at("s"), 1024);
  EXPECT_EQ(symbols.count("tp"), 0U);
  EXPECT_GT(symbols.at("gemm_s_per_flop"), 0);
  for (const Formula& formula : formulas.layers[1].formulas) {
    EXPECT_GT(formula.value, 0) << formula.name;
    EXPECT_THAT(formula.text, Not(HasSubstr("cp"))) << formula.name;
  }
  // Its input in two bytes an element: 768 wide, not divided by tp.
  EXPECT_EQ(ValueOf(formulas.layers[1], "input"), 2.0 * 768 * 3 * 1024);
}

}  // namespace
}  // namespace palmist::cost
