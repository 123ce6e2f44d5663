#include "palmist/grasp/contact/closure.h"

#include <algorithm>
#include <cmath>

namespace palmist::grasp {

std::optional<std::array<double, 2>> ContactAngles(const FingerContacts& contacts,
                                                   ContactRule rule) {
  if (!contacts[0] || !contacts[1]) return std::nullopt;
  const auto angle = [rule](const Contact& here, const Contact& there) {
    const Vector3d line = here.p_O - there.p_O;
    const double lengths = here.normal_O.norm() * line.norm();
    // Contacts at one place have no line: nothing holds.
    const double cosine = lengths > 0 ? here.normal_O.dot(line) / lengths : 0;
    return std::acos(std::clamp(rule == ContactRule::kCompat ? std::abs(cosine) : cosine, -1., 1.));
  };
  return std::array{angle(*contacts[0], *contacts[1]), angle(*contacts[1], *contacts[0])};
}

double SmallestFriction(const std::array<double, 2>& angles_rad,
                        std::span<const double> frictions) {
  const double largest_rad = std::max(angles_rad[0], angles_rad[1]);
  for (const double friction : frictions) {
    if (largest_rad <= std::atan(friction)) return friction;
  }
  return kNoClosure;
}

double ClosureScore(const DistanceLookup& object,
                    const ClosingLine& line,
                    ContactRule rule,
                    std::span<const double> frictions) {
  const auto angles = ContactAngles(FindContacts(object, line, rule), rule);
  return angles ? SmallestFriction(*angles, frictions) : kNoClosure;
}

}  // namespace palmist::grasp
