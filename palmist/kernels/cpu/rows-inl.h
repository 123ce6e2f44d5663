// Reductions over a row, for code that foreach_target.h compiles once per instruction set. Included
// inside no namespace, after "hwy/highway.h"; use it within palmist::kernels::HWY_NAMESPACE.
#if defined(PALMIST_KERNELS_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PALMIST_KERNELS_ROWS_INL_H
#undef PALMIST_KERNELS_ROWS_INL_H
#else
#define PALMIST_KERNELS_ROWS_INL_H
#endif

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "hwy/highway.h"
#include "palmist/kernels/cpu/exp-inl.h"
#include "palmist/kernels/cpu/vector-inl.h"
#include "palmist/kernels/executor.h"

HWY_BEFORE_NAMESPACE();
namespace palmist::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Returns how many rows of n_columns elements `size` elements are: 0 where rows are empty.
constexpr std::int64_t CountRows(std::size_t size, std::int64_t n_columns) {
  return n_columns > 0 ? static_cast<std::int64_t>(size) / n_columns : 0;
}

/// Returns the grain of a loop over items of `elements` each: below it, a thread costs more than it
/// saves.
constexpr std::int64_t GrainOf(std::int64_t elements) {
  return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, elements));
}

/// Calls body(row, begin, n) for each row of `size` elements: its number, first element and length.
template <class Body>
HWY_INLINE void ForEachRow(std::size_t size,
                           std::int64_t n_columns,
                           Executor& executor,
                           const Body& body) {
  executor.ParallelFor(
      CountRows(size, n_columns), GrainOf(n_columns), [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t row = first; row < last; ++row) {
          body(row, static_cast<std::size_t>(row * n_columns), static_cast<std::size_t>(n_columns));
        }
      });
}

/// Returns x as storing it in T and loading it again leaves it.
template <typename T, class D>
HWY_INLINE hn::Vec<D> RoundTo(D d, hn::Vec<D> x) {
  if constexpr (std::is_same_v<T, hn::TFromD<D>>) {
    return x;
  } else {
    HWY_ALIGN T rounded[hn::MaxLanes(D())];
    Store(x, d, rounded);
    return Load(d, rounded);
  }
}

/// Returns the sums of kTerms quantities over [0, n): terms(i, count) gives, as an array of
/// vectors, those of the elements from i, of which `count` are there.
///
/// Adds in lanes, several vectors at once, and the lanes of each 256 vectors in double, so that the
/// error hardly grows with n.
template <std::size_t kTerms, class D, class Terms>
HWY_INLINE std::array<double, kTerms> SumRow(D d, std::size_t n, const Terms& terms) {
  constexpr std::size_t kUnroll = 4;
  const std::size_t lanes = hn::Lanes(d);
  std::array<double, kTerms> total{};
  for (std::size_t i = 0; i < n;) {
    const std::size_t end = std::min(n, i + 256 * lanes);
    hn::Vec<D> sums[kTerms][kUnroll];
    for (auto& sum : sums) std::fill_n(sum, kUnroll, hn::Zero(d));
    for (; i + kUnroll * lanes <= end; i += kUnroll * lanes) {
      HWY_UNROLL(4)
      for (std::size_t u = 0; u < kUnroll; ++u) {
        const auto term = terms(i + u * lanes, lanes);
        HWY_UNROLL(4)
        for (std::size_t k = 0; k < kTerms; ++k) sums[k][u] = hn::Add(sums[k][u], term[k]);
      }
    }
    for (; i < end; i += lanes) {
      const std::size_t count = std::min(lanes, end - i);
      const auto term = terms(i, count);
      for (std::size_t k = 0; k < kTerms; ++k) {
        const auto there = hn::IfThenElseZero(hn::FirstN(d, count), term[k]);
        sums[k][0] = hn::Add(sums[k][0], there);
      }
    }
    for (std::size_t k = 0; k < kTerms; ++k) {
      const auto sum = hn::Add(hn::Add(sums[k][0], sums[k][1]), hn::Add(sums[k][2], sums[k][3]));
      total[k] += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
    }
  }
  return total;
}

/// Returns the largest element; -Inf where there is none. Elements that are NaN may be passed over.
template <class D, typename T>
HWY_INLINE hn::TFromD<D> MaxOfRow(D d, const T* x, std::size_t n) {
  constexpr std::size_t kUnroll = 4;
  const auto least = hn::Set(d, -std::numeric_limits<hn::TFromD<D>>::infinity());
  const std::size_t lanes = hn::Lanes(d);
  hn::Vec<D> largest[kUnroll] = {least, least, least, least};
  std::size_t i = 0;
  for (; i + kUnroll * lanes <= n; i += kUnroll * lanes) {
    HWY_UNROLL(4)
    for (std::size_t u = 0; u < kUnroll; ++u) {
      largest[u] = hn::Max(Load(d, x + i + u * lanes), largest[u]);
    }
  }
  for (; i < n; i += lanes) {
    const std::size_t count = std::min(lanes, n - i);
    const auto there = hn::IfThenElse(hn::FirstN(d, count), LoadCount(d, x + i, count), least);
    largest[0] = hn::Max(there, largest[0]);
  }
  return hn::GetLane(
      hn::MaxOfLanes(d, hn::Max(hn::Max(largest[0], largest[1]), hn::Max(largest[2], largest[3]))));
}

/// What the exponentials of a row are divided by: exp(x_i - shift) / sum is its softmax.
struct ExpSum {
  double shift;  ///< the largest element; 0 where that is -Inf, so that exponentials are 0, not NaN
  double sum;
};

/// Returns the `ExpSum` of a row, and writes its exponentials where `exponentials` is not null,
/// which may be x.
template <class D, typename T>
HWY_INLINE ExpSum SumExponentials(D d, const T* x, std::size_t n, hn::TFromD<D>* exponentials) {
  using C = hn::TFromD<D>;
  const C largest = MaxOfRow(d, x, n);
  const C shift = largest == -std::numeric_limits<C>::infinity() ? C{0} : largest;
  const auto shifts = hn::Set(d, shift);
  const auto [sum] = SumRow<1>(d, n, [&](std::size_t i, std::size_t count) {
    const auto e = Exp(d, hn::Sub(LoadCount(d, x + i, count), shifts));
    if (exponentials != nullptr) StoreCount(e, d, exponentials + i, count);
    return std::array{e};
  });
  return {static_cast<double>(shift), sum};
}

}  // namespace HWY_NAMESPACE
}  // namespace palmist::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
