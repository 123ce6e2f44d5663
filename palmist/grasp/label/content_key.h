/// Keys of contents, by which files tell whether they are still those of their model or scene.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "palmist/base/hash.h"
#include "palmist/grasp/core/mesh.h"
#include "palmist/grasp/core/signed_distance_grid.h"
#include "palmist/grasp/label/label.h"

namespace palmist::grasp {

/// A hash of the bytes of numbers, in their order.
class ContentKey {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T>
  void Add(T number) { hash_.Add({reinterpret_cast<const char*>(&number), sizeof(number)}); }
  template <typename T, std::size_t N>
  requires std::is_arithmetic_v<std::remove_const_t<T>>
  void Add(std::span<T, N> numbers) {
    hash_.Add({reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes()});
  }

  std::int64_t value() const { return static_cast<std::int64_t>(hash_.value()); }

 private:
  Fnv1a hash_;
};

/// Returns the key of a model: its vertices and triangles, and its signed distances unless null.
std::int64_t KeyOf(const TriangleMesh& mesh, const SignedDistanceGrid* grid = nullptr);

/// Returns the key of labels: their model's key, their points and grasps, and the options that tell
/// which grasps those are and which cloud collides.
std::int64_t KeyOf(const ObjectLabels& labels);

}  // namespace palmist::grasp
