#include "palmist/grasp/contact/signed_distance.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <span>
#include <unordered_map>

#include "palmist/base/interrupt.h"
#include "palmist/base/rng.h"
#include "palmist/base/thread_pool.h"
#include "palmist/grasp/core/cell.h"

namespace palmist::grasp {
namespace {

constexpr double kMostSamples = 1e7;
/// Farther out, coordinates rounded to float are off by more than 4 µm.
constexpr double kMostReach_m = 100;
constexpr std::int64_t kTriesPerInterruptCheck = 4096;
constexpr const char* kScaleHint =
    "a model is in metres; --scale 0.001 for millimetres, with --mesh";

Error Interrupted() { return Error(ErrorKind::kInterrupted, "stopped by a signal"); }

Result<void> CheckMesh(const TriangleMesh& mesh) {
  if (mesh.triangles.empty()) return InputError("mesh", "has no faces");
  for (std::size_t i = 0; i < mesh.vertices.size(); ++i) {
    if (!mesh.vertices[i].allFinite()) {
      return InputError("mesh", fmt::format("vertex {} is not finite", i));
    }
  }
  for (const auto& triangle : mesh.triangles) {
    for (const std::uint32_t corner : triangle) {
      if (corner >= mesh.vertices.size()) {
        return InputError(
            "mesh", fmt::format("a face names vertex {} of {}", corner, mesh.vertices.size()));
      }
    }
  }
  return {};
}

struct Triangle {
  Vector3d a, b, c;

  Vector3d centroid() const { return (a + b + c) / 3; }
  /// Half the cross product of two sides: as long as the area, out of the front.
  Vector3d area_vector() const { return (b - a).cross(c - a) / 2; }
};

std::vector<Triangle> TrianglesOf(const TriangleMesh& mesh) {
  const TriangleMesh welded = WeldVertices(mesh);
  std::vector<Triangle> triangles;
  triangles.reserve(welded.triangles.size());
  for (const auto& [a, b, c] : welded.triangles) {
    triangles.push_back({welded.vertices[a], welded.vertices[b], welded.vertices[c]});
  }
  return triangles;
}

Eigen::AlignedBox3d BoxOf(const std::vector<Triangle>& triangles) {
  Eigen::AlignedBox3d box;
  for (const Triangle& t : triangles) box.extend(t.a).extend(t.b).extend(t.c);
  return box;
}

/// @pre the mesh is not too large: otherwise that is the better error
Result<void> CheckReach(const Eigen::AlignedBox3d& box) {
  const double reach_m = box.min().cwiseAbs().cwiseMax(box.max().cwiseAbs()).maxCoeff();
  if (reach_m <= kMostReach_m) return {};
  return InputError(
      "mesh",
      fmt::format("reaches {:.6g} m from its origin, farther than {:.3g} m", reach_m, kMostReach_m),
      "centre the model on its origin; coordinates are rounded to float");
}

double SquaredDistanceToSegment(const Vector3d& p, const Vector3d& a, const Vector3d& b) {
  const Vector3d along = b - a;
  const double t = std::clamp((p - a).dot(along) / along.squaredNorm(), 0.0, 1.0);
  return (a + t * along - p).squaredNorm();
}

double SquaredDistance(const Vector3d& p, const Triangle& triangle) {
  const auto& [a, b, c] = triangle;
  const Vector3d normal = (b - a).cross(c - a);
  const bool is_above = normal.dot((b - a).cross(p - a)) >= 0 &&
                        normal.dot((c - b).cross(p - b)) >= 0 &&
                        normal.dot((a - c).cross(p - c)) >= 0;
  if (is_above) {
    const double height = normal.dot(p - a);
    return height * height / normal.squaredNorm();
  }
  return std::min({SquaredDistanceToSegment(p, a, b),
                   SquaredDistanceToSegment(p, b, c),
                   SquaredDistanceToSegment(p, c, a)});
}

/// Returns the solid angle of the triangle seen from p, positive from behind. Source: A. van
/// Oosterom, J. Strackee, "The solid angle of a plane triangle", IEEE TBME 30(2), 1983.
double SolidAngle(const Vector3d& p, const Triangle& triangle) {
  const Vector3d a = triangle.a - p, b = triangle.b - p, c = triangle.c - p;
  const double la = a.norm(), lb = b.norm(), lc = c.norm();
  return 2 * std::atan2(a.dot(b.cross(c)),
                        la * lb * lc + a.dot(b) * lc + b.dot(c) * la + c.dot(a) * lb);
}

/// Boxes about triangles, each cut into two until few triangles are left.
class TriangleTree {
 public:
  /// @pre triangles are not empty
  explicit TriangleTree(std::vector<Triangle> triangles) : triangles_(std::move(triangles)) {
    nodes_.reserve(triangles_.size());
    Build(0, triangles_.size());
  }

