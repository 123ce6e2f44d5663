// What operators keep for backward, by the allocator, and what the graph keeps of the producers.
#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>

#include "palmist/ops/operators.h"
#include "tests/support/memory_counter.h"

namespace palmist::ops {
namespace {

constexpr int64_t kRows = 64;
constexpr int64_t kColumns = 32;
constexpr int64_t kTensor = kRows * kColumns * 4;

at::Tensor Parameter(at::IntArrayRef sizes) { return at::randn(sizes).set_requires_grad(true); }

// Bytes that live on after f, its result included.
int64_t KeptBytes(const std::function<at::Tensor()>& f) {
  f();  // what is allocated once is there
  const test::MemoryCounter counter;
  const at::Tensor result = f();
  return counter.current_bytes();
}

TEST(MemoryTest, LinearKeepsNothingOfAProducer) {
  const at::Tensor x = Parameter({kRows, kColumns}), weight = Parameter({kColumns, kColumns}),
                   gamma = Parameter({kColumns}), beta = Parameter({kColumns});
  const int64_t statistics = kRows * 4;
  // The result alone, beside statistics: x is the caller's.
  EXPECT_EQ(KeptBytes([&] { return Linear(x, weight); }), kTensor);
  EXPECT_EQ(KeptBytes([&] { return Linear(Gelu(x), weight); }), kTensor);
  EXPECT_EQ(KeptBytes([&] { return Linear(SiluMul(x, x), weight); }), kTensor);
  EXPECT_EQ(KeptBytes([&] { return Linear(LayerNorm(x, {kColumns}, gamma, beta), weight); }),
            kTensor + 2 * statistics);
  EXPECT_EQ(KeptBytes([&] { return Linear(RmsNorm(x, {kColumns}, gamma), weight); }),
            kTensor + statistics);
}

TEST(MemoryTest, AChangedInputIsKept) {
  const at::Tensor x = Parameter({kRows, kColumns}), weight = Parameter({kColumns, kColumns});
  // A view is another tensor, and a change without a gradient leaves the graph as it was.
  EXPECT_EQ(KeptBytes([&] {
              return Linear(Gelu(x).view({kRows, kColumns}), weight);
            }),
            2 * kTensor);
  const auto changed = [&] {
    at::Tensor y = Gelu(x);
    {
      const c10::NoGradGuard guard;
      y.mul_(2);
    }
    return Linear(y, weight);
  };
  EXPECT_EQ(KeptBytes(changed), 2 * kTensor);
  const at::Tensor got = torch::autograd::grad({changed().sum()}, {weight})[0];
  const at::Tensor expected = (2 * Gelu(x)).sum(0).expand_as(weight);
  EXPECT_LT((got - expected).abs().max().item<float>(), 1e-4f);
}

TEST(MemoryTest, DropoutKeepsASeed) {
  const at::Tensor x = Parameter({kRows, kColumns});
  EXPECT_EQ(KeptBytes([&] { return Dropout(x, 0.1); }), kTensor + 8);
}

TEST(MemoryTest, AttentionKeepsNoScores) {
  const at::Tensor q = Parameter({2, 4, 48, 16});
  const int64_t bytes = q.numel() * 4;
  EXPECT_EQ(KeptBytes([&] { return Attention(q, q, q, {}, 0.1); }), bytes + 2 * 4 * 48 * 4 + 8);
  const int64_t scores = 2 * 4 * 48 * 48 * 4;
  EXPECT_EQ(KeptBytes([&] { return TempoAttention(q, q, q, {}, 0.1); }), bytes + scores + 8);
}

TEST(MemoryTest, TempoKeepsTheOutputAndABit) {
  const at::Tensor x = Parameter({kRows, kColumns}), weight = Parameter({kColumns, kColumns});
  EXPECT_EQ(KeptBytes([&] { return Linear(TempoGelu(x), weight); }),
            2 * kTensor + kRows * kColumns / 8);
  EXPECT_EQ(KeptBytes([&] { return Linear(TempoLayerNorm(x, {kColumns}), weight); }),
            2 * kTensor + kRows * 4);
}

TEST(MemoryTest, TheLossNeverHoldsAllLogits) {
  const int64_t n_classes = 4096;
  const at::Tensor x = Parameter({kRows * 8, kColumns}), weight = Parameter({n_classes, kColumns});
  const at::Tensor target = at::zeros({kRows * 8}, at::kLong);
  const test::MemoryCounter counter;
  const at::Tensor loss = LinearCrossEntropy(x, weight, target, {}, {.chunk_tokens = 64});
  const int64_t gradients = (x.numel() + weight.numel()) * 4;
  const int64_t chunk = 64 * n_classes * 4;
  EXPECT_GE(counter.current_bytes(), gradients);
  EXPECT_LT(counter.current_bytes(), gradients + 4096);
  EXPECT_LT(counter.peak_bytes(), gradients + chunk + chunk / 4);
}

TEST(MemoryTest, RecomputedOutputsAreFreedInBackward) {
  const at::Tensor x = Parameter({kRows, kColumns}), gamma = Parameter({kColumns});
  const at::Tensor a = Parameter({kColumns, kColumns}), b = Parameter({kColumns, kColumns});
  const auto step = [&] {
    const at::Tensor y = RmsNorm(x, {kColumns}, gamma);
    return (Linear(y, a) * Linear(y, b)).sum();
  };
  torch::autograd::grad({step()}, {x, gamma, a, b});
  const test::MemoryCounter counter;
  {
    const at::Tensor loss = step();
    const auto grads = torch::autograd::grad({loss}, {x, gamma, a, b}, {}, true);
    const auto again = torch::autograd::grad({loss}, {x, gamma, a, b});
    for (std::size_t i = 0; i < grads.size(); ++i) EXPECT_TRUE(grads[i].equal(again[i]));
  }
  EXPECT_EQ(counter.current_bytes(), 0);
}

TEST(MemoryTest, BackwardOverwritesAGradientThatNobodyElseHolds) {
  const at::Tensor x = Parameter({32 * kRows, kColumns}), up = Parameter({32 * kRows, kColumns});
  const at::Tensor weight = Parameter({kColumns, kColumns});
  const at::Tensor dy = at::randn({32 * kRows, kColumns});
  const int64_t bytes = x.numel() * 4;
  const std::vector<at::Tensor> inputs = {x, up, weight};
  // The gradient of the activation's output, and beside it what silu_mul gives two of.
  const std::vector<std::pair<std::function<at::Tensor()>, int64_t>> cases = {
      {[&] { return Linear(Gelu(x), weight); }, bytes},
      {[&] { return Linear(SiluMul(x, up), weight); }, 2 * bytes}};
  for (const auto& [f, expected] : cases) {
    const at::Tensor y = f();
    const test::MemoryCounter counter;
    const auto grads = torch::autograd::grad({y}, inputs, {dy}, false, false, true);
    EXPECT_LT(counter.peak_bytes(), expected + bytes / 4);
    EXPECT_GE(counter.peak_bytes(), expected);
  }
}

TEST(MemoryTest, BackwardLeavesAGradientThatAHookHolds) {
  const at::Tensor x = Parameter({kRows, kColumns}), weight = Parameter({kColumns, kColumns});
  const at::Tensor dy = at::randn({kRows, kColumns});
  for (const bool gated : {false, true}) {
    const at::Tensor activation = gated ? SiluMul(x, x) : Gelu(x);
    at::Tensor held;
    activation.register_hook([&](const at::Tensor& gradient) { held = gradient; });
    const at::Tensor dx = torch::autograd::grad({Linear(activation, weight)}, {x}, {dy})[0];
    EXPECT_TRUE(held.equal(dy.matmul(weight)));
    EXPECT_FALSE(held.equal(dx));
  }
}

}  // namespace
}  // namespace palmist::ops
