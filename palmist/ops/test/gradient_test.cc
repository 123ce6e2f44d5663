// Every operator's gradient against central differences in double.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <vector>

#include "palmist/ops/operators.h"
#include "tests/support/gradient_checker.h"

namespace palmist::ops {
namespace {

using Inputs = std::vector<at::Tensor>;
using Function = std::function<at::Tensor(const Inputs&)>;

at::Tensor Random(at::IntArrayRef sizes, bool requires_grad = true) {
  return at::randn(sizes, at::kDouble).set_requires_grad(requires_grad);
}

std::span<double> Elements(const at::Tensor& tensor) {
  return {tensor.mutable_data_ptr<double>(), static_cast<std::size_t>(tensor.numel())};
}

// Compares the gradient of a random combination of the outputs by each input. The seed is set
// before each call, so that dropout is one function.
void ExpectGradients(const Function& f, const Inputs& inputs) {
  at::manual_seed(7);
  const at::Tensor weights = at::randn_like(f(inputs).detach());
  const auto loss = [&] {
    at::manual_seed(7);
    return (f(inputs) * weights).sum();
  };
  const Inputs gradients = torch::autograd::grad({loss()}, inputs);
  const auto value = [&] {
    const c10::NoGradGuard guard;
    return loss().item<double>();
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor gradient = gradients[i].contiguous();
    EXPECT_TRUE(test::GradientIs(value, Elements(inputs[i]), Elements(gradient))) << "input " << i;
  }
}

class GradientTest : public ::testing::Test {
 protected:
  void SetUp() override { at::manual_seed(1); }
};

TEST_F(GradientTest, Linear) {
  ExpectGradients([](const Inputs& t) { return Linear(t[0], t[1], t[2]); },
                  {Random({2, 3, 4}), Random({5, 4}), Random({5})});
}

TEST_F(GradientTest, LinearOfEachProducer) {
  const auto after = [](const auto& make) {
    return [make](const Inputs& t) { return Linear(make(t), t[1]); };
  };
  ExpectGradients(after([](const Inputs& t) { return Gelu(t[0]); }),
                  {Random({6, 4}), Random({5, 4})});
  ExpectGradients(after([](const Inputs& t) { return LayerNorm(t[0], {4}, t[2], t[3]); }),
                  {Random({6, 4}), Random({5, 4}), Random({4}), Random({4})});
  ExpectGradients(after([](const Inputs& t) { return RmsNorm(t[0], {4}, t[2], 1e-6); }),
                  {Random({6, 4}), Random({5, 4}), Random({4})});
  ExpectGradients(after([](const Inputs& t) { return SiluMul(t[0], t[2]); }),
                  {Random({6, 4}), Random({5, 4}), Random({6, 4})});
}

TEST_F(GradientTest, OneProducerAndSeveralConsumers) {
  ExpectGradients(
      [](const Inputs& t) {
        const at::Tensor y = LayerNorm(t[0], {4}, t[2], t[3]);
        return Linear(y, t[1]) * Linear(y, t[4]) + y.sum();
      },
      {Random({6, 4}), Random({5, 4}), Random({4}), Random({4}), Random({5, 4})});
}

TEST_F(GradientTest, LayerNorm) {
  ExpectGradients(
      [](const Inputs& t) {
        return LayerNorm(t[0], {3, 4}, t[1], t[2]);
      },
      {Random({2, 3, 4}), Random({3, 4}), Random({3, 4})});
  ExpectGradients([](const Inputs& t) { return LayerNorm(t[0], {4}); }, {Random({2, 3, 4})});
  ExpectGradients([](const Inputs& t) { return LayerNorm(t[0], {4}, {}, t[1]); },
                  {Random({2, 3, 4}), Random({4})});
}

TEST_F(GradientTest, RmsNorm) {
  ExpectGradients([](const Inputs& t) { return RmsNorm(t[0], {4}, t[1]); },
                  {Random({2, 3, 4}), Random({4})});
  ExpectGradients([](const Inputs& t) { return RmsNorm(t[0], {3, 4}); }, {Random({2, 3, 4})});
}

TEST_F(GradientTest, Gelu) {
  for (const char* approximate : {"none", "tanh"}) {
    ExpectGradients([&](const Inputs& t) { return Gelu(t[0], approximate); }, {Random({5, 7})});
  }
}

TEST_F(GradientTest, SiluMul) {
  ExpectGradients([](const Inputs& t) { return SiluMul(t[0], t[1]); },
                  {Random({5, 7}), Random({5, 7})});
}

TEST_F(GradientTest, Dropout) {
  ExpectGradients([](const Inputs& t) { return Dropout(t[0], 0.3).square(); }, {Random({5, 70})});
}

TEST_F(GradientTest, Attention) {
  const at::Tensor mask = at::randint(0, 2, {2, 1, 3, 5}, at::kLong).to(at::kBool);
  for (const double p : {0.0, 0.25}) {
    for (const bool is_causal : {false, true}) {
      for (const auto& attention : {Attention, TempoAttention}) {
        ExpectGradients(
            [&](const Inputs& t) { return attention(t[0], t[1], t[2], {}, p, is_causal, {}); },
            {Random({2, 4, 3, 8}), Random({2, 2, 5, 8}), Random({2, 2, 5, 8})});
        ExpectGradients(
            [&](const Inputs& t) { return attention(t[0], t[1], t[2], mask, p, is_causal, 0.7); },
            {Random({2, 4, 3, 8}), Random({2, 2, 5, 8}), Random({2, 2, 5, 8})});
      }
    }
  }
}

TEST_F(GradientTest, AttentionWithAnAddedMask) {
  const at::Tensor mask = Random({3, 5}, false);
  ExpectGradients([&](const Inputs& t) { return Attention(t[0], t[1], t[2], mask); },
                  {Random({2, 4, 3, 8}), Random({2, 4, 5, 8}), Random({2, 4, 5, 8})});
}

TEST_F(GradientTest, LinearCrossEntropy) {
  const at::Tensor target = at::tensor({0, 3, -100, 6, 2, 2}, at::kLong);
  for (const char* reduction : {"mean", "sum", "none"}) {
    for (const double smoothing : {0.0, 0.2}) {
      const LossOptions options = {
          .reduction = reduction, .label_smoothing = smoothing, .z_loss = 0.1, .chunk_tokens = 4};
      ExpectGradients(
          [&](const Inputs& t) { return LinearCrossEntropy(t[0], t[1], target, t[2], options); },
          {Random({6, 4}), Random({7, 4}), Random({7})});
    }
  }
}

TEST_F(GradientTest, TempoGeluAndLayerNorm) {
  // Exact up to the fit of the inverse and the rounding of the output, which in double is nothing.
  const at::Tensor x = Random({50, 8});
  for (const auto& [ours, exact] :
       {std::pair<at::Tensor, at::Tensor>{TempoGelu(x), Gelu(x)},
        std::pair<at::Tensor, at::Tensor>{TempoLayerNorm(x, {8}), LayerNorm(x, {8})}}) {
    EXPECT_TRUE(ours.equal(exact));
    const at::Tensor weights = at::randn_like(ours);
    const at::Tensor a = torch::autograd::grad({(ours * weights).sum()}, {x})[0];
    const at::Tensor b = torch::autograd::grad({(exact * weights).sum()}, {x})[0];
    EXPECT_LT((a - b).abs().max().item<double>(), 3e-4);
  }
}

TEST_F(GradientTest, SecondDerivatives) {
  const auto expect = [](const Function& f, const Inputs& inputs) {
    ExpectGradients(
        [&](const Inputs& t) {
          at::manual_seed(3);
          const c10::AutoGradMode guard(true);  // values are taken without gradients otherwise
          const Inputs first = torch::autograd::grad({f(t).sin().sum()}, t, {}, true, true);
          at::Tensor sum = at::zeros({}, at::kDouble);
          for (const at::Tensor& g : first) sum = sum + (g * g).sum();
          return sum;
        },
        inputs);
  };
  expect([](const Inputs& t) { return Linear(LayerNorm(t[0], {4}, t[1], t[2]), t[3]); },
         {Random({3, 4}), Random({4}), Random({4}), Random({5, 4})});
  expect([](const Inputs& t) { return Linear(RmsNorm(t[0], {4}, t[1]), t[2]); },
         {Random({3, 4}), Random({4}), Random({5, 4})});
  expect([](const Inputs& t) { return Linear(Gelu(t[0], "tanh"), t[1]); },
         {Random({3, 4}), Random({5, 4})});
  expect([](const Inputs& t) { return Linear(SiluMul(t[0], t[1]), t[2]); },
         {Random({3, 4}), Random({3, 4}), Random({5, 4})});
  expect([](const Inputs& t) { return Dropout(t[0] * t[0], 0.4); }, {Random({3, 4})});
  expect([](const Inputs& t) { return Attention(t[0], t[1], t[2], {}, 0.25, true); },
         {Random({1, 2, 3, 4}), Random({1, 1, 5, 4}), Random({1, 1, 5, 4})});
}

TEST_F(GradientTest, SecondDerivativesThatAreMissingSaySo) {
  const auto second = [](const at::Tensor& y, const at::Tensor& x) {
    return torch::autograd::grad({y.sum()}, {x}, {}, true, true);
  };
  const at::Tensor x = Random({4, 4});
  const at::Tensor target = at::tensor({0, 1, 2, 3}, at::kLong);
  EXPECT_THROW(second(TempoGelu(x), x), c10::Error);
  EXPECT_THROW(second(TempoLayerNorm(x, {4}), x), c10::Error);
  EXPECT_THROW(second(LinearCrossEntropy(x, Random({4, 4}), target), x), c10::Error);
}

}  // namespace
}  // namespace palmist::ops
