#include "palmist/base/rng.h"

#include "palmist/base/error.h"

namespace palmist {
namespace {

constexpr std::uint32_t Low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
constexpr std::uint32_t High(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }

}  // namespace

std::array<std::uint32_t, 4> Philox4x32(const std::array<std::uint32_t, 4>& counter,
                                        const std::array<std::uint32_t, 2>& key) {
  std::array<std::uint32_t, 4> x = counter;
  std::array<std::uint32_t, 2> k = key;
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kPhiloxMultiplier0} * x[0];
    const std::uint64_t product1 = std::uint64_t{kPhiloxMultiplier1} * x[2];
    x = {High(product1) ^ x[1] ^ k[0], Low(product1), High(product0) ^ x[3] ^ k[1], Low(product0)};
    k = {k[0] + kPhiloxIncrement0, k[1] + kPhiloxIncrement1};
  }
  return x;
}

Rng::result_type Rng::operator()() {
  const int half = has_second_half_ ? 2 : 0;
  if (!has_second_half_) {
    block_ = Philox4x32({Low(position_), High(position_), Low(stream_), High(stream_)},
                        {Low(seed_), High(seed_)});
    ++position_;
  }
  has_second_half_ = !has_second_half_;
  return block_[half] | static_cast<std::uint64_t>(block_[half + 1]) << 32;
}

double Rng::Uniform() { return static_cast<double>((*this)() >> 11) * 0x1.0p-53; }

std::int64_t Rng::Integer(std::int64_t n) {
  PALMIST_ASSERT(n > 0);
  // Draws below 2^64 mod n are refused, so that each remainder has equally many draws left.
  const auto range = static_cast<std::uint64_t>(n);
  const std::uint64_t threshold = (0 - range) % range;
  std::uint64_t draw = (*this)();
  while (draw < threshold) draw = (*this)();
  return static_cast<std::int64_t>(draw % range);
}

}  // namespace palmist
