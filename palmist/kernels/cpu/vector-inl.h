// Loads and stores of every storage type as vectors of its compute type, for code that
// foreach_target.h compiles once per instruction set. Included inside no namespace, after
// "hwy/highway.h"; use it within palmist::kernels::HWY_NAMESPACE.
#if defined(PALMIST_KERNELS_VECTOR_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PALMIST_KERNELS_VECTOR_INL_H
#undef PALMIST_KERNELS_VECTOR_INL_H
#else
#define PALMIST_KERNELS_VECTOR_INL_H
#endif

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "hwy/highway.h"
#include "palmist/kernels/scalar.h"

HWY_BEFORE_NAMESPACE();
namespace palmist::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// The tag of full vectors in which a storage type is computed.
template <typename T>
using ComputeTag = hn::ScalableTag<ComputeType<T>>;

/// Load and store at any address. Objects, not functions: an argument's namespace would offer
/// Highway's functions of the same name too, which want aligned addresses and match better.
inline constexpr struct {
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, const hn::TFromD<D>* p) const {
    return hn::LoadU(d, p);
  }

  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, const BFloat16* p) const {
    const hn::Rebind<std::uint16_t, D> d16;
    const hn::RebindToUnsigned<D> d32;
    const auto bits = hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(p));
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
  }

  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, const Float16* p) const {
    // Highway's conversions of single lanes know neither Inf nor NaN.
    if constexpr (HWY_TARGET == HWY_SCALAR) {
      return hn::Set(d, ToFloat(*p));
    } else {
      const hn::Rebind<std::uint16_t, D> d16;
      const hn::Rebind<hwy::float16_t, D> d_half;
      const auto bits = hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(p));
      return hn::PromoteTo(d, hn::BitCast(d_half, bits));
    }
  }
} Load;

inline constexpr struct {
  template <class D>
  HWY_INLINE void operator()(hn::Vec<D> x, D d, hn::TFromD<D>* p) const {
    hn::StoreU(x, d, p);
  }

  template <class D>
  HWY_INLINE void operator()(hn::Vec<D> x, D d, BFloat16* p) const {
    (void)d;
    const hn::Rebind<std::uint16_t, D> d16;
    const hn::RebindToUnsigned<D> d32;
    const auto bits = hn::BitCast(d32, x);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1u));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7fffu)));
    const auto quiet = hn::Or(bits, hn::Set(d32, 0x400000u));
    const auto is_nan = hn::RebindMask(d32, hn::IsNaN(x));
    const auto upper = hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, rounded));
    hn::StoreU(hn::TruncateTo(d16, upper), d16, reinterpret_cast<std::uint16_t*>(p));
  }

  template <class D>
  HWY_INLINE void operator()(hn::Vec<D> x, D d, Float16* p) const {
    (void)d;
    if constexpr (HWY_TARGET == HWY_SCALAR) {
      *p = ToFloat16(hn::GetLane(x));
    } else {
      const hn::Rebind<std::uint16_t, D> d16;
      const hn::Rebind<hwy::float16_t, D> d_half;
      const auto bits = hn::BitCast(d16, hn::DemoteTo(d_half, x));
      hn::StoreU(bits, d16, reinterpret_cast<std::uint16_t*>(p));
    }
  }
} Store;

/// Returns the first n elements, zeros behind them. @pre 0 < n <= Lanes(d)
template <class D, typename T>
HWY_INLINE hn::Vec<D> LoadPart(D d, const T* p, std::size_t n) {
  HWY_ALIGN T part[hn::MaxLanes(D())] = {};
  // The bound is for the compiler, which else warns of larger n.
  std::copy_n(p, std::min(n, std::size(part)), part);
  return Load(d, part);
}

/// Writes the first n elements. @pre 0 < n <= Lanes(d)
template <class D, typename T>
HWY_INLINE void StorePart(hn::Vec<D> x, D d, T* p, std::size_t n) {
  HWY_ALIGN T part[hn::MaxLanes(D())];
  Store(x, d, part);
  std::copy_n(part, std::min(n, std::size(part)), p);
}

/// Calls step(offset, count) over [0, n): count is Lanes(d) but for the last call.
template <class D, class Step>
HWY_INLINE void ForEachVector(D d, std::size_t n, const Step& step) {
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; n - i >= lanes; i += lanes) step(i, lanes);
  // One lane leaves no rest, which the compiler does not see: it warns of reads beyond the part.
  if (lanes > 1 && i < n) step(i, n - i);
}

/// Load and store that look at the count `ForEachVector` gave.
template <class D, typename T>
HWY_INLINE hn::Vec<D> LoadCount(D d, const T* p, std::size_t count) {
  return HWY_LIKELY(count == hn::Lanes(d)) ? Load(d, p) : LoadPart(d, p, count);
}
template <class D, typename T>
HWY_INLINE void StoreCount(hn::Vec<D> x, D d, T* p, std::size_t count) {
  if (HWY_LIKELY(count == hn::Lanes(d))) {
    Store(x, d, p);
  } else {
    StorePart(x, d, p, count);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace palmist::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
