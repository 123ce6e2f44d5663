/// How numbers are written in cluster and calibration files: in the unit that their key names.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "palmist/base/units.h"

namespace palmist::cluster {

inline constexpr double kGiga = 1e9;
inline constexpr double kTera = 1e12;
inline constexpr double kMicro = 1e-6;
inline constexpr double kGib = static_cast<double>(kGiB);
inline constexpr double kMib = static_cast<double>(kMiB);

/// Returns `value` in `unit` with 14 significant digits, so that what is read from a file is
/// written as it stood: the last digits of a double hold the rounding of the conversion.
inline double InUnit(double value, double unit) {
  char text[40];
  std::snprintf(text, sizeof text, "%.13e", value / unit);
  return std::strtod(text, nullptr);
}

}  // namespace palmist::cluster
