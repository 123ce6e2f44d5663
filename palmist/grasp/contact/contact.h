/// Where the fingers of a parallel gripper touch an object.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "palmist/grasp/contact/lookup.h"

namespace palmist::grasp {

/// How contacts are searched for.
enum class ContactRule {
  /// As the public evaluation of GraspNet-1Billion does, to the last bit: surface samples half a
  /// cell apart, a quadratic through three of them, the normal of a plane through near places. It
  /// misses many contacts on flat faces, and normals of planes are off by 7 degrees on average.
  kCompat,
  /// By the signed distance itself: the first change of sign, and the gradient as normal.
  kStrict,
};

/// The line that two fingers close along, in the object's frame: the first finger starts at
/// center - axis·width/2 and moves along the axis, the second one comes from the other end. Both
/// stop at the centre.
struct ClosingLine {
  Vector3d center_O = Vector3d::Zero();
  Vector3d axis_O = Vector3d::UnitY();  ///< of length 1
  double width_m = 0;                   ///< @pre between 0 and 1
};

struct Contact {
  Vector3d p_O = Vector3d::Zero();
  Vector3d normal_O = Vector3d::UnitZ();  ///< outward in kStrict; of either sign in kCompat
};

/// The contact of each finger, where it has one.
using FingerContacts = std::array<std::optional<Contact>, 2>;

FingerContacts FindContacts(const DistanceLookup& object,
                            const ClosingLine& line,
                            ContactRule rule);

/// The steps of kCompat, each with the rule that the public evaluation was observed to follow.
namespace compat {

/// Returns how many places, from a finger's start to the centre, are looked at.
std::int64_t SamplesPerFinger(double width_m, double resolution_m);

/// A place on a finger's line, in cells, and its signed distance in metres.
struct Sample {
  Vector3d cells;
  double distance_m;
};

/// Returns where the quadratic w₀t² + w₁t + w₂ through three samples of one line is zero; t, in
/// cells, counts from the first one. Of two roots in [0, 10] the smaller; with none the vertex.
/// None where |w₀| < 1e-10, where |t| > 1, and where the first two samples are at one place.
std::optional<Vector3d> ZeroCrossing(const std::array<Sample, 3>& samples);

/// Returns the direction of least spread of the surface places among `cells` and the 26 around it
/// at 1.5 cells; none where fewer than three are on the surface.
std::optional<Vector3d> SurfaceNormal(const DistanceLookup& object, const Vector3d& cells);

}  // namespace compat
}  // namespace palmist::grasp
