/// Random rotations for tests.
#pragma once

#include <cmath>
#include <numbers>

#include "palmist/base/rng.h"
#include "palmist/grasp/core/pose.h"

namespace palmist::grasp {

/// Returns a rotation, each equally likely. Source: K. Shoemake, "Uniform random rotations",
/// Graphics Gems III, 1992.
inline Matrix3d RandomRotation(Rng& rng) {
  const double u = rng.Uniform();
  const double a = 2 * std::numbers::pi * rng.Uniform();
  const double b = 2 * std::numbers::pi * rng.Uniform();
  const double p = std::sqrt(1 - u), q = std::sqrt(u);
  return Eigen::Quaterniond(p * std::sin(a), p * std::cos(a), q * std::sin(b), q * std::cos(b))
      .toRotationMatrix();
}

}  // namespace palmist::grasp