  /// Returns the distance to the nearest triangle. @pre it is at most `bound_m`
  double Distance(const Vector3d& p, double bound_m) const {
    double best = bound_m * bound_m;
    Nearest(0, p, best);
    return std::sqrt(best);
  }

  double WindingNumber(const Vector3d& p) const { return Winding(0, p) / (4 * std::numbers::pi); }

 private:
  static constexpr std::size_t kLeafTriangles = 4;
  /// A node farther than so many of its radii acts as one dipole; 2 in Barill et al.
  static constexpr double kFarRadii = 2;

  struct Node {
    Eigen::AlignedBox3d box;
    Vector3d area_vector = Vector3d::Zero();
    Vector3d middle = Vector3d::Zero();  ///< weighted by area
    double radius_m = 0;                 ///< about the middle
    std::size_t begin = 0, end = 0;      ///< of its triangles
    std::size_t second_child = 0;        ///< the first is the next node; 0 for a leaf
  };

  std::size_t Build(std::size_t begin, std::size_t end) {
    const std::size_t number = nodes_.size();
    Node node;
    node.begin = begin;
    node.end = end;
    double area = 0;
    Eigen::AlignedBox3d centroids;
    for (std::size_t i = begin; i < end; ++i) {
      const Triangle& t = triangles_[i];
      node.box.extend(t.a).extend(t.b).extend(t.c);
      centroids.extend(t.centroid());
      const Vector3d vector = t.area_vector();
      node.area_vector += vector;
      node.middle += vector.norm() * t.centroid();
      area += vector.norm();
    }
    node.middle /= area;
    for (std::size_t i = begin; i < end; ++i) {
      for (const Vector3d& corner : {triangles_[i].a, triangles_[i].b, triangles_[i].c}) {
        node.radius_m = std::max(node.radius_m, (corner - node.middle).norm());
      }
    }
    nodes_.push_back(node);
    if (end - begin > kLeafTriangles) {
      Eigen::Index axis = 0;
      centroids.sizes().maxCoeff(&axis);
      const std::size_t half = begin + (end - begin) / 2;
      const auto at = [this](std::size_t i) {
        return triangles_.begin() + static_cast<std::ptrdiff_t>(i);
      };
      std::nth_element(at(begin), at(half), at(end), [axis](const Triangle& s, const Triangle& t) {
        return s.centroid()[axis] < t.centroid()[axis];
      });
      Build(begin, half);
      const std::size_t second = Build(half, end);
      nodes_[number].second_child = second;
    }
    return number;
  }

  void Nearest(std::size_t number, const Vector3d& p, double& best) const {
    const Node& node = nodes_[number];
    if (node.second_child == 0) {
      for (std::size_t i = node.begin; i < node.end; ++i) {
        best = std::min(best, SquaredDistance(p, triangles_[i]));
      }
      return;
    }
    std::size_t near = number + 1, far = node.second_child;
    double near_squared = nodes_[near].box.squaredExteriorDistance(p);
    double far_squared = nodes_[far].box.squaredExteriorDistance(p);
    if (far_squared < near_squared) {
      std::swap(near, far);
      std::swap(near_squared, far_squared);
    }
    if (near_squared < best) Nearest(near, p, best);
    if (far_squared < best) Nearest(far, p, best);
  }

  double Winding(std::size_t number, const Vector3d& p) const {
    const Node& node = nodes_[number];
    const Vector3d offset = node.middle - p;
    const double distance = offset.norm();
    if (distance > kFarRadii * node.radius_m) {
      return offset.dot(node.area_vector) / (distance * distance * distance);
    }
    if (node.second_child != 0) return Winding(number + 1, p) + Winding(node.second_child, p);
    double angle = 0;
    for (std::size_t i = node.begin; i < node.end; ++i) angle += SolidAngle(p, triangles_[i]);
    return angle;
  }

