/// Chains of 100 000 operations: building, freeing and every traversal must do without recursion.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "palmist/symbolic/expr.h"

namespace palmist::symbolic {
namespace {

constexpr int kDepth = 100000;

const Expr a = Expr::Symbol("a");
const Expr b = Expr::Symbol("b");
const Expr c = Expr::Symbol("c");

/// Returns a after `kDepth` steps x -> ceil(x / b) + c.
Expr Chain() {
  Expr chain = a;
  for (int i = 0; i < kDepth; ++i) chain = Ceil(chain / b) + c;
  return chain;
}

TEST(DeepChain, AdditionsCollect) {
  Expr sum;
  for (int i = 0; i < kDepth; ++i) sum += i % 2 == 0 ? a : b;
  EXPECT_EQ(sum, kDepth / 2 * a + kDepth / 2 * b);
}

TEST(DeepChain, ManyTermsAddUp) {
  std::vector<Expr> terms;
  for (int i = 0; i < kDepth; ++i) terms.push_back(Expr::Symbol("x" + std::to_string(i)));
  EXPECT_EQ(Sum(terms).operands().size(), terms.size());
}

TEST(DeepChain, IsBuiltOnce) {
  const Expr chain = Chain();
  EXPECT_EQ(chain, Chain());
  EXPECT_EQ(NodeCount({&chain, 1}), 3U + 3U * kDepth);
  EXPECT_THAT(Symbols(chain), testing::ElementsAre("a", "b", "c"));
}

TEST(DeepChain, Evaluates) {
  // x -> ceil(x / 2) + 3 maps 6 to itself.
  const Expr chain = Chain();
  EXPECT_EQ(Evaluate(chain, {{"a", 6}, {"b", 2}, {"c", 3}}), 6.0);
  EXPECT_EQ(Bounds(chain, {{"a", {6, 6}}, {"b", {2, 2}}, {"c", {3, 3}}}), (Interval{6, 6}));
}

TEST(DeepChain, IsRewritten) {
  const Expr chain = Chain();
  EXPECT_EQ(Substitute(chain, {{"a", 6}, {"b", 2}, {"c", 3}}), Expr(6));
  EXPECT_EQ(Expand(chain), chain);
}

TEST(DeepChain, Prints) {
  const Expr chain = Chain();
  EXPECT_GT(ToText(chain).size(), std::size_t{kDepth});
  EXPECT_GT(ToLatex(chain).size(), std::size_t{kDepth});
}

}  // namespace
}  // namespace palmist::symbolic
