#include "palmist/kernels/philox.h"

#include <cmath>

#include "palmist/base/rng.h"

namespace palmist::kernels {

std::uint32_t DropoutBits(std::uint64_t seed, std::uint64_t index) {
  const std::uint64_t position = index / 64 * 16 + index % 16;
  const auto words = Philox4x32(
      {static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32), 0, 0},
      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  return words[index % 64 / 16];
}

bool IsKept(const DropoutSpec& spec, std::uint64_t index) {
  if (spec.p >= 1) return false;
  return DropoutBits(spec.seed, index) >= std::llround(spec.p * 0x1p32);
}

}  // namespace palmist::kernels
