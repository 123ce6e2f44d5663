#include "palmist/ops/dropout_mask.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <c10/core/GradMode.h>

#include <array>
#include <cmath>

#include "palmist/base/rng.h"
#include "palmist/ops/tensors.h"

namespace palmist::ops {
namespace {

// Integers of 32 bits live in int64, whose products wrap: the upper half is right after masking.
constexpr int64_t kLow = 0xffffffff;

struct Halves {
  at::Tensor high, low;
};

Halves Multiply(const at::Tensor& x, int64_t factor) {
  const at::Tensor product = x * factor;
  return {product.__rshift__(32).__and__(kLow), product.__and__(kLow)};
}

}  // namespace

at::Tensor DrawSeed(const at::Tensor& like) {
  static const auto op = FindOperator<at::Tensor(const at::Tensor&)>("palmist::dropout_seed");
  const c10::AutoGradMode guard(false);
  return op.call(like.detach());
}

kernels::DropoutSpec ToSpec(const std::optional<at::Tensor>& seed, double p) {
  if (p == 0) return {};
  TORCH_CHECK(seed && seed->scalar_type() == at::kLong && seed->numel() == 1,
              "dropout: expected a seed of one int64, as palmist::dropout_seed makes");
  return {p, static_cast<uint64_t>(seed->item<int64_t>())};
}

at::Tensor DropoutMask(
    const at::Tensor& seed, double p, int64_t rows, int64_t columns, at::Device device) {
  const auto options = at::TensorOptions().dtype(at::kLong).device(device);
  if (p >= 1) return at::full({rows, columns}, false, options.dtype(at::kBool));
  const uint64_t key = ToSpec(seed, p).seed;
  const int64_t padded = kernels::PaddedRow(columns);

  const at::Tensor position = at::arange(rows * padded / 4, options);
  std::array<at::Tensor, 4> x = {position.__and__(kLow),
                                 position.__rshift__(32),
                                 at::full({}, 0, options),
                                 at::full({}, 0, options)};
  auto key0 = static_cast<uint32_t>(key);
  auto key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {  // J. Salmon et al., SC 2011, section 3.3
    const Halves product0 = Multiply(x[0], kPhiloxMultiplier0);
    const Halves product1 = Multiply(x[2], kPhiloxMultiplier1);
    x = {product1.high.__xor__(x[1]).__xor__(static_cast<int64_t>(key0)),
         product1.low,
         product0.high.__xor__(x[3]).__xor__(static_cast<int64_t>(key1)),
         product0.low};
    key0 += kPhiloxIncrement0;
    key1 += kPhiloxIncrement1;
  }
  // 16 positions make a block: word w of position j is element 16 w + j.
  std::vector<at::Tensor> words;
  for (const at::Tensor& word : x) words.push_back(word.expand_as(position).view({-1, 16}));
  const at::Tensor bits = at::stack(words, 1).view({rows, padded});
  return bits.narrow(1, 0, columns).ge(static_cast<int64_t>(std::llround(p * 0x1p32)));
}

}  // namespace palmist::ops
