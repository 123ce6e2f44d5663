/// Random numbers that depend only on a seed and a position, never on thread or platform.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

namespace palmist {

/// The constants of Philox4x32 with ten rounds, for implementations on vectors and tensors. The
/// key's increments are Weyl's: the golden ratio, and the square root of three less one.
inline constexpr int kPhiloxRounds = 10;
inline constexpr std::uint32_t kPhiloxMultiplier0 = 0xD2511F53;
inline constexpr std::uint32_t kPhiloxMultiplier1 = 0xCD9E8D57;
inline constexpr std::uint32_t kPhiloxIncrement0 = 0x9E3779B9;
inline constexpr std::uint32_t kPhiloxIncrement1 = 0xBB67AE85;

/// Returns the 128 bits that Philox4x32 with ten rounds makes of `counter` under `key`.
///
/// A bijection in the counter, so any position of a stream is had without the ones before it.
/// Source: J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011, section 3.3.
std::array<std::uint32_t, 4> Philox4x32(const std::array<std::uint32_t, 4>& counter,
                                        const std::array<std::uint32_t, 2>& key);

/// A stream of random numbers: `Philox4x32` over positions 0, 1, 2, … under (seed, stream).
///
/// Streams of one seed are independent; give each task its own stream to be the same for every
/// thread count. Fits the distributions of <random>, but those differ between standard libraries;
/// `Uniform` and `Integer` do not.
class Rng {
 public:
  using result_type = std::uint64_t;

  explicit Rng(std::uint64_t seed, std::uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }

  /// Returns the next 64 bits.
  result_type operator()();

  /// Returns a number in [0, 1) with 53 random bits.
  double Uniform();

  /// Returns an integer in [0, n), each equally likely. @pre n > 0
  std::int64_t Integer(std::int64_t n);

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
  std::uint64_t position_ = 0;
  std::array<std::uint32_t, 4> block_{};
  bool has_second_half_ = false;
};

}  // namespace palmist
