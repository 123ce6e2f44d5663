#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "palmist/base/error.h"
#include "palmist/symbolic/expr.h"
#include "palmist/symbolic/program.h"

namespace palmist::symbolic {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const Expr x = Expr::Symbol("x");
const Expr y = Expr::Symbol("y");
const Expr z = Expr::Symbol("z", Domain::kReal);

TEST(Evaluate, ComputesEachKind) {
  const std::map<std::string, double> at{{"x", 7}, {"y", 2}, {"z", -1.5}};
  EXPECT_EQ(Evaluate(x + 2 * y - 1, at), 10.0);
  EXPECT_EQ(Evaluate(x * y / 4, at), 3.5);
  EXPECT_EQ(Evaluate(Power(y, 11), at), 2048.0);
  EXPECT_EQ(Evaluate(Min(x, z), at), -1.5);
  EXPECT_EQ(Evaluate(Max(x, z), at), 7.0);
  EXPECT_EQ(Evaluate(Ceil(z), at), -1.0);
  EXPECT_EQ(Evaluate(Floor(z), at), -2.0);
  EXPECT_EQ(Evaluate(CeilDiv(x, y), at), 4.0);
  EXPECT_EQ(Evaluate(Select(z, x, y), at), 2.0);
  EXPECT_EQ(Evaluate(Select(-z, x, y), at), 7.0);
  EXPECT_EQ(Evaluate(5, {}), 5.0);
}

TEST(Evaluate, DividesIntegersExactly) {
  for (int n = 1; n <= 200; ++n) {
    const double k = n;
    EXPECT_EQ(Evaluate(CeilDiv(x, y), {{"x", 7 * k}, {"y", k}}), 7.0);
    EXPECT_EQ(Evaluate(Floor(3 * x / y), {{"x", k}, {"y", k}}), 3.0);
    EXPECT_EQ(Evaluate(Floor(x / n), {{"x", 11 * k}}), 11.0);
  }
}

TEST(Evaluate, DividesByZeroWithoutACrash) {
  const Expr quotient = z / (x - y);
  EXPECT_EQ(Evaluate(quotient, {{"x", 1}, {"y", 1}, {"z", 2}}), kInfinity);
  EXPECT_EQ(Evaluate(quotient, {{"x", 1}, {"y", 1}, {"z", -2}}), -kInfinity);
  EXPECT_TRUE(std::isnan(Evaluate(quotient, {{"x", 1}, {"y", 1}, {"z", 0}})));
  EXPECT_EQ(Evaluate(1 / z, {{"z", -0.0}}), kInfinity);  // a zero divisor has no sign
}

TEST(Evaluate, NeverTurnsNanIntoANumber) {
  const Expr nan = z / (z * (y - 1));  // 0 / 0 at z = 0
  const std::map<std::string, double> at{{"x", 1}, {"y", 2}, {"z", 0}};
  for (const Expr& expr : {Max(nan, x),
                           Min(x, nan),
                           Max(x, nan),
                           Min(nan, x),
                           Select(nan, x, y),
                           Ceil(nan),
                           Floor(nan),
                           nan * nan}) {
    EXPECT_TRUE(std::isnan(Evaluate(expr, at))) << ToText(expr);
  }
}

TEST(Evaluate, NamesAnUnboundSymbol) {
  try {
    Evaluate(x + y, {{"x", 1}});
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.field(), "y");
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  }
  EXPECT_THROW(Bounds(x, {}), Error);
}

TEST(Bounds, AreTightWhereEachSymbolOccursOnce) {
  const std::map<std::string, Interval> box{{"x", {2, 3}}, {"y", {4, 8}}, {"z", {-1, 2}}};
  EXPECT_EQ(Bounds(x + y, box), (Interval{6, 11}));
  EXPECT_EQ(Bounds(x - y, box), (Interval{-6, -1}));
  EXPECT_EQ(Bounds(y * z, box), (Interval{-8, 16}));
  EXPECT_EQ(Bounds(y / x, box), (Interval{4.0 / 3.0, 4}));
  EXPECT_EQ(Bounds(z * z, box), (Interval{0, 4}));
  EXPECT_EQ(Bounds(Power(z, 4), box), (Interval{0, 16}));
  EXPECT_EQ(Bounds(Max(z, 1), box), (Interval{1, 2}));
  EXPECT_EQ(Bounds(Min(x, y), box), (Interval{2, 3}));
  EXPECT_EQ(Bounds(CeilDiv(y, 3), box), (Interval{2, 3}));
  EXPECT_EQ(Bounds(Floor(z / 2), box), (Interval{-1, 1}));
  EXPECT_EQ(Bounds(Select(z, x, y), box), (Interval{2, 8}));
  EXPECT_EQ(Bounds(Select(x - 5, x, y), box), (Interval{4, 8}));
}

TEST(Bounds, HandleZeroDivisorsAndUnboundedBoxes) {
  EXPECT_EQ(Bounds(x / y, {{"x", {1, 2}}, {"y", {0, 4}}}), (Interval{0.25, kInfinity}));
  EXPECT_EQ(Bounds(x / z, {{"x", {1, 2}}, {"z", {-1, 1}}}), (Interval{-kInfinity, kInfinity}));
  EXPECT_EQ(Bounds(x / z, {{"x", {1, 2}}, {"z", {-1, 0}}}), (Interval{-kInfinity, kInfinity}));
  EXPECT_EQ(Bounds(x * z, {{"x", {1, kInfinity}}, {"z", {0, 1}}}), (Interval{0, kInfinity}));
  EXPECT_EQ(Bounds(x - z, {{"x", {1, kInfinity}}, {"z", {0, kInfinity}}}),
            (Interval{-kInfinity, kInfinity}));
}

