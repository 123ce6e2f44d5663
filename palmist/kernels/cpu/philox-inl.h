// The random bits of dropout (philox.h) as vectors, for code that foreach_target.h compiles once
// per instruction set. Included inside no namespace, after "hwy/highway.h"; use it within
// palmist::kernels::HWY_NAMESPACE.
#if defined(PALMIST_KERNELS_PHILOX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PALMIST_KERNELS_PHILOX_INL_H
#undef PALMIST_KERNELS_PHILOX_INL_H
#else
#define PALMIST_KERNELS_PHILOX_INL_H
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "hwy/highway.h"
#include "palmist/base/rng.h"
#include "palmist/kernels/cpu/vector-inl.h"
#include "palmist/kernels/philox.h"

HWY_BEFORE_NAMESPACE();
namespace palmist::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Elements that share a block of random words.
inline constexpr std::size_t kDropoutBlock = 64;

/// What a `DropoutSpec` means for one word and its element.
struct DropoutRule {
  explicit DropoutRule(const DropoutSpec& spec) : seed(spec.seed) {
    const double rounded = std::round(spec.p * 0x1p32);
    keeps_all = rounded < 1;
    drops_all = rounded >= 0x1p32;
    threshold = keeps_all || drops_all ? 0 : static_cast<std::uint32_t>(rounded);
    scale = drops_all ? 0 : 1 / (1 - spec.p);
  }

  std::uint64_t seed;
  std::uint32_t threshold;  ///< words below it drop; where neither of the following holds
  bool keeps_all;           ///< every element is kept: no words are needed
  bool drops_all;           ///< every element is dropped: no words are needed
  double scale;             ///< 1 / (1 - p); 0 where all are dropped
};

