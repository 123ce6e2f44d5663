#include "palmist/kernels/silu_mul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "palmist/kernels/test/kernel_testing.h"

namespace palmist::kernels {
namespace {

double Sigmoid(double x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}
double Silu(double x) { return x * Sigmoid(x); }
double SiluSlope(double x) { return Sigmoid(x) * (1 + x * Sigmoid(-x)); }

template <typename T>
class SiluMulTest : public ::testing::Test {};
TYPED_TEST_SUITE(SiluMulTest, StorageTypes);

/// Gates over the whole range, denser near 0, with a remainder for every vector length.
template <typename T>
std::vector<T> Gates() {
  std::vector<T> gates = Random<T>(997, 1, -10, 10);
  for (const T x : Random<T>(1000, 2, -100, 100)) gates.push_back(x);
  for (const double x : {0.0, -0.0, 1e-30, -1e-30, 1e4, -1e4}) gates.push_back(As<T>(x));
  return gates;
}

TYPED_TEST(SiluMulTest, MatchesTheReference) {
  const auto gate = Gates<TypeParam>();
  const auto up = Random<TypeParam>(gate.size(), 3, 0.5, 2);
  const auto dy = Random<TypeParam>(gate.size(), 4, -2, 2);
  std::vector<double> y_reference;
  std::vector<double> dgate_reference;
  std::vector<double> dup_reference;
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const double x = Value(gate[i]);
    y_reference.push_back(Value(As<TypeParam>(Silu(x))) * Value(up[i]));
    dgate_reference.push_back(Value(dy[i]) * Value(up[i]) * SiluSlope(x));
    dup_reference.push_back(Value(dy[i]) * Silu(x));
  }
  ForEachTarget([&] {
    std::vector<TypeParam> y(gate.size());
    std::vector<TypeParam> dgate(gate.size());
    std::vector<TypeParam> dup(gate.size());
    SiluMul<TypeParam>(gate, up, y, SerialExecutor());
    SiluMulBackward<TypeParam>(dy, gate, up, dgate, dup, SerialExecutor());
    constexpr double kCompute = std::is_same_v<TypeParam, double> ? 0x1p-52 : 0x1p-23;
    // Below -87, where the sigmoid of a float is subnormal, only the absolute error is small.
    const double tiny = std::max(4 * Tiny<TypeParam>(), 1e-42);
    // Rounding of silu may go to either neighbour where it lies between the two.
    ExpectNear(y, y_reference, std::max(6 * kCompute, Epsilon<TypeParam>() * 1.5), 2 * tiny);
    ExpectNear(dup, dup_reference, 6 * kCompute, 2 * tiny);
    // silu' has a zero near -1.28, where 1 + x (1 - s) cancels.
    ExpectNear(dgate, dgate_reference, 6 * kCompute, std::max(tiny, 8 * kCompute));
  });
}

TYPED_TEST(SiluMulTest, TakesItsLimitsAtInfinityAndPassesNanOn) {
  const auto inf = As<TypeParam>(HUGE_VAL);
  const auto minus_inf = As<TypeParam>(-HUGE_VAL);
  const std::vector<TypeParam> gate = {inf, minus_inf, As<TypeParam>(std::nan(""))};
  const std::vector<TypeParam> up(3, As<TypeParam>(2));
  ForEachTarget([&] {
    std::vector<TypeParam> y(3);
    std::vector<TypeParam> dgate(3);
    std::vector<TypeParam> dup(3);
    SiluMul<TypeParam>(gate, up, y, SerialExecutor());
    SiluMulBackward<TypeParam>(up, gate, up, dgate, dup, SerialExecutor());
    EXPECT_EQ(Value(y[0]), HUGE_VAL);
    EXPECT_EQ(Value(y[1]), 0);
    EXPECT_EQ(Value(dgate[0]), 4);
    EXPECT_EQ(Value(dgate[1]), 0);
    EXPECT_EQ(Value(dup[0]), HUGE_VAL);
    EXPECT_EQ(Value(dup[1]), 0);
    for (const auto* outputs : {&y, &dgate, &dup}) EXPECT_TRUE(std::isnan(Value((*outputs)[2])));
  });
}

TYPED_TEST(SiluMulTest, SameForAllExecutorsAndInPlace) {
  const auto gate = Random<TypeParam>(60'007, 5, -20, 20);
  const auto up = Random<TypeParam>(gate.size(), 6);
  const auto dy = Random<TypeParam>(gate.size(), 7);
  ExpectSameForAllExecutors([&](Executor& executor) {
    std::vector<TypeParam> y(gate.size());
    std::vector<TypeParam> dgate(gate.size());
    std::vector<TypeParam> dup(gate.size());
    SiluMul<TypeParam>(gate, up, y, executor);
    SiluMulBackward<TypeParam>(dy, gate, up, dgate, dup, executor);

    auto over_gate = gate;
    SiluMul<TypeParam>(over_gate, up, over_gate, executor);
    EXPECT_TRUE(Bytes(over_gate) == Bytes(y));
    over_gate = gate;
    auto over_up = up;
    SiluMulBackward<TypeParam>(dy, over_gate, over_up, over_gate, over_up, executor);
    EXPECT_TRUE(Bytes(over_gate, over_up) == Bytes(dgate, dup));
    auto over_dy = dy;
    SiluMulBackward<TypeParam>(over_dy, gate, up, dgate, over_dy, executor);
    EXPECT_TRUE(Bytes(over_dy) == Bytes(dup));
    return Bytes(y, dgate, dup);
  });
}

TYPED_TEST(SiluMulTest, Empty) {
  std::vector<TypeParam> none;
  SiluMul<TypeParam>(none, none, none, SerialExecutor());
  SiluMulBackward<TypeParam>(none, none, none, none, none, SerialExecutor());
}

}  // namespace
}  // namespace palmist::kernels
