/// Candidate orientations found on a cloud's shape, without a network: the baselines of AVN, and
/// what a robot without weights can use.
///
/// Points are those of the objects alone (above the table), voxelised, in the camera's frame.
/// `tips_m` says where finger tips end when the distance of FAS is zero (FasOptions::depth_m).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "palmist/base/thread_pool.h"
#include "palmist/grasp/core/pose.h"
#include "palmist/grasp/search/search_space.h"

namespace palmist::grasp {

/// Returns the numbers of at most `count` points, spread evenly over the cloud: the first point of
/// each voxel of the smallest size, by steps of a quarter, that leaves no more than `count`.
std::vector<std::size_t> SampleEvenly(std::span<const Vector3d> points, std::size_t count);

/// Points that hang together; see FindClusters.
struct Cluster {
  std::vector<std::size_t> points;
  Vector3d centroid_m = Vector3d::Zero();
};

/// Returns the clusters of at least `min_points`, by their first point: points whose voxels of
/// `gap_m` touch, by a corner at least.
std::vector<Cluster> FindClusters(std::span<const Vector3d> points,
                                  double gap_m,
                                  std::size_t min_points);

/// Returns unit normals turned towards the camera at the origin: the direction of least variance of
/// the points within `radius_m`. A point with fewer than three neighbours gets the direction to the
/// camera.
std::vector<Vector3d> EstimateNormals(std::span<const Vector3d> points,
                                      double radius_m,
                                      ThreadPool& pool);

struct TopDownOptions {
  std::size_t seeds = 60;  ///< points of the objects, spread evenly
  int angles = 6;          ///< in half a turn about the approach
  double cluster_gap_m = 0.01;
  std::size_t min_cluster_points = 20;
  double margin_m = 0.03;  ///< from the highest point near a seed down to the tips
};

/// Returns candidates that approach along `down` (a unit vector; minus the table's normal): for
/// each cluster one at its centroid with the opening along its narrow side (the lesser principal
/// axis across `down`) and one along its wide side, then `angles` at each seed. Tips end `margin_m`
/// below the cluster's top at that place. Scores are in [0, 1]: 1 at the centroid, falling to 0 at
/// the farthest point from it; the narrow side's candidate has 1, the wide side's 0.5.
std::vector<Candidate> TopDownCandidates(std::span<const Vector3d> points,
                                         const Vector3d& down,
                                         double tips_m,
                                         const TopDownOptions& options = {});

struct RandomOptions {
  std::size_t seeds = 100;
  int per_seed = 6;
  double max_tilt_rad = 1.5707963267948966;  ///< between the approach and `down`
  std::uint64_t seed = 0;
};

/// Returns `per_seed` orientations of equal chance at each seed, approach within `max_tilt_rad` of
/// `down`, with the grasp point on the surface; all scores are 0.
std::vector<Candidate> RandomCandidates(std::span<const Vector3d> points,
                                        const Vector3d& down,
                                        const RandomOptions& options = {});

struct AntipodalOptions {
  std::size_t seeds = 400;
  double max_width_m = 0.1;
  double friction_angle_rad = 0.4636476090008061;  ///< atan 0.5, of each contact
  int approaches = 5;                              ///< spread over `approach_span_rad`
  double approach_span_rad = 2.0943951023931953;   ///< 120 degrees, about the upright one
  double margin_m = 0.01;                          ///< tips end so far past the contacts
};

/// Returns candidates that close on two surface points whose normals oppose: at each seed the
/// partner for which the worse of the two angles between line and inward normal is least, if it is
/// within the friction angle. The opening lies along the line, the middle between the tips; the
/// approaches are those across the line that are nearest to `down`. Score: the product of the two
/// cosines, times the cosine between approach and `down`, or 0 for an approach from below.
/// @pre one normal a point, outward
/// Source: V.-D. Nguyen, "Constructing force-closure grasps", IJRR 1988: two contacts close where
/// the line between them lies in both friction cones.
std::vector<Candidate> AntipodalCandidates(std::span<const Vector3d> points,
                                           std::span<const Vector3d> normals,
                                           const Vector3d& down,
                                           double tips_m,
                                           const AntipodalOptions& options = {});

}  // namespace palmist::grasp
