// Products of small float matrices ("tiles") that stay in a core's cache, for code that
// foreach_target.h compiles once per instruction set. Included inside no namespace, after
// "hwy/highway.h"; use it within palmist::kernels::HWY_NAMESPACE.
#if defined(PALMIST_KERNELS_TILE_GEMM_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PALMIST_KERNELS_TILE_GEMM_INL_H
#undef PALMIST_KERNELS_TILE_GEMM_INL_H
#else
#define PALMIST_KERNELS_TILE_GEMM_INL_H
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "palmist/kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace palmist::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVec = hn::Vec<FloatTag>;

/// Floats in a vector, as a constant: registers of the product are arrays of it.
inline constexpr std::size_t kLanes = hn::MaxLanes(FloatTag());

/// Columns that a product makes at once.
inline constexpr std::size_t kPanel = 2 * kLanes;

/// Rows that a product makes at once: two vectors each fill the 32 registers of AVX-512 or the 16
/// of its predecessors, but for those that the operands need.
inline constexpr std::size_t kStrip = kLanes == 16 ? 14 : 6;

/// How the left operand of a product lies in memory.
enum class Left {
  kRows,     ///< element (i, k) at a[i lda + k]
  kColumns,  ///< element (i, k) at a[k lda + i]
};

/// What a product does to what is there.
enum class Into { kReplace, kAdd };

/// Does `kRows` rows and `kVectors` vectors of columns of `Multiply`, all sums in registers.
template <Left kLeft, std::size_t kRows, std::size_t kVectors>
HWY_NOINLINE void MultiplyStrip(Into into,
                                std::size_t depth,
                                const float* a,
                                std::size_t lda,
                                const float* b,
                                std::size_t ldb,
                                float* c,
                                std::size_t ldc) {
  const FloatTag d;
  FloatVec sum[kRows][kVectors];
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (std::size_t v = 0; v < kVectors; ++v) {
      sum[i][v] = into == Into::kAdd ? hn::LoadU(d, c + i * ldc + v * kLanes) : hn::Zero(d);
    }
  }
  for (std::size_t k = 0; k < depth; ++k) {
    FloatVec right[kVectors];
#pragma GCC unroll 2
    for (std::size_t v = 0; v < kVectors; ++v) right[v] = hn::LoadU(d, b + v * kLanes);
#pragma GCC unroll 16
    for (std::size_t i = 0; i < kRows; ++i) {
      const auto left = hn::Set(d, kLeft == Left::kRows ? a[i * lda] : a[i]);
#pragma GCC unroll 2
      for (std::size_t v = 0; v < kVectors; ++v) sum[i][v] = hn::MulAdd(left, right[v], sum[i][v]);
    }
    a += kLeft == Left::kRows ? 1 : lda;
    b += ldb;
  }
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (std::size_t v = 0; v < kVectors; ++v) hn::StoreU(sum[i][v], d, c + i * ldc + v * kLanes);
  }
}

/// Calls the `MultiplyStrip` that does `rows` rows. @pre 1 <= rows <= kRows
template <Left kLeft, std::size_t kVectors, std::size_t kRows = kStrip, typename... Arguments>
HWY_INLINE void MultiplyRows(std::size_t rows, Arguments... arguments) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return MultiplyRows<kLeft, kVectors, kRows - 1>(rows, arguments...);
  }
  MultiplyStrip<kLeft, kRows, kVectors>(arguments...);
}

/// Writes or adds to C (rows x columns) the product of A (rows x depth) and B (depth x columns).
///
/// Each element is one sum over the depth in order, so that it does not depend on what else is
/// computed beside it. @pre columns is a multiple of kLanes
template <Left kLeft>
HWY_INLINE void Multiply(Into into,
                         std::size_t rows,
                         std::size_t columns,
                         std::size_t depth,
                         const float* a,
                         std::size_t lda,
                         const float* b,
                         std::size_t ldb,
                         float* c,
                         std::size_t ldc) {
  // Strips of nearly equal height: a short last one would leave the arithmetic units waiting.
  const std::size_t strips = (rows + kStrip - 1) / kStrip;
  for (std::size_t j = 0; j < columns; j += kPanel) {
    for (std::size_t s = 0; s < strips; ++s) {
      const std::size_t i = rows * s / strips;
      const std::size_t height = rows * (s + 1) / strips - i;
      const float* left = a + i * (kLeft == Left::kRows ? lda : 1);
      float* out = c + i * ldc + j;
      if (columns - j >= kPanel) {
        MultiplyRows<kLeft, 2>(height, into, depth, left, lda, b + j, ldb, out, ldc);
      } else {
        MultiplyRows<kLeft, 1>(height, into, depth, left, lda, b + j, ldb, out, ldc);
      }
    }
  }
}

