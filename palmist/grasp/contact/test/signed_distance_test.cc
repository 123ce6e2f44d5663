#include "palmist/grasp/contact/signed_distance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <limits>

#include "palmist/base/interrupt.h"
#include "palmist/grasp/core/mesh_shapes.h"

namespace palmist::grasp {
namespace {

using ::testing::HasSubstr;

constexpr double kMm = 1e-3;

template <typename DistanceFunction>
double LargestError(const SignedDistanceGrid& grid, const DistanceFunction& distance) {
  double largest = 0;
  for (int x = 0; x < grid.dims[0]; ++x) {
    for (int y = 0; y < grid.dims[1]; ++y) {
      for (int z = 0; z < grid.dims[2]; ++z) {
        const Vector3d p = grid.origin_m + grid.resolution_m * Vector3d(x, y, z);
        largest = std::max(largest, std::abs(grid.at(x, y, z) - distance(p)));
      }
    }
  }
  return largest;
}

double BoxDistance(const Vector3d& p, const Vector3d& half) {
  const Vector3d beyond = p.cwiseAbs() - half;
  return beyond.cwiseMax(0).norm() + std::min(beyond.maxCoeff(), 0.0);
}

TEST(SignedDistanceFromMesh, IsExactForABox) {
  const Vector3d half = Vector3d(20, 31, 44.5) * kMm;
  const auto grid = SignedDistanceFromMesh(BoxMesh(2 * half), {.resolution_m = 3 * kMm}).value();
  EXPECT_EQ(grid.dims, (std::array{14 + 7, 21 + 7, 30 + 7}));
  EXPECT_LT(LargestError(grid, [&](const Vector3d& p) { return BoxDistance(p, half); }), 1e-8);
}

TEST(SignedDistanceFromMesh, IsNearForASphere) {
  const auto grid = SignedDistanceFromMesh(SphereMesh(0.04, 64)).value();
  // The middle of a face lies r (1 - cos²(π/64)) = 0.096 mm below the sphere at most.
  EXPECT_LT(LargestError(grid, [](const Vector3d& p) { return p.norm() - 0.04; }), 0.1 * kMm);
}

TEST(SignedDistanceFromMesh, IsTheSameForAnyNumberOfThreads) {
  const TriangleMesh mesh = SphereMesh(0.03, 24);
  EXPECT_EQ(SignedDistanceFromMesh(mesh, {.threads = 1}).value().values_m,
            SignedDistanceFromMesh(mesh, {.threads = 3}).value().values_m);
}

TEST(SignedDistanceFromMesh, TurnsFacesThatPointInwards) {
  const TriangleMesh mesh = SphereMesh(0.03, 24);
  TriangleMesh flipped = mesh;
  for (auto& triangle : flipped.triangles) std::swap(triangle[1], triangle[2]);
  EXPECT_EQ(SignedDistanceFromMesh(flipped).value().values_m,
            SignedDistanceFromMesh(mesh).value().values_m);
}

TEST(SignedDistanceFromMesh, BridgesASmallGap) {
  TriangleMesh mesh = SphereMesh(0.04, 32);
  mesh.triangles.erase(mesh.triangles.begin() + 500);
  const auto grid = SignedDistanceFromMesh(mesh).value();
  EXPECT_LT(LargestError(grid, [](const Vector3d& p) { return p.norm() - 0.04; }), 5 * kMm);
}

TEST(SignedDistanceFromMesh, RefusesAnOpenBox) {
  TriangleMesh mesh = BoxMesh(Vector3d(60, 60, 60) * kMm);
  mesh.triangles.resize(10);
  const auto grid = SignedDistanceFromMesh(mesh);
  ASSERT_FALSE(grid.ok());
  EXPECT_THAT(grid.error().what(), HasSubstr("too open"));
  EXPECT_TRUE(SignedDistanceFromMesh(mesh, {.max_doubtful_share = 1}).ok());
}

TEST(SignedDistanceFromMesh, RefusesASheet) {
  TriangleMesh mesh = BoxMesh(Vector3d(60, 60, 60) * kMm);
  mesh.triangles.resize(2);
  const auto grid = SignedDistanceFromMesh(mesh);
  ASSERT_FALSE(grid.ok());
  EXPECT_THAT(grid.error().what(), HasSubstr("encloses no node"));
}

TEST(SignedDistanceFromMesh, RefusesWhatIsNoMesh) {
  const TriangleMesh box = BoxMesh(Vector3d(60, 60, 60) * kMm);
  TriangleMesh mesh;
  EXPECT_THAT(SignedDistanceFromMesh(mesh).error().what(), HasSubstr("no faces"));
  mesh = box;
  mesh.vertices[2].y() = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(SignedDistanceFromMesh(mesh).error().what(), HasSubstr("vertex 2 is not finite"));
  mesh = box;
  mesh.triangles[3][1] = 8;
  EXPECT_THAT(SignedDistanceFromMesh(mesh).error().what(), HasSubstr("vertex 8 of 8"));
  mesh = box;
  mesh.triangles = {{0, 0, 1}};
  EXPECT_THAT(SignedDistanceFromMesh(mesh).error().what(), HasSubstr("no face with an area"));
}

TEST(SignedDistanceFromMesh, ChecksTheSizeBeforeItAllocates) {
  EXPECT_THAT(SignedDistanceFromMesh(BoxMesh(Vector3d(60, 60, 60))).error().what(),
              HasSubstr("metres"));
  EXPECT_THAT(SignedDistanceFromMesh(BoxMesh(Vector3d(1e200, 1, 1))).error().what(),
              HasSubstr("nodes"));
  EXPECT_THROW((void)SignedDistanceFromMesh(BoxMesh(Vector3d::Ones()), {.resolution_m = 0}), Error);
}

TriangleMesh Moved(TriangleMesh mesh, const Vector3d& by_m) {
  for (Vector3d& vertex : mesh.vertices) vertex += by_m;
  return mesh;
}

TEST(SignedDistanceFromMesh, RefusesAMeshFarFromItsOrigin) {
  const TriangleMesh box = BoxMesh(Vector3d(60, 60, 60) * kMm);
  EXPECT_TRUE(SignedDistanceFromMesh(Moved(box, {0, -99, 0})).ok());
  for (const double y_m : {-101.0, 1e6}) {
    const TriangleMesh far = Moved(box, {0, y_m, 0});
    EXPECT_THAT(SignedDistanceFromMesh(far).error().what(), HasSubstr("centre the model"));
    EXPECT_THAT(SampleSurface(far, 0.005, 0).error().what(), HasSubstr("centre the model"));
  }
}

TEST(SignedDistanceFromMesh, TakesManyFacesInOnePlace) {
  const TriangleMesh box = BoxMesh(Vector3d(60, 60, 60) * kMm);
  TriangleMesh mesh = box;
  mesh.triangles.insert(mesh.triangles.end(), 300'000, box.triangles[0]);
  EXPECT_EQ(SignedDistanceFromMesh(mesh).value().values_m,
            SignedDistanceFromMesh(box).value().values_m);
}

// In a child process, so that the flag does not reach the next test.
template <typename Work>
[[noreturn]] void ExpectInterrupted(const Work& work) {
  InstallInterruptHandler();
  if (!work().ok()) std::_Exit(1);
  std::raise(SIGINT);
  const auto result = work();
  std::_Exit(!result.ok() && result.error().kind() == ErrorKind::kInterrupted ? 0 : 2);
}

TEST(SignedDistanceDeathTest, StopsAfterASignal) {
  const TriangleMesh mesh = SphereMesh(0.03, 24);
  EXPECT_EXIT(ExpectInterrupted([&] { return SignedDistanceFromMesh(mesh, {.threads = 2}); }),
              ::testing::ExitedWithCode(0),
              "");
  EXPECT_EXIT(ExpectInterrupted([&] { return SampleSurface(mesh, 0.005, 0); }),
              ::testing::ExitedWithCode(0),
              "");
}

TEST(SampleSurface, SpreadsPlacesEvenly) {
  const double spacing_m = 5 * kMm;
  const SurfaceSamples samples = SampleSurface(SphereMesh(0.04, 64), spacing_m, 7).value();
  ASSERT_EQ(samples.points.size(), samples.normals.size());
  for (std::size_t i = 0; i < samples.points.size(); ++i) {
    EXPECT_NEAR(samples.points[i].norm(), 0.04, 0.1 * kMm);
    EXPECT_GT(samples.normals[i].dot(samples.points[i].normalized()), 0.99);
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_GE((samples.points[i] - samples.points[j]).norm(), spacing_m);
    }
  }
  // No gap: each place of another sample has one of these near.
  const SurfaceSamples denser = SampleSurface(SphereMesh(0.04, 64), 2 * kMm, 8).value();
  for (const Vector3d& place : denser.points) {
    EXPECT_TRUE(std::any_of(samples.points.begin(), samples.points.end(), [&](const Vector3d& p) {
      return (p - place).norm() < 1.4 * spacing_m;
    }));
  }
}

TEST(SampleSurface, CoversBothSidesOfAThinPlate) {
  const auto samples = SampleSurface(BoxMesh(Vector3d(60, 60, 1) * kMm), 5 * kMm, 0).value();
  const auto up = std::count_if(samples.normals.begin(),
                                samples.normals.end(),
                                [](const Vector3d& n) { return n.z() > 0.5; });
  const auto down = std::count_if(samples.normals.begin(),
                                  samples.normals.end(),
                                  [](const Vector3d& n) { return n.z() < -0.5; });
  EXPECT_GT(up, 80);
  EXPECT_GT(down, 80);
}

TEST(SampleSurface, DependsOnTheSeedAlone) {
  const TriangleMesh mesh = SphereMesh(0.03, 24);
  EXPECT_EQ(SampleSurface(mesh, 0.005, 1).value().points,
            SampleSurface(mesh, 0.005, 1).value().points);
  EXPECT_NE(SampleSurface(mesh, 0.005, 1).value().points,
            SampleSurface(mesh, 0.005, 2).value().points);
}

TEST(SampleSurface, RefusesWhatIsNoMesh) {
  EXPECT_FALSE(SampleSurface({}, 0.005, 0).ok());
  EXPECT_THAT(SampleSurface(BoxMesh(Vector3d(60, 60, 60)), 0.001, 0).error().what(),
              HasSubstr("metres"));
  EXPECT_THROW((void)SampleSurface(BoxMesh(Vector3d::Ones()), 0, 0), Error);
}

}  // namespace
}  // namespace palmist::grasp