  std::vector<Triangle> triangles_;
  std::vector<Node> nodes_;
};

/// Turns all triangles where they enclose a negative volume.
void TurnOutwards(std::vector<Triangle>& triangles, const Vector3d& middle) {
  double volume = 0;
  for (const Triangle& t : triangles) {
    volume += (t.a - middle).dot((t.b - middle).cross(t.c - middle));
  }
  if (volume >= 0) return;
  for (Triangle& t : triangles) std::swap(t.b, t.c);
}

Result<SignedDistanceGrid> EmptyGrid(const Eigen::AlignedBox3d& box,
                                     const SignedDistanceOptions& options) {
  const Eigen::Array3d cells =
      (box.sizes().array() / options.resolution_m).ceil() + 2.0 * options.padding_cells;
  const double nodes = (cells + 1).prod();
  if (!(nodes <= kMaxGridNodes)) {
    return InputError("mesh",
                      fmt::format("{:.3g} m large, needs {:.3g} nodes {} m apart, more than {:.3g}",
                                  box.sizes().maxCoeff(),
                                  nodes,
                                  options.resolution_m,
                                  kMaxGridNodes),
                      kScaleHint);
  }
  PALMIST_RETURN_IF_ERROR(CheckReach(box));
  SignedDistanceGrid grid;
  for (int axis = 0; axis < 3; ++axis) grid.dims[axis] = static_cast<int>(cells[axis]) + 1;
  grid.origin_m = box.center() - (options.resolution_m / 2 * cells).matrix();
  grid.resolution_m = options.resolution_m;
  grid.values_m.resize(static_cast<std::size_t>(nodes));
  return grid;
}

/// How clear the signs of a grid are.
struct SignCounts {
  std::int64_t inside = 0, doubtful = 0;
};

/// Fills the slab of nodes with the given x, or a part of it after a signal.
SignCounts FillSlab(const TriangleTree& tree, int x, SignedDistanceGrid& grid) {
  const double on_surface_m = 1e-6 * grid.resolution_m;
  SignCounts counts;
  double bound_m = std::numeric_limits<double>::infinity();
  for (int y = 0; y < grid.dims[1] && !InterruptRequested(); ++y) {
    for (int z = 0; z < grid.dims[2]; ++z) {
      const Vector3d p = grid.origin_m + grid.resolution_m * Vector3d(x, y, z);
      // The node before is one step away, so that the distance grows by a step at most.
      const double distance_m = tree.Distance(p, bound_m);
      bound_m = z + 1 < grid.dims[2] ? distance_m + 1.001 * grid.resolution_m
                                     : std::numeric_limits<double>::infinity();
      const double winding = tree.WindingNumber(p);
      const bool is_inside = winding > 0.5;
      grid.values_m[grid.Index(x, y, z)] = static_cast<float>(is_inside ? -distance_m : distance_m);
      if (distance_m <= on_surface_m) continue;
      if (is_inside) ++counts.inside;
      if (std::abs(winding - std::round(winding)) > 0.25) ++counts.doubtful;
    }
  }
  return counts;
}

}  // namespace

Result<SignedDistanceGrid> SignedDistanceFromMesh(const TriangleMesh& mesh,
                                                  const SignedDistanceOptions& options) {
  if (!(options.resolution_m >= 1e-5 && options.resolution_m <= 1)) {
    throw UsageError("resolution_m",
                     fmt::format("expected 1e-5 to 1, got {}", options.resolution_m));
  }
  if (options.padding_cells < 0 || options.padding_cells > 500) {
    throw UsageError("padding_cells",
                     fmt::format("expected 0 to 500, got {}", options.padding_cells));
  }
  if (options.threads < 1) {
    throw UsageError("threads", fmt::format("expected 1 or more, got {}", options.threads));
  }
  PALMIST_RETURN_IF_ERROR(CheckMesh(mesh));
  std::vector<Triangle> triangles = TrianglesOf(mesh);
  if (triangles.empty()) return InputError("mesh", "has no face with an area");
  const Eigen::AlignedBox3d box = BoxOf(triangles);
  PALMIST_ASSIGN_OR_RETURN(SignedDistanceGrid grid, EmptyGrid(box, options));

  TurnOutwards(triangles, box.center());
  const TriangleTree tree(std::move(triangles));
  std::vector<SignCounts> slabs(grid.dims[0]);
  ParallelFor(grid.dims[0], options.threads, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t x = begin; x < end; ++x) {
      slabs[x] = FillSlab(tree, static_cast<int>(x), grid);
    }
  });
  if (InterruptRequested()) return Interrupted();
  SignCounts all;
  for (const SignCounts& slab : slabs) {
    all.inside += slab.inside;
    all.doubtful += slab.doubtful;
  }
  if (all.inside == 0) {
    return InputError("mesh",
                      fmt::format("encloses no node of a grid of {} m", options.resolution_m),
                      "close its surface, or take a finer resolution");
  }
  const double share = static_cast<double>(all.doubtful) / static_cast<double>(all.inside);
  if (share > options.max_doubtful_share) {
    return InputError("mesh",
                      fmt::format("is too open: {} nodes have no clear sign and {} are inside, a "
                                  "share of {:.3g}, above {}",
                                  all.doubtful,
                                  all.inside,
                                  share,
                                  options.max_doubtful_share),
                      "close its surface, with faces that agree in direction");
  }
  return grid;
}

