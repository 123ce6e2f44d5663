#include "palmist/grasp/contact/contact.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>

namespace palmist::grasp {
namespace compat {

std::int64_t SamplesPerFinger(double width_m, double resolution_m) {
  // (1/r)·w, not w/r: they differ where the width is a whole number of cells.
  return std::max<std::int64_t>(3, static_cast<std::int64_t>((1 / resolution_m) * width_m));
}

std::optional<Vector3d> ZeroCrossing(const std::array<Sample, 3>& samples) {
  const auto& [first, second, third] = samples;
  const Vector3d step = second.cells - first.cells;
  if (step.isZero(0)) return std::nullopt;
  const Vector3d direction = step / step.norm();
  int axis = 0;
  while (direction[axis] == 0) ++axis;
  const double t2 = step[axis] / direction[axis];
  const double t3 = (third.cells - first.cells)[axis] / direction[axis];

  // Newton's divided differences.
  const double slope2 = (second.distance_m - first.distance_m) / t2;
  const double slope3 = (third.distance_m - first.distance_m) / t3;
  const double w0 = (slope3 - slope2) / (t3 - t2);
  const double w1 = slope2 - w0 * t2;
  const double w2 = first.distance_m;
  if (!(std::abs(w0) >= 1e-10)) return std::nullopt;

  double t = -w1 / (2 * w0);
  const double discriminant = w1 * w1 - 4 * w0 * w2;
  if (discriminant >= 0) {
    // The form without cancellation.
    const double q = -(w1 + std::copysign(std::sqrt(discriminant), w1)) / 2;
    const double larger = q / w0;
    const double smaller = q == 0 ? 0 : w2 / q;
    for (const double root : {larger, smaller}) {
      if (root >= 0 && root <= 10) t = root;
    }
  }
  if (std::abs(t) > 1) return std::nullopt;
  return first.cells + t * direction;
}

namespace {

/// The centre of a cube and the directions to its 26 neighbours, 1.5 long.
std::array<Vector3d, 27> MakeStencil() {
  std::array<Vector3d, 27> stencil;
  std::size_t n = 0;
  for (int x = -1; x <= 1; ++x) {
    for (int y = -1; y <= 1; ++y) {
      for (int z = -1; z <= 1; ++z) stencil[n++] = 1.5 * Vector3d(x, y, z).normalized();
    }
  }
  return stencil;
}

}  // namespace

std::optional<Vector3d> SurfaceNormal(const DistanceLookup& object, const Vector3d& cells) {
  static const std::array<Vector3d, 27> kStencil = MakeStencil();
  std::array<Vector3d, 27> near;
  int count = 0;
  Vector3d mean = Vector3d::Zero();
  for (const Vector3d& offset : kStencil) {
    if (std::abs(object.Distance(cells + offset)) < object.surface_threshold_m()) {
      near[count++] = offset;
      mean += offset;
    }
  }
  if (count < 3) return std::nullopt;
  mean /= count;
  Matrix3d spread = Matrix3d::Zero();
  for (int i = 0; i < count; ++i) spread += (near[i] - mean) * (near[i] - mean).transpose();
  return Eigen::SelfAdjointEigenSolver<Matrix3d>(spread).eigenvectors().col(0);
}

namespace {

std::optional<Contact> FindContact(const DistanceLookup& object,
                                   const Vector3d& start_O,
                                   const Vector3d& axis_O,
                                   double width_m) {
  const std::int64_t n = SamplesPerFinger(width_m, object.resolution_m());
  const double step_m = width_m / 2 / static_cast<double>(n - 1);
  const auto sample = [&](std::int64_t i) {
    const double t_m = i == n - 1 ? width_m / 2 : static_cast<double>(i) * step_m;
    const Vector3d cells = object.ToCells(RoundToFloat(start_O + t_m * axis_O));
    return Sample{cells, object.Distance(cells)};
  };
  for (std::int64_t i = 0; i < n; ++i) {
    const Sample here = sample(i);
    if (!(std::abs(here.distance_m) < object.surface_threshold_m())) continue;
    const bool is_last = i == n - 1;
    const std::int64_t first = is_last ? i - 2 : std::max<std::int64_t>(i - 1, 0);
    const std::array<Sample, 3> samples = {sample(first), sample(first + 1), sample(first + 2)};
    const double after_m = i == 0 ? samples[1].distance_m : samples[2].distance_m;
    if (!is_last && std::abs(after_m) < std::abs(here.distance_m)) continue;
    const std::optional<Vector3d> crossing = ZeroCrossing(samples);
    if (!crossing) continue;
    const Vector3d p_O = object.ToModel(RoundToFloat(*crossing));
    const std::optional<Vector3d> normal = SurfaceNormal(object, object.ToCells(RoundToFloat(p_O)));
    if (!normal) return std::nullopt;
    return Contact{p_O, RoundToFloat(*normal)};
  }
  return std::nullopt;
}

}  // namespace
}  // namespace compat

namespace strict {
namespace {

std::optional<Contact> FindContact(const DistanceLookup& object,
                                   const Vector3d& start_O,
                                   const Vector3d& axis_O,
                                   double width_m) {
  // Steps of half a cell at most, so that no part thicker than that is stepped over.
  const auto steps = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(std::ceil(width_m / object.resolution_m())));
  const double step_m = width_m / 2 / static_cast<double>(steps);
  double before_m = object.Distance(object.ToCells(start_O));
  if (before_m <= 0) return std::nullopt;  // the finger would begin inside the object
  for (std::int64_t i = 1; i <= steps; ++i) {
    const double reached_m = static_cast<double>(i) * step_m;
    const double here_m = object.Distance(object.ToCells(start_O + reached_m * axis_O));
    if (here_m <= 0) {
      const double t_m = reached_m - step_m * here_m / (here_m - before_m);
      const Vector3d p_O = start_O + t_m * axis_O;
      const Vector3d gradient = object.Gradient(object.ToCells(p_O));
      const double length = gradient.norm();
      if (!(length > 0)) return std::nullopt;
      return Contact{p_O, gradient / length};
    }
    before_m = here_m;
  }
  return std::nullopt;
}

}  // namespace
}  // namespace strict

FingerContacts FindContacts(const DistanceLookup& object,
                            const ClosingLine& line,
                            ContactRule rule) {
  const auto find = rule == ContactRule::kCompat ? compat::FindContact : strict::FindContact;
  const Vector3d half_O = line.axis_O * line.width_m / 2;
  return {find(object, line.center_O - half_O, line.axis_O, line.width_m),
          find(object, line.center_O + half_O, -line.axis_O, line.width_m)};
}

}  // namespace palmist::grasp