/// Makes the four words of each lane's counter, given as its low and high half (philox.h).
template <class D>
HWY_INLINE void DropoutWords(
    D d32, std::uint64_t seed, hn::Vec<D> low, hn::Vec<D> high, hn::Vec<D>* words) {
#if HWY_TARGET == HWY_SCALAR
  const auto block =
      Philox4x32({hn::GetLane(low), hn::GetLane(high), 0, 0},
                 {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  for (std::size_t word = 0; word < 4; ++word) words[word] = hn::Set(d32, block[word]);
#else
  // Counters lie in 64-bit lanes, of which only the lower halves count: a product of lower halves
  // then has one word of the next state in its lower half, where it is needed, and the other one
  // shift away. Even and odd counters are two vectors, so that one blend joins them in the end.
  const hn::Repartition<std::uint64_t, D> d64;
  using V = hn::Vec<D>;
  const auto upper = [&](auto wide) { return hn::BitCast(d32, hn::ShiftRight<32>(wide)); };
  const auto m0 = hn::Set(d32, kPhiloxMultiplier0);
  const auto m1 = hn::Set(d32, kPhiloxMultiplier1);
  V even[4] = {low, high, hn::Zero(d32), hn::Zero(d32)};
  V odd[4] = {
      upper(hn::BitCast(d64, low)), upper(hn::BitCast(d64, high)), hn::Zero(d32), hn::Zero(d32)};
  auto key0 = static_cast<std::uint32_t>(seed);
  auto key1 = static_cast<std::uint32_t>(seed >> 32);
  const auto round = [&](V* x) {
    const auto product0 = hn::MulEven(x[0], m0);
    const auto product1 = hn::MulEven(x[2], m1);
    x[0] = hn::Xor(hn::Xor(upper(product1), hn::Set(d32, key0)), x[1]);
    x[1] = hn::BitCast(d32, product1);
    x[2] = hn::Xor(hn::Xor(upper(product0), hn::Set(d32, key1)), x[3]);
    x[3] = hn::BitCast(d32, product0);
  };
  HWY_UNROLL(10)
  for (int r = 0; r < kPhiloxRounds; ++r) {
    round(even);
    round(odd);
    key0 += kPhiloxIncrement0;
    key1 += kPhiloxIncrement1;
  }
  for (std::size_t word = 0; word < 4; ++word) {
    const auto shifted = hn::ShiftLeft<32>(hn::BitCast(d64, odd[word]));
    words[word] = hn::OddEven(hn::BitCast(d32, shifted), even[word]);
  }
#endif
}

/// Writes the 32-bit words of the 64 elements of block `block`. @pre words is aligned as a vector
HWY_INLINE void DropoutBlock(std::uint64_t seed,
                             std::uint64_t block,
                             std::uint32_t* HWY_RESTRICT words) {
  const hn::ScalableTag<std::uint32_t> d32;
  const std::uint64_t first = block * 16;
  const std::size_t lanes = hn::Lanes(d32);
  for (std::size_t i = 0; i < 16; i += lanes) {
    // No carry: the position of the block's first counter ends in four zero bits.
    const auto low = hn::Iota(d32, static_cast<std::uint32_t>(first + i));
    const auto high = hn::Set(d32, static_cast<std::uint32_t>(first >> 32));
    hn::Vec<decltype(d32)> four[4];
    DropoutWords(d32, seed, low, high, four);
    for (std::size_t word = 0; word < 4; ++word) {
      hn::Store(four[word], d32, words + word * 16 + i);
    }
  }
}

/// Returns which of Lanes(d) elements are kept, given their words.
/// @pre neither rule.keeps_all nor rule.drops_all
template <class D>
HWY_INLINE hn::Mask<D> KeptMask(D d,
                                const DropoutRule& rule,
                                const std::uint32_t* HWY_RESTRICT words) {
  const hn::RebindToUnsigned<D> du;
  const auto last_dropped = hn::Set(du, static_cast<hn::TFromD<decltype(du)>>(rule.threshold - 1));
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    return hn::RebindMask(d, hn::Gt(hn::LoadU(du, words), last_dropped));
  } else {
    const hn::Rebind<std::uint32_t, D> d32;
    return hn::RebindMask(d, hn::Gt(hn::PromoteTo(du, hn::LoadU(d32, words)), last_dropped));
  }
}

/// Returns the factors of Lanes(d) elements, 1 / (1 - p) where kept and 0 where not, given their
/// words. @pre neither rule.keeps_all nor rule.drops_all
template <class D>
HWY_INLINE hn::Vec<D> DropoutFactors(D d,
                                     const DropoutRule& rule,
                                     const std::uint32_t* HWY_RESTRICT words) {
  return hn::IfThenElseZero(KeptMask(d, rule, words),
                            hn::Set(d, static_cast<hn::TFromD<D>>(rule.scale)));
}

/// Writes y = dropout(x) for n elements, the first of which begins block `block`. y may be x.
template <typename T>
HWY_FLATTEN void DropoutElements(
    const DropoutRule& rule, std::uint64_t block, const T* x, std::size_t n, T* y) {
  const ComputeTag<T> d;
  if (rule.drops_all) {
    std::fill_n(y, n, T{});
    return;
  }
  const auto scale = hn::Set(d, static_cast<ComputeType<T>>(rule.scale));
  if (rule.keeps_all) {
    ForEachVector(d, n, [&](std::size_t i, std::size_t count) {
      StoreCount(hn::Mul(LoadCount(d, x + i, count), scale), d, y + i, count);
    });
    return;
  }
  HWY_ALIGN std::uint32_t words[kDropoutBlock];
  for (std::size_t begin = 0; begin < n; begin += kDropoutBlock, ++block) {
    DropoutBlock(rule.seed, block, words);
    ForEachVector(d, std::min(n - begin, kDropoutBlock), [&](std::size_t i, std::size_t count) {
      const auto scaled = hn::Mul(LoadCount(d, x + begin + i, count), scale);
      const auto kept = hn::IfThenElseZero(KeptMask(d, rule, words + i), scaled);
      StoreCount(kept, d, y + begin + i, count);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace palmist::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
