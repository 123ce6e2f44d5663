/// Whether two contacts hold an object by friction.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "palmist/grasp/contact/contact.h"

namespace palmist::grasp {

/// The coefficients of friction that grasps are scored with, rising.
inline constexpr std::array<double, 6> kFrictions = {0.2, 0.4, 0.6, 0.8, 1.0, 1.2};

/// The score of a grasp that no coefficient holds.
inline constexpr double kNoClosure = -1;

/// Returns, for each contact, the angle in radians between its normal and the line through both;
/// none unless both fingers have a contact. Does not depend on friction: two contacts with friction
/// hold any small wrench where the line lies within both friction cones.
/// Source: V.-D. Nguyen, "Constructing force-closure grasps", IJRR 7(3), 1988, for two contacts.
///
/// Normals of kCompat have no sign, so that its angles are at most π/2; in kStrict a surface that
/// faces the other finger has an angle above π/2.
std::optional<std::array<double, 2>> ContactAngles(const FingerContacts& contacts,
                                                   ContactRule rule);

/// Returns the smallest of `frictions` μ with angle <= atan μ for both angles, or kNoClosure.
/// @pre frictions rise
double SmallestFriction(const std::array<double, 2>& angles_rad,
                        std::span<const double> frictions = kFrictions);

/// Finds contacts and returns the smallest friction that closes the grasp, or kNoClosure.
double ClosureScore(const DistanceLookup& object,
                    const ClosingLine& line,
                    ContactRule rule,
                    std::span<const double> frictions = kFrictions);

}  // namespace palmist::grasp
