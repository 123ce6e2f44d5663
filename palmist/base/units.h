/// Quantities as people write them, and arithmetic that notices overflow. Never uses the locale.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "palmist/base/result.h"

namespace palmist {

inline constexpr std::int64_t kKiB = std::int64_t{1} << 10;
inline constexpr std::int64_t kMiB = std::int64_t{1} << 20;
inline constexpr std::int64_t kGiB = std::int64_t{1} << 30;

// The parsers accept a number that is finite and not negative, optional spaces, and a unit, and
// return an input error that names the accepted forms for anything else. The error has no field:
// the caller knows what the text was for.

/// Returns a size in bytes, rounded to a whole one: `4096`, `2.5e9`, `64Ki`, `80GiB`, `24 GB`.
/// K, M, G, T, P are powers of 1000 and Ki, Mi, Gi, Ti, Pi of 1024; the B and the case are
/// optional.
Result<std::int64_t> ParseBytes(std::string_view text);

/// Returns a whole count by powers of 1000: `64`, `300e9`, `1.5k`, `7B`, `2T`; units k, M, B or G,
/// T. Ki, Mi, Gi, Ti are powers of 1024.
Result<std::int64_t> ParseCount(std::string_view text);

/// Returns a whole length of a sequence, where a k means 1024 as in names of models:
/// `2048` = `2k` = `2Ki`, `1M` = 1048576.
Result<std::int64_t> ParseSequenceLength(std::string_view text);

/// Returns a duration in seconds: `150` or `150s`, `250ms`, `20us`, `5min` or `5m`, `12h`, `30d`.
Result<double> ParseSeconds(std::string_view text);

/// Returns a rate in bytes per second: `300GB/s`, `25GiB/s`, `200Gb/s` or `200Gbps` (bits).
Result<double> ParseBytesPerSecond(std::string_view text);

/// Returns a number that is finite and not negative, without a unit: `0.9`, `2.5e9`.
Result<double> ParseNumber(std::string_view text);

// The printers show three significant digits, less trailing zeros.

/// Returns "512 B", "18.3 GiB", by powers of 1024.
std::string FormatBytes(double bytes);

/// Returns "12.3 us", "38 ms", "1.24 s", "5.2 min", "3.1 h", "30 d".
std::string FormatSeconds(double seconds);

/// Returns "512", "12.3 k", "1.56 B", "2 T", by powers of 1000.
std::string FormatCount(double count);

/// Returns "300 GB/s", by powers of 1000.
std::string FormatBytesPerSecond(double rate);

/// Returns "12.3%" for the fraction 0.123.
std::string FormatPercent(double fraction);

/// Returns a + b, or an input error on overflow.
Result<std::int64_t> CheckedAdd(std::int64_t a, std::int64_t b);

/// Returns a · b, or an input error on overflow.
Result<std::int64_t> CheckedMul(std::int64_t a, std::int64_t b);

}  // namespace palmist
