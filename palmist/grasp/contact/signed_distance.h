/// Signed distances to a mesh, and places spread over its surface.
#pragma once

#include <cstdint>
#include <vector>

#include "palmist/base/result.h"
#include "palmist/grasp/core/mesh.h"
#include "palmist/grasp/core/signed_distance_grid.h"

namespace palmist::grasp {

/// Most nodes of a grid: 512 along each axis.
inline constexpr double kMaxGridNodes = 512.0 * 512 * 512;

struct SignedDistanceOptions {
  double resolution_m = 0.003;
  int padding_cells = 3;  ///< around the mesh, on each side
  /// So many of the nodes inside may have no clear sign; more, and the mesh is too open.
  double max_doubtful_share = 0.02;
  int threads = 1;
};

/// Returns the distances to the mesh's triangles, negative inside, on a grid about its middle. A
/// node is inside where the winding number w of the faces around it is above 1/2, so that gaps much
/// smaller than the mesh do no harm. Faces that all point inwards are turned.
///
/// An input error for a mesh that
/// - has no faces, coordinates that are not finite or vertices that are missing;
/// - needs more than kMaxGridNodes;
/// - reaches more than 100 m from its origin, where float32 is too coarse;
/// - encloses no node;
/// - is too open: |w - round(w)| > 1/4 at more than `max_doubtful_share` of as many nodes as are
///   inside. Nodes on the surface do not count.
/// kInterrupted soon after a signal.
/// O(nodes · log triangles). The same for any number of threads.
/// Source of w and its approximation: A. Jacobson et al., "Robust inside-outside segmentation using
/// generalized winding numbers", SIGGRAPH 2013; G. Barill et al., "Fast winding numbers for soups
/// and clouds", SIGGRAPH 2018, order 1.
/// @throws Error (usage) for options out of range
Result<SignedDistanceGrid> SignedDistanceFromMesh(const TriangleMesh& mesh,
                                                  const SignedDistanceOptions& options = {});

/// Places on a surface; normals have length 1 and point as the faces do.
struct SurfaceSamples {
  std::vector<Vector3d> points;  ///< metres
  std::vector<Vector3d> normals;
};

/// Returns random places on the faces of which no two, on the same side of the surface, are nearer
/// than `spacing_m`, and that leave hardly a gap for another one. The same for the same seed. An
/// input error as above for the mesh, and for one so large that more than ten million would do;
/// kInterrupted soon after a signal.
/// @throws Error (usage) unless 0 < spacing_m <= 1
Result<SurfaceSamples> SampleSurface(const TriangleMesh& mesh,
                                     double spacing_m,
                                     std::uint64_t seed);

}  // namespace palmist::grasp