Result<SurfaceSamples> SampleSurface(const TriangleMesh& mesh,
                                     double spacing_m,
                                     std::uint64_t seed) {
  if (!(spacing_m > 0 && spacing_m <= 1)) {
    throw UsageError("spacing_m", fmt::format("expected above 0 and at most 1, got {}", spacing_m));
  }
  PALMIST_RETURN_IF_ERROR(CheckMesh(mesh));
  const std::vector<Triangle> triangles = TrianglesOf(mesh);
  if (triangles.empty()) return InputError("mesh", "has no face with an area");
  std::vector<double> area_up_to;
  double area = 0;
  for (const Triangle& t : triangles) area_up_to.push_back(area += t.area_vector().norm());

  // So many tries that a place still free is rare.
  constexpr double kTriesPerPlace = 30;
  const double places = area / (spacing_m * spacing_m);
  if (!(places <= kMostSamples)) {
    return InputError("mesh",
                      fmt::format("a surface of {:.3g} m² needs more than {:.0e} places {} m apart",
                                  area,
                                  kMostSamples,
                                  spacing_m),
                      kScaleHint);
  }
  PALMIST_RETURN_IF_ERROR(CheckReach(BoxOf(triangles)));
  const auto tries = static_cast<std::int64_t>(std::ceil(kTriesPerPlace * places));

  std::unordered_map<Cell, std::vector<std::size_t>, CellHash> cells;
  SurfaceSamples samples;
  const auto is_free = [&](const Cell& cell, const Vector3d& p, const Vector3d& normal) {
    for (std::int64_t x = cell[0] - 1; x <= cell[0] + 1; ++x) {
      for (std::int64_t y = cell[1] - 1; y <= cell[1] + 1; ++y) {
        for (std::int64_t z = cell[2] - 1; z <= cell[2] + 1; ++z) {
          const auto found = cells.find({x, y, z});
          if (found == cells.end()) continue;
          for (const std::size_t i : found->second) {
            if ((samples.points[i] - p).squaredNorm() < spacing_m * spacing_m &&
                samples.normals[i].dot(normal) > 0) {
              return false;
            }
          }
        }
      }
    }
    return true;
  };
  const Vector3d origin = triangles[0].a;
  Rng rng(seed);
  for (std::int64_t i = 0; i < tries; ++i) {
    if (i % kTriesPerInterruptCheck == 0 && InterruptRequested()) return Interrupted();
    const auto chosen =
        std::upper_bound(area_up_to.begin(), area_up_to.end() - 1, rng.Uniform() * area);
    const Triangle& t = triangles[chosen - area_up_to.begin()];
    double u = rng.Uniform(), v = rng.Uniform();
    if (u + v > 1) {
      u = 1 - u;
      v = 1 - v;
    }
    const Vector3d p = t.a + u * (t.b - t.a) + v * (t.c - t.a);
    const Vector3d normal = t.area_vector().normalized();
    std::array<std::int64_t, 3> cell;
    for (int axis = 0; axis < 3; ++axis) {
      cell[axis] = std::llround(std::floor((p - origin)[axis] / spacing_m));
    }
    if (!is_free(cell, p, normal)) continue;
    cells[cell].push_back(samples.points.size());
    samples.points.push_back(p);
    samples.normals.push_back(normal);
  }
  return samples;
}

}  // namespace palmist::grasp