/// Writes `count` rows of n elements as floats, times `scale`, each filled with zeros up to `ld`.
template <typename T>
HWY_INLINE void ReadRows(const T* in,
                         std::int64_t row_stride,
                         std::size_t count,
                         std::size_t n,
                         float scale,
                         float* out,
                         std::size_t ld) {
  const FloatTag d;
  const auto factor = hn::Set(d, scale);
  for (std::size_t r = 0; r < count; ++r, in += row_stride, out += ld) {
    ForEachVector(d, n, [&](std::size_t i, std::size_t lanes) {
      hn::StoreU(hn::Mul(LoadCount(d, in + i, lanes), factor), d, out + i);
    });
    const std::size_t written = (n + kLanes - 1) / kLanes * kLanes;
    std::fill(out + written, out + ld, 0.0f);
  }
}

/// Writes `count` rows of n floats, times `scale`, to storage of any type.
template <typename T>
HWY_INLINE void WriteRows(const float* in,
                          std::size_t ld,
                          std::size_t count,
                          std::size_t n,
                          float scale,
                          T* out,
                          std::int64_t row_stride) {
  const FloatTag d;
  const auto factor = hn::Set(d, scale);
  for (std::size_t r = 0; r < count; ++r, in += ld, out += row_stride) {
    ForEachVector(d, n, [&](std::size_t i, std::size_t lanes) {
      StoreCount(hn::Mul(hn::LoadU(d, in + i), factor), d, out + i, lanes);
    });
  }
}

/// Writes out[c][r] = in[r][c] for kPanel rows of n columns. @pre rows hold a multiple of 4 floats
HWY_INLINE void TransposePanel(const float* in, std::size_t ld, std::size_t n, float* out) {
#if HWY_TARGET == HWY_SCALAR
  for (std::size_t c = 0; c < n; ++c) {
    for (std::size_t r = 0; r < kPanel; ++r) out[c * kPanel + r] = in[r * ld + c];
  }
#else
  // Blocks of 4 x 4, as shuffles within 128 bits are cheap on every target.
  const hn::FixedTag<float, 4> d;
  const hn::FixedTag<double, 2> pairs;
  const auto lower = [&](auto a, auto b) {
    return hn::BitCast(d, hn::InterleaveLower(pairs, hn::BitCast(pairs, a), hn::BitCast(pairs, b)));
  };
  const auto upper = [&](auto a, auto b) {
    return hn::BitCast(d, hn::InterleaveUpper(pairs, hn::BitCast(pairs, a), hn::BitCast(pairs, b)));
  };
  for (std::size_t c = 0; c < n; c += 4) {
    for (std::size_t r = 0; r < kPanel; r += 4) {
      const float* from = in + r * ld + c;
      const auto row0 = hn::LoadU(d, from);
      const auto row1 = hn::LoadU(d, from + ld);
      const auto row2 = hn::LoadU(d, from + 2 * ld);
      const auto row3 = hn::LoadU(d, from + 3 * ld);
      const auto low01 = hn::InterleaveLower(d, row0, row1);
      const auto low23 = hn::InterleaveLower(d, row2, row3);
      const auto high01 = hn::InterleaveUpper(d, row0, row1);
      const auto high23 = hn::InterleaveUpper(d, row2, row3);
      float* to = out + c * kPanel + r;
      hn::StoreU(lower(low01, low23), d, to);
      hn::StoreU(upper(low01, low23), d, to + kPanel);
      hn::StoreU(lower(high01, high23), d, to + 2 * kPanel);
      hn::StoreU(upper(high01, high23), d, to + 3 * kPanel);
    }
  }
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace palmist::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
