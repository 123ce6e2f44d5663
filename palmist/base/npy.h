/// Arrays in NumPy's .npy format.
///
/// Source: numpy/lib/format.py (the format's description), versions 1.0 and 2.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "palmist/base/result.h"

namespace palmist {

/// The element types that are read and written; all little-endian.
enum class NpyType { kFloat32, kFloat64, kInt32, kInt64, kUint8, kUint16, kBool };

/// Returns the size of one element in bytes.
std::size_t NpyItemSize(NpyType type);

/// Returns the type as NumPy writes it, such as "<f4".
const char* ToString(NpyType type);

/// Maps float, double, int32, int64, uint8, uint16 and bool to their NpyType.
template <typename T>
constexpr NpyType NpyTypeOf() {
  if constexpr (std::is_same_v<T, float>) return NpyType::kFloat32;
  if constexpr (std::is_same_v<T, double>) return NpyType::kFloat64;
  if constexpr (std::is_same_v<T, std::int32_t>) return NpyType::kInt32;
  if constexpr (std::is_same_v<T, std::int64_t>) return NpyType::kInt64;
  if constexpr (std::is_same_v<T, std::uint8_t>) return NpyType::kUint8;
  if constexpr (std::is_same_v<T, std::uint16_t>) return NpyType::kUint16;
  if constexpr (std::is_same_v<T, bool>) return NpyType::kBool;
}

/// An array in C order: the last index runs fastest.
struct NpyArray {
  NpyType type = NpyType::kFloat32;
  std::vector<std::int64_t> shape;  ///< Empty for a single element.
  std::vector<std::byte> data;

  /// Returns the elements as type T; throws an input error that names both types where the array
  /// holds another one.
  template <typename T>
  std::span<const T> As() const {
    RequireType(NpyTypeOf<T>());
    return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
  }

  /// Throws an input error unless the elements are of type `expected`.
  void RequireType(NpyType expected) const;
};

/// Returns an array that holds a copy of `values`. @pre the product of `shape` is their number
template <typename T>
NpyArray MakeNpyArray(std::vector<std::int64_t> shape, std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  return {NpyTypeOf<T>(), std::move(shape), {bytes.begin(), bytes.end()}};
}

/// Returns the array that `bytes` hold, or an input error: for another format, version or type, for
/// Fortran order, and where the shape and the number of bytes differ. Allocates no more than
/// `bytes` has.
Result<NpyArray> ParseNpy(std::string_view bytes);

/// Returns how many bytes the file that begins with `start` has by its header, or an input error as
/// ParseNpy's. @pre `start` holds the whole header: 65 548 bytes do
Result<std::uint64_t> NpyFileBytes(std::string_view start);

/// Returns the file of `array`, version 1.0, its data aligned to 64 bytes.
/// @throws Error kInternal where shape and data differ.
std::string WriteNpy(const NpyArray& array);

}  // namespace palmist
