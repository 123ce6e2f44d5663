#include "palmist/symbolic/expr.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "palmist/base/error.h"

namespace palmist::symbolic {
namespace {

using testing::ElementsAre;

const Expr a = Expr::Symbol("a");
const Expr b = Expr::Symbol("b");
const Expr c = Expr::Symbol("c");
const Expr r = Expr::Symbol("r", Domain::kNonnegative);
const Expr z = Expr::Symbol("z", Domain::kReal);

TEST(Expr, EqualStructureIsOneNode) {
  EXPECT_EQ(Expr::Symbol("a").id(), a.id());
  EXPECT_EQ((a + b).id(), (b + a).id());
  EXPECT_EQ((a + (b + c)).id(), ((a + b) + c).id());
  EXPECT_EQ((a * b * 2).id(), (2 * (b * a)).id());
  EXPECT_EQ(Max(Max(a, b), c).id(), Max(c, Max(b, a)).id());
  EXPECT_EQ(Expr(0.0), Expr(-0.0));
  EXPECT_EQ(Expr(), Expr(0));
  EXPECT_NE(a, b);
  EXPECT_NE(Expr::Symbol("a", Domain::kReal), a);
  EXPECT_NE(Ceil(a), Floor(a));
}

TEST(Expr, NodesAreFreedAndBuiltAnew) {
  const std::uint64_t first = (a + Expr::Symbol("gone")).id();
  EXPECT_NE((a + Expr::Symbol("gone")).id(), first);
}

TEST(Expr, FoldsConstants) {
  EXPECT_EQ(Expr(2) + 3 * Expr(4) - 1, Expr(13));
  EXPECT_EQ(Expr(1) / 4, Expr(0.25));
  EXPECT_EQ(Ceil(2.5), Expr(3));
  EXPECT_EQ(Floor(-2.5), Expr(-3));
  EXPECT_EQ(Min(2, 3), Expr(2));
  EXPECT_EQ(Max(2, 3), Expr(3));
  EXPECT_EQ(Power(3, 4), Expr(81));
  EXPECT_EQ(Power(2, -2), Expr(0.25));
  EXPECT_EQ(Expr(std::int64_t{9007199254740991}).constant(), 9007199254740991.0);
}

TEST(Expr, CollectsLikeTerms) {
  EXPECT_EQ(2 * a + 3 * a, 5 * a);
  EXPECT_EQ(a / 3 + 2 * a / 3, a);
  EXPECT_EQ(a / 3 + a / 6, a / 2);
  EXPECT_EQ(a - a, Expr(0));
  EXPECT_EQ(a + b - (a + b), Expr(0));
  EXPECT_EQ(2 * (a + b) + (a + b), 3 * (a + b));
  EXPECT_EQ(3 * (a + b) - 2 * (a + b) - b, a);
  EXPECT_EQ(1 - (1 - r), r);
  EXPECT_EQ(-(a - b), b - a);
  EXPECT_EQ(a * b + 2 * b * a, 3 * a * b);
  EXPECT_EQ(z / b - z / b, Expr(0));
}

TEST(Expr, CollectsFactors) {
  EXPECT_EQ(a * a, Power(a, 2));
  EXPECT_EQ(Power(a, 2) * a, Power(a, 3));
  EXPECT_EQ(Power(a * b, 2), a * a * b * b);
  EXPECT_EQ(Power(a, 0), Expr(1));
  EXPECT_EQ(a * 1, a);
  EXPECT_EQ(a * 0, Expr(0));
  EXPECT_EQ(a + 0, a);
  EXPECT_EQ(a / 1, a);
  EXPECT_EQ((a / b) / c, a / (b * c));
  EXPECT_EQ(a / (b / c), a * c / b);
  EXPECT_EQ(4 * a / 6, 2 * a / 3);
  EXPECT_EQ(0.5 * a / 3, a / 6);
  EXPECT_EQ((a + b).kind(), Kind::kSum);
  EXPECT_EQ((c * (a + b)).kind(), Kind::kProduct);  // factored form stays
}

TEST(Expr, CancelsOnlyWhatCannotBeZero) {
  EXPECT_EQ(a / a, Expr(1));
  EXPECT_EQ(a * a * b / (a * b), a);
  EXPECT_EQ((a + r) / (a + r), Expr(1));
  EXPECT_NE(r / r, Expr(1));
  EXPECT_NE(z * z / z, z);
  EXPECT_NE((a - b) / (a - b), Expr(1));
}

TEST(Expr, ProvesSigns) {
  EXPECT_TRUE((a * b + r).IsProvablyPositive());
  EXPECT_TRUE((r * a).IsProvablyNonnegative());
  EXPECT_FALSE((r * a).IsProvablyPositive());
  EXPECT_FALSE((a - b).IsProvablyNonnegative());
  EXPECT_TRUE((z * z).IsProvablyNonnegative());
  EXPECT_TRUE(Max(z, a).IsProvablyPositive());
  EXPECT_TRUE((-Min(z, -a)).IsProvablyPositive());
  EXPECT_FALSE(Min(z, a).IsProvablyNonnegative());
  EXPECT_TRUE(Ceil(a).IsProvablyPositive());
  EXPECT_FALSE(Floor(a).IsProvablyPositive());
  EXPECT_TRUE(Select(z, a, r).IsProvablyNonnegative());
  EXPECT_FALSE((1 / z).IsProvablyNonnegative());
}

TEST(Expr, DropsBeatenOperandsOfMinAndMax) {
  EXPECT_EQ(Max(a, a), a);
  EXPECT_EQ(Max(a, a + r), a + r);
  EXPECT_EQ(Min(a, a + r), a);
  EXPECT_EQ(Max(a, 2 * a), 2 * a);
  EXPECT_EQ(Max(a * b, a * b / 3), a * b);
  EXPECT_EQ(Max(r, 0), r);
  EXPECT_EQ(Min(r, 0), Expr(0));
  EXPECT_EQ(Max(r, -1), r);
  EXPECT_EQ(Max(Max(a, 3), Max(2, b)), Max(std::vector<Expr>{a, b, 3}));
  EXPECT_EQ(Max(a, Min(a, b)), a);
  EXPECT_EQ(Min(a, Max(a, b)), a);
  EXPECT_EQ(Max(std::vector<Expr>{a, a + b, Min(a, c)}), a + b);
  EXPECT_EQ(Max(z, 0).kind(), Kind::kMax);
  EXPECT_EQ(Max(a, a + z).kind(), Kind::kMax);
  EXPECT_EQ(Max(a, b).operands().size(), 2U);
}

TEST(Expr, SimplifiesRoundingAndSelection) {
  EXPECT_EQ(Ceil(Ceil(a) + 2), Ceil(a) + 2);
  EXPECT_EQ(Floor(Ceil(a) * Floor(b)), Ceil(a) * Floor(b));
  EXPECT_NE(Ceil(Ceil(a) / 2), Ceil(a) / 2);
  EXPECT_EQ(Select(a, b, c), b);
  EXPECT_EQ(Select(-r, b, c), c);
  EXPECT_EQ(Select(z, b, b), b);
  EXPECT_EQ(Select(1, b, c), b);
  EXPECT_EQ(Select(0, b, c), c);
  EXPECT_EQ(Select(r, b, c).kind(), Kind::kSelect);
}

TEST(Expr, ExpandsProductsOverSums) {
  EXPECT_EQ(Expand(c * (a + b)), a * c + b * c);
  EXPECT_EQ(Expand(2 * (a + b)), 2 * a + 2 * b);
  EXPECT_EQ(Expand((a + b) / c), a / c + b / c);
  EXPECT_EQ(Expand(Power(a + b, 2)), a * a + 2 * a * b + b * b);
  EXPECT_EQ(Expand((a + b) * (a - b)), a * a - b * b);
  EXPECT_EQ(Expand(Max(c * (a + z), b)), Max(a * c + c * z, b));
  EXPECT_EQ(Expand((a + b) / 3), a / 3 + b / 3);
  EXPECT_EQ(Expand(Ceil((a + b) / c)), Ceil((a + b) / c));  // rounding must not change
}

TEST(Expr, SubstitutesAllAtOnce) {
  EXPECT_EQ(Substitute(a * b + c, {{"a", b}, {"b", a}}), a * b + c);
  EXPECT_EQ(Substitute(a + 2 * b, {{"a", b}, {"b", 3}}), b + 6);
  EXPECT_EQ(Substitute(Max(Ceil(a / b), r), {{"a", 7}, {"b", 2}}), Max(4, r));
  EXPECT_EQ(Substitute(Power(a, 2) / 3, {{"a", 2 * b}}), 4 * b * b / 3);
  EXPECT_EQ(Substitute(Select(r, a, b), {{"r", 0}}), b);
  EXPECT_EQ(Substitute(a, {{"unused", b}}), a);
}

TEST(Expr, ListsSymbolsAndCountsNodes) {
  EXPECT_THAT(Symbols(c * (a + b) / Max(a, r)), ElementsAre("a", "b", "c", "r"));
  EXPECT_TRUE(Symbols(3).empty());
  const Expr sum = a + b;
  EXPECT_EQ(NodeCount(std::vector<Expr>{sum, Ceil(sum)}), 4U);  // a, b, the sum, its ceiling
}

TEST(Expr, RejectsBadArguments) {
  EXPECT_THROW(Expr::Symbol(""), Error);
  EXPECT_THROW(Max(std::span<const Expr>()), Error);
  EXPECT_THROW(Min(std::span<const Expr>()), Error);
  EXPECT_EQ(Sum({}), Expr(0));
  EXPECT_EQ(Product({}), Expr(1));
  Expr huge = a;
  EXPECT_THROW(
      {
        for (int i = 0; i < 100; ++i) huge *= huge;
      },
      Error);
}

TEST(Expr, HandlesInfinityAndNan) {
  EXPECT_TRUE(std::isinf((Expr(1) / 0).constant()));
  EXPECT_TRUE(std::isnan((Expr(0) / 0).constant()));
  EXPECT_TRUE(std::isnan((a + Expr(0) / 0).constant()));
  EXPECT_TRUE(std::isnan((a * (Expr(0) / 0)).constant()));
  EXPECT_EQ(Expr(std::nan("1")), Expr(std::nan("2")));
}

TEST(Expr, ThreadsShareNodes) {
  // The parts live only inside the loop, so that threads race to free and to rebuild them.
  constexpr int kThreads = 4;
  std::vector<std::vector<Expr>> built(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&mine = built[static_cast<std::size_t>(t)]] {
        for (int i = 0; i < 3000; ++i) {
          const Expr x = Expr::Symbol("x" + std::to_string(i % 7));
          const Expr e = Max(Ceil(x / (a + i % 11)), x * b + Power(x, 2)) + i % 5;
          if (i % 100 == 0) mine.push_back(e);
        }
      });
    }
  }
  for (const auto& expressions : built) EXPECT_EQ(expressions, built[0]);
}

}  // namespace
}  // namespace palmist::symbolic