TEST(Bounds, RejectBadIntervals) {
  EXPECT_THROW(Bounds(x, {{"x", {2, 1}}}), Error);
  EXPECT_THROW(Bounds(x, {{"x", {std::nan(""), 1}}}), Error);
}

/// Expressions with rounding, sharing and enough work for two threads.
std::vector<Expr> Workload() {
  std::vector<Expr> outputs;
  Expr shared = x / y + Max(x, 3 * y) / 7;
  for (int i = 1; i <= 12; ++i) {
    shared = Ceil(shared * (x + i) / (y + 0.1 * i)) + Min(shared, z) / 3;
    outputs.push_back(shared);
  }
  return outputs;
}

TEST(Program, GivesTheSameBitsForEveryThreadCountAndBlock) {
  const std::vector<Expr> outputs = Workload();
  const Program program(outputs, {"z", "x", "y"});
  constexpr std::size_t kCount = 40009;
  std::vector<double> columns[3];
  for (std::size_t k = 0; k < kCount; ++k) {
    columns[0].push_back(static_cast<double>(k % 17) - 8.0);
    columns[1].push_back(static_cast<double>(1 + k % 101) / 3.0);
    columns[2].push_back(static_cast<double>(1 + k % 13));
  }
  const auto run = [&](std::size_t begin, std::size_t n, int threads) {
    std::vector<std::vector<double>> results(outputs.size(), std::vector<double>(n));
    std::vector<double*> outs;
    for (auto& result : results) outs.push_back(result.data());
    const double* const in[] = {
        columns[0].data() + begin, columns[1].data() + begin, columns[2].data() + begin};
    program.Run(in, n, outs, threads);
    return results;
  };
  ASSERT_GT(kCount * program.operation_count(), std::size_t{3} << 20);  // worth several threads
  const auto one = run(0, kCount, 1);
  EXPECT_EQ(run(0, kCount, 2), one);
  EXPECT_EQ(run(0, kCount, 5), one);
  for (const std::size_t n : {1, 2, 7, 511, 512, 513}) {
    const auto part = run(19, n, 1);
    for (std::size_t j = 0; j < outputs.size(); ++j) {
      EXPECT_TRUE(std::equal(part[j].begin(), part[j].end(), one[j].begin() + 19)) << n;
    }
  }
  for (std::size_t k = 0; k < kCount; k += 997) {
    for (std::size_t j = 0; j < outputs.size(); ++j) {
      EXPECT_EQ(
          Evaluate(outputs[j], {{"z", columns[0][k]}, {"x", columns[1][k]}, {"y", columns[2][k]}}),
          one[j][k]);
    }
  }
}

TEST(Program, ComputesSharedPartsOnceAndReusesRegisters) {
  const Expr shared = Ceil(x / y);
  const Program program({shared + x, shared * y}, {"x", "y"});
  EXPECT_EQ(program.operation_count(), 4U);  // divide, ceil, add, multiply
  Expr chain = x;
  for (int i = 0; i < 100; ++i) chain = Ceil(chain / y) + x;
  EXPECT_LE(Program({chain}, {"x", "y"}).register_count(), 2U);
}

TEST(Program, CopiesOutputsThatAreNotComputed) {
  const Program program({x, 3, x + y, x + y}, {"x", "y"});
  const double in_x[] = {1, 2, 3};
  const double in_y[] = {10, 20, 30};
  const double* const columns[] = {in_x, in_y};
  double results[4][3];
  double* const outs[] = {results[0], results[1], results[2], results[3]};
  program.Run(columns, 3, outs);
  EXPECT_EQ(results[0][2], 3.0);
  EXPECT_EQ(results[1][0], 3.0);
  EXPECT_EQ(results[2][1], 22.0);
  EXPECT_EQ(results[3][1], 22.0);
  program.Run(columns, 0, outs, 4);  // nothing to do
  EXPECT_EQ(results[0][2], 3.0);
}

TEST(Program, BoundsEqualThoseOfTheExpressions) {
  const std::vector<Expr> outputs = Workload();
  const Interval box[] = {{1, 2}, {3, 5}, {-1, 4}};
  const std::vector<Interval> bounds = Program(outputs, {"x", "y", "z"}).RunBounds(box);
  for (std::size_t j = 0; j < outputs.size(); ++j) {
    EXPECT_EQ(bounds[j], Bounds(outputs[j], {{"x", box[0]}, {"y", box[1]}, {"z", box[2]}}));
  }
}

TEST(Program, RejectsBadArguments) {
  EXPECT_THROW(Program({x + y}, {"x"}), Error);
  EXPECT_THROW(Program({x}, {"x", "x"}), Error);
  const Program program({x}, {"x"});
  double value = 1.0;
  const double* const column[] = {&value};
  double* const out[] = {&value};
  EXPECT_THROW(program.Run({}, 1, out), Error);
  EXPECT_THROW(program.Run(column, 1, {}), Error);
  EXPECT_THROW(program.Run(column, 1, out, 0), Error);
  EXPECT_THROW(program.RunBounds({}), Error);
  const Interval reversed[] = {{2, 1}};
  EXPECT_THROW(program.RunBounds(reversed), Error);
}

}  // namespace
}  // namespace palmist::symbolic
